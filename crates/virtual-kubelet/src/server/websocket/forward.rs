// SPDX-License-Identifier: Apache-2.0
//! Port-forward over WebSocket, as clients do it that are not kubectl: the ports stand in the query, and each has a
//! channel for data and one for an error.

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::StatusCode;
use tokio::io::{DuplexStream, WriteHalf, split};

use super::{
    super::{Duplex, IoError},
    ContainerStreams,
    channels::{for_port, message},
    session::{Inbox, converse, messages, write},
};
use crate::pod::PodId;

/// Ports of one connection.
const MOST: usize = 16;

/// Ports that were opened, and those that could not be.
pub(super) struct Forward {
    first: Vec<Bytes>,
    outputs: Vec<BoxStream<'static, Bytes>>,
    inbox: PortsInbox,
}

/// Opens `ports`. One that cannot be opened is an error in its own channel, and none of the others.
pub(super) async fn open(provider: &impl ContainerStreams, pod: &PodId, ports: &[u16]) -> Result<Forward, IoError> {
    let refused = |message: String| Err(IoError::Refused { status: StatusCode::BAD_REQUEST, message });
    match ports.len() {
        0 => return refused("port-forward: the query names no port".to_owned()),
        1..=MOST => {}
        count => {
            return refused(format!("port-forward: {count} ports are more than {MOST}, the most over one connection"));
        }
    }
    let mut forward = Forward { first: Vec::new(), outputs: Vec::new(), inbox: PortsInbox(Vec::new()) };
    for (channel, port) in (0..).step_by(2).zip(ports) {
        // Both channels of a port begin with its number.
        forward.first.extend([channel, channel + 1].map(|channel| message(channel, &port.to_le_bytes())));
        let to = match provider.forward(pod, *port).await {
            Ok(stream) => {
                let (from, to) = split(stream);
                forward.outputs.push(messages(channel, from).boxed());
                Some(to)
            }
            Err(error) => {
                let error = format!("error forwarding port {port} to pod {}: {error}", pod.name);
                forward.first.push(message(channel + 1, error.as_bytes()));
                None
            }
        };
        forward.inbox.0.push(to);
    }
    Ok(forward)
}

/// Carries bytes until all ports have ended, or the client is gone.
pub(super) async fn run(connection: DuplexStream, forward: Forward) {
    let outgoing = stream::iter(forward.first).chain(stream::select_all(forward.outputs));
    converse(connection, outgoing, async { None }, forward.inbox).await;
}

/// The ports' ends, by their index.
struct PortsInbox(Vec<Option<WriteHalf<Box<dyn Duplex>>>>);

impl Inbox for PortsInbox {
    async fn take(&mut self, message: Bytes) {
        if let Some((index, content)) = for_port(&message)
            && let Some(to) = self.0.get_mut(index)
        {
            write(to, &content).await;
        }
    }
}
