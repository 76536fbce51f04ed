// SPDX-License-Identifier: Apache-2.0
//! `AdmissionReview`, v1 and v1beta1: the question as far as it is looked at, and the answer.
//!
//! The two versions differ in nothing that is used here. The object under review stays raw, so that a review of
//! something else costs nothing, and no field of it can be lost.

use std::borrow::Cow;

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

const KIND: &str = "AdmissionReview";
const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// A review, borrowed from the body of the request.
#[derive(Debug)]
pub struct Review<'a> {
    version: &'static str,
    /// What is asked.
    pub request: Request<'a>,
}

/// The question.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Names the question in the answer.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    /// What kind of object it is about.
    #[serde(borrow)]
    pub kind: Kind<'a>,
    /// The part of the object, if not all of it.
    #[serde(borrow, default)]
    pub sub_resource: Cow<'a, str>,
    /// The object's namespace.
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(borrow)]
    pub operation: Cow<'a, str>,
    /// The object as it would be stored; absent for `DELETE`.
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
}

/// Group and kind of an object.
#[derive(Debug, Deserialize)]
pub struct Kind<'a> {
    /// Empty for the core group.
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    /// Such as `Pod`.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

/// What is decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The object may be stored as it is.
    Untouched,
    /// The object may be stored after these changes.
    Changed {
        /// The changes, in this order; none if only something is said.
        patch: Vec<Operation>,
        /// What the author is told.
        warnings: Vec<String>,
    },
    /// The object may not be stored.
    Denied(Denial),
}

/// Why an object may not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// HTTP status that the API server gives to the author.
    pub code: u16,
    /// The same as one of Kubernetes' status reasons.
    pub reason: &'static str,
    /// A sentence for the author.
    pub message: String,
}

/// One operation of a JSON patch (RFC 6902).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Sets a member, which may be there already.
    Add {
        /// JSON pointer to the member.
        path: String,
        /// What it is set to.
        value: Value,
    },
    /// Takes a member away.
    Remove {
        /// JSON pointer to the member.
        path: String,
    },
}

/// Why a body is not a review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or not of the shape of a review.
    #[error("the body is not an AdmissionReview: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Another kind, or a version from the future.
    #[error("expected an AdmissionReview of {}, got {kind:?} of {version:?}", VERSIONS.join(" or "))]
    Unsupported {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        version: String,
    },
    /// A review that asks nothing.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Option<Request<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    outcome: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
}

impl<'a> Review<'a> {
    /// Reads the body of a request.
    pub fn read(body: &'a [u8]) -> Result<Self, ReviewError> {
        let Envelope { api_version, kind, request } = serde_json::from_slice(body)?;
        match VERSIONS.into_iter().find(|version| kind == KIND && api_version == *version) {
            Some(version) => Ok(Self { version, request: request.ok_or(ReviewError::NoRequest)? }),
            None => Err(ReviewError::Unsupported { kind: kind.into_owned(), version: api_version.into_owned() }),
        }
    }

    /// The body of the answer, in the version of the question.
    pub fn answer(&self, verdict: &Verdict) -> serde_json::Result<Vec<u8>> {
        let mut response = Response {
            uid: &self.request.uid,
            allowed: true,
            status: None,
            patch_type: None,
            patch: None,
            warnings: &[],
        };
        match verdict {
            Verdict::Untouched => {}
            Verdict::Changed { patch, warnings } => {
                response.warnings = warnings;
                if !patch.is_empty() {
                    response.patch_type = Some("JSONPatch");
                    response.patch = Some(ByteString(serde_json::to_vec(patch)?));
                }
            }
            Verdict::Denied(Denial { code, reason, message }) => {
                response.allowed = false;
                response.status = Some(Status { outcome: "Failure", code: *code, reason, message });
            }
        }
        serde_json::to_vec(&Answer { api_version: self.version, kind: KIND, response })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(version: &str) -> Vec<u8> {
        json!({
            "apiVersion": version, "kind": "AdmissionReview",
            "request": {
                "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "n\u{e9}",
                "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE",
                "userInfo": {"username": "someone"}, "object": {"a": 1.10}, "oldObject": null, "dryRun": false,
            },
        })
        .to_string()
        .into_bytes()
    }

    fn answer(verdict: &Verdict) -> Value {
        let body = body("admission.k8s.io/v1");
        let answer = Review::read(&body).unwrap().answer(verdict).unwrap();
        serde_json::from_slice(&answer).unwrap()
    }

    #[test]
    fn both_versions_are_read_and_answered_in_kind() {
        for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
            let body = body(version);
            let review = Review::read(&body).unwrap();
            assert_eq!(review.request.namespace, "n\u{e9}");
            assert_eq!(review.request.sub_resource, "");
            let answer: Value = serde_json::from_slice(&review.answer(&Verdict::Untouched).unwrap()).unwrap();
            assert_eq!(
                answer,
                json!({"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": "u-1", "allowed": true}})
            );
        }
    }

    #[test]
    fn a_patch_is_encoded_and_typed() {
        let patch = vec![
            Operation::Add { path: "/a".to_owned(), value: json!({"b": "c"}) },
            Operation::Remove { path: "/d".to_owned() },
        ];
        let verdict = Verdict::Changed { patch, warnings: vec!["careful".to_owned()] };
        // The patch is `[{"op":"add","path":"/a","value":{"b":"c"}},{"op":"remove","path":"/d"}]` in base64.
        let encoded =
            "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6eyJiIjoiYyJ9fSx7Im9wIjoicmVtb3ZlIiwicGF0aCI6Ii9kIn1d";
        assert_eq!(
            answer(&verdict)["response"],
            json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch", "patch": encoded, "warnings": ["careful"]})
        );
    }

    #[test]
    fn a_warning_alone_needs_no_patch() {
        let verdict = Verdict::Changed { patch: Vec::new(), warnings: vec!["careful".to_owned()] };
        assert_eq!(answer(&verdict)["response"], json!({"uid": "u-1", "allowed": true, "warnings": ["careful"]}));
    }

    #[test]
    fn a_denial_says_why() {
        let denial = Denial { code: 422, reason: "Invalid", message: "no".to_owned() };
        assert_eq!(
            answer(&Verdict::Denied(denial))["response"],
            json!({"uid": "u-1", "allowed": false,
                "status": {"status": "Failure", "code": 422, "reason": "Invalid", "message": "no"}})
        );
    }

    #[test]
    fn what_is_not_a_review_is_refused_with_the_reason() {
        for (body, sentence) in [
            ("", "the body is not an AdmissionReview: EOF while parsing a value at line 1 column 0"),
            ("[]", r#"expected an AdmissionReview of admission.k8s.io/v1 or admission.k8s.io/v1beta1, got "" of """#),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                r#"expected an AdmissionReview of admission.k8s.io/v1 or admission.k8s.io/v1beta1, got "Pod" of "v1""#,
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#,
                r#"expected an AdmissionReview of admission.k8s.io/v1 or admission.k8s.io/v1beta1, got "AdmissionReview" of "admission.k8s.io/v2""#,
            ),
            (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "the AdmissionReview has no request"),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}"#,
                "the body is not an AdmissionReview: missing field `kind` at line 1 column 82",
            ),
        ] {
            assert_eq!(Review::read(body.as_bytes()).unwrap_err().to_string(), sentence);
        }
    }
}
