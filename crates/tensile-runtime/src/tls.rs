// SPDX-License-Identifier: Apache-2.0
//! A server certificate that can be replaced while it is served: rotation needs no restart and drops no connection.

mod files;
mod listener;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::clients::install_crypto;

pub use files::{CertificateFiles, FileError, RELOAD_EVERY};
pub use listener::{ClientCaError, Clients, TlsListener, server_config};

/// Why two PEM texts are no certificate with its key.
#[derive(Debug, Error)]
pub enum PairError {
    /// The first holds no certificate, or one that cannot be read.
    #[error("there is no PEM certificate")]
    NoCertificate,
    /// The second holds no private key.
    #[error("there is no PEM private key")]
    NoKey,
    /// The key cannot sign for the certificate.
    #[error("the key does not fit the certificate: {0}")]
    Mismatch(rustls::Error),
}

/// From when until when a certificate is valid, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its `notBefore`.
    pub from: Timestamp,
    /// Its `notAfter`.
    pub until: Timestamp,
}

impl Validity {
    /// That of a certificate in DER; `None` if it cannot be read.
    pub fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let validity = certificate.validity();
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        Some(Self { from: time(validity.not_before)?, until: time(validity.not_after)? })
    }
}

/// What is served now. Whoever has it may replace it; handshakes that begin afterwards see the new one.
#[derive(Debug, Default)]
pub struct ServedCertificate {
    current: ArcSwapOption<Loaded>,
}

/// A certificate and its key, and the texts they came from.
struct Loaded {
    cert_pem: Vec<u8>,
    key_pem: Vec<u8>,
    validity: Validity,
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Loaded {
    /// The key is a secret, also in a debug print.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certificates = self.certified.cert.len();
        f.debug_struct("Loaded")
            .field("certificates", &certificates)
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

impl ServedCertificate {
    /// Nothing yet: handshakes fail.
    pub fn none() -> Arc<Self> {
        install_crypto();
        Arc::new(Self::default())
    }

    /// Serves this certificate chain with this key from now on; whether that is a change. On an error, what was served
    /// stays.
    pub fn replace(&self, cert_pem: Vec<u8>, key_pem: Vec<u8>) -> Result<bool, PairError> {
        let same = |now: &Loaded| (&now.cert_pem, &now.key_pem) == (&cert_pem, &key_pem);
        if self.current.load().as_deref().is_some_and(same) {
            return Ok(false);
        }
        self.current.store(Some(Arc::new(Loaded::new(cert_pem, key_pem)?)));
        Ok(true)
    }

    /// From when until when what is served is valid; `None` while nothing is.
    pub fn validity(&self) -> Option<Validity> {
        self.current.load().as_ref().map(|loaded| loaded.validity)
    }

    /// Whether clients with the time `now` can accept what is served; if not, why.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        match self.validity() {
            None => Err("there is no certificate yet".to_owned()),
            Some(validity) if now < validity.from => Err(format!("the certificate is valid from {}", validity.from)),
            Some(validity) if validity.until < now => Err(format!("the certificate expired at {}", validity.until)),
            Some(_) => Ok(()),
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
        self.current.load().as_ref().map(|loaded| loaded.certified.clone())
    }
}

impl Loaded {
    fn new(cert_pem: Vec<u8>, key_pem: Vec<u8>) -> Result<Self, PairError> {
        let chain = CertificateDer::pem_slice_iter(&cert_pem).collect::<Result<Vec<_>, _>>().unwrap_or_default();
        let validity = chain.first().and_then(|first| Validity::of(first)).ok_or(PairError::NoCertificate)?;
        let private = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| PairError::NoKey)?;
        let certified = CertifiedKey::from_der(chain, private, &rustls::crypto::aws_lc_rs::default_provider())
            .map_err(PairError::Mismatch)?;
        Ok(Self { cert_pem, key_pem, validity, certified: Arc::new(certified) })
    }
}

#[cfg(test)]
mod tests;
