// SPDX-License-Identifier: Apache-2.0
//! What the messages of a channel protocol mean: pure.
//!
//! The first byte of a message is its channel (k8s.io/streaming `pkg/httpstream/wsstream`, k8s.io/cri-streaming
//! `pkg/streaming/remotecommand`). v5 adds one message that closes a channel.

use std::fmt::Display;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::json;

/// The channels of exec and attach.
pub(super) const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Not a channel: the next byte is one, and it is closed.
const CLOSE: u8 = 255;

/// A protocol of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `v4.channel.k8s.io`
    V4,
    /// `v5.channel.k8s.io`
    V5,
}

impl Protocol {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4.channel.k8s.io",
            Self::V5 => "v5.channel.k8s.io",
        }
    }
}

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct TerminalSize {
    /// Columns.
    #[serde(rename = "Width", alias = "width")]
    pub width: u16,
    /// Rows.
    #[serde(rename = "Height", alias = "height")]
    pub height: u16,
}

/// What a client says to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Bytes for its standard input.
    Stdin(Bytes),
    /// Its standard input ends.
    StdinEnds,
    /// The terminal is of this size now.
    Resized(TerminalSize),
    /// Nothing that has a meaning here; a kubelet passes over it too.
    Nothing,
}

/// What `message` of a client says to a process.
pub(super) fn said(protocol: Protocol, message: &Bytes) -> Said {
    match (message.as_ref(), protocol) {
        ([STDIN, rest @ ..], _) if !rest.is_empty() => Said::Stdin(message.slice(1..)),
        ([CLOSE, STDIN], Protocol::V5) => Said::StdinEnds,
        ([RESIZE, rest @ ..], _) => serde_json::from_slice(rest).map_or(Said::Nothing, Said::Resized),
        _ => Said::Nothing,
    }
}

/// `message` of a client of a port-forward, as the index of its port and bytes for it. Data have the even channels.
pub(super) fn for_port(message: &Bytes) -> Option<(usize, Bytes)> {
    match message.as_ref() {
        [channel, rest @ ..] if channel % 2 == 0 && !rest.is_empty() => {
            Some((usize::from(channel / 2), message.slice(1..)))
        }
        _ => None,
    }
}

/// A message of a channel.
pub(super) fn message(channel: u8, content: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(content.len() + 1);
    message.put_u8(channel);
    message.put_slice(content);
    message.freeze()
}

/// The last message: how the process ended, as a `Status`.
pub(super) fn ended(exit: Result<i32, impl Display>) -> Bytes {
    let status = match exit {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit code {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": format!("Internal error occurred: {error}"),
            "details": {"causes": [{"message": error.to_string()}]},
        }),
    };
    message(ERROR, status.to_string().as_bytes())
}

#[cfg(test)]
mod tests;
