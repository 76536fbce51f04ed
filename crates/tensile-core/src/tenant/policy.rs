// SPDX-License-Identifier: Apache-2.0
//! What the operator puts into each namespace of a link: quotas, limits, and a wall around the tenant's pods.

use serde_json::{Value, json};

use crate::{names, pod::LinkView};

/// Name of the network policy.
const WALL: &str = "tensile-tenant";

/// A kind of object of which the operator gives some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A `ResourceQuota`.
    Quota,
    /// A `LimitRange`.
    Limits,
    /// A `NetworkPolicy`.
    Network,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Quota, Self::Limits, Self::Network];

    /// As in `kind:`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quota => "ResourceQuota",
            Self::Limits => "LimitRange",
            Self::Network => "NetworkPolicy",
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            Self::Quota | Self::Limits => "v1",
            Self::Network => "networking.k8s.io/v1",
        }
    }
}

/// What is in each namespace of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    quotas: Vec<(Rule, String, Value)>,
    isolates: bool,
}

/// A manifest that is no quota of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Of another kind.
    #[error("kind {0:?} is neither ResourceQuota nor LimitRange")]
    Kind(String),
    /// It lacks its name or what it says.
    #[error("a {0} lacks metadata.name or spec")]
    Incomplete(&'static str),
    /// There are two.
    #[error("there are two of {0}")]
    Twice(String),
}

impl Policy {
    /// Reads manifests of `ResourceQuota`s and `LimitRange`s, without their namespaces.
    ///
    /// # Errors
    /// What is wrong with the first that is none.
    pub fn read(manifests: &[Value]) -> Result<Self, PolicyError> {
        let mut quotas: Vec<(Rule, String, Value)> = Vec::new();
        for manifest in manifests.iter().filter(|manifest| !manifest.is_null()) {
            let kind = manifest["kind"].as_str().unwrap_or_default();
            let rule = [Rule::Quota, Rule::Limits].into_iter().find(|rule| rule.name() == kind);
            let rule = rule.ok_or_else(|| PolicyError::Kind(kind.to_owned()))?;
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            if name.is_empty() || !manifest["spec"].is_object() {
                return Err(PolicyError::Incomplete(rule.name()));
            }
            if quotas.iter().any(|(known, of, _)| (*known, of.as_str()) == (rule, name)) {
                return Err(PolicyError::Twice(format!("{} {name}", rule.name())));
            }
            quotas.push((rule, name.to_owned(), manifest["spec"].clone()));
        }
        Ok(Self { quotas, isolates: false })
    }

    /// The same, with a wall around the pods of the upper cluster or without.
    #[must_use]
    pub fn isolating(self, isolates: bool) -> Self {
        Self { isolates, ..self }
    }

    /// What is to be in the namespace `namespace` below, each with its kind.
    #[must_use]
    pub fn objects(&self, namespace: &str, link: &LinkView) -> Vec<(Rule, Value)> {
        let wall = self.isolates.then(|| (Rule::Network, WALL.to_owned(), wall(link)));
        let all = self.quotas.iter().cloned().chain(wall);
        all.map(|(rule, name, spec)| {
            let applied = names::fingerprint(&spec);
            let object = json!({
                "apiVersion": rule.api_version(),
                "kind": rule.name(),
                "metadata": {
                    "name": name, "namespace": namespace, "labels": link.owner(),
                    "annotations": { names::APPLIED: applied },
                },
                "spec": spec,
            });
            (rule, object)
        })
        .collect()
    }
}

/// Only pods of the same upper cluster reach its pods.
fn wall(link: &LinkView) -> Value {
    let ours = json!({ "matchLabels": { names::UPPER_CLUSTER: names::label_value(&link.upper_cluster) } });
    json!({
        "podSelector": ours,
        "policyTypes": ["Ingress"],
        "ingress": [{ "from": [{ "namespaceSelector": {}, "podSelector": ours }] }],
    })
}

/// What is to be done in a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create this.
    Create(Rule, Value),
    /// Replace what has this name by this.
    Replace(Rule, Value),
    /// Delete the one with this name and UID.
    Delete(Rule, String, String),
}

/// What is to be done so that of `present`, which the link made in a namespace, exactly what is `wanted` is left.
#[must_use]
pub fn plan(wanted: Vec<(Rule, Value)>, present: &[(Rule, Value)]) -> Vec<Action> {
    let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = |object: &Value| text(object, "/metadata/name").unwrap_or_default();
    let applied = |object: &Value| object["metadata"]["annotations"][names::APPLIED].as_str().map(str::to_owned);
    let mut actions: Vec<Action> = present
        .iter()
        .filter(|(rule, there)| !wanted.iter().any(|(of, object)| of == rule && name(object) == name(there)))
        .map(|(rule, there)| Action::Delete(*rule, name(there), text(there, "/metadata/uid").unwrap_or_default()))
        .collect();
    for (rule, mut object) in wanted {
        match present.iter().find(|(of, there)| *of == rule && name(there) == name(&object)) {
            None => actions.push(Action::Create(rule, object)),
            Some((_, there)) if applied(there) == applied(&object) => {}
            Some((_, there)) => {
                for member in ["uid", "resourceVersion"] {
                    object["metadata"][member] = there["metadata"][member].clone();
                }
                actions.push(Action::Replace(rule, object));
            }
        }
    }
    actions
}
