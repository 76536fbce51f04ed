// SPDX-License-Identifier: Apache-2.0
//! Structured logs on standard error, as text for people or JSON for machines.

use std::io::IsTerminal;

use clap::{ArgAction, Args, ValueEnum};
use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// What is logged unless flags say otherwise.
const DEFAULT_LEVEL: &str = "info";

/// Flags of the log, to be flattened into a service's arguments.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// Least important level that is logged: error, warn, info, debug or trace; directives per module work too, such as
    /// `info,virtual_node=debug` [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub log_level: Option<String>,

    /// Log more: -v is debug, -vv is trace; --log-level wins
    #[arg(short = 'v', action = ArgAction::Count)]
    pub verbose: u8,

    /// Shape of a log line [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Shape of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// Why the log could not be set up, in one sentence that says all: there is no further source to it.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// `--log-level` is neither a level nor a list of directives.
    #[error("not a level (error, warn, info, debug, trace) or a list of directives: {0}")]
    Level(ParseError),
    /// Another subscriber was installed first.
    #[error("the log was already set up: {0}")]
    AlreadySet(TryInitError),
}

impl LogArgs {
    /// The directives that these flags mean. tensile-kube's spellings (`warning`, `panic`, `fatal`) are understood.
    pub fn directives(&self) -> &str {
        match self.log_level.as_deref() {
            Some("warning") => "warn",
            Some("panic" | "fatal") => "error",
            Some(level) => level,
            None => match self.verbose {
                0 => DEFAULT_LEVEL,
                1 => "debug",
                _ => "trace",
            },
        }
    }

    fn filter(&self) -> Result<EnvFilter, TelemetryError> {
        EnvFilter::builder().parse(self.directives()).map_err(TelemetryError::Level)
    }
}

/// Refuses a level that is none while flags are parsed, when there is no log yet to say it in.
fn level(text: &str) -> Result<String, String> {
    let args = LogArgs { log_level: Some(text.to_owned()), ..LogArgs::default() };
    args.filter().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Installs the process-wide log as `args` say.
///
/// Once per process: a second call is an error.
pub fn init(args: &LogArgs) -> Result<(), TelemetryError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(args.filter()?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let installed = match args.log_format.unwrap_or_default() {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    };
    installed.map_err(TelemetryError::AlreadySet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_level(level: &str) -> LogArgs {
        LogArgs { log_level: Some(level.to_owned()), ..LogArgs::default() }
    }

    #[test]
    fn nothing_given_means_info() {
        assert_eq!(LogArgs::default().directives(), "info");
    }

    #[test]
    fn each_v_logs_more_and_the_level_wins() {
        let verbose = |verbose| LogArgs { verbose, ..LogArgs::default() };
        assert_eq!(verbose(1).directives(), "debug");
        assert_eq!(verbose(3).directives(), "trace");
        assert_eq!(LogArgs { verbose: 2, ..with_level("warn") }.directives(), "warn");
    }

    #[test]
    fn the_spellings_of_tensile_kube_are_understood() {
        assert_eq!(with_level("warning").directives(), "warn");
        assert_eq!(with_level("fatal").directives(), "error");
    }

    #[test]
    fn a_level_that_is_none_is_refused_by_name() {
        #[derive(Debug, clap::Parser)]
        struct Flags {
            #[command(flatten)]
            log: LogArgs,
        }
        let error = <Flags as clap::Parser>::try_parse_from(["service", "--log-level=loud=very"]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("'loud=very' for '--log-level <LEVEL>': not a level"), "{said}");
        assert_eq!(error.exit_code(), 2);
        <Flags as clap::Parser>::try_parse_from(["service", "--log-level=fatal"]).unwrap();
    }

    #[test]
    fn directives_per_module_are_taken() {
        assert_eq!(with_level("info,virtual_node=debug").filter().unwrap().to_string(), "virtual_node=debug,info");
    }
}
