// SPDX-License-Identifier: Apache-2.0
//! kubectl as a user runs it: one of several versions, with a transport, in one namespace.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::binaries;
use e2e::cluster::Cluster;
use e2e::pods::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// A kubectl and how it opens streams.
pub(crate) struct Client {
    name: String,
    program: PathBuf,
    /// WebSocket first, or SPDY only.
    websockets: bool,
}

impl Client {
    /// The kubectl of this minor version.
    pub(crate) async fn new(version: &str, websockets: bool) -> anyhow::Result<Self> {
        let transport = if websockets { "WebSocket" } else { "SPDY" };
        let name = format!("kubectl {version}, {transport}");
        Ok(Self { name, program: binaries::kubectl(version).await?, websockets })
    }
}

/// A client in one namespace of one cluster.
pub(crate) struct Kubectl<'a> {
    client: &'a Client,
    kubeconfig: PathBuf,
    namespace: String,
}

/// What a command wrote and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl<'a> Kubectl<'a> {
    pub(crate) fn new(client: &'a Client, cluster: &Cluster, namespace: &str) -> Self {
        Self { client, kubeconfig: cluster.kubeconfig(), namespace: namespace.to_owned() }
    }

    /// Version and transport, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.client.name
    }

    /// Whether it opens streams over WebSocket.
    pub(crate) fn is_websocket(&self) -> bool {
        self.client.websockets
    }

    /// Another process than the program itself, such as one that makes a terminal for it, gets these words to run it.
    pub(crate) fn words(&self, args: &[&str]) -> Vec<std::ffi::OsString> {
        let program = [self.client.program.clone().into_os_string()];
        let place = ["--kubeconfig".into(), self.kubeconfig.clone().into(), "--namespace".into()];
        let args = args.iter().map(Into::into);
        program.into_iter().chain(place).chain([self.namespace.clone().into()]).chain(args).collect()
    }

    /// Sets what decides the transport.
    pub(crate) fn set_transport(&self, command: &mut Command) {
        for part in ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"] {
            command.env(part, self.client.websockets.to_string());
        }
    }

    /// Starts it; all three streams are pipes.
    pub(crate) fn start(&self, args: &[&str]) -> anyhow::Result<Running> {
        let words = self.words(args);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.set_transport(&mut command);
        let mut child = command.spawn().context("cannot run kubectl")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().context("no output")?);
        let err = child.stderr.take().context("no error output")?;
        Ok(Running { stdin, out: BufReader::new(stdout).lines(), err: BufReader::new(err).lines(), child })
    }

    /// Runs it with this input to its end.
    pub(crate) async fn fed(&self, args: &[&str], input: &[u8]) -> anyhow::Result<Told> {
        let mut running = self.start(args)?;
        let mut stdin = running.stdin.take().context("no input")?;
        let write = async {
            // It may end without having read everything.
            stdin.write_all(input).await.ok();
            drop(stdin);
        };
        let (told, ()) = tokio::join!(running.told(), write);
        told.with_context(|| format!("{}: kubectl {}", self.name(), args.join(" ")))
    }

    /// Runs it to its end, without input.
    pub(crate) async fn tell(&self, args: &[&str]) -> anyhow::Result<Told> {
        self.fed(args, b"").await
    }

    /// Runs it to its end; an error unless it succeeds.
    pub(crate) async fn done(&self, args: &[&str]) -> anyhow::Result<String> {
        let told = self.tell(args).await?;
        ensure!(told.code == Some(0), "{}: kubectl {}: {told:?}", self.name(), args.join(" "));
        Ok(told.out)
    }
}

/// A kubectl that runs; killed on drop.
pub(crate) struct Running {
    pub(crate) stdin: Option<ChildStdin>,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
    child: Child,
}

impl Running {
    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        let line = timeout(PATIENCE, self.out.next_line()).await.context("no further line of output")??;
        match line {
            Some(line) => Ok(line),
            None => anyhow::bail!("its output ended: {:?}", self.err.next_line().await?),
        }
    }

    /// An error if anything comes, or it ends, within this time.
    pub(crate) async fn silent_for(&mut self, time: Duration) -> anyhow::Result<()> {
        match timeout(time, self.out.next_line()).await {
            Err(_) => Ok(()),
            Ok(line) => anyhow::bail!("it does not wait: {:?}", line?),
        }
    }

    /// Writes a line to its input.
    pub(crate) async fn write(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("its input is closed")?;
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(stdin.flush().await?)
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// How it ended, and what it wrote since the last line that was read.
    pub(crate) async fn told(self) -> anyhow::Result<Told> {
        let (code, out, err) = self.ended().await?;
        Ok(Told { code: code.code(), out: String::from_utf8(out)?, err: String::from_utf8(err)? })
    }

    /// The same as bytes.
    pub(crate) async fn ended(mut self) -> anyhow::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
        use tokio::io::AsyncReadExt as _;
        drop(self.stdin.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (mut reader, mut errors) = (self.out.into_inner(), self.err.into_inner());
        let all = async { tokio::try_join!(reader.read_to_end(&mut out), errors.read_to_end(&mut err)) };
        timeout(PATIENCE, all).await.context("kubectl does not end")??;
        let code = timeout(PATIENCE, self.child.wait()).await.context("kubectl does not end")??;
        Ok((code, out, err))
    }
}
