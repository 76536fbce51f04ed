// SPDX-License-Identifier: Apache-2.0
//! One `CertificateSigningRequest`: its key, its object, and what became of it.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{
        CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    },
};
use kube::core::ObjectMeta;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::{
    pki_types::{CertificateDer, pem::PemObject},
    sign::CertifiedKey,
};

use super::{Addresses, CertificateError, Validity, certified};

/// Signs what a kubelet shows (Kubernetes `pkg/apis/certificates/helpers.go` says what it takes).
const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Of an object's name, which has 253 characters, as many as leave room for the part that is the key's.
const NODE_PART: usize = 200;

/// A request and the key that it is for.
pub(super) struct Request {
    name: String,
    key: KeyPair,
    pem: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Nobody decided it.
    Undecided,
    /// It is approved, and no signer has signed it.
    Unsigned,
    /// Somebody refused it.
    Denied(String),
    /// The signer cannot sign it.
    Failed(String),
    /// The chain, PEM.
    Issued(Vec<u8>),
}

impl Request {
    /// A new key and a request for it: organization and common name say that it is a node's, and which.
    pub(super) fn new(node: &str, addresses: &Addresses) -> Result<Self, CertificateError> {
        let mut params = CertificateParams::new(addresses.iter().cloned().collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
        let key = KeyPair::generate()?;
        let pem = params.serialize_request(&key)?.pem()?;
        Ok(Self { name: name(node, &key), key, pem })
    }

    /// The object's name. It follows from the key: what already has this name is this request, sent before.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The object to create.
    pub(super) fn object(&self) -> CertificateSigningRequest {
        CertificateSigningRequest {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(self.pem.clone().into_bytes()),
                signer_name: SIGNER.to_owned(),
                usages: Some(["digital signature", "server auth"].map(str::to_owned).into()),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        }
    }

    /// What a signer made of it, if it can be shown at `now`.
    pub(super) fn certified(&self, pem: &[u8], now: Timestamp) -> Result<(CertifiedKey, Validity), CertificateError> {
        let unusable = |reason: &str| CertificateError::Unusable(reason.to_owned());
        let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| CertificateError::Unusable(error.to_string()))?;
        let leaf = chain.first().ok_or_else(|| unusable("it holds no PEM certificate"))?;
        let validity = validity(leaf).ok_or_else(|| unusable("it is no X.509 certificate"))?;
        if validity.until <= now {
            return Err(unusable("it has run out already"));
        }
        Ok((certified(chain, &self.key)?, validity))
    }
}

impl fmt::Debug for Request {
    /// Nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The node, for whoever reads a list of them, and a part of the public key, which is as good as chance.
fn name(node: &str, key: &KeyPair) -> String {
    let node: String = node.chars().take(NODE_PART).collect();
    let random = key.public_key_raw().iter().rev().take(8).map(|byte| format!("{byte:02x}"));
    format!("{}-{}", node.trim_end_matches(['.', '-']), random.collect::<String>())
}

fn validity(leaf: &CertificateDer<'_>) -> Option<Validity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
    let validity = certificate.validity();
    Some(Validity {
        from: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
        until: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
    })
}

/// What became of the request that is now `object`.
pub(super) fn outcome(object: &CertificateSigningRequest) -> Outcome {
    let Some(status) = &object.status else { return Outcome::Undecided };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    match status.certificate.as_ref().filter(|certificate| !certificate.0.is_empty()) {
        _ if condition("Denied").is_some() => Outcome::Denied(condition("Denied").map(words).unwrap_or_default()),
        _ if condition("Failed").is_some() => Outcome::Failed(condition("Failed").map(words).unwrap_or_default()),
        Some(certificate) => Outcome::Issued(certificate.0.clone()),
        None if condition("Approved").is_some() => Outcome::Unsigned,
        None => Outcome::Undecided,
    }
}

/// A condition's reason and message, whichever it has.
fn words(condition: &CertificateSigningRequestCondition) -> String {
    let words = [condition.reason.as_deref(), condition.message.as_deref()];
    words.into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
