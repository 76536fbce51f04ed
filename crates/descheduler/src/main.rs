// SPDX-License-Identifier: Apache-2.0
//! The descheduler service.

use std::process::ExitCode;

fn main() -> ExitCode {
    descheduler::app::main(std::env::args_os())
}
