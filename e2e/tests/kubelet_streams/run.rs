// SPDX-License-Identifier: Apache-2.0
//! `/run`: a command without a session, answered with what it wrote.

use anyhow::ensure;
use http::Request;
use kube::client::Body;

use super::straight::{kubelets, told};
use super::test;

/// Leaves scripts behind: the command of a run has no quotes.
const SCRIPTS: &str = "echo 'echo out; echo err >&2' >/tmp/both; echo 'echo begun; exit 7' >/tmp/fails; \
                       echo 'yes | head -c 1100000' >/tmp/long; echo written; exec sleep 1000000";

#[test]
fn a_command_that_is_run_gives_what_the_real_kubelet_gives() -> anyhow::Result<()> {
    test("run", async |scene| {
        let mut pod = scene.world.pair.pod("box", SCRIPTS);
        pod["spec"]["containers"][0]["readinessProbe"] =
            serde_json::json!({ "exec": { "command": ["cat", "/tmp/long"] }, "periodSeconds": 1 });
        scene.run(&pod).await?;
        let (above, below) = kubelets(scene).await?;
        let run = async |client: &kube::Client, at: &str, command: &str| {
            let path = format!("/run/{}/{at}?cmd={command}", scene.above.namespace());
            told(client, Request::post(path).body(Body::empty())?).await
        };
        for (at, command, status, output) in [
            ("box/main", "echo+a++b", 200, Some("a  b\n")),
            ("box/main", "sh+/tmp/both", 200, None),
            ("box/main", "true", 200, Some("")),
            ("box/main", "sh+/tmp/fails", 500, None),
            ("box/main", "absent", 500, None),
            ("absent/main", "id", 404, None),
        ] {
            let (ours, real) = (run(&above, at, command).await?, run(&below, at, command).await?);
            ensure!(ours.0 == status && real.0 == status, "{at} {command}: {ours:?}, the real kubelet says {real:?}");
            if let Some(output) = output {
                ensure!(
                    ours.1 == output && real.1 == output,
                    "{at} {command}: {ours:?}, the real kubelet says {real:?}"
                );
            }
        }
        // Both outputs, in the order in which they come.
        let (_, both) = run(&above, "box/main", "sh+/tmp/both").await?;
        ensure!(both == "out\nerr\n" || both == "err\nout\n", "{both}");
        let (_, words) = run(&above, "box/main", "sh+/tmp/fails").await?;
        ensure!(words.contains("exit code 7"), "{words}");
        // It is held whole, so it has an end.
        let (status, words) = run(&above, "box/main", "sh+/tmp/long").await?;
        ensure!(status == 500 && words.contains("longer than 1 MiB"), "{status} {words}");
        Ok(())
    })
}
