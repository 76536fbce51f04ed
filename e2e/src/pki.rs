// SPDX-License-Identifier: Apache-2.0
//! Certificates for one cluster: a CA, and what it signs.

use std::path::Path;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// A certificate authority that lives in memory; P-256, valid for longer than any test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its private key, both PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS#8).
    pub key: String,
}

impl Authority {
    /// A new authority with this common name.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?);
        Ok(Self { issuer: issuer.with_context(|| format!("cannot make the authority {name}"))? })
    }

    /// Its certificate and key.
    pub fn identity(&self) -> Identity {
        Identity { certificate: self.issuer.pem(), key: self.issuer.key().serialize_pem() }
    }

    /// A certificate for a client: to an API server the common name is the user, the organizations are the groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> anyhow::Result<Identity> {
        self.sign(user, groups, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A certificate for a server known by these DNS names and IP addresses.
    pub fn server(&self, name: &str, known_as: &[&str]) -> anyhow::Result<Identity> {
        self.sign(name, &[], known_as, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn sign(
        &self,
        name: &str,
        groups: &[&str],
        known_as: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> anyhow::Result<Identity> {
        let known_as: Vec<String> = known_as.iter().copied().map(str::to_owned).collect();
        let mut params = CertificateParams::new(known_as)?;
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer);
        let certificate = certificate.with_context(|| format!("cannot sign a certificate for {name}"))?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Identity {
    /// A key pair without a certificate, as service account tokens are signed with: the public key takes its place.
    pub fn bare_key() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        Ok(Self { certificate: key.public_key_pem(), key: key.serialize_pem() })
    }

    /// Writes `NAME.crt` and `NAME.key` into `folder`.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        for (extension, text) in [("crt", &self.certificate), ("key", &self.key)] {
            let path = folder.join(format!("{name}.{extension}"));
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_signs_is_pem_of_its_own() {
        let authority = Authority::new("ca").unwrap();
        let (one, two) = (authority.client("a", &["g"]).unwrap(), authority.server("b", &["127.0.0.1"]).unwrap());
        assert!(one.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(one.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert_ne!(one.key, two.key);
    }
}
