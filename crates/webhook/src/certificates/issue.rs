// SPDX-License-Identifier: Apache-2.0
//! Makes certificates, as planned. What it makes differs each time only by the keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tensile_runtime::tls::Validity;

use super::held::{Authority, Held, Key, Leaf};
use super::plan::Action;

/// How long a certificate is valid already when it is made, for clocks that are behind; less for short lives.
const BACKDATED: Duration = Duration::from_secs(300);
/// API servers hear of a change within this, by their watches; less for short lives.
const SETTLE: Duration = Duration::from_secs(60);

/// How long new certificates last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// A CA.
    pub ca: Duration,
    /// A serving certificate; at most a third of the CA's, so that all a CA signs ends before it.
    pub leaf: Duration,
}

impl Lifetimes {
    /// Time between telling API servers of a CA and serving what it signed.
    pub fn settle(&self) -> Duration {
        SETTLE.min(self.leaf / 10)
    }
}

/// Why a certificate cannot be made, in one sentence.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub struct IssueError(String);

impl From<rcgen::Error> for IssueError {
    fn from(error: rcgen::Error) -> Self {
        Self(error.to_string())
    }
}

/// The data of the Secret after `action`, with what it `held` before; unchanged when there is nothing to do.
pub fn perform(
    action: Action,
    held: Option<Held>,
    names: &BTreeSet<String>,
    lives: Lifetimes,
    now: Timestamp,
) -> Result<BTreeMap<String, ByteString>, IssueError> {
    let Some(mut held) = held.filter(|_| action != Action::Begin) else {
        let (ca, key) = authority(lives.ca, now)?;
        let leaf = leaf(&ca, &key, names, lives.leaf, now)?;
        return Ok(Held { cas: vec![ca], ca_key: key, leaf: Some(leaf) }.write());
    };
    match action {
        Action::AddCa => {
            let (ca, key) = authority(lives.ca, now)?;
            held.cas.retain(|ca| now <= ca.validity.until);
            held.cas.insert(0, ca);
            held.ca_key = key;
        }
        Action::Issue => {
            let newest = held.cas.first().ok_or_else(|| IssueError("there is no CA".to_owned()))?;
            // Names that another replica wants as well stay until the next renewal, else the two would take turns.
            let old = held.leaf.as_ref().filter(|leaf| !leaf.is_for(names)).map(|leaf| &leaf.names);
            let names = names.iter().chain(old.into_iter().flatten()).cloned().collect();
            held.leaf = Some(leaf(newest, &held.ca_key, &names, lives.leaf, now)?);
        }
        Action::Forget => held.cas.retain(|ca| now <= ca.validity.until),
        Action::Begin | Action::Wait(_) => {}
    }
    Ok(held.write())
}

/// A new CA and its key.
fn authority(life: Duration, now: Timestamp) -> Result<(Authority, Key), IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "tensile-webhook-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lasting(&mut params, life, now, None)?;
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let ca = Authority::read(certificate.der()).ok_or_else(|| IssueError("what was made is no CA".to_owned()))?;
    Ok((ca, Key(key.serialize_pem())))
}

/// A new serving certificate of `ca`.
fn leaf(
    ca: &Authority,
    ca_key: &Key,
    names: &BTreeSet<String>,
    life: Duration,
    now: Timestamp,
) -> Result<Leaf, IssueError> {
    let issuer = Issuer::from_ca_cert_der(&ca.der, KeyPair::from_pem(&ca_key.0)?)?;
    let mut params = params_for(names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    lasting(&mut params, life, now, Some(ca.validity))?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Leaf::read(&certificate.pem(), &key.serialize_pem(), std::slice::from_ref(ca))
        .ok_or_else(|| IssueError("what was made is no certificate".to_owned()))
}

/// The request for a serving certificate; an error names what is neither a DNS name nor an IP address.
pub fn params_for(names: &BTreeSet<String>) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::new(Vec::new())?;
    for name in names {
        let one = CertificateParams::new(vec![name.clone()]);
        let one = one.map_err(|_| IssueError(format!("{name:?} is neither a DNS name nor an IP address")))?;
        params.subject_alt_names.extend(one.subject_alt_names);
    }
    params.distinguished_name.push(DnType::CommonName, "tensile-webhook");
    Ok(params)
}

/// Sets from when until when; `within` the life of who signs.
fn lasting(
    params: &mut CertificateParams,
    life: Duration,
    now: Timestamp,
    within: Option<Validity>,
) -> Result<(), IssueError> {
    let unreal = || IssueError("the clock or the life of certificates is out of range".to_owned());
    let earliest = within.map_or(i64::MIN, |ca| ca.from.as_second());
    let latest = within.map_or(i64::MAX, |ca| ca.until.as_second());
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).map_err(|_| unreal());
    let from = now.as_second().saturating_sub(seconds(BACKDATED.min(life / 20))?).max(earliest);
    let until = now.as_second().saturating_add(seconds(life)?).min(latest);
    // No later than rcgen's own default, which is far in the future: so that no date overflows.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let time = |second: i64| {
        let since = u64::try_from(second).ok().filter(|since| *since < 60_000_000_000).ok_or_else(unreal)?;
        Ok::<_, IssueError>(epoch + Duration::from_secs(since))
    };
    (params.not_before, params.not_after) = (time(from)?, time(until)?);
    Ok(())
}

#[cfg(test)]
mod tests;
