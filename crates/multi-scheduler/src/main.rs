// SPDX-License-Identifier: Apache-2.0
//! The multi-scheduler service.

use std::process::ExitCode;

fn main() -> ExitCode {
    multi_scheduler::app::main(std::env::args_os())
}
