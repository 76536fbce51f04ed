//! A server certificate that follows its files: rotation needs no restart and drops no connection.
//!
//! A mounted Secret is swapped by renaming a symlink, which raises no event on the files themselves
//! (kubernetes/kubernetes#111947), so the content is compared every few seconds instead of watched.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clients::install_crypto;

/// How often the files are compared with what is served.
pub const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// Why a certificate cannot be served, in one sentence.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no PEM certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no private key.
    #[error("{} holds no PEM private key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot sign for the certificate. While files are being swapped this passes by itself.
    #[error("the key in {} does not fit the certificate in {}: {error}", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What rustls says.
        error: rustls::Error,
    },
}

/// A certificate and its key, as they were last read from their files.
#[derive(Debug)]
pub struct ServedCertificate {
    cert: PathBuf,
    key: PathBuf,
    current: ArcSwap<Loaded>,
}

/// One state of the files.
struct Loaded {
    cert_pem: Vec<u8>,
    key_pem: Vec<u8>,
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Loaded {
    /// The key is a secret, also in a debug print.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("certificates", &self.certified.cert.len()).finish_non_exhaustive()
    }
}

impl ServedCertificate {
    /// Reads certificate chain and key from PEM files.
    pub fn load(cert: &Path, key: &Path) -> Result<Arc<Self>, CertificateError> {
        install_crypto();
        let loaded = Loaded::read(cert, key)?;
        Ok(Arc::new(Self { cert: cert.to_owned(), key: key.to_owned(), current: ArcSwap::from_pointee(loaded) }))
    }

    /// Reads the files again; whether they had changed. On an error, what was served stays.
    pub fn reload(&self) -> Result<bool, CertificateError> {
        let now = self.current.load();
        let (cert_pem, key_pem) = (read(&self.cert)?, read(&self.key)?);
        if (&now.cert_pem, &now.key_pem) == (&cert_pem, &key_pem) {
            return Ok(false);
        }
        self.current.store(Arc::new(Loaded::new(&self.cert, &self.key, cert_pem, key_pem)?));
        Ok(true)
    }

    /// Reloads every `every` until `stop` is cancelled.
    pub async fn follow(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            match self.reload() {
                Ok(false) => {}
                Ok(true) => info!(cert = %self.cert.display(), "server certificate replaced"),
                Err(error) => warn!(%error, "cannot reload the server certificate, the old one stays"),
            }
        }
    }

    /// TLS settings that serve this certificate over HTTP/1.1, to any client.
    pub fn server_config(self: &Arc<Self>) -> ServerConfig {
        let resolver: Arc<dyn ResolvesServerCert> = self.clone();
        let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load().certified.clone())
    }
}

impl Loaded {
    fn read(cert: &Path, key: &Path) -> Result<Self, CertificateError> {
        Self::new(cert, key, read(cert)?, read(key)?)
    }

    fn new(cert: &Path, key: &Path, cert_pem: Vec<u8>, key_pem: Vec<u8>) -> Result<Self, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(&cert_pem).collect::<Result<Vec<_>, _>>().unwrap_or_default();
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate { path: cert.to_owned() });
        }
        let private =
            PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| CertificateError::NoKey { path: key.to_owned() })?;
        let certified = CertifiedKey::from_der(chain, private, &rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| CertificateError::Mismatch { cert: cert.to_owned(), key: key.to_owned(), error })?;
        Ok(Self { cert_pem, key_pem, certified: Arc::new(certified) })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|error| CertificateError::Read { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests;
