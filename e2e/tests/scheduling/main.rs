// SPDX-License-Identifier: Apache-2.0
//! The engine of the multi-scheduler, held against a real scheduler.

mod oracle;
