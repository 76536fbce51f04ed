// SPDX-License-Identifier: Apache-2.0
//! Who may: each request is a question to the upper cluster, which verb on which part of this node.
//!
//! Kubernetes `pkg/kubelet/server/auth.go` with `KubeletFineGrainedAuthz`, and stricter in one point: a client opens an
//! exec over WebSocket with a GET, so for a kubelet who may `get` the node's proxy may run commands in every pod of it.
//! Here, what writes into a container is `create`, however it was asked for. `system:kubelet-api-admin`, which API
//! servers have, holds both.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};

use super::{
    authentication::{Identity, REVIEW},
    expiring::Expiring,
};

/// How long a yes counts (`authorization.webhook.cacheAuthorizedTTL`).
const ALLOWED: Duration = Duration::from_secs(300);
/// How long a no counts (`authorization.webhook.cacheUnauthorizedTTL`).
const DENIED: Duration = Duration::from_secs(30);
/// Reviews that are remembered.
const REMEMBERED: usize = 8192;
/// What [`attributes`] falls back to: the right to everything the kubelet has.
const PROXY: &str = "proxy";

/// What has to be allowed for a request: `verb` on one of `subresources` of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Empty for a method that means none.
    pub verb: &'static str,
    /// Any one of them suffices; asked for in this order.
    pub subresources: &'static [&'static str],
}

/// What a request needs.
pub fn attributes(method: &Method, path: &str) -> Attributes {
    let below = |parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let subresources: &[&str] = match () {
        () if below("/pods") || below("/runningpods") => &["pods", PROXY],
        () if below("/healthz") => &["healthz", PROXY],
        () if below("/configz") => &["configz", PROXY],
        () if below("/statusz") => &["statusz", PROXY],
        () if below("/stats") => &["stats"],
        () if below("/metrics") => &["metrics"],
        () if below("/logs") => &["log"],
        () if below("/checkpoint") => &["checkpoint"],
        () => &[PROXY],
    };
    let writes = ["/exec", "/attach", "/run", "/portForward"].into_iter().any(below);
    Attributes { verb: if writes { "create" } else { verb(method) }, subresources }
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The upper cluster did not say whether a request is allowed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("{0}")]
    Refused(#[from] kube::Error),
    #[error("no answer in time")]
    Late,
}

/// Asks whether somebody may do something.
#[derive(Debug)]
pub(super) struct Authorizer {
    reviews: Api<SubjectAccessReview>,
    node: String,
    answers: Expiring<bool>,
}

impl Authorizer {
    pub(super) fn new(client: Client, node: &str) -> Self {
        Self { reviews: Api::all(client), node: node.to_owned(), answers: Expiring::new(REMEMBERED) }
    }

    /// Whether `who` may do what `asked` says.
    pub(super) async fn allows(&self, who: &Identity, asked: Attributes) -> Result<bool, ReviewError> {
        for subresource in asked.subresources {
            if self.allows_one(who, asked.verb, subresource).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn allows_one(&self, who: &Identity, verb: &str, subresource: &str) -> Result<bool, ReviewError> {
        let question = (who, verb, subresource);
        if let Some(answer) = self.answers.get(&question) {
            return Ok(answer);
        }
        let review = self.review(who, verb, subresource);
        let answer = tokio::time::timeout(REVIEW, self.reviews.create(&PostParams::default(), &review)).await;
        let status = answer.map_err(|_| ReviewError::Late)??.status.unwrap_or_default();
        let allowed = status.allowed && status.denied != Some(true);
        self.answers.put(&question, allowed, if allowed { ALLOWED } else { DENIED });
        Ok(allowed)
    }

    fn review(&self, who: &Identity, verb: &str, subresource: &str) -> SubjectAccessReview {
        let attributes = ResourceAttributes {
            name: Some(self.node.clone()),
            resource: Some("nodes".to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some(verb.to_owned()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(who.username.clone()),
            uid: who.uid.clone(),
            groups: Some(who.groups.clone()),
            extra: (!who.extra.is_empty()).then(|| who.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        SubjectAccessReview { spec, ..SubjectAccessReview::default() }
    }
}

#[cfg(test)]
mod tests;
