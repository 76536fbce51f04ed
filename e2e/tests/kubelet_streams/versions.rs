// SPDX-License-Identifier: Apache-2.0
//! Every verb, briefly, with kubectl of each supported version over both transports, and between clusters of the oldest
//! version, whose API servers translate WebSocket to SPDY on their way to nodes.

use anyhow::{Context as _, ensure};
use e2e::binaries::SUPPORTED;
use e2e::pods::PATIENCE;
use e2e::wait::eventually;
use serde_json::json;
use tokio::sync::OnceCell;

use super::forward::{echo, forward};
use super::kubectl::{Client, Kubectl};
use super::{Scene, World, real_node, within, world};

/// Says what it was told last on standard input, over and over: a container runtime attaches to the input before it attaches
/// to the output. And says what it is told on port 7000.
const SCRIPT: &str = "echo begun; nc -ll -p 7000 -e cat & while sleep 0.2; do read -r -t 1 line && word=$line; \
                      [ -z \"$word\" ] || echo heard $word; done";

async fn every_verb(scene: &Scene<'_>, kubectl: &Kubectl<'_>, number: usize) -> anyhow::Result<()> {
    let log = kubectl.done(&["logs", "echo", "--tail=-1"]).await?;
    ensure!(log.starts_with("begun\n"), "{log}");

    let told = kubectl.tell(&["exec", "echo", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).await?;
    ensure!(told.code == Some(7) && told.out == "out\n" && told.err.starts_with("err\n"), "{told:?}");
    // The count comes only when the end of the input has come.
    let told = kubectl.fed(&["exec", "-i", "echo", "--", "wc", "-c"], &vec![b'x'; 1_000_000]).await?;
    ensure!(told.code == Some(0) && told.out == "1000000\n", "{told:?}");

    let folder = e2e::folder::Folder::new("versions")?;
    let (there, back) = (folder.join("there"), folder.join("back"));
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[usize::from(at % 3 == 0)]).collect();
    std::fs::write(&there, &content)?;
    let (there, back_path, below) = (there.to_string_lossy(), back.to_string_lossy(), format!("echo:/tmp/{number}"));
    kubectl.done(&["cp", "--retries=0", there.as_ref(), &below]).await?;
    kubectl.done(&["cp", "--retries=0", &below, back_path.as_ref()]).await?;
    ensure!(std::fs::read(&back)? == content, "the file comes back as another");

    let (_running, port) = forward(kubectl).await?;
    echo(port, content).await?;

    let mut attached = kubectl.start(&["attach", "-i", "echo"])?;
    let word = format!("word-{number}");
    attached.write(&word).await?;
    while attached.line().await? != format!("heard {word}") {}
    attached.kill().await?;
    eventually(PATIENCE, "it is in the log too", async || {
        let log = kubectl.done(&["logs", "echo", "--tail=1"]).await?;
        ensure!(log == format!("heard {word}\n"), "{log}");
        Ok(())
    })
    .await?;
    scene.world.pair.link.process().ensure_running()
}

/// All verbs with each of the clients, one after another: what one types the next must not read.
async fn test_all(name: &str, world: &World, clients: &[Client]) -> anyhow::Result<()> {
    let _peace = world.peace.read().await;
    within(world, name, async |scene| {
        let mut pod = world.pair.pod("echo", SCRIPT);
        pod["spec"]["containers"][0]["stdin"] = json!(true);
        pod["spec"]["containers"][0]["readinessProbe"] = json!({ "tcpSocket": { "port": 7000 }, "periodSeconds": 1 });
        scene.run(&pod).await?;
        for (number, client) in clients.iter().enumerate() {
            let kubectl = Kubectl::new(client, &world.pair.upper, scene.above.namespace());
            every_verb(scene, &kubectl, number).await.with_context(|| kubectl.name().to_owned())?;
        }
        Ok(())
    })
    .await
}

#[test]
fn kubectl_of_every_supported_version_has_every_verb() -> anyhow::Result<()> {
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let world = world().await?;
        let mut clients = Vec::new();
        for version in SUPPORTED {
            clients.extend([Client::new(version, true).await?, Client::new(version, false).await?]);
        }
        test_all("versions", world, &clients).await
    })
}

#[test]
fn every_verb_goes_through_clusters_of_the_oldest_version() -> anyhow::Result<()> {
    static OLDEST: OnceCell<World> = OnceCell::const_new();
    if !real_node::can_run() {
        return Ok(());
    }
    e2e::run(async {
        let clients = [("1.33", true), ("1.33", false), ("1.36", true), ("1.36", false)];
        let world = OLDEST.get_or_try_init(async || World::start("1.33", &clients).await).await?;
        test_all("oldest", world, &world.clients).await
    })
}
