// SPDX-License-Identifier: Apache-2.0
//! The webhook service.

use std::process::ExitCode;

fn main() -> ExitCode {
    webhook::app::main(std::env::args_os())
}
