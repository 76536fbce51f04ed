// SPDX-License-Identifier: Apache-2.0
//! Commands in containers: exit codes, input, output, and what else kubectl builds on them.

use std::time::Duration;

use anyhow::ensure;
use e2e::pods::PATIENCE;
use e2e::real_node::BUSYBOX;
use e2e::wait::eventually;
use futures::future::try_join_all;

use super::test;

const SLEEP: &str = "exec sleep 1000000";
/// Longer than the kernel waits before it asks whether a silent peer lives.
const SILENCE: Duration = Duration::from_secs(31);

#[test]
fn a_command_gives_its_exit_code_and_both_outputs() -> anyhow::Result<()> {
    test("codes", async |scene| {
        scene.run_script("box", SLEEP).await?;
        for kubectl in scene.clients() {
            for (script, code, out, err) in [
                ("true", 0, "", ""),
                ("echo out; echo err >&2; exit 7", 7, "out\n", "err\n"),
                ("exit 255", 255, "", ""),
                ("kill -9 $$", 137, "", ""),
                ("echo 'a b' \"$0\" '#&?%2f ü'", 0, "a b sh #&?%2f ü\n", ""),
            ] {
                let told = kubectl.tell(&["exec", "box", "--", "sh", "-c", script]).await?;
                ensure!(told.code == Some(code) && told.out == out, "{}: {script}: {told:?}", kubectl.name());
                ensure!(told.err.starts_with(err), "{}: {script}: {told:?}", kubectl.name());
            }
            // What cannot be started is told in the words of the lower cluster.
            let absent: [&[&str]; 3] = [
                &["exec", "box", "--", "absent"],
                &["exec", "absent", "--", "id"],
                &["exec", "box", "-cabsent", "--", "id"],
            ];
            for args in absent {
                let (above, below) = (kubectl.tell(args).await?, scene.directly().tell(args).await?);
                ensure!(
                    above.code == below.code && above.code != Some(0),
                    "{}: {above:?}, below {below:?}",
                    kubectl.name()
                );
            }
        }
        Ok(())
    })
}

#[test]
fn input_ends_when_the_client_ends_it_and_the_output_goes_on() -> anyhow::Result<()> {
    test("input", async |scene| {
        scene.run_script("box", SLEEP).await?;
        let input: Vec<u8> =
            (0..3_000_000_u32).map(|number| u8::try_from(number * 7 % 251).unwrap_or_default()).collect();
        for kubectl in scene.clients() {
            // The count comes only after the end of the input was seen.
            let told =
                kubectl.fed(&["exec", "-i", "box", "--", "sh", "-c", "wc -c; sleep 1; echo late"], &input).await?;
            ensure!(told.code == Some(0) && told.out == "3000000\nlate\n", "{}: {told:?}", kubectl.name());
            let running = kubectl.start(&["exec", "box", "--", "seq", "1", "200000"])?;
            let (status, out, _) = running.ended().await?;
            let expected: Vec<u8> = (1..=200_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
            ensure!(status.success() && out == expected, "{}: {} bytes", kubectl.name(), out.len());
        }
        Ok(())
    })
}

#[test]
fn a_conversation_may_pause_for_longer_than_any_request_may_take() -> anyhow::Result<()> {
    test("idle", async |scene| {
        scene.run_script("box", SLEEP).await?;
        let mut open = Vec::new();
        for kubectl in scene.clients() {
            let mut running = kubectl.start(&["exec", "-i", "box", "--", "cat"])?;
            running.write("before").await?;
            ensure!(running.line().await? == "before");
            open.push((kubectl, running));
        }
        // For longer than the kernel waits before it looks whether a peer lives, towards either side. Hours pass in the
        // tests of the server and of the relay, whose clocks can be moved.
        try_join_all(open.iter_mut().map(|(_, running)| running.silent_for(SILENCE))).await?;
        for (kubectl, mut running) in open {
            running.write("after").await?;
            ensure!(running.line().await? == "after", "{}", kubectl.name());
            let told = running.told().await?;
            ensure!(told.code == Some(0), "{}: {told:?}", kubectl.name());
        }
        Ok(())
    })
}

#[test]
fn a_client_that_goes_away_ends_its_command_below() -> anyhow::Result<()> {
    test("gone", async |scene| {
        scene.run_script("box", SLEEP).await?;
        for kubectl in scene.clients() {
            let mut running = kubectl.start(&["exec", "-i", "box", "--", "sh", "-c", "echo here; exec cat"])?;
            ensure!(running.line().await? == "here");
            running.kill().await?;
            eventually(PATIENCE, "its command ends", async || {
                let processes = scene.directly().done(&["exec", "box", "--", "ps"]).await?;
                ensure!(!processes.lines().any(|line| line.ends_with(" cat")), "{processes}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    })
}

#[test]
fn a_debug_container_is_made_attached_and_has_a_log() -> anyhow::Result<()> {
    test("debug", async |scene| {
        scene.run_script("box", SLEEP).await?;
        for (number, kubectl) in scene.clients().enumerate() {
            let name = format!("debugger-{number}");
            let container = format!("--container={name}");
            let image = format!("--image={BUSYBOX}");
            let args = [
                "debug",
                "box",
                "-i",
                &container,
                &image,
                "--target=main",
                "--",
                "sh",
                "-c",
                // Over and over: a container runtime attaches to the input before it attaches to the output.
                "read -r word; while ! read -r -t 1 more; do echo got $word; sleep 1; done",
            ];
            let mut running = kubectl.start(&args)?;
            running.write("hello").await?;
            while running.line().await? != "got hello" {}
            running.write("bye").await?;
            ensure!(running.told().await?.code == Some(0), "{}", kubectl.name());
            let log = kubectl.done(&["logs", "box", "-c", &name]).await?;
            ensure!(!log.is_empty() && log.lines().all(|line| line == "got hello"), "{}: {log}", kubectl.name());
        }
        Ok(())
    })
}
