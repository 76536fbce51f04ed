//! The certificate that the kubelet API serves: from files that are followed, or one of its own making.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::ResolvesServerCert,
    sign::{CertifiedKey, SingleCertAndKey},
};
use tensile_core::node::NodeSettings;
use tensile_runtime::{
    shutdown::Tasks,
    tls::{self, RELOAD_EVERY},
};

use crate::config::CertificateFiles;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The files do not hold one.
    #[error(transparent)]
    Files(#[from] tls::FileError),
    /// None could be made for the node's addresses.
    #[error("cannot make a certificate for node {node}: {reason}")]
    Made {
        /// The node.
        node: String,
        /// What is wrong with its name or its addresses.
        reason: String,
    },
}

/// The certificate of `files`, which is followed by a task; without files, a self-signed one for the node's addresses.
pub(super) fn resolver(
    files: Option<&CertificateFiles>,
    node: &NodeSettings,
    tasks: &mut Tasks,
) -> Result<Arc<dyn ResolvesServerCert>, CertificateError> {
    let Some(files) = files else {
        tracing::info!(
            node = node.name,
            "the kubelet API serves a self-signed certificate, which an API server with \
             --kubelet-certificate-authority refuses; --tls-cert-file gives it another"
        );
        let made = |reason: String| CertificateError::Made { node: node.name.clone(), reason };
        return Ok(Arc::new(SingleCertAndKey::from(self_signed(node).map_err(made)?)));
    };
    let files = tls::CertificateFiles::load(&files.cert, &files.key)?;
    let (certificate, stop) = (files.served(), tasks.stop());
    tasks.spawn("kubelet certificate", async move {
        files.follow(RELOAD_EVERY, stop).await;
        Ok::<_, std::convert::Infallible>(())
    });
    Ok(certificate)
}

/// A certificate that nobody else signed. A new one with each start: no key is ever written.
fn self_signed(node: &NodeSettings) -> Result<CertifiedKey, String> {
    let known_as = node.addresses.iter().map(|address| address.address.clone()).chain([node.name.clone()]);
    let signed = || {
        let mut params = CertificateParams::new(known_as.collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, format!("{}@self-signed", node.name));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = signed().map_err(|error: rcgen::Error| error.to_string())?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    CertifiedKey::from_der(vec![certificate.der().clone()], key, &aws_lc_rs::default_provider())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tensile_core::node::Address;

    use super::*;

    fn node(address: &str) -> NodeSettings {
        let address = Address { kind: "InternalIP".to_owned(), address: address.to_owned() };
        NodeSettings { name: "edge-1".to_owned(), addresses: vec![address], ..NodeSettings::default() }
    }

    #[test]
    fn a_certificate_of_its_own_making_is_for_the_nodes_name_and_addresses() {
        let certified = self_signed(&node("192.0.2.7")).unwrap();
        let der = certified.cert[0].as_ref();
        let holds = |bytes: &[u8]| der.windows(bytes.len()).any(|window| window == bytes);
        assert!(holds(&[0x87, 4, 192, 0, 2, 7]), "the address, as an IP address of the subject");
        assert!(holds(b"\x82\x06edge-1"), "the name, as a DNS name of the subject");
    }

    #[test]
    fn an_address_that_no_certificate_can_name_is_an_error() {
        assert!(self_signed(&node("nö-ip")).is_err());
    }
}
