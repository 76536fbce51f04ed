// SPDX-License-Identifier: Apache-2.0
//! One connection: its messages in and out, its pings, and its end.

use std::{pin::pin, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Sink, SinkExt, Stream, StreamExt, future::try_join, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::sync::CancellationToken;

use super::PIPE;

/// The longest message of a client. Clients that write all they have at once have to cut it here.
const LONGEST: usize = 1024 * 1024;
/// How often a silent connection is tried: so a client that is gone is noticed also while nobody reads what it sent.
const PING: Duration = Duration::from_secs(30);
/// How long a client may take to read its last messages.
const FAREWELL: Duration = Duration::from_secs(10);

/// Takes the messages of a client.
pub(super) trait Inbox: Send {
    /// The next one is read when this one is taken.
    fn take(&mut self, message: Bytes) -> impl Future<Output = ()> + Send;
}

/// Gives `inbox` what the client says and the client `outgoing` and, when both have ended, what `last` yields. Ends then,
/// or when the client is gone: what is not done then is dropped.
pub(super) async fn converse(
    connection: DuplexStream,
    outgoing: impl Stream<Item = Bytes> + Send,
    last: impl Future<Output = Option<Bytes>> + Send,
    mut inbox: impl Inbox,
) {
    let limits = WebSocketConfig::default()
        .read_buffer_size(PIPE)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * PIPE)
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST));
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(limits)).await;
    let (mut sink, mut incoming) = socket.split();
    let close = tokio::select! {
        close = receive(&mut incoming, &mut inbox) => close,
        close = send(&mut sink, outgoing, last) => close,
    };
    // What a client writes on is read to the end: to close on unread bytes would take from it what it has not read.
    drop(inbox);
    let farewell = async {
        if let Some((code, reason)) = close {
            sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
        }
        sink.flush().await?;
        while incoming.next().await.transpose()?.is_some() {}
        Ok::<_, Error>(())
    };
    match timeout(FAREWELL, farewell).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a client left without farewell"),
        Err(_) => tracing::debug!("a client does not close its stream"),
    }
}

/// How to say farewell; `None` where nobody is left to hear it, or the client said it.
type Close = Option<(CloseCode, &'static str)>;

async fn receive(incoming: &mut (impl Stream<Item = Result<Message, Error>> + Unpin), inbox: &mut impl Inbox) -> Close {
    while let Some(message) = incoming.next().await {
        match message {
            Ok(Message::Binary(message)) => inbox.take(message).await,
            Ok(Message::Text(message)) => inbox.take(message.into()).await,
            // Pings are answered by the library.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            Err(Error::Capacity(_)) => return Some((CloseCode::Size, "the message is too long")),
            Err(Error::Protocol(_) | Error::Utf8(_)) => return Some((CloseCode::Protocol, "this is not WebSocket")),
            Ok(Message::Close(_)) | Err(_) => return None,
        }
    }
    None
}

async fn send(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    outgoing: impl Stream<Item = Bytes>,
    last: impl Future<Output = Option<Bytes>>,
) -> Close {
    let done = CancellationToken::new();
    let last = async {
        let last = last.await;
        done.cancel();
        Ok(last)
    };
    // Side by side: a process goes on while a slow client reads.
    let (sink, last) = try_join(carry(sink, outgoing, &done), last).await.ok()?;
    if let Some(last) = last {
        sink.send(Message::Binary(last)).await.ok()?;
    }
    Some((CloseCode::Normal, ""))
}

/// Sends `outgoing`, and pings, until it has ended and `done` is cancelled.
async fn carry<'a, S: Sink<Message, Error = Error> + Unpin>(
    sink: &'a mut S,
    outgoing: impl Stream<Item = Bytes>,
    done: &CancellationToken,
) -> Result<&'a mut S, Error> {
    let mut outgoing = pin!(outgoing.fuse());
    let mut ping = interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let mut ended = false;
    while !(ended && done.is_cancelled()) {
        tokio::select! {
            message = outgoing.next(), if !ended => match message {
                Some(message) => sink.send(Message::Binary(message)).await?,
                None => ended = true,
            },
            () = done.cancelled(), if ended => {}
            _ = ping.tick() => sink.send(Message::Ping(Bytes::new())).await?,
        }
    }
    Ok(sink)
}

/// What `from` yields, as messages of `channel`, until it ends.
pub(super) fn messages(channel: u8, from: impl AsyncRead + Send + Unpin) -> impl Stream<Item = Bytes> + Send {
    stream::unfold((from, BytesMut::new()), move |(mut from, mut message)| async move {
        message.reserve(PIPE + 1);
        message.put_u8(channel);
        match (&mut from).take(PIPE as u64).read_buf(&mut message).await {
            Ok(0) => None,
            Ok(_) => Some((message.split().freeze(), (from, message))),
            Err(error) => {
                tracing::debug!(channel, %error, "a stream of a container broke");
                None
            }
        }
    })
}

/// Writes `content`, unless the other end is closed; then it is closed here too, and what comes later is passed over.
pub(super) async fn write(to: &mut Option<impl AsyncWrite + Unpin>, content: &[u8]) {
    if let Some(open) = to
        && open.write_all(content).await.is_err()
    {
        *to = None;
    }
}
