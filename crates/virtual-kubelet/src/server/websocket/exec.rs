// SPDX-License-Identifier: Apache-2.0
//! Exec and attach: a process and its streams over one connection.

use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::{io::DuplexStream, sync::watch};

use super::{
    Ends, Process, TerminalSize,
    channels::{ERROR, Protocol, STDERR, STDOUT, Said, ended, message, said},
    session::{Inbox, converse, messages, write},
};

/// Carries the streams of `process` until it has ended, or its client is gone.
pub(super) async fn run(connection: DuplexStream, protocol: Protocol, ends: Ends, process: Process) {
    let Ends { stdin, stdout, stderr, size } = ends;
    // An empty message tells the client that it is connected, on the lowest channel that it will hear of.
    let first = if stdout.is_some() {
        STDOUT
    } else if stderr.is_some() {
        STDERR
    } else {
        ERROR
    };
    let outputs = [(STDOUT, stdout), (STDERR, stderr)].into_iter();
    let outputs = outputs.filter_map(|(channel, from)| Some(messages(channel, from?).boxed()));
    let outgoing = stream::iter([message(first, &[])]).chain(stream::select_all(outputs));
    let exit = async { Some(ended(process.await)) };
    converse(connection, outgoing, exit, ProcessInbox { protocol, stdin, size }).await;
}

struct ProcessInbox {
    protocol: Protocol,
    stdin: Option<DuplexStream>,
    size: watch::Sender<Option<TerminalSize>>,
}

impl Inbox for ProcessInbox {
    async fn take(&mut self, message: Bytes) {
        match said(self.protocol, &message) {
            Said::Stdin(content) => write(&mut self.stdin, &content).await,
            Said::StdinEnds => self.stdin = None,
            Said::Resized(size) => {
                self.size.send_replace(Some(size));
            }
            Said::Nothing => {}
        }
    }
}
