// SPDX-License-Identifier: Apache-2.0
//! WebSocket without kubectl: the protocols of older clients, straight through the upper API server.

use anyhow::{Context as _, ensure};
use e2e::pods::PATIENCE;
use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::forward::{echo, forward, run_echo};
use super::{Scene, test};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// Opens `subresource` of pod `box` with this protocol.
async fn open(
    scene: &Scene<'_>,
    subresource: &str,
    protocol: &str,
) -> anyhow::Result<WebSocketStream<TokioIo<Upgraded>>> {
    let path = format!("/api/v1/namespaces/{}/pods/box/{subresource}", scene.above.namespace());
    let request = Request::get(path)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-protocol", protocol);
    let answer = scene.world.pair.upper.client().send(request.body(Body::empty())?).await?;
    ensure!(answer.status() == 101, "{protocol}: {}", answer.status());
    // RFC 6455, 1.3: the answer to this very key.
    ensure!(answer.headers()["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "{:?}", answer.headers());
    ensure!(answer.headers()["sec-websocket-protocol"] == protocol, "{:?}", answer.headers());
    let stream = TokioIo::new(hyper::upgrade::on(answer).await?);
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
}

/// What came over each channel until the end.
#[derive(Debug, Default)]
struct Heard {
    out: Vec<u8>,
    err: Vec<u8>,
    status: Vec<u8>,
    close: Option<u16>,
}

async fn hear(socket: &mut WebSocketStream<TokioIo<Upgraded>>) -> anyhow::Result<Heard> {
    let mut heard = Heard::default();
    while let Some(message) = timeout(PATIENCE, socket.next()).await.context("nothing more comes")? {
        match message {
            Ok(Message::Binary(bytes)) => match bytes.split_first() {
                Some((&STDOUT, rest)) => heard.out.extend(rest),
                Some((&STDERR, rest)) => heard.err.extend(rest),
                Some((&ERROR, rest)) => heard.status.extend(rest),
                other => anyhow::bail!("{other:?}"),
            },
            Ok(Message::Close(frame)) => heard.close = frame.map(|frame| frame.code.into()),
            Ok(_) => {}
            // The peer may end without waiting for our farewell.
            Err(_) => break,
        }
    }
    Ok(heard)
}

#[test]
fn the_older_protocols_of_exec_go_through() -> anyhow::Result<()> {
    test("websocket", async |scene| {
        scene.run_script("box", "exec sleep 1000000").await?;
        let script = "read%20-r%20word%3Becho%20out%20$word%3Becho%20err%3E%262%3Bexit%205";
        let exec = format!("exec?stdin=true&stdout=true&stderr=true&command=sh&command=-c&command={script}");
        for protocol in ["v4.channel.k8s.io", "channel.k8s.io"] {
            let mut socket = open(scene, &exec, protocol).await?;
            socket.send(Message::Binary([&[STDIN][..], b"hello\n"].concat().into())).await?;
            let heard = hear(&mut socket).await?;
            ensure!(heard.out == b"out hello\n" && heard.err == b"err\n", "{protocol}: {heard:?}");
            if protocol.starts_with("v4") {
                let status: Value = serde_json::from_slice(&heard.status)?;
                ensure!(status["reason"] == "NonZeroExitCode", "{status}");
                ensure!(status["details"]["causes"][0]["message"] == "5", "{status}");
            } else {
                ensure!(String::from_utf8_lossy(&heard.status).contains("exit code 5"), "{heard:?}");
            }
        }
        Ok(())
    })
}

#[test]
fn the_older_protocol_of_port_forward_goes_through() -> anyhow::Result<()> {
    test("legacy", async |scene| {
        scene.run_script("box", "exec nc -ll -p 7000 -e cat").await?;
        let mut socket = open(scene, "portforward?ports=7000", "v4.channel.k8s.io").await?;
        // Each of the two channels begins with the port, its lower byte first.
        let port = 7000_u16.to_le_bytes();
        for channel in [0, 1] {
            let first = timeout(PATIENCE, socket.next()).await?.context("it ended")??;
            ensure!(first.into_data()[..] == [channel, port[0], port[1]]);
        }
        socket.send(Message::Binary([&[0][..], b"hello"].concat().into())).await?;
        let back = timeout(PATIENCE, socket.next()).await?.context("it ended")??;
        ensure!(back.into_data()[..] == *b"\0hello");
        Ok(())
    })
}

/// Requests of this kind that an upper API server counted, in its words.
async fn counted(scene: &Scene<'_>, kind: &str) -> anyhow::Result<u64> {
    let metrics = Request::get("/metrics").body(Vec::new())?;
    let metrics = scene.world.pair.upper.client().request_text(metrics).await?;
    let lines = metrics.lines().filter(|line| line.contains("websocket_streaming_requests_total{"));
    let lines =
        lines.filter(|line| line.contains(kind)).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    Ok(lines.sum::<f64>() as u64)
}

#[test]
fn the_newest_protocols_come_to_the_node_as_kubectl_sent_them() -> anyhow::Result<()> {
    test("newest", async |scene| {
        run_echo(scene).await?;
        let kubectl = scene.kubectl();
        ensure!(kubectl.done(&["exec", "echo", "--", "echo", "hello"]).await? == "hello\n");
        let (_running, port) = forward(&kubectl).await?;
        echo(port, b"hello".to_vec()).await?;
        for subresource in ["exec", "portforward"] {
            let kind = |method: &str| format!("{method}\",subresource=\"{subresource}\"");
            ensure!(counted(scene, &kind("proxied_to_kubelet")).await? > 0, "{subresource}");
            ensure!(counted(scene, &kind("translated_at_apiserver")).await? == 0, "{subresource}");
        }
        Ok(())
    })
}
