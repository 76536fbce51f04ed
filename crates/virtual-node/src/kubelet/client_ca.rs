// SPDX-License-Identifier: Apache-2.0
//! Whose client certificates name users: a file, else what the upper API server itself trusts. Either is followed.

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tensile_runtime::tls::RELOAD_EVERY;
use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use virtual_kubelet::server::{ClientCa, ClientCaError};

/// Where API servers publish what extensions need to know their callers
/// (Kubernetes `pkg/controlplane/controller/clusterauthenticationtrust`).
const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
const KEY: &str = "client-ca-file";
/// How often the published authority is compared with what counts.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// Why it is not known whose certificates count.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// What was read is no authority.
    #[error("{origin}: {reason}")]
    Content {
        /// The file or the object.
        origin: String,
        /// What is wrong with it.
        reason: ClientCaError,
    },
    /// The upper API server does not tell.
    #[error("cannot read ConfigMap {NAMESPACE}/{CONFIG_MAP}: {0}")]
    Upper(#[from] kube::Error),
}

/// Where the authority stands.
#[derive(Clone)]
pub(super) enum Source {
    /// A PEM file.
    File(PathBuf),
    /// The upper cluster.
    Upper(Client),
}

impl Source {
    /// The PEM as it is now; `None` when the upper cluster publishes none.
    async fn read(&self) -> Result<Option<String>, LoadError> {
        match self {
            Self::File(path) => match tokio::fs::read_to_string(path).await {
                Ok(pem) => Ok(Some(pem)),
                Err(reason) => Err(LoadError::File { path: path.clone(), reason }),
            },
            Self::Upper(client) => {
                let map = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).get_opt(CONFIG_MAP).await?;
                Ok(map.and_then(|map| map.data?.remove(KEY)))
            }
        }
    }

    fn parse(&self, pem: Option<&str>) -> Result<ClientCa, LoadError> {
        let Some(pem) = pem else { return Ok(ClientCa::default()) };
        let origin = || match self {
            Self::File(path) => path.display().to_string(),
            Self::Upper(_) => format!("ConfigMap {NAMESPACE}/{CONFIG_MAP}"),
        };
        ClientCa::from_pem(pem.as_bytes()).map_err(|reason| LoadError::Content { origin: origin(), reason })
    }

    const fn every(&self) -> Duration {
        match self {
            Self::File(_) => RELOAD_EVERY,
            Self::Upper(_) => ASK_EVERY,
        }
    }
}

/// The authority, followed. What was known stays while it cannot be read.
pub(super) struct Followed {
    source: Source,
    pem: Option<String>,
    authority: watch::Sender<ClientCa>,
}

impl Followed {
    /// Reads it for the first time.
    ///
    /// A file that somebody named has to be there. The upper cluster may keep its own to itself: then tokens name users,
    /// and it is asked again.
    pub(super) async fn load(source: Source) -> Result<(Self, watch::Receiver<ClientCa>), LoadError> {
        let (authority, receiver) = watch::channel(ClientCa::default());
        let mut followed = Self { source, pem: None, authority };
        match followed.refresh().await {
            Err(error) if matches!(followed.source, Source::File(_)) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "client certificates do not count yet; tokens do");
            }
            Ok(()) if followed.pem.is_none() => {
                tracing::info!("the upper cluster publishes no client authority: only tokens name users");
            }
            Ok(()) => {}
        }
        Ok((followed, receiver))
    }

    /// Compares it until `stop` is cancelled.
    pub(super) async fn follow(mut self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(self.source.every());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.reset();
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            match stop.run_until_cancelled(self.refresh()).await {
                Some(Ok(())) | None => {}
                Some(Err(error)) => tracing::warn!(%error, "cannot reload the client authority, the old one stays"),
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), LoadError> {
        let pem = self.source.read().await?;
        if pem == self.pem {
            return Ok(());
        }
        self.authority.send_replace(self.source.parse(pem.as_deref())?);
        if self.pem.is_some() {
            tracing::info!("client authority replaced");
        }
        self.pem = pem;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn authority() -> String {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[tokio::test]
    async fn a_file_is_followed_and_what_is_broken_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, authority()).unwrap();
        let (mut followed, mut seen) = Followed::load(Source::File(path.clone())).await.unwrap();
        seen.borrow_and_update();

        followed.refresh().await.unwrap();
        assert!(!seen.has_changed().unwrap(), "nothing is new");
        std::fs::write(&path, "half of it").unwrap();
        assert!(matches!(followed.refresh().await, Err(LoadError::Content { .. })));
        assert!(!seen.has_changed().unwrap(), "the old one stays");
        std::fs::write(&path, authority()).unwrap();
        followed.refresh().await.unwrap();
        assert!(seen.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_file_that_was_named_has_to_be_there() {
        let error = Followed::load(Source::File("/nowhere/ca.crt".into())).await.err().unwrap();
        assert!(error.to_string().starts_with("cannot read /nowhere/ca.crt: "), "{error}");
    }
}
