// SPDX-License-Identifier: Apache-2.0
//! From the command line to an exit code.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a command prints is its result")]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Args, Command};
use crate::cluster::Upper;
use crate::output::Output;
use crate::{doctor, drain, join, leave, status, top, why};

/// A wrong flag.
const USAGE: u8 = 2;

/// The program: parses `argv`, does it, and says how it went.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let typed = match Args::try_parse_from(argv) {
        Ok(typed) => typed,
        Err(error) => {
            let wrong = error.use_stderr();
            error.print().ok();
            return if wrong { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(act(typed)));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked. Says whether all is well.
async fn act(args: Args) -> anyhow::Result<bool> {
    let output = Output::new(args.output);
    if let Command::Completion { shell } = &args.command {
        clap_complete::generate(*shell, &mut Args::command(), "kubectl-tensile", &mut std::io::stdout());
        return Ok(true);
    }
    let upper = Upper::connect(&args.upper()).await?;
    match args.command {
        Command::Completion { .. } => Ok(true),
        Command::Status => status::run(&upper, output).await,
        Command::Top { node, pods } => top::run(&upper, node.as_deref(), pods, output).await,
        Command::Why { pod, namespace, lower } => why::run(&upper, &pod, namespace, &lower, output).await,
        Command::Doctor { node, lower } => doctor::run(&upper, node.as_deref(), &lower, output).await,
        Command::Join(join) => join::run(&upper, &join).await,
        Command::Drain { node, wait } => drain::run(&upper, &node, &wait, output).await,
        Command::Leave { node, wait } => leave::run(&upper, &node, &wait, output).await,
    }
}
