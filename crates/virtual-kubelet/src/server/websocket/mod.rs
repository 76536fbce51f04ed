// SPDX-License-Identifier: Apache-2.0
//! Containers of a backend that gives bytes, and knows no protocol of Kubernetes: this speaks WebSocket for it.
//!
//! [`OverWebSocket`] turns a [`ContainerStreams`] into the [`ContainerIo`] that the server asks: what it hands back as the
//! backend's end of an upgrade is a session of this process. Its messages are framed by tungstenite; what they mean is in
//! `channels`, purely.
//!
//! SPDY is not spoken. An API server reaches such a node with WebSocket only if the Node declares [`WEBSOCKET_FEATURE`].

mod channels;
mod exec;
mod forward;
mod handshake;
mod run;
mod session;

use std::{error::Error, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, duplex},
    sync::watch,
};

use super::{
    ByteStream, ContainerIo, Duplex, IoError, UpgradeRequest, UpgradeTarget, Upgraded,
    options::{LogOptions, Streams},
};
use crate::pod::PodId;

pub use channels::TerminalSize;

/// What the Node has to declare in `status.declaredFeatures`, so that API servers from 1.36 relay WebSocket to it instead
/// of translating it to SPDY. The list there has to be sorted.
pub const WEBSOCKET_FEATURE: &str = "ExtendWebSocketsToKubelet";

/// What a pipe between a session and its process, and between a session and its connection, holds.
const PIPE: usize = 16 * 1024;

/// A running process: its exit code, or why there is none. Dropping it has to end what it stands for: its client is gone.
pub type Process = BoxFuture<'static, Result<i32, Box<dyn Error + Send + Sync>>>;

/// The containers of a backend, as streams of bytes.
///
/// The server has authenticated and authorized the caller, found the pod among those of this node and compared the UID.
/// Whether the container exists is for the provider to say: an error becomes the answer to the request. Once a method has
/// succeeded, the client is told yes, and errors go into the stream.
pub trait ContainerStreams: Send + Sync + 'static {
    /// As [`ContainerIo::logs`].
    fn logs(
        &self,
        pod: &PodId,
        container: &str,
        options: &LogOptions,
    ) -> impl Future<Output = Result<ByteStream, IoError>> + Send {
        let _ = (pod, container, options);
        async { Err(IoError::Unsupported("logs")) }
    }

    /// Starts `command` in a container.
    fn exec(
        &self,
        pod: &PodId,
        container: &str,
        command: &[String],
        stdio: Stdio,
    ) -> impl Future<Output = Result<Process, IoError>> + Send {
        let _ = (pod, container, command, stdio);
        async { Err(IoError::Unsupported("exec")) }
    }

    /// Joins the first process of a container, which goes on when the client leaves.
    fn attach(
        &self,
        pod: &PodId,
        container: &str,
        stdio: Stdio,
    ) -> impl Future<Output = Result<Process, IoError>> + Send {
        let _ = (pod, container, stdio);
        async { Err(IoError::Unsupported("attach")) }
    }

    /// Connects to a port of a pod.
    fn forward(&self, pod: &PodId, port: u16) -> impl Future<Output = Result<Box<dyn Duplex>, IoError>> + Send {
        let _ = (pod, port);
        async { Err(IoError::Unsupported("port-forward")) }
    }
}

/// The streams of a process; those that the client asked for.
pub struct Stdio {
    /// Ends when the client closes it.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// The client is told that the process has ended when this and `stderr` were dropped.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Never with a terminal.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// The process wants a terminal, ...
    pub tty: bool,
    /// ... of this size, as soon as the client has told one.
    pub size: watch::Receiver<Option<TerminalSize>>,
}

/// The session's ends of a [`Stdio`].
struct Ends {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    size: watch::Sender<Option<TerminalSize>>,
}

fn stdio(streams: Streams) -> (Stdio, Ends) {
    let pipe = |wanted: bool| wanted.then(|| duplex(PIPE)).unzip();
    let (stdin, to_stdin) = pipe(streams.stdin);
    let (stdout, from_stdout) = pipe(streams.stdout);
    let (stderr, from_stderr) = pipe(streams.stderr);
    let (to_size, size) = watch::channel(None);
    let given = Stdio {
        stdin: stdin.map(|end| Box::new(end) as Box<_>),
        stdout: stdout.map(|end| Box::new(end) as Box<_>),
        stderr: stderr.map(|end| Box::new(end) as Box<_>),
        tty: streams.tty,
        size,
    };
    (given, Ends { stdin: to_stdin, stdout: from_stdout, stderr: from_stderr, size: to_size })
}

/// Speaks WebSocket for a provider.
pub struct OverWebSocket<P>(Arc<P>);

impl<P> OverWebSocket<P> {
    /// For this provider.
    pub fn new(provider: Arc<P>) -> Self {
        Self(provider)
    }
}

impl<P: ContainerStreams> ContainerIo for OverWebSocket<P> {
    async fn logs(&self, pod: &PodId, container: &str, options: &LogOptions) -> Result<ByteStream, IoError> {
        self.0.logs(pod, container, options).await
    }

    async fn run(&self, pod: &PodId, container: &str, command: &[String]) -> Result<Bytes, IoError> {
        let (stdio, ends) = stdio(Streams { stdin: false, stdout: true, stderr: true, tty: false });
        let process = self.0.exec(pod, container, command, stdio).await?;
        run::collect(ends, process).await
    }

    /// The session ends with the returned stream: a task of its own, because a client reads and writes when it likes.
    async fn relay(&self, request: UpgradeRequest) -> Result<Upgraded, IoError> {
        let (protocol, headers) = handshake::accept(&request)?;
        let (near, far) = duplex(PIPE);
        let pod = request.pod;
        match request.target {
            UpgradeTarget::Exec { container, command, streams } => {
                let (stdio, ends) = stdio(streams);
                let process = self.0.exec(&pod, &container, &command, stdio).await?;
                tokio::spawn(exec::run(far, protocol, ends, process));
            }
            UpgradeTarget::Attach { container, streams } => {
                let (stdio, ends) = stdio(streams);
                let process = self.0.attach(&pod, &container, stdio).await?;
                tokio::spawn(exec::run(far, protocol, ends, process));
            }
            UpgradeTarget::PortForward { ports } => {
                let forward = forward::open(&*self.0, &pod, &ports).await?;
                tokio::spawn(forward::run(far, forward));
            }
        }
        Ok(Upgraded { headers, stream: Box::new(near) })
    }
}

#[cfg(test)]
mod tests;
