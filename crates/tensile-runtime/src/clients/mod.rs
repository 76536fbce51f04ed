// SPDX-License-Identifier: Apache-2.0
//! Clients of the upper and the lower API server: lean, rate-limited, and clear about what is wrong.
//!
//! kube's own stack is replaced by a leaner one with the same authentication: no retries (the services' queues decide
//! when to try again, and what a 429 means for them), no compression (clusters are near, CPU is dear), no span per
//! request, `TCP_NODELAY`, large reads where much comes, and kernel keep-alives, which find a dead peer under an idle watch
//! without a timer of ours.

mod access;
mod error;
mod foreign;
mod probe;
mod rate;
mod read_ahead;
mod timeout;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tower::util::MapResponse;
use tower::{BoxError, ServiceBuilder};

use read_ahead::ReadAhead;

pub use access::{Permission, require, wait_for_upper};
pub use error::ClientError;
pub use probe::{OLDEST_MINOR, ProbeError, ServerVersion, TESTED_MINOR, probe};
pub use rate::{RateLimit, RateLimitLayer, TokenBucket};
pub use timeout::{NoAnswer, ResponseTimeout, ResponseTimeoutLayer};

/// A TCP connection is made within this, or the address counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The head of a response comes within this. An API server ends its own work after 60 s (`--request-timeout`).
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);
/// Silence on a connection before the kernel asks whether the peer lives; the watches are silent for minutes.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
/// Time between the kernel's questions.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// Unanswered questions after which the connection is dead: half a minute in all.
const KEEPALIVE_TRIES: u32 = 3;
/// Sent bytes are acknowledged within this, or the connection is dead.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);
/// An idle pooled connection is closed after this; API servers keep theirs for longer.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// As much comes of an answer over a shared connection before it is read, in bytes.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same of all of them: who does not read holds up nobody else.
const CONNECTION_WINDOW: u32 = 100 * STREAM_WINDOW;

/// Where a client gets its address and identity, and how hard it may press.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientSource {
    /// Kubeconfig file; without one, the service account of the pod this runs in.
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig; without one, its current context.
    pub context: Option<String>,
    /// Requests per second in the long run; 0 for no limit.
    pub qps: f32,
    /// Requests at once; at least 1 when there is a limit.
    pub burst: u32,
    /// Value of the `User-Agent` header, by which audit logs and API priority know us.
    pub user_agent: String,
    /// Whether requests share one connection where the server speaks HTTP/2.
    pub shared: bool,
}

impl ClientSource {
    /// The source for service `component` (such as `virtual-node`), without a rate limit.
    pub fn new(component: &str, kubeconfig: Option<PathBuf>) -> Self {
        let user_agent = user_agent(component);
        Self { kubeconfig, context: None, qps: 0.0, burst: 0, user_agent, shared: false }
    }

    /// The same with another context.
    #[must_use]
    pub fn context(self, context: Option<String>) -> Self {
        Self { context, ..self }
    }

    /// The same with a rate limit: `qps` requests a second, `burst` at once; `qps` 0 for none.
    #[must_use]
    pub fn limit(self, qps: f32, burst: u32) -> Self {
        Self { qps, burst, ..self }
    }

    /// The same for many answers that go on for hours and are mostly silent, such as followed logs: they share one connection
    /// where the server speaks HTTP/2. Of an answer that is not read, no more than 64 KiB come. A server allows only so many at
    /// once (API servers 100, `--http2-max-streams-per-connection`); those beyond wait without a word.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    /// The address of the API server.
    ///
    /// # Errors
    ///
    /// As [`connect`].
    pub async fn server(&self) -> Result<String, ClientError> {
        Ok(self.config().await?.cluster_url.to_string())
    }

    async fn config(&self) -> Result<Config, ClientError> {
        match &self.kubeconfig {
            None => Config::incluster().map_err(|error| ClientError::NotInCluster { detail: error.to_string() }),
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path).map_err(|error| ClientError::kubeconfig(path, error))?;
                self.of_kubeconfig(path, kubeconfig).await
            }
        }
    }

    async fn of_kubeconfig(&self, path: &Path, kubeconfig: Kubeconfig) -> Result<Config, ClientError> {
        let context = self.context.clone().or_else(|| kubeconfig.current_context.clone());
        let known = kubeconfig.contexts.iter().map(|named| named.name.clone()).collect();
        let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| ClientError::context(path, context, known, error))
    }

    fn complete(&self, mut config: Config) -> Result<Config, ClientError> {
        if config.cluster_url.scheme_str() == Some("http") {
            // No certificate is ever checked; without this, a machine with no CA bundle could make no client at all.
            config.root_cert.get_or_insert_default();
        }
        let agent = HeaderValue::from_str(&self.user_agent)
            .map_err(|_| ClientError::UserAgent { given: self.user_agent.clone() })?;
        config.headers.push((USER_AGENT, agent));
        Ok(config)
    }
}

impl fmt::Display for ClientSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kubeconfig, &self.context) {
            (None, _) => f.write_str("the service account of this pod"),
            (Some(path), None) => write!(f, "kubeconfig {}", path.display()),
            (Some(path), Some(context)) => write!(f, "kubeconfig {}, context {context}", path.display()),
        }
    }
}

/// `tensile-COMPONENT/VERSION`.
pub fn user_agent(component: &str) -> String {
    format!("tensile-{component}/{}", env!("CARGO_PKG_VERSION"))
}

/// Makes the one cryptography provider of this process the default.
///
/// Safe to call more than once; [`connect`] and [`crate::tls`] do.
pub fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing a race is fine: the winner installs the same provider.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    }
}

/// A client as `source` says. Reads files, sends nothing: an API server that is away is found by [`probe`].
///
/// # Errors
///
/// What is wrong with the kubeconfig, its files, or the service account, in one sentence that names it.
pub async fn connect(source: &ClientSource) -> Result<Client, ClientError> {
    install_crypto();
    client(source, source.config().await?)
}

/// A client of another HTTP server than an API server: one that answers below `url`, such as a metric store. Trusts the
/// system's authorities; sends nothing yet.
///
/// # Errors
///
/// When the system's authorities cannot be read.
pub fn connect_url(url: &Uri) -> Result<Client, kube::Error> {
    install_crypto();
    let mut config = Config::new(url.clone());
    if url.scheme_str() == Some("http") {
        // No certificate is ever checked.
        config.root_cert.get_or_insert_default();
    }
    Client::try_from(config)
}

/// As [`connect`], with the text of a kubeconfig that somebody else wrote; errors call it `name`. What is in it may open
/// connections and nothing else: a file that it names, or a program, is an error.
///
/// # Errors
///
/// As [`connect`].
pub async fn connect_foreign(source: &ClientSource, name: &str, text: &str) -> Result<Client, ClientError> {
    install_crypto();
    let name = Path::new(name);
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| ClientError::kubeconfig(name, error))?;
    if let Some(what) = foreign::reaches_for(&kubeconfig) {
        let detail = format!("it names {what}: give the data itself");
        return Err(ClientError::Entry { path: name.to_owned(), detail });
    }
    let source = ClientSource { kubeconfig: Some(name.to_owned()), ..source.clone() };
    client(&source, source.of_kubeconfig(name, kubeconfig).await?)
}

fn client(source: &ClientSource, config: Config) -> Result<Client, ClientError> {
    let config = source.complete(config)?;
    let refused = |error: kube::Error| ClientError::credentials(source, error);

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(KEEPALIVE_EVERY));
    tcp.set_keepalive_retries(Some(KEEPALIVE_TRIES));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX));
    let tcp = MapResponse::new(tcp, |stream: TokioIo<TcpStream>| TokioIo::new(ReadAhead::new(stream.into_inner())));
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_send_buf_size(STREAM_WINDOW as usize)
        .build(https(source, &config, tcp)?);

    let stack = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(RateLimitLayer::new(source.qps, source.burst))
        .option_layer(config.auth_layer().map_err(refused)?)
        .layer(config.extra_headers_layer().map_err(refused)?)
        .layer(ResponseTimeoutLayer::new(RESPONSE_TIMEOUT))
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(stack, config.default_namespace))
}

/// TLS as `config` says, over `tcp`. HTTP/2 is offered where connections are to be shared: everything else is faster with
/// connections of its own.
fn https<T>(source: &ClientSource, config: &Config, tcp: T) -> Result<HttpsConnector<T>, ClientError> {
    let tls = config.rustls_client_config().map_err(|error| ClientError::credentials(source, error))?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = ServerName::try_from(name.clone()).map_err(|error| ClientError::Credentials {
            source_name: source.to_string(),
            detail: format!("tls-server-name {name:?}: {error}"),
        })?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(if source.shared {
        https.enable_all_versions().wrap_connector(tcp)
    } else {
        https.enable_http1().wrap_connector(tcp)
    })
}

#[cfg(test)]
mod tests;
