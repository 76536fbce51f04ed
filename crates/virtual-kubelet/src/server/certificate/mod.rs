// SPDX-License-Identifier: Apache-2.0
//! The certificate that the kubelet's API shows: asked of the upper cluster, and one of its own making until then.
//!
//! As a kubelet with `serverTLSBootstrap`: a `CertificateSigningRequest` for the signer `kubernetes.io/kubelet-serving`
//! names the node and its addresses, somebody approves it, the controller manager signs, and what it signed is shown on
//! the next connection. Keys live in memory alone: a process that starts anew asks anew.
//!
//! When something is due is decided in `plan`, without a clock; [`CertificateController`] asks and performs.

mod controller;
mod metrics;
mod plan;
mod request;

use std::{collections::BTreeSet, fmt, sync::Arc};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

pub use controller::CertificateController;

/// What a node is reached at: IP addresses and DNS names.
pub type Addresses = BTreeSet<String>;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The node's name or one of its addresses cannot stand in one.
    #[error("no certificate can name it: {0}")]
    Unnameable(#[from] rcgen::Error),
    /// What a signer gave cannot be read, has run out, or is for another key.
    #[error("what was issued cannot be shown: {0}")]
    Unusable(String),
}

/// The certificate that is shown to clients, until another takes its place: connections that exist go on.
pub struct ServingCertificate {
    current: ArcSwap<CertifiedKey>,
}

impl ServingCertificate {
    /// One that nobody else signed, for the name and the addresses of a node. Another with each call: no key is written.
    ///
    /// # Errors
    /// When the name or an address cannot stand in a certificate.
    pub fn self_signed(node: &str, addresses: &Addresses) -> Result<Arc<Self>, CertificateError> {
        let known_as: Vec<String> = addresses.iter().cloned().chain([node.to_owned()]).collect();
        let mut params = CertificateParams::new(known_as)?;
        params.distinguished_name.push(DnType::CommonName, format!("{node}@self-signed"));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let certified = certified(vec![certificate.der().clone()], &key)?;
        Ok(Arc::new(Self { current: ArcSwap::from_pointee(certified) }))
    }

    fn replace(&self, certified: CertifiedKey) {
        self.current.store(Arc::new(certified));
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl fmt::Debug for ServingCertificate {
    /// Nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}

/// A chain and the key of its first certificate.
fn certified(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Result<CertifiedKey, CertificateError> {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map_err(|error| CertificateError::Unusable(error.to_string()))
}

/// From when until when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validity {
    from: Timestamp,
    until: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(one: &str) -> Addresses {
        [one.to_owned()].into()
    }

    #[test]
    fn a_certificate_of_its_own_making_is_for_the_nodes_name_and_addresses() {
        let made = ServingCertificate::self_signed("edge-1", &addresses("192.0.2.7")).unwrap();
        let certified = made.current.load_full();
        let der = certified.cert[0].as_ref();
        let holds = |bytes: &[u8]| der.windows(bytes.len()).any(|window| window == bytes);
        assert!(holds(&[0x87, 4, 192, 0, 2, 7]), "the address, as an IP address of the subject");
        assert!(holds(b"\x82\x06edge-1"), "the name, as a DNS name of the subject");
    }

    #[test]
    fn an_address_that_no_certificate_can_name_is_an_error() {
        assert!(ServingCertificate::self_signed("edge-1", &addresses("nö-ip")).is_err());
    }

    #[test]
    fn no_key_is_in_a_debug_print() {
        let made = ServingCertificate::self_signed("edge-1", &addresses("192.0.2.7")).unwrap();
        assert_eq!(format!("{made:?}"), "ServingCertificate { .. }");
    }
}
