//! The first process of a container, joined while it runs.

use anyhow::ensure;
use serde_json::json;

use super::test;

#[test]
fn what_is_typed_into_a_running_container_reaches_its_first_process() -> anyhow::Result<()> {
    test("attach", async |scene| {
        let mut pod = scene
            .world
            .pair
            .pod("echo", "while read -r line; do echo heard $line; echo whispered $line >&2; done; exec sleep 1000000");
        pod["spec"]["containers"][0]["stdin"] = json!(true);
        scene.run(&pod).await?;
        for (number, kubectl) in scene.clients().enumerate() {
            let mut running = kubectl.start(&["attach", "-i", "echo"])?;
            // Only what comes after the joining is seen; a first line may go by before it.
            let word = format!("word-{number}");
            running.write(&word).await?;
            while running.line().await? != format!("heard {word}") {}
            running.kill().await?;
        }
        let log = scene.kubectl().done(&["logs", "echo"]).await?;
        ensure!(log.contains("heard word-0\n") && log.contains("whispered word-2\n"), "{log}");
        Ok(())
    })
}
