// SPDX-License-Identifier: Apache-2.0
//! Bad input, sent straight to the kubelet API of the virtual node: the measure is the real kubelet below, asked the same.

use anyhow::{Context as _, ensure};
use e2e::pods::{PATIENCE, uid, with};
use e2e::real_node::BUSYBOX;
use http::Request;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::straight::{kubelets, port, told, upgrade};
use super::test;

/// The real kubelet goes by the name alone; we serve the incarnation that was asked for, or none.
const INCARNATION: u16 = 404;

/// Method and path; `NS` is the namespace. And the status, where it is another than the real kubelet's.
const BAD: &[(&str, &str, Option<u16>)] = &[
    ("POST", "/exec/NS/absent/main?output=1&command=id", None),
    ("POST", "/exec/NS/box/wrong-uid/main?output=1&command=id", Some(INCARNATION)),
    ("POST", "/exec/NS/box/main?command=id", None),
    ("PUT", "/exec/NS/box/main?output=1&command=id", None),
    ("POST", "/exec/NS/box", None),
    ("POST", "/attach/NS/absent/main?output=1", None),
    ("POST", "/attach/NS/box/main", None),
    ("POST", "/portForward/NS/absent", None),
    ("POST", "/portForward/NS/box/wrong-uid", Some(INCARNATION)),
    ("GET", "/containerLogs/NS/absent/main", None),
    ("GET", "/containerLogs/NS/box/main?tailLines=x", None),
    ("GET", "/containerLogs/NS/box/main?tailLines=-1", None),
    ("GET", "/containerLogs/NS/box/main?limitBytes=0", None),
    ("GET", "/containerLogs/NS/box/main?sinceTime=noon", None),
    ("GET", "/containerLogs/NS/box/main?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", None),
    ("GET", "/containerLogs/NS/box/main?previous=true", None),
    ("GET", "/containerLogs/NS/unstarted/main", None),
    ("POST", "/containerLogs/NS/box/main", None),
    ("GET", "/nothing", None),
];

#[test]
fn bad_requests_get_the_status_that_the_real_kubelet_gives() -> anyhow::Result<()> {
    test("bad", async |scene| {
        scene.run_script("box", "exec sleep 1000000").await?;
        let waits = json!([{ "name": "init", "image": BUSYBOX, "command": ["sleep", "1000000"] }]);
        let unstarted = with(scene.world.pair.pod("unstarted", "true"), json!({ "spec": { "initContainers": waits } }));
        scene.above.create(&unstarted).await?;
        let runs_init =
            |pod: &serde_json::Value| !pod["status"]["initContainerStatuses"][0]["state"]["running"].is_null();
        scene.above.until("unstarted", "runs its init container", runs_init).await?;

        let (above, below) = kubelets(scene).await?;
        let mut differences = Vec::new();
        for (method, path, other) in BAD {
            let path = path.replace("NS", scene.above.namespace());
            let (ours, real) =
                (told(&above, upgrade(method, &path)?).await?, told(&below, upgrade(method, &path)?).await?);
            let expected = other.unwrap_or(real.0);
            if ours.0 != expected {
                differences.push(format!("{method} {path}: {ours:?}, the real kubelet says {real:?}"));
            }
        }
        ensure!(differences.is_empty(), "{}", differences.join("\n"));
        // The right incarnation is served.
        let right = format!(
            "/exec/{}/box/{}/main?output=1&command=id",
            scene.above.namespace(),
            uid(&scene.above.get("box").await?)
        );
        ensure!(told(&above, upgrade("POST", &right)?).await?.0 == 101);
        Ok(())
    })
}

#[test]
fn garbage_after_the_upgrade_ends_the_stream_and_nothing_else() -> anyhow::Result<()> {
    test("garbage", async |scene| {
        scene.run_script("box", "exec sleep 1000000").await?;
        let (above, _) = kubelets(scene).await?;
        let exec = format!("/exec/{}/box/main?output=1&command=id", scene.above.namespace());
        for garbage in
            [vec![0xff; 64 * 1024], b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0x80, 3, 0, 1, 0xff, 0xff, 0xff, 0xff]]
        {
            let answer = above.send(upgrade("POST", &exec)?).await?;
            ensure!(answer.status() == 101);
            let mut stream = TokioIo::new(hyper::upgrade::on(answer).await?);
            // It may be cut while we still write.
            stream.write_all(&garbage).await.ok();
            stream.shutdown().await.ok();
            let mut rest = Vec::new();
            timeout(PATIENCE, stream.read_to_end(&mut rest)).await.context("the stream stays open")?.ok();
        }
        ensure!(scene.kubectl().done(&["exec", "box", "--", "echo", "fine"]).await? == "fine\n");
        Ok(())
    })
}

#[test]
fn clients_that_never_finish_what_they_begin_hold_up_nobody() -> anyhow::Result<()> {
    test("rude", async |scene| {
        scene.run_script("box", "exec sleep 1000000").await?;
        let address = (scene.world.pair.node.address(), u16::try_from(port(scene).await?)?);
        let mut open = Vec::new();
        for number in 0..100 {
            let mut connection = TcpStream::connect(address).await?;
            // Some say nothing, some begin a handshake of 500 bytes and stop.
            if number % 2 == 0 {
                connection.write_all(&[0x16, 3, 1, 1, 0xf4, 1]).await?;
            }
            open.push(connection);
        }
        let (above, _) = kubelets(scene).await?;
        let long = Request::get("/pods").header("x-long", "a".repeat(1024 * 1024)).body(Body::empty())?;
        // The answer may be lost when it comes before everything was read.
        if let Ok((status, words)) = told(&above, long).await {
            ensure!(status == 431, "{status} {words}");
        }
        ensure!(scene.kubectl().done(&["exec", "box", "--", "echo", "fine"]).await? == "fine\n");
        Ok(())
    })
}
