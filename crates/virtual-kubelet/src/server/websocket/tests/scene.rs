// SPDX-License-Identifier: Apache-2.0
//! A backend of a few commands, and a client.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Method};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    sync::oneshot,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::super::*;

/// Commands of a container, and what a test sees of them.
#[derive(Default)]
pub(super) struct Backend {
    /// Told when a process is dropped before its end.
    pub(super) dropped: Mutex<Option<oneshot::Sender<()>>>,
    /// Bytes that a process could write.
    pub(super) written: Arc<AtomicUsize>,
    /// The size of the terminal, as a process saw it.
    pub(super) size: Arc<Mutex<Option<TerminalSize>>>,
}

impl ContainerStreams for Backend {
    async fn exec(
        &self,
        pod: &PodId,
        container: &str,
        command: &[String],
        mut stdio: Stdio,
    ) -> Result<Process, IoError> {
        if container != "main" {
            return Err(IoError::NotFound(format!("container {container:?} not found in pod {:?}", pod.name)));
        }
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        Ok(match command.as_slice() {
            // Copies its input until that ends.
            ["cat"] => Box::pin(async move {
                tokio::io::copy(&mut stdio.stdin.unwrap(), &mut stdio.stdout.unwrap()).await?;
                Ok(0)
            }),
            // Ends with this code, after a line on each output.
            ["exit", code] => {
                let code = code.parse().unwrap();
                Box::pin(async move {
                    for (output, line) in [(stdio.stdout, &b"out\n"[..]), (stdio.stderr, b"err\n")] {
                        if let Some(mut output) = output {
                            output.write_all(line).await?;
                        }
                    }
                    Ok(code)
                })
            }
            // Runs for ever, reads nothing, writes nothing.
            ["sleep"] => {
                let dropped = Dropped(self.dropped.lock().unwrap().take());
                Box::pin(async move {
                    let _held = (dropped, stdio);
                    std::future::pending().await
                })
            }
            // Writes for ever.
            ["yes"] => {
                let written = self.written.clone();
                Box::pin(async move {
                    let mut stdout = stdio.stdout.unwrap();
                    loop {
                        stdout.write_all(&[b'y'; 1000]).await?;
                        written.fetch_add(1000, Ordering::Relaxed);
                    }
                })
            }
            // Ends when the terminal gets a size.
            ["stty"] => {
                let seen = self.size.clone();
                Box::pin(async move {
                    assert!(stdio.tty);
                    stdio.size.changed().await?;
                    *seen.lock().unwrap() = *stdio.size.borrow();
                    Ok(0)
                })
            }
            _ => Box::pin(async { Err("no such command".into()) }),
        })
    }

    async fn forward(&self, _: &PodId, port: u16) -> Result<Box<dyn Duplex>, IoError> {
        if port == 81 {
            return Err(IoError::Unavailable("connection refused".to_owned()));
        }
        // Says its number, then what it is told, in capitals, and ends at a full stop.
        let (near, mut far) = duplex(64);
        tokio::spawn(async move {
            far.write_all(port.to_string().as_bytes()).await.unwrap();
            while let Ok(byte) = far.read_u8().await
                && byte != b'.'
            {
                far.write_u8(byte.to_ascii_uppercase()).await.unwrap();
            }
        });
        Ok(Box::new(near))
    }
}

struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.take().map(|dropped| dropped.send(()));
    }
}

impl Backend {
    /// Told when the next `sleep` is dropped.
    pub(super) fn until_dropped(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        *self.dropped.lock().unwrap() = Some(sender);
        receiver
    }
}

pub(super) type Client = WebSocketStream<Box<dyn Duplex>>;

/// `command` with these of stdin, stdout, stderr and tty (`i`, `o`, `e`, `t`).
pub(super) fn exec(command: &str, streams: &str) -> UpgradeTarget {
    UpgradeTarget::Exec {
        container: "main".to_owned(),
        command: command.split(' ').map(str::to_owned).collect(),
        streams: Streams {
            stdin: streams.contains('i'),
            stdout: streams.contains('o'),
            stderr: streams.contains('e'),
            tty: streams.contains('t'),
        },
    }
}

/// The raw end of a session, after the handshake.
pub(super) async fn raw(
    backend: &Arc<Backend>,
    protocol: &'static str,
    target: UpgradeTarget,
) -> Result<Box<dyn Duplex>, IoError> {
    let headers: HeaderMap = [
        (http::header::UPGRADE, "websocket"),
        (http::header::SEC_WEBSOCKET_VERSION, "13"),
        (http::header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
        (http::header::SEC_WEBSOCKET_PROTOCOL, protocol),
    ]
    .into_iter()
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
    .collect();
    let request = UpgradeRequest { pod: PodId::new("ns", "web", "uid"), target, method: Method::GET, headers };
    Ok(OverWebSocket::new(backend.clone()).relay(request).await?.stream)
}

pub(super) async fn connect(
    backend: &Arc<Backend>,
    protocol: &'static str,
    target: UpgradeTarget,
) -> Result<Client, IoError> {
    Ok(WebSocketStream::from_raw_socket(raw(backend, protocol, target).await?, Role::Client, None).await)
}

pub(super) async fn say(client: &mut Client, bytes: &[u8]) {
    client.send(Message::Binary(Bytes::copy_from_slice(bytes))).await.unwrap();
}

/// The next message.
pub(super) async fn hear(client: &mut Client) -> Vec<u8> {
    match client.next().await.unwrap().unwrap() {
        Message::Binary(message) => message.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// All that is left: what came on each channel, in one piece, and the code it was closed with.
pub(super) async fn rest(client: &mut Client) -> (Vec<(u8, String)>, Option<u16>) {
    let (mut channels, mut code) = (std::collections::BTreeMap::<u8, String>::new(), None);
    while let Some(Ok(message)) = client.next().await {
        match message {
            Message::Binary(message) => {
                channels.entry(message[0]).or_default().push_str(std::str::from_utf8(&message[1..]).unwrap());
            }
            Message::Close(frame) => code = frame.map(|frame| frame.code.into()),
            other => panic!("{other:?}"),
        }
    }
    (channels.into_iter().collect(), code)
}
