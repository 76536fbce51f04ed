// SPDX-License-Identifier: Apache-2.0
//! Why no client can be made, in one sentence that names the file at fault. Never a word of the file's content.

use std::path::{Path, PathBuf};

use kube::client::AuthError;
use kube::config::{KubeconfigError, LoadDataError};
use thiserror::Error;

use super::ClientSource;

/// Why no client can be made from a [`ClientSource`]. All of them need a human.
///
/// The sentence says all; nothing is left to `source`, so that a printed chain does not repeat itself.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The file cannot be read.
    #[error("cannot read kubeconfig {}: {error}", path.display())]
    ReadKubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file is no kubeconfig. Only the place is told, because the line may hold a token.
    #[error("kubeconfig {} is not valid YAML of a kubeconfig{place}", path.display())]
    ParseKubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// ` (line L, column C)` where it is known.
        place: String,
    },
    /// No context was asked for and the file names none.
    #[error("kubeconfig {} has no current-context: set one, or name a context", path.display())]
    NoCurrentContext {
        /// The kubeconfig.
        path: PathBuf,
    },
    /// The context is not in the file.
    #[error("kubeconfig {} has no context {context:?} (it has: {})", path.display(), known.join(", "))]
    NoContext {
        /// The kubeconfig.
        path: PathBuf,
        /// The context that was looked for.
        context: String,
        /// The contexts that are there.
        known: Vec<String>,
    },
    /// Something that the context points to is missing or broken.
    #[error("kubeconfig {}: {detail}", path.display())]
    Entry {
        /// The kubeconfig.
        path: PathBuf,
        /// Which entry, and what is wrong with it.
        detail: String,
    },
    /// No kubeconfig was given and this does not run in a pod.
    #[error("no kubeconfig was given, and there is no service account of a pod to fall back on: {detail}")]
    NotInCluster {
        /// Which of the service account's files or variables is missing.
        detail: String,
    },
    /// Certificates or keys cannot be used.
    #[error("{source_name}: {detail}")]
    Credentials {
        /// The kubeconfig or service account.
        source_name: String,
        /// What cannot be used.
        detail: String,
    },
    /// The user agent cannot be a header value.
    #[error("{given:?} cannot be sent as User-Agent")]
    UserAgent {
        /// What was given.
        given: String,
    },
}

impl ClientError {
    /// From reading the file itself.
    pub(super) fn kubeconfig(path: &Path, error: KubeconfigError) -> Self {
        let path = path.to_owned();
        match error {
            KubeconfigError::ReadConfig(error, _) => Self::ReadKubeconfig { path, error },
            KubeconfigError::Parse(error) => {
                let place = error
                    .location()
                    .map(|at| format!(" (line {}, column {})", at.line(), at.column()))
                    .unwrap_or_default();
                Self::ParseKubeconfig { path, place }
            }
            other => Self::Entry { path, detail: entry(&other) },
        }
    }

    /// From following `context` in the file that was read.
    pub(super) fn context(path: &Path, context: Option<String>, known: Vec<String>, error: KubeconfigError) -> Self {
        let path = path.to_owned();
        match (error, context) {
            (KubeconfigError::CurrentContextNotSet, _) => Self::NoCurrentContext { path },
            (KubeconfigError::LoadContext(context), _) => Self::NoContext { path, context, known },
            (error, Some(context)) => Self::Entry { path, detail: format!("context {context:?}: {}", entry(&error)) },
            (error, None) => Self::Entry { path, detail: entry(&error) },
        }
    }

    /// From turning certificates, keys and tokens into a client.
    pub(super) fn credentials(source: &ClientSource, error: kube::Error) -> Self {
        let detail = match error {
            kube::Error::RustlsTls(tls) if tls.to_string().contains("No CA certificates") => {
                "it names no certificate-authority, and this machine has no CA bundle to check the server with"
                    .to_owned()
            }
            kube::Error::RustlsTls(tls) => tls.to_string(),
            kube::Error::InferKubeconfig(error) => entry(&error),
            kube::Error::Auth(AuthError::ReadTokenFile(error, path)) => {
                format!("cannot read token file {}: {error}", path.display())
            }
            // The other reasons may quote what a credential plugin printed.
            kube::Error::Auth(AuthError::AuthExecStart(error)) => {
                format!("cannot start the credential plugin: {error}")
            }
            kube::Error::Auth(_) => {
                "the credentials cannot be used: the credential plugin failed, or a token is malformed".to_owned()
            }
            other => other.to_string(),
        };
        Self::Credentials { source_name: source.to_string(), detail }
    }
}

/// What is wrong with one entry of a kubeconfig.
fn entry(error: &KubeconfigError) -> String {
    let file = |what: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(error, path) => format!("cannot read {what} {}: {error}", path.display()),
        LoadDataError::DecodeBase64(_) => format!("the {what} data are not valid base64"),
        LoadDataError::NoBase64DataOrFile => format!("the {what} is missing"),
    };
    match error {
        KubeconfigError::LoadClusterOfContext(cluster) => format!("there is no cluster {cluster:?}"),
        KubeconfigError::MissingClusterUrl => "its cluster has no server".to_owned(),
        KubeconfigError::ParseClusterUrl(error) => format!("the server of its cluster is not a URL: {error}"),
        KubeconfigError::LoadCertificateAuthority(error) => file("certificate-authority", error),
        KubeconfigError::LoadClientCertificate(error) => file("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => file("client-key", error),
        KubeconfigError::ParseCertificates(_) => "the certificate-authority is not PEM".to_owned(),
        other => other.to_string(),
    }
}
