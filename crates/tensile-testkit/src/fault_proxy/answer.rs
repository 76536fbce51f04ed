// SPDX-License-Identifier: Apache-2.0
//! Bodies: those the proxy makes up, and the API server's own on their way to the client.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};

use super::rule::{Command, Fault};

pub(super) type Body = BoxBody<Bytes, io::Error>;

/// What a body of the API server goes through.
#[derive(Debug, Default)]
pub(super) struct Treatment {
    /// What goes wrong with it.
    pub(super) fault: Option<Fault>,
    /// For a watch: commands while it is open.
    pub(super) commands: Option<broadcast::Receiver<Command>>,
}

/// A Kubernetes `Status`.
fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("the fault proxy says {reason}"), "reason": reason, "code": code,
    })
}

/// An answer of the proxy's own with this status.
pub(super) fn failure(code: u16, reason: &str, retry_after: Option<u32>) -> Response<Body> {
    let mut response = json_response(&status(code, reason));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A watch that ends at once with `410 Expired`.
pub(super) fn expired_watch() -> Response<Body> {
    json_response(&expired_event())
}

fn expired_event() -> Value {
    json!({ "type": "ERROR", "object": status(410, "Expired") })
}

fn json_response(value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{value}\n"))).map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The API server's body, piece by piece as it arrives. An error in it breaks the client's connection.
pub(super) fn relayed(upstream: Incoming, treatment: Treatment) -> Body {
    // One piece at a time: a slow client slows the API server, as without a proxy.
    let (pieces, received) = mpsc::channel(1);
    tokio::spawn(pass(upstream, treatment, pieces));
    let frames = stream::unfold(received, async |mut received| received.recv().await.map(|piece| (piece, received)));
    StreamBody::new(frames).boxed()
}

type Pieces = mpsc::Sender<io::Result<Frame<Bytes>>>;

async fn pass(mut upstream: Incoming, mut treatment: Treatment, pieces: Pieces) {
    let mut cut = match treatment.fault {
        Some(Fault::CutAfterBytes(bytes)) => Some(Cut::AfterBytes(bytes)),
        Some(Fault::CutInLine(lines)) => Some(Cut::InLine(lines)),
        _ => None,
    };
    loop {
        let frame = tokio::select! {
            frame = upstream.frame() => frame,
            command = next_command(&mut treatment.commands) => return obey(command, &pieces).await,
            // The client is gone.
            () = pieces.closed() => return,
        };
        let Some(frame) = frame else { return };
        let Ok(data) = frame.map_err(io::Error::other).map(Frame::into_data) else { return broken(&pieces).await };
        // Trailers: the API server sends none.
        let Ok(data) = data else { continue };
        if let Some(Fault::Slow { bytes_per_second }) = treatment.fault {
            tokio::time::sleep(pace(data.len(), bytes_per_second)).await;
        }
        let (passed, ends) = cut.as_mut().map_or((data.len(), false), |cut| cut.take(&data));
        if pieces.send(Ok(Frame::data(data.slice(..passed)))).await.is_err() {
            return;
        }
        if ends {
            return broken(&pieces).await;
        }
    }
}

/// Never, for a body that takes no commands.
async fn next_command(commands: &mut Option<broadcast::Receiver<Command>>) -> Command {
    if let Some(receiver) = commands
        && let Ok(command) = receiver.recv().await
    {
        return command;
    }
    std::future::pending().await
}

async fn obey(command: Command, pieces: &Pieces) {
    match command {
        Command::Cut => broken(pieces).await,
        Command::End => {}
        Command::Expire => {
            let event = Bytes::from(format!("{}\n", expired_event()));
            // An error means that the client is gone.
            pieces.send(Ok(Frame::data(event))).await.ok();
        }
        Command::Stall => pieces.closed().await,
    }
}

async fn broken(pieces: &Pieces) {
    let error = io::Error::new(io::ErrorKind::ConnectionReset, "cut by the fault proxy");
    pieces.send(Err(error)).await.ok();
}

fn pace(bytes: usize, bytes_per_second: u32) -> Duration {
    Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / bytes_per_second.max(1)
}

/// Where a body breaks, counted down while it passes.
#[derive(Debug)]
enum Cut {
    AfterBytes(usize),
    InLine(usize),
}

impl Cut {
    /// How much of `data` still passes, and whether the body breaks there.
    fn take(&mut self, data: &[u8]) -> (usize, bool) {
        match self {
            Self::AfterBytes(left) if data.len() < *left => {
                *left -= data.len();
                (data.len(), false)
            }
            Self::AfterBytes(left) => (*left, true),
            Self::InLine(left) => {
                for (at, byte) in data.iter().enumerate() {
                    if *left == 0 {
                        return (at + (data.len() - at) / 2, true);
                    }
                    *left -= usize::from(*byte == b'\n');
                }
                (data.len(), false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_cut_after_so_many_bytes_also_over_several_pieces() {
        let mut cut = Cut::AfterBytes(5);
        assert_eq!(cut.take(b"abc"), (3, false));
        assert_eq!(cut.take(b"def"), (2, true));
    }

    #[test]
    fn a_body_is_cut_in_the_middle_of_a_line() {
        let mut cut = Cut::InLine(2);
        assert_eq!(cut.take(b"one\n"), (4, false));
        assert_eq!(cut.take(b"two\n"), (4, false));
        assert_eq!(cut.take(b"three\n"), (3, true));
        assert_eq!(Cut::InLine(1).take(b"one\ntwo\n"), (6, true));
        assert_eq!(Cut::InLine(0).take(b"one\n"), (2, true));
    }

    #[test]
    fn a_slow_reader_takes_its_time() {
        assert_eq!(pace(500, 1000), Duration::from_millis(500));
    }
}
