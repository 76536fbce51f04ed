// SPDX-License-Identifier: Apache-2.0
//! One question to an API server, and what its answer or silence means.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use http::Request;
use kube::Client;
use kube::core::Status;
use serde::Deserialize;
use thiserror::Error;

/// Oldest supported minor version of Kubernetes 1.
pub const OLDEST_MINOR: u32 = 33;
/// Newest minor version of Kubernetes 1 that is tested against.
pub const TESTED_MINOR: u32 = 36;

/// What an API server says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVersion {
    /// Major version.
    pub major: u32,
    /// Minor version; a vendor's suffix (`33+`) is cut off.
    pub minor: u32,
    /// The version in full, such as `v1.36.3`.
    pub git_version: String,
}

impl ServerVersion {
    /// Whether the server is newer than any this build was tested against: worth a warning, no reason to refuse it.
    pub fn is_newer_than_tested(&self) -> bool {
        (self.major, self.minor) > (1, TESTED_MINOR)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.git_version)
    }
}

/// Why an API server cannot be used, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// Nobody answers, or not now. The only kind that passes by itself.
    #[error("the API server is away: {detail}")]
    Away {
        /// What the network or the server said.
        detail: String,
    },
    /// Its certificate is not signed by the CA we were given, is expired, or is for another name.
    #[error(
        "the API server's certificate is not trusted, so the certificate-authority is wrong or out of date: {detail}"
    )]
    WrongCa {
        /// What is wrong with the certificate.
        detail: String,
    },
    /// 401.
    #[error(
        "the API server does not accept the credentials (401 Unauthorized): the token or client certificate is expired, revoked or of another cluster"
    )]
    Unauthorized,
    /// 403.
    #[error("RBAC does not allow to {verb} {resource} (403 Forbidden): {detail}")]
    Forbidden {
        /// The verb, such as `create`.
        verb: String,
        /// The resource with its group, such as `pods/status` or `leases.coordination.k8s.io`.
        resource: String,
        /// The API server's own message.
        detail: String,
    },
    /// Too old.
    #[error("the API server is {version}; the oldest supported version is 1.{OLDEST_MINOR}")]
    Unsupported {
        /// Its version.
        version: String,
    },
    /// Something answers that is no Kubernetes API server, or refuses the request for another reason.
    #[error("the address does not answer like a Kubernetes API server: {detail}")]
    Unexpected {
        /// What it said.
        detail: String,
    },
}

impl ProbeError {
    /// Whether waiting can help; all other kinds need a human.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}

/// The part of `GET /version` that is used.
#[derive(Deserialize)]
struct Version {
    major: String,
    minor: String,
    #[serde(rename = "gitVersion")]
    full: String,
}

/// Asks the API server for its version and refuses one that is too old.
///
/// Reachability, certificate and credentials are checked on the way: the endpoint is open to all, but a bad token is
/// refused everywhere.
pub async fn probe(client: &Client) -> Result<ServerVersion, ProbeError> {
    let request = Request::get("/version")
        .body(Vec::new())
        .map_err(|error| ProbeError::Unexpected { detail: error.to_string() })?;
    supported(client.request::<Version>(request).await?)
}

fn supported(version: Version) -> Result<ServerVersion, ProbeError> {
    let number = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).map_or(text, |end| text.split_at(end).0);
        digits.parse::<u32>().map_err(|_| ProbeError::Unexpected {
            detail: format!("{text:?} is no part of a version ({})", version.full),
        })
    };
    let (major, minor) = (number(&version.major)?, number(&version.minor)?);
    if (major, minor) < (1, OLDEST_MINOR) {
        return Err(ProbeError::Unsupported { version: version.full });
    }
    Ok(ServerVersion { major, minor, git_version: version.full })
}

impl From<kube::Error> for ProbeError {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) => from_status(status),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                Self::Unexpected { detail: "what it sent is not the JSON that was asked for".to_owned() }
            }
            other => match find::<rustls::Error>(other) {
                Some(rustls::Error::InvalidCertificate(reason)) => Self::WrongCa { detail: reason.to_string() },
                _ => Self::Away { detail: innermost(other) },
            },
        }
    }
}

fn from_status(status: &Status) -> ProbeError {
    let detail = status.message.clone();
    match status.code {
        401 => ProbeError::Unauthorized,
        403 => {
            let (verb, resource) = refused(&detail).unwrap_or_else(|| ("do".to_owned(), "this".to_owned()));
            ProbeError::Forbidden { verb, resource, detail }
        }
        429 | 500..=599 => ProbeError::Away { detail: format!("{} {detail}", status.code) },
        code => ProbeError::Unexpected { detail: format!("{code} {detail}") },
    }
}

/// Verb and resource of an API server's refusal: `User "u" cannot VERB resource "RESOURCE" in API group "GROUP" ...`,
/// or `User "u" cannot VERB path "PATH"` (apiserver's `responsewriters.Forbidden`).
fn refused(message: &str) -> Option<(String, String)> {
    let (_, rest) = message.split_once(" cannot ")?;
    let (verb, rest) = rest.split_once(' ')?;
    let mut quoted = rest.split('"');
    let kind = quoted.next()?.trim();
    let name = quoted.next()?;
    let group = quoted.next().filter(|between| between.trim() == "in API group").and_then(|_| quoted.next());
    let resource = match group {
        Some(group) if kind == "resource" && !group.is_empty() => format!("{name}.{group}"),
        _ => name.to_owned(),
    };
    Some((verb.to_owned(), resource))
}

/// The first `T` among an error's causes. `io::Error` hides the error it wraps from `source`, so it is opened by hand.
fn find<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = cause(error);
    }
    None
}

/// The cause that says most: the last one.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(next) = cause(last) {
        last = next;
    }
    last.to_string()
}

fn cause<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: &str, minor: &str) -> Result<ServerVersion, ProbeError> {
        let full = format!("v{major}.{minor}.1");
        supported(Version { major: major.to_owned(), minor: minor.to_owned(), full })
    }

    fn status(code: u16, message: &str) -> ProbeError {
        from_status(&Status { code, message: message.to_owned(), ..Status::default() })
    }

    #[test]
    fn the_oldest_supported_version_is_taken_and_the_one_before_it_is_not() {
        assert_eq!(version("1", "33").unwrap().minor, 33);
        assert_eq!(version("1", "32"), Err(ProbeError::Unsupported { version: "v1.32.1".to_owned() }));
        assert_eq!(
            version("1", "32").unwrap_err().to_string(),
            "the API server is v1.32.1; the oldest supported version is 1.33"
        );
    }

    #[test]
    fn a_vendors_plus_is_no_part_of_the_number() {
        assert_eq!(version("1", "34+").unwrap().minor, 34);
    }

    #[test]
    fn a_newer_version_is_taken_and_known_to_be_newer() {
        assert!(version("1", "37").unwrap().is_newer_than_tested());
        assert!(!version("1", "36").unwrap().is_newer_than_tested());
    }

    #[test]
    fn a_version_that_is_none_is_refused() {
        assert!(matches!(version("one", "33"), Err(ProbeError::Unexpected { .. })));
    }

    #[test]
    fn a_refusal_names_verb_resource_and_group() {
        let message = r#"leases.coordination.k8s.io "n" is forbidden: User "u" cannot update resource "leases" in API group "coordination.k8s.io" in the namespace "kube-node-lease""#;
        let ProbeError::Forbidden { verb, resource, .. } = status(403, message) else { panic!("not forbidden") };
        assert_eq!((verb.as_str(), resource.as_str()), ("update", "leases.coordination.k8s.io"));
    }

    #[test]
    fn a_refusal_in_the_core_group_names_the_resource_alone() {
        let message =
            r#"nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope"#;
        assert_eq!(refused(message), Some(("list".to_owned(), "nodes".to_owned())));
    }

    #[test]
    fn a_refusal_of_a_path_names_the_path() {
        let message = r#"forbidden: User "system:anonymous" cannot get path "/version""#;
        assert_eq!(refused(message), Some(("get".to_owned(), "/version".to_owned())));
    }

    #[test]
    fn a_refusal_in_other_words_is_still_a_refusal() {
        assert!(matches!(status(403, "no"), ProbeError::Forbidden { .. }));
    }

    #[test]
    fn an_overloaded_or_broken_server_counts_as_away() {
        assert!(status(429, "slow down").is_away() && status(503, "starting").is_away());
        assert!(!status(404, "no such page").is_away() && !status(401, "who?").is_away());
    }

    #[test]
    fn a_certificate_error_is_found_inside_io_errors() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        let error = kube::Error::Service(Box::new(wrapped));
        assert!(matches!(ProbeError::from(error), ProbeError::WrongCa { .. }));
    }
}
