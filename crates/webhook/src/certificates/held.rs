// SPDX-License-Identifier: Apache-2.0
//! What the Secret holds: the CAs that are told, the key of the newest, and the serving certificate with its key.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::ByteString;
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tensile_runtime::tls::Validity;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use super::plan::{Facts, LeafFacts};

/// Keys of the Secret, those of a certificate as Kubernetes has them (`kubernetes.io/tls`).
const CA_CERT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";

/// A private key, PEM. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A CA's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The certificate.
    pub der: CertificateDer<'static>,
    /// From when until when it is valid.
    pub validity: Validity,
}

/// The serving certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The certificate, PEM.
    pub cert: String,
    /// Its key.
    pub key: Key,
    /// From when until when it is valid.
    pub validity: Validity,
    /// DNS names and IP addresses it is for.
    pub names: BTreeSet<String>,
    /// Which of the CAs signed it.
    pub issuer: Option<usize>,
}

/// All of it, checked: each key fits its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Newest first.
    pub cas: Vec<Authority>,
    /// The key of the first.
    pub ca_key: Key,
    /// The serving certificate, if it is a usable one.
    pub leaf: Option<Leaf>,
}

/// Why a Secret is no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Useless {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It holds something else, which is not ours to replace.
    #[error("it has no {CA_KEY}, so it is not one of ours")]
    NotOurs,
    /// It is ours and damaged.
    #[error("its {0} cannot be used")]
    Damaged(&'static str),
}

impl Held {
    /// Reads the data of a Secret.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Useless> {
        let text = |name: &str| data.get(name).and_then(|bytes| std::str::from_utf8(&bytes.0).ok()).unwrap_or_default();
        if data.values().all(|bytes| bytes.0.is_empty()) {
            return Err(Useless::Empty);
        }
        if !data.contains_key(CA_KEY) {
            return Err(Useless::NotOurs);
        }
        let ders = CertificateDer::pem_slice_iter(text(CA_CERT).as_bytes()).collect::<Result<Vec<_>, _>>();
        let cas = ders.ok().and_then(|ders| ders.iter().map(Authority::read).collect::<Option<Vec<_>>>());
        let cas = cas.filter(|cas| !cas.is_empty()).ok_or(Useless::Damaged(CA_CERT))?;
        let ca_key = text(CA_KEY);
        if !cas.first().is_some_and(|newest| fits(ca_key, &newest.der)) {
            return Err(Useless::Damaged(CA_KEY));
        }
        let leaf = Leaf::read(text(CERT), text(KEY), &cas);
        Ok(Self { cas, ca_key: Key(ca_key.to_owned()), leaf })
    }

    /// The data of the Secret.
    pub fn write(&self) -> BTreeMap<String, ByteString> {
        let leaf = self.leaf.as_ref();
        let cert = leaf.map(|leaf| leaf.cert.as_str()).unwrap_or_default();
        let key = leaf.map(|leaf| leaf.key.0.as_str()).unwrap_or_default();
        [(CA_CERT, self.bundle().as_str()), (CA_KEY, &self.ca_key.0), (CERT, cert), (KEY, key)]
            .map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec())))
            .into()
    }

    /// What API servers are told: all CAs, PEM.
    pub fn bundle(&self) -> String {
        self.cas.iter().map(|ca| pem(&ca.der)).collect()
    }

    /// What decisions need of it, when the serving certificate has to be for `names`.
    pub fn facts(&self, names: &BTreeSet<String>) -> Facts {
        let leaf = |leaf: &Leaf| LeafFacts { validity: leaf.validity, issuer: leaf.issuer, fits: leaf.is_for(names) };
        Facts { cas: self.cas.iter().map(|ca| ca.validity).collect(), leaf: self.leaf.as_ref().map(leaf) }
    }
}

impl Authority {
    /// Reads a certificate; `None` if it is not a CA's.
    pub fn read(der: &CertificateDer<'_>) -> Option<Self> {
        if !parse(der)?.is_ca() {
            return None;
        }
        Some(Self { der: der.clone().into_owned(), validity: Validity::of(der)? })
    }
}

impl Leaf {
    /// Reads a certificate and its key; `None` if they are not a pair. Further certificates in it are kept.
    pub fn read(cert: &str, key: &str, cas: &[Authority]) -> Option<Self> {
        let der = CertificateDer::pem_slice_iter(cert.as_bytes()).next()?.ok()?;
        let parsed = parse(&der)?;
        if !fits(key, &der) {
            return None;
        }
        let signed =
            |ca: &Authority| parse(&ca.der).is_some_and(|ca| parsed.verify_signature(Some(ca.public_key())).is_ok());
        Some(Self {
            cert: cert.to_owned(),
            key: Key(key.to_owned()),
            validity: Validity::of(&der)?,
            names: names(&parsed),
            issuer: cas.iter().position(signed),
        })
    }

    /// Whether it is for all of `names`.
    pub fn is_for(&self, names: &BTreeSet<String>) -> bool {
        names.is_subset(&self.names)
    }
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    x509_parser::parse_x509_certificate(der).ok().map(|(_, certificate)| certificate)
}

/// Whether the key is that of the certificate.
fn fits(key: &str, der: &CertificateDer<'_>) -> bool {
    let Ok(key) = KeyPair::from_pem(key) else { return false };
    parse(der).is_some_and(|certificate| certificate.public_key().raw == key.subject_public_key_info())
}

/// The DNS names and IP addresses that a certificate is for.
fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
        },
        _ => None,
    };
    names.filter_map(text).collect()
}

fn pem(der: &CertificateDer<'_>) -> String {
    let unix = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new("CERTIFICATE", der.as_ref()), unix)
}

#[cfg(test)]
mod tests;
