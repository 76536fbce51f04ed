// SPDX-License-Identifier: Apache-2.0
//! The virtual-node service.

use std::process::ExitCode;

fn main() -> ExitCode {
    virtual_node::app::main(std::env::args_os())
}
