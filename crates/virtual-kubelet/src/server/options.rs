// SPDX-License-Identifier: Apache-2.0
//! What a request's query says: options of logs, of streams, of statistics, and ports.
//!
//! Decoded as the kubelet does (`apimachinery/pkg/runtime/converter.go`, `pkg/apis/core/validation`): what cannot be read
//! is 400, what can be read and makes no sense is 422, and what is unknown is passed over.

use std::borrow::Cow;

use jiff::Timestamp;

/// Options of a log (`PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on as the container writes.
    pub follow: bool,
    /// Of the container before the last restart.
    pub previous: bool,
    /// Each line with the time it was written.
    pub timestamps: bool,
    /// Nothing older.
    pub since: Option<Since>,
    /// At most so many lines from the end; zero is none of what is there.
    pub tail_lines: Option<u64>,
    /// At most so many bytes, at least one.
    pub limit_bytes: Option<u64>,
    /// Which output.
    pub stream: LogStream,
}

/// From when on a log is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// So many seconds before now, at least one.
    Seconds(u64),
    /// This time.
    Time(Timestamp),
}

/// Which output of a container a log shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Both, as written.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The streams of an exec or attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the API")]
pub struct Streams {
    /// The client writes to the container.
    pub stdin: bool,
    /// The container's standard output.
    pub stdout: bool,
    /// The container's standard error; never with a terminal, which has one output.
    pub stderr: bool,
    /// With a terminal.
    pub tty: bool,
}

/// Why a query was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// 400: it cannot be read.
    #[error("{0}")]
    Undecodable(String),
    /// 422: it was read and contradicts itself or the API.
    #[error("{0}")]
    Invalid(String),
}

impl LogStream {
    /// Its name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Stdout => "Stdout",
            Self::Stderr => "Stderr",
        }
    }
}

/// A decoded query. Of a repeated key the first value counts.
struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    fn read(query: &'a str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).collect())
    }

    fn first(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// Absent, `0` and `false` are false; everything else is true, also nothing at all (`?follow`).
    fn boolean(&self, key: &str) -> bool {
        self.first(key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn number(&self, key: &str) -> Result<Option<i64>, QueryError> {
        let parse = |value: &str| value.parse().map_err(|_| QueryError::Undecodable(format!("{key} is not a number")));
        self.first(key).map(parse).transpose()
    }

    /// A number that is at least `least`.
    fn at_least(&self, key: &str, least: u64) -> Result<Option<u64>, QueryError> {
        let check = |number: i64| match u64::try_from(number) {
            Ok(number) if number >= least => Ok(number),
            _ => Err(QueryError::Invalid(format!("{key} must be at least {least}"))),
        };
        self.number(key)?.map(check).transpose()
    }
}

impl LogOptions {
    /// Reads `query`, without its question mark.
    ///
    /// # Errors
    /// As the kubelet's.
    pub fn read(query: &str) -> Result<Self, QueryError> {
        let mut query = Query::read(query);
        // An old spelling, which wins over the new one; `all` is the same as none.
        if let Some(tail) = query.first("tail").filter(|tail| !tail.is_empty()).map(str::to_owned) {
            query.0.retain(|(key, _)| key != "tailLines");
            if tail != "all" {
                query.0.push(("tailLines".into(), tail.into()));
            }
        }
        // Everything is decoded before anything is judged: 400 comes before 422.
        for key in ["tailLines", "limitBytes", "sinceSeconds"] {
            query.number(key)?;
        }
        let time = match query.first("sinceTime") {
            None | Some("" | "null") => None,
            Some(text) => Some(
                text.parse().map_err(|_| QueryError::Undecodable("sinceTime is not an RFC 3339 time".to_owned()))?,
            ),
        };
        let since = match (query.at_least("sinceSeconds", 1)?, time) {
            (Some(_), Some(_)) => {
                return Err(QueryError::Invalid(
                    "at most one of sinceTime or sinceSeconds may be specified".to_owned(),
                ));
            }
            (Some(seconds), None) => Some(Since::Seconds(seconds)),
            (None, time) => time.map(Since::Time),
        };
        let stream = match query.first("stream") {
            None | Some("All") => LogStream::All,
            Some("Stdout") => LogStream::Stdout,
            Some("Stderr") => LogStream::Stderr,
            Some(_) => return Err(QueryError::Invalid("stream must be All, Stdout or Stderr".to_owned())),
        };
        let tail_lines = query.at_least("tailLines", 0)?;
        if tail_lines.is_some() && stream != LogStream::All {
            return Err(QueryError::Invalid("tailLines and a specific stream cannot be specified together".to_owned()));
        }
        Ok(Self {
            follow: query.boolean("follow"),
            previous: query.boolean("previous"),
            timestamps: query.boolean("timestamps"),
            since,
            tail_lines,
            limit_bytes: query.at_least("limitBytes", 1)?,
            stream,
        })
    }
}

impl Streams {
    /// Reads `query`. Only `1` switches a stream on, as the kubelet reads it.
    ///
    /// # Errors
    /// When none of the three streams is asked for.
    pub fn read(query: &str) -> Result<Self, QueryError> {
        let query = Query::read(query);
        let on = |key| query.first(key) == Some("1");
        let tty = on("tty");
        let streams = Self { stdin: on("input"), stdout: on("output"), stderr: on("error") && !tty, tty };
        if !(streams.stdin || streams.stdout || streams.stderr) {
            return Err(QueryError::Undecodable("you must specify at least 1 of stdin, stdout, stderr".to_owned()));
        }
        Ok(streams)
    }
}

/// Whether a summary is to be brief. Only one `only_cpu_and_memory=true` says so, as the kubelet reads it.
pub fn only_cpu_and_memory(query: &str) -> bool {
    let query = Query::read(query);
    query.all("only_cpu_and_memory").eq(["true"])
}

/// The command of an exec, word by word.
pub fn command(query: &str) -> Vec<String> {
    Query::read(query).all("command").map(str::to_owned).collect()
}

/// The command of a run, which has no quotes: its words are what is between spaces.
///
/// # Errors
/// When there is none.
pub fn run(query: &str) -> Result<Vec<String>, QueryError> {
    match Query::read(query).first("cmd") {
        None | Some("") => Err(QueryError::Undecodable("you must specify a cmd".to_owned())),
        Some(command) => Ok(command.split(' ').map(str::to_owned).collect()),
    }
}

/// The ports of a port-forward; only an old WebSocket protocol names them here.
///
/// # Errors
/// When one is no port.
pub fn ports(query: &str) -> Result<Vec<u16>, QueryError> {
    let query = Query::read(query);
    let parse = |text: &str| match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(QueryError::Undecodable("port must be a number from 1 to 65535".to_owned())),
    };
    query.all("port").flat_map(|ports| ports.split(',')).map(parse).collect()
}

#[cfg(test)]
mod tests;
