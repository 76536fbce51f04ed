// SPDX-License-Identifier: Apache-2.0
//! Kubernetes' matching rules: node selectors, node affinity terms, tolerations.
//!
//! The rules are those of kube-scheduler (`component-helpers/scheduling/corev1` and `apimachinery/pkg/labels`), also
//! where they are odd; the tests hold them against an oracle that was written apart.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::raw::{self, Malformed, Path};

/// The field by which `matchFields` may select, the only one the API server accepts.
pub const METADATA_NAME: &str = "metadata.name";

/// A node as far as selection sees it.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// Its `metadata.name`.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// A node's taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// The taint's value, often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A pod's toleration, as far as filtering reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toleration<'a> {
    /// Empty: any key.
    pub key: &'a str,
    /// Empty: `Equal`.
    pub operator: &'a str,
    /// Compared by `Equal`.
    pub value: &'a str,
    /// Empty: any effect.
    pub effect: &'a str,
}

/// How a requirement compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label is there with one of the values.
    In,
    /// The label is absent, or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer greater than the value.
    Gt,
    /// The label is an integer less than the value.
    Lt,
    /// One this version does not know. Its term matches nothing.
    Unknown,
}

/// A `NodeSelectorRequirement`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement<'a> {
    /// A label's key, or a field's name.
    pub key: &'a str,
    /// How it compares.
    pub operator: Operator,
    /// What it compares with.
    pub values: Vec<&'a str>,
}

/// A `NodeSelectorTerm`: all of its requirements hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSelectorTerm<'a> {
    /// Over the node's labels.
    pub match_expressions: Vec<Requirement<'a>>,
    /// Over the node's fields, that is its name.
    pub match_fields: Vec<Requirement<'a>>,
}

/// The hard constraints of a pod spec on a node's name, labels and taints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HardConstraints<'a> {
    /// Labels the node has with just these values.
    pub node_selector: Vec<(&'a str, &'a str)>,
    /// One of these terms matches; `None`: nothing is required.
    pub required: Option<Vec<NodeSelectorTerm<'a>>>,
    /// They cover every `NoSchedule` and `NoExecute` taint.
    pub tolerations: Vec<Toleration<'a>>,
}

impl<'a> Requirement<'a> {
    pub(super) fn read(value: &'a Value, at: Path<'_>) -> Result<Self, Malformed> {
        let map = raw::object(value, at)?;
        let values = raw::list(map, "values", at)?
            .iter()
            .enumerate()
            .map(|(index, value)| value.as_str().ok_or_else(|| at.member("values").item(index).must_be("a string")));
        Ok(Self {
            key: raw::text(map, "key", at)?,
            operator: match raw::text(map, "operator", at)? {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                "Gt" => Operator::Gt,
                "Lt" => Operator::Lt,
                _ => Operator::Unknown,
            },
            values: values.collect::<Result<_, _>>()?,
        })
    }

    /// Whether it holds for these labels. One the scheduler cannot parse never holds, and with it its whole term.
    pub fn matches_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        if !self.is_valid_for_labels() {
            return false;
        }
        let label = labels.get(self.key).map(String::as_str);
        match self.operator {
            Operator::In => label.is_some_and(|label| self.values.contains(&label)),
            Operator::NotIn => label.is_none_or(|label| !self.values.contains(&label)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt => self.compare(label).is_some_and(|(label, bound)| label > bound),
            Operator::Lt => self.compare(label).is_some_and(|(label, bound)| label < bound),
            Operator::Unknown => false,
        }
    }

    /// Whether it holds for the fields of a node of this name: one value exactly, and `In` or `NotIn`.
    pub fn matches_fields(&self, name: &str) -> bool {
        // A field that does not exist reads as empty.
        let field = if self.key == METADATA_NAME { name } else { "" };
        match (self.operator, self.values.as_slice()) {
            (Operator::In, [value]) => *value == field,
            (Operator::NotIn, [value]) => *value != field,
            _ => false,
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    pub(crate) fn is_valid_for_labels(&self) -> bool {
        let values_fit = match self.operator {
            Operator::In | Operator::NotIn => !self.values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => self.values.is_empty(),
            Operator::Gt | Operator::Lt => matches!(self.values.as_slice(), [bound] if bound.parse::<i64>().is_ok()),
            Operator::Unknown => false,
        };
        values_fit && is_label_key(self.key) && self.values.iter().all(|value| is_label_value(value))
    }
}

impl<'a> NodeSelectorTerm<'a> {
    pub(crate) fn read(value: &'a Value, at: Path<'_>) -> Result<Self, Malformed> {
        let map = raw::object(value, at)?;
        let requirements = |name| -> Result<Vec<Requirement<'a>>, Malformed> {
            let items = raw::list(map, name, at)?.iter().enumerate();
            items.map(|(index, item)| Requirement::read(item, at.member(name).item(index))).collect()
        };
        Ok(Self { match_expressions: requirements("matchExpressions")?, match_fields: requirements("matchFields")? })
    }

    /// Whether all of its requirements hold. A term without any matches nothing.
    pub fn matches(&self, node: Node<'_>) -> bool {
        (!self.match_expressions.is_empty() || !self.match_fields.is_empty())
            && self.match_expressions.iter().all(|requirement| requirement.matches_labels(node.labels))
            && self.match_fields.iter().all(|requirement| requirement.matches_fields(node.name))
    }
}

impl<'a> Toleration<'a> {
    fn read(value: &'a Value, at: Path<'_>) -> Result<Self, Malformed> {
        let map = raw::object(value, at)?;
        let text = |name| raw::text(map, name, at);
        Ok(Self { key: text("key")?, operator: text("operator")?, value: text("value")?, effect: text("effect")? })
    }

    /// Whether it covers the taint. The comparing operators (`Gt`, `Lt`) are alpha and off unless an administrator
    /// enabled them: here they cover nothing.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.covers(&taint.key, &taint.value, &taint.effect)
    }

    /// Whether it covers the taint of this key, value and effect.
    pub(crate) fn covers(&self, key: &str, value: &str, effect: &str) -> bool {
        (self.effect.is_empty() || self.effect == effect)
            && (self.key.is_empty() || self.key == key)
            && match self.operator {
                "" | "Equal" => self.value == value,
                "Exists" => true,
                _ => false,
            }
    }
}

impl<'a> HardConstraints<'a> {
    /// Reads them from a pod's `spec`.
    pub fn of_spec(spec: &'a Map<String, Value>) -> Result<Self, Malformed> {
        let root = Path::Root("spec");
        let mut constraints = Self::default();
        if let Some(selector) = member(spec, "nodeSelector") {
            let at = root.member("nodeSelector");
            for (key, value) in raw::object(selector, at)? {
                let value = value.as_str().ok_or_else(|| at.member(key).must_be("a string"))?;
                constraints.node_selector.push((key, value));
            }
        }
        if let Some(affinity) = member(spec, "affinity") {
            let at = root.member("affinity");
            if let Some(node_affinity) = member(raw::object(affinity, at)?, "nodeAffinity") {
                let at = at.member("nodeAffinity");
                constraints.required = required_terms(raw::object(node_affinity, at)?, at)?;
            }
        }
        for (index, item) in raw::list(spec, "tolerations", root)?.iter().enumerate() {
            constraints.tolerations.push(Toleration::read(item, root.member("tolerations").item(index))?);
        }
        Ok(constraints)
    }

    /// Whether the node's name and labels are what the pod requires.
    pub fn select(&self, node: Node<'_>) -> bool {
        self.node_selector.iter().all(|(key, value)| node.labels.get(*key).is_some_and(|label| label == value))
            && self.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// The first taint that keeps the pod off a node, `None` if it may run there.
    pub fn untolerated<'t>(&self, taints: &'t [Taint]) -> Option<&'t Taint> {
        taints
            .iter()
            .filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
            .find(|taint| !self.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }
}

fn member<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|value| !value.is_null())
}

fn required_terms<'a>(
    node_affinity: &'a Map<String, Value>,
    at: Path<'_>,
) -> Result<Option<Vec<NodeSelectorTerm<'a>>>, Malformed> {
    let name = "requiredDuringSchedulingIgnoredDuringExecution";
    let Some(required) = member(node_affinity, name) else {
        return Ok(None);
    };
    let at = at.member(name);
    let terms = raw::list(raw::object(required, at)?, "nodeSelectorTerms", at)?.iter().enumerate();
    let at = at.member("nodeSelectorTerms");
    terms.map(|(index, item)| NodeSelectorTerm::read(item, at.item(index))).collect::<Result<_, _>>().map(Some)
}

/// A qualified name: up to 63 characters, after an optional DNS subdomain and a slash.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Empty, or up to 63 of `[A-Za-z0-9._-]` with an alphanumeric one at either end.
fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
}

fn is_dns_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(alphanumeric)
                && bytes.last().is_some_and(alphanumeric)
                && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        })
}
