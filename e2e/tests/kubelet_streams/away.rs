// SPDX-License-Identifier: Apache-2.0
//! A lower API server that dies while streams are open.

use anyhow::{Context as _, ensure};
use e2e::cluster::Component;
use e2e::pods::PATIENCE;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::forward::{forward, run_echo};
use super::test_alone;

#[test]
fn streams_end_with_the_lower_api_server_and_the_next_are_served() -> anyhow::Result<()> {
    test_alone("away", async |scene| {
        let pair = &scene.world.pair;
        run_echo(scene).await?;
        let process = pair.link.process().id();
        let mut open = Vec::new();
        for kubectl in scene.clients() {
            let mut follower = kubectl.start(&["logs", "-f", "echo"])?;
            ensure!(follower.line().await? == "begun");
            let mut shell = kubectl.start(&["exec", "-i", "echo", "--", "sh"])?;
            shell.write("echo ready").await?;
            ensure!(shell.line().await? == "ready");
            let (forwarded, port) = forward(&kubectl).await?;
            let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
            tokio::io::AsyncWriteExt::write_all(&mut connection, b"x").await?;
            ensure!(connection.read_u8().await? == b'x');
            open.push((kubectl, follower, shell, forwarded, connection));
        }

        pair.lower.kill(Component::ApiServer)?;
        let ended = async {
            for (kubectl, follower, shell, _forwarded, mut connection) in open {
                let told = shell.told().await?;
                // Over SPDY, kubectl takes the end of the connection for the end of the command, in any cluster.
                ensure!(told.code != Some(0) || !kubectl.is_websocket(), "{}: exec: {told:?}", kubectl.name());
                // API servers end a log that broke like one that is over.
                follower.told().await?;
                let mut rest = Vec::new();
                timeout(PATIENCE, connection.read_to_end(&mut rest))
                    .await
                    .context("the forwarded connection stays")?
                    .ok();
            }
            let refused = scene.kubectl().tell(&["exec", "echo", "--", "id"]).await?;
            ensure!(refused.code != Some(0) && refused.err.contains("lower API server"), "{refused:?}");
            anyhow::Ok(())
        };
        let ended = ended.await;
        // Also when that failed: the other tests need it.
        pair.lower.restart(Component::ApiServer).await?;
        ended?;
        pair.link.process().ensure_running()?;
        ensure!(pair.link.process().id() == process, "the virtual node was restarted");
        for kubectl in scene.clients() {
            ensure!(kubectl.done(&["exec", "echo", "--", "echo", "back"]).await? == "back\n");
            ensure!(kubectl.done(&["logs", "echo"]).await? == "begun\n");
        }
        Ok(())
    })
}
