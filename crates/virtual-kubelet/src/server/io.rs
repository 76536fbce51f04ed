// SPDX-License-Identifier: Apache-2.0
//! What an author of a provider writes to give containers' output and streams.

use std::{error::Error, fmt, future::Future};

use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::options::{LogOptions, Streams};
use crate::pod::PodId;

/// Bytes as they come. An error ends the response in a way the client can tell from its end.
pub type ByteStream = BoxStream<'static, Result<Bytes, Box<dyn Error + Send + Sync>>>;

/// The output and the streams of containers.
///
/// The server has authenticated and authorized the caller, found the pod among those of this node and compared the UID.
/// Whether the container exists is for the provider to say. They may run for hours; a caller that went away drops
/// the future, or what it returned, and everything it holds has to end with it.
pub trait ContainerIo: Send + Sync + 'static {
    /// The output of a container, with every option applied. Nothing should be held back: the client sees each chunk
    /// as it is yielded, and the next is asked for only when the client has taken the one before.
    fn logs(
        &self,
        pod: &PodId,
        container: &str,
        options: &LogOptions,
    ) -> impl Future<Output = Result<ByteStream, IoError>> + Send {
        let _ = (pod, container, options);
        async { Err(IoError::Unsupported("logs")) }
    }

    /// Runs a command to its end and gives what it wrote, as a whole.
    fn run(
        &self,
        pod: &PodId,
        container: &str,
        command: &[String],
    ) -> impl Future<Output = Result<Bytes, IoError>> + Send {
        let _ = (pod, container, command);
        async { Err(IoError::Unsupported("run")) }
    }

    /// Opens exec, attach or port-forward at a backend that speaks the same protocols: the request's upgrade is made there
    /// too, and from then on the server carries bytes in both directions without reading them.
    fn relay(&self, request: UpgradeRequest) -> impl Future<Output = Result<Upgraded, IoError>> + Send {
        let target = request.target.name();
        async move { Err(IoError::Unsupported(target)) }
    }
}

/// A request to turn an HTTP connection into streams.
#[derive(Clone, Debug)]
pub struct UpgradeRequest {
    /// The pod.
    pub pod: PodId,
    /// What is opened.
    pub target: UpgradeTarget,
    /// GET (WebSocket) or POST (SPDY).
    pub method: Method,
    /// What the protocol needs: `Connection`, `Upgrade`, the versions on offer, the WebSocket key. Never who asks.
    pub headers: HeaderMap,
}

/// What streams lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeTarget {
    /// A new process.
    Exec {
        /// In this container.
        container: String,
        /// Program and arguments.
        command: Vec<String>,
        /// Its streams.
        streams: Streams,
    },
    /// The container's first process.
    Attach {
        /// The container.
        container: String,
        /// Its streams.
        streams: Streams,
    },
    /// Ports of the pod.
    PortForward {
        /// Only an old WebSocket protocol names them here; empty for the others.
        ports: Vec<u16>,
    },
}

impl UpgradeTarget {
    /// What it is called in messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Exec { .. } => "exec",
            Self::Attach { .. } => "attach",
            Self::PortForward { .. } => "port-forward",
        }
    }
}

/// A connection after its upgrade.
pub struct Upgraded {
    /// Of the 101: the protocol that was agreed on.
    pub headers: HeaderMap,
    /// Raw bytes of that protocol.
    pub stream: Box<dyn Duplex>,
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// A connection's two directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Why there are no streams.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// 404: there is no such pod or container.
    #[error("{0}")]
    NotFound(String),
    /// 501: this provider does not have it.
    #[error("this node does not support {0}")]
    Unsupported(&'static str),
    /// The backend's own refusal, passed on.
    #[error("{message}")]
    Refused {
        /// Its status, an error.
        status: StatusCode,
        /// Its words.
        message: String,
    },
    /// 502: the backend does not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl IoError {
    /// The status the client gets.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Refused { status, .. } => *status,
            Self::Unavailable(_) => StatusCode::BAD_GATEWAY,
        }
    }
}
