// SPDX-License-Identifier: Apache-2.0
//! Runs a test: on the runtime that all tests of a binary share, with the logs of the clusters when it fails.

#![allow(clippy::print_stderr, reason = "libtest shows what a failed test printed")]

use std::sync::LazyLock;

use anyhow::Context as _;
use tokio::runtime::Runtime;

/// libtest gives every test a thread of its own; clusters that tests share need a runtime that outlives each of them.
static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(Runtime::new);

/// Runs `test` and, when it fails or panics, prints the tails of the logs of everything that runs.
pub fn run<T>(test: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = RUNTIME.as_ref().context("cannot start the runtime")?;
    let told = Told;
    let result = runtime.block_on(test);
    if result.is_ok() {
        std::mem::forget(told);
    }
    result
}

/// Prints the logs when dropped: on an error as on a panic.
struct Told;

impl Drop for Told {
    fn drop(&mut self) {
        eprintln!("{}", crate::logs::tails(10));
    }
}
