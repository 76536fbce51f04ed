// SPDX-License-Identifier: Apache-2.0
//! Ports of pods.

use anyhow::{Context as _, ensure};
use e2e::pods::PATIENCE;
use futures::future::try_join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::kubectl::{Kubectl, Running};
use super::{Scene, test};

/// Says back what it hears, for any number of clients.
const ECHO: &str = "exec nc -ll -p 7000 -e cat";

/// Runs [`ECHO`] as pod `echo` until it listens.
pub(crate) async fn run_echo(scene: &Scene<'_>) -> anyhow::Result<()> {
    run_server(scene, ECHO).await
}

/// Runs pod `echo` until it listens.
async fn run_server(scene: &Scene<'_>, script: &str) -> anyhow::Result<()> {
    let mut pod = scene.world.pair.pod("echo", &format!("echo begun; {script}"));
    pod["spec"]["containers"][0]["readinessProbe"] = json!({ "tcpSocket": { "port": 7000 }, "periodSeconds": 1 });
    scene.run(&pod).await.map(drop)
}

/// A forward to port 7000 of pod `echo`, and where it listens.
pub(crate) async fn forward(kubectl: &Kubectl<'_>) -> anyhow::Result<(Running, u16)> {
    let mut running = kubectl.start(&["port-forward", "echo", ":7000", "--address=127.0.0.1"])?;
    let line = running.line().await?;
    let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
    Ok((running, port.with_context(|| line.clone())?.parse()?))
}

/// Sends `bytes` and expects them back, then the end.
pub(crate) async fn echo(port: u16, bytes: Vec<u8>) -> anyhow::Result<()> {
    let talk = async {
        let (mut reader, mut writer) = TcpStream::connect(("127.0.0.1", port)).await?.into_split();
        let mut back = vec![0; bytes.len()];
        let (_, ()) = tokio::try_join!(reader.read_exact(&mut back), writer.write_all(&bytes))?;
        ensure!(back == bytes, "what came back is something else");
        anyhow::Ok(())
    };
    timeout(PATIENCE, talk).await.context("the echo does not come")?
}

/// Serves ten files of 1 MB, each of one line over and over: for many clients at once: `nc` resets some connections when ten
/// come at the same moment, also without Tensile.
const FILES: &str = "mkdir /tmp/www; for n in 0 1 2 3 4 5 6 7 8 9; do yes file $n | head -c 1000000 >/tmp/www/$n; done; \
                     exec httpd -f -p 7000 -h /tmp/www";

/// Fetches file `number` and expects every byte of it.
async fn fetch(port: u16, number: usize) -> anyhow::Result<()> {
    let talk = async {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
        connection.write_all(format!("GET /{number} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = timeout(PATIENCE, talk).await.context("the file does not come")??;
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").context("no head")? + 4;
    let line = format!("file {number}\n");
    let expected: Vec<u8> = line.bytes().cycle().take(1_000_000).collect();
    ensure!(answer[body..] == expected, "file {number} arrives as {} bytes", answer.len() - body);
    Ok(())
}

#[test]
fn ten_connections_at_once_go_through_each_forward() -> anyhow::Result<()> {
    test("forward", async |scene| {
        run_server(scene, FILES).await?;
        for kubectl in scene.clients() {
            let (_running, port) = forward(&kubectl).await?;
            try_join_all((0..10).map(|number| fetch(port, number))).await.with_context(|| kubectl.name().to_owned())?;
            // And it goes on.
            fetch(port, 3).await?;
        }
        Ok(())
    })
}

#[test]
fn ten_forwards_at_once_do_not_mix() -> anyhow::Result<()> {
    test("forwards", async |scene| {
        run_server(scene, FILES).await?;
        for kubectl in scene.clients() {
            let forwards = try_join_all((0..10).map(|_| forward(&kubectl))).await?;
            let talks = forwards.iter().enumerate().map(|(number, (_, port))| fetch(*port, number));
            try_join_all(talks).await.with_context(|| kubectl.name().to_owned())?;
        }
        Ok(())
    })
}

#[test]
fn a_port_where_nobody_listens_is_told() -> anyhow::Result<()> {
    test("closed", async |scene| {
        scene.run_script("echo", "exec sleep 1000000").await?;
        for kubectl in scene.clients() {
            let (running, port) = forward(&kubectl).await?;
            let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
            let mut rest = Vec::new();
            timeout(PATIENCE, connection.read_to_end(&mut rest)).await.context("the connection stays open")?.ok();
            ensure!(rest.is_empty());
            let told = running.told().await?;
            ensure!(told.err.contains("refused"), "{}: {told:?}", kubectl.name());
        }
        Ok(())
    })
}
