// SPDX-License-Identifier: Apache-2.0
//! The commands on real clusters: demo, acceptance, benchmarks.

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::cli::run()
}
