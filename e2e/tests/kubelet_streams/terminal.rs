// SPDX-License-Identifier: Apache-2.0
//! Terminals: `exec -it` from a real one, which changes its size.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use e2e::pods::PATIENCE;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use tokio::process::{Child, Command};

use super::kubectl::Kubectl;
use super::test;

/// A terminal with kubectl in it.
struct Terminal {
    master: OwnedFd,
    /// What appears on it, read by a thread: terminals are no sockets.
    seen: mpsc::Receiver<Vec<u8>>,
    screen: String,
    child: Child,
}

impl Terminal {
    fn start(kubectl: &Kubectl<'_>, args: &[&str]) -> anyhow::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        tcsetwinsize(&master, size(24, 80))?;
        let slave = rustix::fs::open(ptsname(&master, Vec::new())?, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        // A session of its own, with this terminal: the kernel tells its processes of new sizes.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).args(kubectl.words(args)).kill_on_drop(true);
        command
            .stdin(Stdio::from(slave.try_clone()?))
            .stdout(Stdio::from(slave.try_clone()?))
            .stderr(Stdio::from(slave));
        kubectl.set_transport(&mut command);
        let child = command.spawn().context("cannot run setsid")?;
        drop(command);
        let (sender, seen) = mpsc::channel();
        let mut reader = File::from(master.try_clone()?);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { master, seen, screen: String::new(), child })
    }

    fn resize(&self, rows: u16, columns: u16) -> anyhow::Result<()> {
        Ok(tcsetwinsize(&self.master, size(rows, columns))?)
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let written = rustix::io::write(&self.master, text.as_bytes())?;
        ensure!(written == text.len(), "{written} of {} bytes", text.len());
        Ok(())
    }

    /// Reads until `text` appears; forgets what came before its end.
    fn until(&mut self, text: &str) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.screen.find(text) {
                self.screen.drain(..at + text.len());
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.seen.recv_timeout(left) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => bail!("{text:?} does not appear: {:?}", self.screen),
            }
        }
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

#[test]
fn a_terminal_has_its_size_below_and_changes_it() -> anyhow::Result<()> {
    test("terminal", async |scene| {
        scene.run_script("box", "exec sleep 1000000").await?;
        for kubectl in scene.clients() {
            // Sizes come a moment after the start and after a change; what is said is not what is typed.
            let script = "until_size() { until [ \"$(stty size 2>/dev/null)\" = \"$1\" ]; do sleep 0.1; done; }; tty; \
                          until_size '24 80'; echo first 24 80; read -r line; echo \"<$line>\"; \
                          until_size '50 132'; echo now 50 132; read -r line; exit 3";
            let mut terminal = Terminal::start(&kubectl, &["exec", "-it", "box", "--", "sh", "-c", script])?;
            let talk = tokio::task::block_in_place(|| {
                terminal.until("/dev/pts/")?;
                terminal.until("first 24 80")?;
                terminal.write("hello\r")?;
                terminal.until("<hello>")?;
                terminal.resize(50, 132)?;
                terminal.until("now 50 132")?;
                terminal.write("end\r")
            });
            talk.with_context(|| kubectl.name().to_owned())?;
            let status =
                tokio::time::timeout(PATIENCE, terminal.child.wait()).await.context("kubectl does not end")??;
            ensure!(status.code() == Some(3), "{}: {status}", kubectl.name());
        }
        Ok(())
    })
}

#[test]
fn a_terminal_joins_the_first_process_of_a_container() -> anyhow::Result<()> {
    test("joined", async |scene| {
        let script = "until_size() { until [ \"$(stty size 2>/dev/null)\" = \"$1\" ]; do sleep 0.1; done; }; \
                      until_size '24 80'; echo first 24 80; read -r line; echo \"<$line>\"; \
                      until_size '50 132'; echo now 50 132; read -r line; exit 0";
        for (number, kubectl) in scene.clients().enumerate() {
            // One container for each: it ends with the conversation.
            let name = format!("box-{number}");
            let mut pod = scene.world.pair.pod(&name, script);
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["containers"][0]["stdin"] = json!(true);
            pod["spec"]["containers"][0]["tty"] = json!(true);
            scene.run(&pod).await?;
            let mut terminal = Terminal::start(&kubectl, &["attach", "-it", &name])?;
            let talk = tokio::task::block_in_place(|| {
                terminal.until("first 24 80")?;
                terminal.write("hello\r")?;
                terminal.until("<hello>")?;
                terminal.resize(50, 132)?;
                terminal.until("now 50 132")?;
                terminal.write("end\r")
            });
            talk.with_context(|| kubectl.name().to_owned())?;
            let status =
                tokio::time::timeout(PATIENCE, terminal.child.wait()).await.context("kubectl does not end")??;
            ensure!(status.success(), "{}: {status}", kubectl.name());
            scene.above.until_phase(&name, "Succeeded").await?;
        }
        Ok(())
    })
}
