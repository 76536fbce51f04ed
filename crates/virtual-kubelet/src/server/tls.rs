// SPDX-License-Identifier: Apache-2.0
//! TLS towards clients: any certificate is heard, none is required.
//!
//! As in the kubelet (`tls.RequestClientCert`), the handshake proves only that a client holds the key of the certificate
//! it shows. Whom it names is decided for each request ([`super::authentication`]): so a new CA counts for connections
//! that exist, a certificate that expires stops counting, and a stranger's certificate gets a 401 and not a riddle.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        NoServerSessionStorage, ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

/// The name of HTTP/2 in a handshake (RFC 7301).
pub(super) const HTTP_2: &[u8] = b"h2";

/// TLS settings that serve `certificate` over HTTP/2 and HTTP/1.1 and ask clients for theirs.
///
/// # Errors
/// When the cryptography provider lacks what TLS 1.2 and 1.3 need.
pub fn server_config(certificate: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, Error> {
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let heard = Arc::new(AnyCertificate { algorithms: provider.signature_verification_algorithms });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(heard)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    // API servers and whoever else is written in Go do not come back to a session: none is kept for them, and each
    // connection proves anew whose it is.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Checks that the client holds the key of its certificate, and nothing else.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
