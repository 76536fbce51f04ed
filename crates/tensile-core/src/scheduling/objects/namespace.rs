// SPDX-License-Identifier: Apache-2.0
//! Namespaces and their quotas.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};

use super::super::labels::Labels;
use super::super::text::Text;
use super::{Written, or_default};
use crate::resources::ResourceVector;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: Labels,
}

/// A `ResourceQuota`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// The most that the namespace may take.
    pub hard: ResourceVector,
    /// What it takes.
    pub used: ResourceVector,
    /// Only pods of all these kinds count. Empty: all pods.
    pub scopes: Box<[Scope]>,
}

/// A restriction of a quota to pods of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `BestEffort`, `NotBestEffort`, `Terminating`, `NotTerminating`, `PriorityClass`, `CrossNamespacePodAffinity`.
    pub name: Box<str>,
    /// For `PriorityClass`: how it compares, and with what.
    pub operator: Box<str>,
    /// The values it compares with.
    pub values: Box<[Box<str>]>,
}

#[derive(Deserialize)]
struct Meta {
    name: Text,
    #[serde(default)]
    namespace: Text,
    #[serde(default)]
    labels: Labels,
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::<Meta, de::IgnoredAny, de::IgnoredAny>::deserialize(deserializer)?;
        let Meta { name, labels, .. } = written.metadata;
        Ok(Self { name, labels })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QuotaSpec {
    #[serde(deserialize_with = "or_default")]
    scopes: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    scope_selector: BTreeMap<String, Vec<ScopeExpression>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScopeExpression {
    scope_name: Box<str>,
    #[serde(default)]
    operator: Box<str>,
    #[serde(default, deserialize_with = "or_default")]
    values: Vec<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QuotaStatus {
    #[serde(deserialize_with = "or_default")]
    hard: ResourceVector,
    #[serde(deserialize_with = "or_default")]
    used: ResourceVector,
}

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written::<Meta, QuotaSpec, QuotaStatus> { metadata, spec, status } = Written::deserialize(deserializer)?;
        let plain =
            spec.scopes.into_iter().map(|name| Scope { name, operator: "Exists".into(), values: Box::default() });
        let selected = spec.scope_selector.into_values().flatten().map(|expression| Scope {
            name: expression.scope_name,
            operator: expression.operator,
            values: expression.values.into(),
        });
        Ok(Self {
            namespace: metadata.namespace,
            name: metadata.name,
            // Admission compares with what the quota controller has acknowledged.
            hard: status.hard,
            used: status.used,
            scopes: plain.chain(selected).collect(),
        })
    }
}
