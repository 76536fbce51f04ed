// SPDX-License-Identifier: Apache-2.0
//! Label selectors over pods and namespaces, and the pod affinity terms they are part of.

use serde::{Deserialize, Deserializer};

use super::labels::Labels;
use super::text::{Text, Texts};

/// A `LabelSelector`: all of its requirements hold. Without any it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector(Box<[Requirement]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
struct Requirement {
    key: Text,
    operator: Operator,
    #[serde(default, deserialize_with = "or_default")]
    values: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// One that this version does not know: it matches nothing.
    #[serde(other)]
    Unknown,
}

/// `null` is what Go clients send for an empty list or map.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl LabelSelector {
    /// Whether it matches whatever the labels are.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it matches an object with these labels.
    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }

    /// With the requirement that the labels `keys` have the values they have in `labels`, or other ones if `same` is not
    /// set. A key that is not in `labels` is passed over.
    pub(super) fn and_like(self, keys: &[Text], labels: &Labels, same: bool) -> Self {
        let operator = if same { Operator::In } else { Operator::NotIn };
        let more = keys.iter().filter_map(|key| {
            let values = vec![labels.get(key)?.into()];
            Some(Requirement { key: key.clone(), operator, values })
        });
        let mut all: Vec<Requirement> = self.0.into_iter().chain(more).collect();
        all.sort();
        all.dedup();
        Self(all.into())
    }

    fn share(&mut self, texts: &mut Texts) {
        for requirement in &mut self.0 {
            texts.share(&mut requirement.key);
            requirement.values.iter_mut().for_each(|value| texts.share(value));
        }
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let among = |value: &str| self.values.iter().any(|known| **known == *value);
        match self.operator {
            Operator::In => value.is_some_and(among),
            Operator::NotIn => !value.is_some_and(among),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Unknown => false,
        }
    }
}

impl<'de> Deserialize<'de> for LabelSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            #[serde(default, deserialize_with = "or_default")]
            match_labels: Labels,
            #[serde(default, deserialize_with = "or_default")]
            match_expressions: Vec<Requirement>,
        }
        let written = Written::deserialize(deserializer)?;
        let labels = written.match_labels.iter().map(|(key, value)| Requirement {
            key: key.into(),
            operator: Operator::In,
            values: vec![value.into()],
        });
        let mut all: Vec<Requirement> = labels.chain(written.match_expressions).collect();
        all.sort();
        all.dedup();
        Ok(Self(all.into()))
    }
}

/// A `PodAffinityTerm` as the API writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenTerm {
    label_selector: Option<LabelSelector>,
    #[serde(default)]
    topology_key: Text,
    #[serde(default, deserialize_with = "or_default")]
    namespaces: Vec<Text>,
    namespace_selector: Option<LabelSelector>,
    #[serde(default, deserialize_with = "or_default")]
    match_label_keys: Vec<Text>,
    #[serde(default, deserialize_with = "or_default")]
    mismatch_label_keys: Vec<Text>,
}

/// A term of pod affinity or anti-affinity, of a pod that is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// `None` matches no pod.
    selector: Option<LabelSelector>,
    /// Pods of these namespaces count, and those of namespaces that `namespace_selector` matches.
    pub(super) namespaces: Box<[Text]>,
    pub(super) namespace_selector: Option<LabelSelector>,
    /// The label whose values are the domains.
    pub(super) topology_key: Text,
}

impl PodTerm {
    /// The term as it counts for a pod of `namespace`. Where the API server has merged `matchLabelKeys` into the selector,
    /// merging them again changes nothing.
    pub(super) fn of(written: WrittenTerm, namespace: &Text, labels: &Labels) -> Self {
        let selector = written.label_selector.map(|selector| {
            let selector = selector.and_like(&written.match_label_keys, labels, true);
            selector.and_like(&written.mismatch_label_keys, labels, false)
        });
        let mut namespaces = written.namespaces;
        if namespaces.is_empty() && written.namespace_selector.is_none() {
            namespaces.push(namespace.clone());
        }
        Self {
            selector,
            namespaces: namespaces.into(),
            namespace_selector: written.namespace_selector,
            topology_key: written.topology_key,
        }
    }

    /// Whether it matches a pod with these labels, of a namespace with these labels.
    pub(super) fn matches(&self, namespace: &str, namespace_labels: Option<&Labels>, labels: &Labels) -> bool {
        let of_namespace = self.namespaces.iter().any(|known| **known == *namespace)
            // Of a namespace that is not known, upstream takes the labels for empty.
            || self.namespace_selector.as_ref().is_some_and(|selector| match namespace_labels {
                Some(labels) => selector.matches(labels),
                None => selector.matches(&Labels::default()),
            });
        of_namespace && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether it may match pods of other namespaces than this one.
    pub(super) fn leaves(&self, namespace: &str) -> bool {
        self.namespace_selector.is_some() || self.namespaces.iter().any(|known| **known != *namespace)
    }

    pub(super) fn share(&mut self, texts: &mut Texts) {
        for selector in [&mut self.selector, &mut self.namespace_selector].into_iter().flatten() {
            selector.share(texts);
        }
        self.namespaces.iter_mut().for_each(|namespace| texts.share(namespace));
        texts.share(&mut self.topology_key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(selector: serde_json::Value, labels: serde_json::Value) -> bool {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        selector.matches(&serde_json::from_value(labels).unwrap())
    }

    #[test]
    fn requirements_follow_the_api() {
        let web = || json!({"app": "web"});
        let expression = |operator: &str, values: serde_json::Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        assert!(matches(json!({}), json!({})));
        assert!(matches(json!({"matchLabels": {"app": "web"}}), web()));
        assert!(!matches(json!({"matchLabels": {"app": "web", "tier": "a"}}), web()));
        assert!(matches(expression("In", json!(["x", "web"])), web()));
        assert!(!matches(expression("In", json!(["x"])), json!({})));
        assert!(!matches(expression("NotIn", json!(["web"])), web()));
        assert!(matches(expression("NotIn", json!(["web"])), json!({})), "an absent label is not in");
        assert!(matches(expression("Exists", json!(null)), web()));
        assert!(matches(expression("DoesNotExist", json!([])), json!({})));
        assert!(!matches(expression("Near", json!(["web"])), web()), "what is not known matches nothing");
    }

    #[test]
    fn keys_to_match_are_merged_once_with_the_pods_own_values() {
        let labels: Labels = [("app", "web"), ("hash", "1")].into_iter().collect();
        let written = |text| serde_json::from_value::<WrittenTerm>(text).unwrap();
        let bare = json!({"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["hash", "absent"]});
        let merged = json!({"topologyKey": "zone", "matchLabelKeys": ["hash"],
            "labelSelector": {"matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]}});
        let term = PodTerm::of(written(bare), &"a".into(), &labels);
        assert_eq!(term, PodTerm::of(written(merged), &"a".into(), &labels));
        assert!(term.matches("a", None, &labels));
        assert!(!term.matches("b", None, &labels), "only its own namespace");
        assert!(!term.matches("a", None, &[("hash", "2")].into_iter().collect()));
    }
}
