// SPDX-License-Identifier: Apache-2.0
//! The allocator of all services: that of musl, which images are built with, is slow, and that of glibc keeps what one
//! burst of pods needed.
//!
//! How it behaves is set where it is built, by `JEMALLOC_SYS_WITH_MALLOC_CONF` in `.cargo/config.toml`: one arena, as
//! nearly all work is done on one thread, and pages are given back as soon as nothing is on them.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
