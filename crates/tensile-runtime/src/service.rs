// SPDX-License-Identifier: Apache-2.0
//! A service from its command line to its exit code: what the `main` of each is.

use std::ffi::OsString;
use std::fmt::Display;
use std::future::Future;
use std::process::ExitCode;

use clap::Parser;

use crate::args::parse;
use crate::shutdown::{self, EXIT_USAGE};
use crate::telemetry::{self, LogArgs};
use crate::threads::Threads;

/// The settings of a service, which know how to run it.
pub trait Service: Sized {
    /// What can be typed.
    type Args: Parser;
    /// Why it does not start, or ended; a sentence, with its causes in the alternate form.
    type Error: Display;

    /// What it works on.
    const THREADS: Threads;

    /// The flags of the log: it is set up before anything else can go wrong.
    fn log(args: &Self::Args) -> &LogArgs;

    /// What the arguments mean together. An error is for a human to mend.
    fn resolve(args: Self::Args) -> Result<Self, Self::Error>;

    /// What the operator should know of these settings, a sentence each.
    fn warnings(&self) -> &[String];

    /// Works until a signal comes.
    fn run(self) -> impl Future<Output = Result<(), Self::Error>>;
}

/// Parses `given` (with the program's name in front), runs the service until a signal, and says how it went.
pub fn main<S: Service>(given: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: S::Args = match parse(given) {
        Ok(args) => args,
        Err(error) => {
            let usage = error.use_stderr();
            return match error.print() {
                Ok(()) if !usage => ExitCode::SUCCESS,
                _ => ExitCode::from(EXIT_USAGE),
            };
        }
    };
    let log = telemetry::init(S::log(&args)).map_err(|error| error.to_string());
    match log.and_then(|()| S::resolve(args).map_err(|error| format!("{error:#}"))) {
        Ok(service) => {
            for warning in service.warnings() {
                tracing::warn!(warning, "about the settings");
            }
            shutdown::run(S::THREADS, service.run())
        }
        Err(error) => {
            tracing::error!(error, "the settings do not add up");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
