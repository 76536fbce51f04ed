// SPDX-License-Identifier: Apache-2.0
//! The first process of a container, joined while it runs.

use anyhow::ensure;
use e2e::pods::PATIENCE;
use e2e::wait::eventually;
use serde_json::json;

use super::test;

#[test]
fn what_is_typed_into_a_running_container_reaches_its_first_process() -> anyhow::Result<()> {
    test("attach", async |scene| {
        // Over and over: a container runtime attaches to the input before it attaches to the output.
        let script = "while sleep 0.2; do read -r -t 1 line && word=$line; \
                      [ -z \"$word\" ] || { echo heard $word; echo whispered $word >&2; }; done";
        let mut pod = scene.world.pair.pod("echo", script);
        pod["spec"]["containers"][0]["stdin"] = json!(true);
        scene.run(&pod).await?;
        for (number, kubectl) in scene.clients().enumerate() {
            let mut running = kubectl.start(&["attach", "-i", "echo"])?;
            let word = format!("word-{number}");
            running.write(&word).await?;
            while running.line().await? != format!("heard {word}") {}
            running.kill().await?;
        }
        eventually(PATIENCE, "both outputs are in the log too", async || {
            let log = scene.kubectl().done(&["logs", "echo"]).await?;
            ensure!(log.contains("heard word-0\n") && log.contains("whispered word-2\n"), "{log}");
            Ok(())
        })
        .await
    })
}
