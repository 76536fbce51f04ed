// SPDX-License-Identifier: Apache-2.0
//! What an API server was asked, from its audit log.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;

/// The requests that an API server answered, in order.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// One by one.
    pub requests: Vec<Request>,
}

/// One answered request. A watch is answered when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Who asked, as the client calls itself.
    #[serde(default)]
    pub user_agent: String,
    /// Who asked, as the API server knows them.
    #[serde(default)]
    pub user: Account,
    /// In whose name, if in another's.
    pub impersonated_user: Option<Account>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// With the query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// What it was about, if it was about an object or a collection.
    pub object_ref: Option<Object>,
    /// The answer.
    pub response_status: Option<Status>,
    /// When it came.
    pub request_received_timestamp: Option<Timestamp>,
    /// What those who decided about it said, such as `authorization.k8s.io/decision`.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Such as `system:serviceaccount:NAMESPACE:NAME`.
    pub username: String,
    /// Such as `system:nodes`.
    pub groups: Vec<String>,
}

/// An object or a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Object {
    /// Empty for the core group.
    pub api_group: String,
    /// Plural, such as `pods`.
    pub resource: String,
    /// Such as `status`; may be empty.
    pub subresource: String,
    /// May be empty.
    pub namespace: String,
    /// May be empty.
    pub name: String,
}

/// The answer's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// HTTP status.
    pub code: u16,
}

impl Audit {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { requests: parse(&std::fs::read_to_string(path)?)? })
    }

    /// Those whose user agent starts with `user_agent`.
    #[must_use]
    pub fn by(&self, user_agent: &str) -> Self {
        Self { requests: self.requests.iter().filter(|r| r.user_agent.starts_with(user_agent)).cloned().collect() }
    }

    /// Those that came after the first `count`.
    #[must_use]
    pub fn after(&self, count: usize) -> Self {
        Self { requests: self.requests.iter().skip(count).cloned().collect() }
    }

    /// How many of each kind: `patch pods/status`, `create pods`, `get /readyz`.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.requests.iter().fold(BTreeMap::new(), |mut counts, request| {
            *counts.entry(request.kind()).or_default() += 1;
            counts
        })
    }
}

impl Request {
    /// The verb and what it is about: `patch pods/status`.
    pub fn kind(&self) -> String {
        let path = self.request_uri.split('?').next().unwrap_or_default();
        match &self.object_ref {
            Some(object) if object.subresource.is_empty() => format!("{} {}", self.verb, object.resource),
            Some(object) => format!("{} {}/{}", self.verb, object.resource, object.subresource),
            None => format!("{} {path}", self.verb),
        }
    }
}

/// Every whole line; the last one may be half-written by a server that still runs.
fn parse(log: &str) -> serde_json::Result<Vec<Request>> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = concat!(
        r#"{"verb":"patch","userAgent":"a/1","requestURI":"/x?y","objectRef":{"resource":"pods","subresource":"status"},"responseStatus":{"code":200}}"#,
        "\n",
        r#"{"verb":"get","requestURI":"/readyz?verbose","responseStatus":{"code":200}}"#,
        "\n",
        r#"{"verb":"get","reque"#
    );

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let audit = Audit { requests: parse(LOG).unwrap() };
        let counts = BTreeMap::from([("get /readyz".to_owned(), 1), ("patch pods/status".to_owned(), 1)]);
        assert_eq!(audit.counts(), counts);
        assert_eq!(audit.by("a/").requests.len(), 1);
    }
}
