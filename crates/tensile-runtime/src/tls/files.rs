// SPDX-License-Identifier: Apache-2.0
//! A certificate that follows its files.
//!
//! A mounted Secret is swapped by renaming a symlink, which raises no event on the files themselves
//! (kubernetes/kubernetes#111947), so the content is compared every few seconds instead of watched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{PairError, ServedCertificate};

/// How often the files are compared with what is served.
pub const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// Why files cannot be served, in one sentence.
#[derive(Debug, Error)]
pub enum FileError {
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

/// The files of a certificate, and what is served of them.
#[derive(Debug)]
pub struct CertificateFiles {
    cert: PathBuf,
    key: PathBuf,
    served: Arc<ServedCertificate>,
}

impl CertificateFiles {
    /// Reads certificate chain and key from PEM files.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, FileError> {
        let files = Self { cert: cert.to_owned(), key: key.to_owned(), served: ServedCertificate::none() };
        files.reload()?;
        Ok(files)
    }

    /// What is served: follows the files as long as they are followed.
    pub fn served(&self) -> Arc<ServedCertificate> {
        self.served.clone()
    }

    /// Reads the files again; whether they had changed. On an error, what was served stays.
    pub fn reload(&self) -> Result<bool, FileError> {
        self.served.replace(read(&self.cert)?, read(&self.key)?).map_err(|error| match error {
            PairError::NoCertificate => FileError::NoCertificate { path: self.cert.clone() },
            PairError::NoKey => FileError::NoKey { path: self.key.clone() },
            PairError::Mismatch(error) => FileError::Mismatch { cert: self.cert.clone(), key: self.key.clone(), error },
        })
    }

    /// Reloads every `every` until `stop` is cancelled.
    pub async fn follow(self, every: Duration, stop: CancellationToken) {
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
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|error| FileError::Read { path: path.to_owned(), error })
}
