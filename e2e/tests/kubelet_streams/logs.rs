// SPDX-License-Identifier: Apache-2.0
//! Logs, with every option.

use anyhow::{Context as _, ensure};
use e2e::pods::{PATIENCE, with};
use e2e::real_node::BUSYBOX;
use e2e::wait::eventually;
use futures::AsyncReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use serde_json::json;
use tokio::time::timeout;

use super::{Scene, test};

/// Seconds between the two outputs, which are read one beside the other below, and before the last lines, so that a time
/// between them is not ambiguous.
const FIVE_LINES: &str = "for line in 1 2 3; do echo line $line; done; sleep 2; echo to stderr >&2; sleep 2; \
                          for line in 4 5; do echo line $line; done; exec sleep 1000000";

/// Waits until the log of the pod's container below has these words.
async fn until_written(scene: &Scene<'_>, name: &str, container: &str, words: &str) -> anyhow::Result<()> {
    eventually(PATIENCE, &format!("{container} of {name} wrote {words:?}"), async || {
        let log = scene.directly().done(&["logs", name, "-c", container]).await?;
        ensure!(log.contains(words), "{log}");
        Ok(())
    })
    .await
}

/// The lines of some containers' logs: kubectl shows the containers in any order.
fn sorted(log: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_option_of_a_log_gives_what_the_lower_cluster_gives() -> anyhow::Result<()> {
    test("logs", async |scene| {
        let init = json!([{ "name": "init", "image": BUSYBOX, "command": ["sh", "-c", "echo prepared"] }]);
        let mut pod = with(scene.world.pair.pod("writer", FIVE_LINES), json!({ "spec": { "initContainers": init } }));
        let second =
            json!({ "name": "second", "image": BUSYBOX, "command": ["sh", "-c", "echo beside; exec sleep 1000000"] });
        pod["spec"]["containers"].as_array_mut().context("no containers")?.push(second);
        scene.run(&pod).await?;
        until_written(scene, "writer", "main", "line 5").await?;
        until_written(scene, "writer", "second", "beside").await?;
        // Until what was written is older than the shortest age that is asked for: two answers could lie on its two sides.
        eventually(PATIENCE, "the last second is empty", async || {
            let log = scene.directly().done(&["logs", "writer", "-c", "main", "--since=1s"]).await?;
            ensure!(log.is_empty(), "{log}");
            Ok(())
        })
        .await?;
        let stamped = scene.directly().done(&["logs", "writer", "-c", "main", "--timestamps"]).await?;
        let fourth = stamped.lines().find(|line| line.ends_with("line 4")).context("no line 4")?;
        let (time, _) = fourth.split_once(' ').context("no time")?;
        let since = format!("--since-time={}Z", &time[..19]);

        for kubectl in scene.clients() {
            for options in [
                "",
                "--tail=0",
                "--tail=2",
                "--tail=100",
                "--limit-bytes=1",
                "--limit-bytes=9",
                "--timestamps",
                "--since=1h",
                "--since=1s",
                since.as_str(),
                "-c init",
                "-c second",
                "-c absent",
                "--all-containers --prefix",
                "--all-containers --timestamps --tail=1",
                "--previous",
                "--tail=-2",
                "--limit-bytes=0",
            ] {
                let container = if options.contains("-c ") || options.contains("--all") { "" } else { "-c main" };
                let args: Vec<&str> = "logs writer"
                    .split(' ')
                    .chain(container.split(' '))
                    .chain(options.split(' '))
                    .filter(|word| !word.is_empty())
                    .collect();
                let (above, below) = (kubectl.tell(&args).await?, scene.directly().tell(&args).await?);
                ensure!(
                    above.code == below.code && sorted(&above.out) == sorted(&below.out),
                    "{}: {args:?}: {above:?}, below {below:?}",
                    kubectl.name()
                );
            }
            let log = async |options: &[&str]| {
                kubectl.done(&[["logs", "writer", "-c", "main"].as_slice(), options].concat()).await
            };
            ensure!(log(&["--tail=0"]).await?.is_empty());
            ensure!(log(&["--tail=2"]).await? == "line 4\nline 5\n");
            ensure!(log(&["--limit-bytes=9"]).await? == "line 1\nli");
            ensure!(log(&[since.as_str()]).await? == "line 4\nline 5\n");
            ensure!(log(&["--timestamps"]).await? == stamped);
        }
        Ok(())
    })
}

#[test]
fn the_log_of_the_container_before_the_restart_is_kept() -> anyhow::Result<()> {
    test("previous", async |scene| {
        let script =
            "[ -e /kept/once ] && { echo second life; exec sleep 1000000; }; touch /kept/once; echo first life; exit 1";
        let mut pod = scene.world.pair.pod("restarts", script);
        pod["spec"]["volumes"] = json!([{ "name": "kept", "emptyDir": {} }]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "kept", "mountPath": "/kept" }]);
        scene.above.create(&pod).await?;
        scene
            .above
            .until("restarts", "has restarted", |pod| {
                let status = &pod["status"]["containerStatuses"][0];
                status["restartCount"] == 1 && status["ready"] == true
            })
            .await?;
        for kubectl in scene.clients() {
            ensure!(kubectl.done(&["logs", "restarts", "--previous"]).await? == "first life\n", "{}", kubectl.name());
            ensure!(kubectl.done(&["logs", "restarts"]).await? == "second life\n", "{}", kubectl.name());
        }
        Ok(())
    })
}

#[test]
fn a_followed_log_shows_each_line_as_it_is_written_and_ends_with_its_container() -> anyhow::Result<()> {
    test("follow", async |scene| {
        // It writes what it is told to, one line at a time.
        let script = "mkfifo /tmp/lines; echo begun; while read -r line </tmp/lines; do [ $line = end ] && exit 0; echo $line; done";
        let mut pod = scene.world.pair.pod("writer", script);
        pod["spec"]["restartPolicy"] = json!("Never");
        scene.run(&pod).await?;
        let mut followers = Vec::new();
        for kubectl in scene.clients() {
            followers.push(kubectl.start(&["logs", "-f", "writer"])?);
        }
        for follower in &mut followers {
            ensure!(follower.line().await? == "begun");
        }
        for line in ["one", "two"] {
            scene.directly().done(&["exec", "writer", "--", "sh", "-c", &format!("echo {line} >/tmp/lines")]).await?;
            for follower in &mut followers {
                ensure!(follower.line().await? == line);
            }
        }
        // The container may end before the command that ends it does: then that is killed with it.
        scene.directly().tell(&["exec", "writer", "--", "sh", "-c", "echo end >/tmp/lines"]).await?;
        for follower in followers {
            let told = follower.told().await?;
            ensure!(told.code == Some(0) && told.out.is_empty(), "{told:?}");
        }
        Ok(())
    })
}

#[test]
fn a_follower_that_goes_away_ends_the_stream_below() -> anyhow::Result<()> {
    test("gone", async |scene| {
        scene.run_script("writer", "echo begun; exec sleep 1000000").await?;
        // A followed log is in the audit log when it has ended.
        let ended = || {
            let audit = scene.world.pair.lower.audit()?.by("tensile-virtual-node/");
            let logs = format!("/namespaces/{}/pods/writer/log", scene.above.namespace());
            let is_ours = |uri: &str| uri.contains(&logs) && uri.contains("follow=true");
            anyhow::Ok(audit.requests.iter().filter(|request| is_ours(&request.request_uri)).count())
        };
        for (before, kubectl) in scene.clients().enumerate() {
            let mut follower = kubectl.start(&["logs", "-f", "writer"])?;
            ensure!(follower.line().await? == "begun");
            ensure!(ended()? == before, "it ended by itself");
            follower.kill().await?;
            eventually(PATIENCE, "the lower API server has ended the stream", async || {
                ensure!(ended()? == before + 1);
                Ok(())
            })
            .await?;
        }
        Ok(())
    })
}

#[test]
fn followers_share_connections_and_none_is_held_up_by_another() -> anyhow::Result<()> {
    test("shared", async |scene| {
        scene.run_script("writer", "echo begun; exec sleep 1000000").await?;
        let process = scene.world.pair.link.process().id();
        let files = || anyhow::Ok(std::fs::read_dir(format!("/proc/{process}/fd"))?.count());
        let before = files()?;
        let pods: Api<Pod> = Api::namespaced(scene.world.pair.upper.client(), scene.above.namespace());
        let mut followers = Vec::new();
        // More than share one connection; each kubelet has a limit of 128, for all tests.
        for _ in 0..66 {
            let mut log = pods.log_stream("writer", &LogParams { follow: true, ..LogParams::default() }).await?;
            let mut line = [0; 6];
            timeout(PATIENCE, log.read_exact(&mut line)).await.context("a log says nothing")??;
            ensure!(&line == b"begun\n", "{line:?}");
            followers.push(log);
        }
        // Both connections of each would be 132; other tests have theirs.
        let more = files()?.saturating_sub(before);
        ensure!(more < 66, "{} followers have {more} connections", followers.len());
        Ok(())
    })
}

#[test]
fn each_output_of_a_container_can_be_read_alone() -> anyhow::Result<()> {
    test("outputs", async |scene| {
        scene.run_script("writer", "echo out; echo err >&2; echo out again; exec sleep 1000000").await?;
        // The two outputs are read one beside the other.
        for words in ["out again", "err"] {
            until_written(scene, "writer", "main", words).await?;
        }
        let path = format!("/api/v1/namespaces/{}/pods/writer/log", scene.above.namespace());
        let pair = &scene.world.pair;
        for (query, expected) in
            [("stream=Stdout", "out\nout again\n"), ("stream=Stderr", "err\n"), ("stream=Stdout&limitBytes=2", "ou")]
        {
            for cluster in [&pair.upper, &pair.lower] {
                let request = http::Request::get(format!("{path}?container=main&{query}")).body(Vec::new())?;
                let log = cluster.client().request_text(request).await?;
                ensure!(log == expected, "{query} in {}: {log}", cluster.name());
            }
        }
        let request = http::Request::get(format!("{path}?container=main&stream=All")).body(Vec::new())?;
        ensure!(sorted(&pair.upper.client().request_text(request).await?) == ["err", "out", "out again"]);
        Ok(())
    })
}
