// SPDX-License-Identifier: Apache-2.0
//! What the flags and variables about the kubelet API mean.

use std::path::PathBuf;

use super::{SettingsError, StatsSettings, Surroundings};
use crate::args::{Args, CertificateChoice};

const DEFAULT_KUBELET_PORT: u16 = 10250;

/// Where and with what the kubelet API is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletApi {
    /// Port on all addresses; 0 for any that is free.
    pub port: u16,
    /// Where its certificate comes from.
    pub certificate: CertificateSource,
    /// CA of client certificates, PEM; without it, the one that the upper API server trusts.
    pub client_ca: Option<PathBuf>,
    /// Where metrics of containers come from.
    pub stats: StatsSettings,
}

/// Where a certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files, which are followed.
    Files(CertificateFiles),
    /// The upper cluster is asked for one.
    Requested {
        /// Where that is not allowed, it is an error; otherwise the certificate is self-signed.
        required: bool,
    },
    /// Nobody else signs it.
    SelfSigned,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificate, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
}

pub(super) fn kubelet_api(args: &Args, around: &Surroundings<'_>) -> Result<KubeletApi, SettingsError> {
    let file = |flag: &Option<PathBuf>, variable: &str| flag.clone().or_else(|| around.path(variable));
    let cert = file(&args.tls_cert_file, "APISERVER_CERT_LOCATION");
    let key = file(&args.tls_private_key_file, "APISERVER_KEY_LOCATION");
    let half = |given, missing| SettingsError::HalfCertificate { given, missing };
    let files = match (cert, key) {
        (Some(cert), Some(key)) => Some(CertificateFiles { cert, key }),
        (None, None) => None,
        (Some(_), None) => return Err(half("--tls-cert-file", "--tls-private-key-file")),
        (None, Some(_)) => return Err(half("--tls-private-key-file", "--tls-cert-file")),
    };
    let contrary = |choice, files| Err(SettingsError::Certificate { choice, files });
    let certificate = match (args.kubelet_serving_certificate.unwrap_or_default(), files) {
        (CertificateChoice::Auto | CertificateChoice::Files, Some(files)) => CertificateSource::Files(files),
        (CertificateChoice::Auto, None) => CertificateSource::Requested { required: false },
        (CertificateChoice::Csr, None) => CertificateSource::Requested { required: true },
        (CertificateChoice::SelfSigned, None) => CertificateSource::SelfSigned,
        (CertificateChoice::Files, None) => return contrary("files", "--tls-cert-file is not set"),
        (CertificateChoice::Csr, Some(_)) => return contrary("csr", "--tls-cert-file is set"),
        (CertificateChoice::SelfSigned, Some(_)) => return contrary("self-signed", "--tls-cert-file is set"),
    };
    let port = match args.kubelet_port {
        Some(port) => port,
        None => around.parsed("KUBELET_PORT")?.unwrap_or(DEFAULT_KUBELET_PORT),
    };
    let client_ca = file(&args.client_ca_file, "APISERVER_CA_CERT_LOCATION");
    Ok(KubeletApi { port, certificate, client_ca, stats: StatsSettings::resolve(args)? })
}
