// SPDX-License-Identifier: Apache-2.0
//! The kubectl plugin.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_tensile::app::main(std::env::args_os())
}
