// SPDX-License-Identifier: Apache-2.0
//! What must change below so that a lower pod follows its upper pod.
//!
//! A running pod can change little (Kubernetes `ValidatePodUpdate`, `ValidatePodResize`,
//! `ValidatePodEphemeralContainersUpdate`): labels and annotations; images; a deadline set or shortened; tolerations
//! added or given other seconds; a negative termination grace period set to 1; cpu and memory through `resize`;
//! ephemeral containers added through their subresource. The upper API server holds users to the same rules, so what
//! is not possible below is not attempted. Only an edited stash, which upstairs is a mere annotation, is an error.

use std::{collections::BTreeMap, mem};

use serde_json::{Map, Value, json};

use super::{
    LinkView, NOTHING, Refusal, container,
    fields::object,
    followed::{Followed, LISTS, by_name, items, toleration_key},
    metadata,
    upper::Upper,
};
use crate::{names, placement::Placement};

/// One request to the lower API server. Each is a **strategic** merge patch, which alone can change one container by
/// name, and holds the lower pod's UID, so that it cannot hit the next pod of the name.
#[derive(Clone, Debug, PartialEq)]
pub enum LowerPatch {
    /// Of the pod: labels, annotations, images, deadline, tolerations. It notes what was applied.
    Pod(Value),
    /// Of its subresource `resize`.
    Resize(Value),
    /// Of its subresource `ephemeralcontainers`.
    EphemeralContainers(Value),
}

/// How a lower pod is brought up to date.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// To be sent in this order; empty when the pod is up to date. The last one notes what was applied, so the update
    /// remains due when an earlier one fails; subresources, which fail more easily (a quota, an older lower cluster),
    /// come after what would otherwise wait for them.
    pub patches: Vec<LowerPatch>,
    /// Paths of fields of new ephemeral containers that do not go down; see [`super::LowerPod::dropped`].
    pub dropped: Vec<String>,
}

/// What must be patched below so that `lower`, as the lower API server has it, follows `upper`.
///
/// # Errors
/// [`Refusal::StashEdited`] when that is all that is left to do; [`Refusal::Malformed`].
pub fn update(upper: &Value, lower: &Value, link: &LinkView, revision: u64) -> Result<Update, Refusal> {
    let upper = Upper::read(upper)?;
    let mut dropped = Vec::new();
    let placement = upper.placement(link).ok();
    let misplaced = placement.is_none();
    let wanted = wanted(&upper, placement, link, &mut dropped);
    let record = Followed::recorded(lower);

    let mut noted = wanted.hashes();
    if misplaced {
        // The lower pod keeps the constraints it has; if this is because the stash was edited, that is reported.
        noted.tolerations = record.as_ref().map(|record| record.tolerations.clone()).unwrap_or_default();
    }
    let stash_edited = record.as_ref().is_some_and(|record| record.stash != noted.stash);
    if stash_edited {
        noted.stash = record.as_ref().and_then(|record| record.stash.clone());
    }

    let change = Change { wanted: &wanted, record: &record.unwrap_or_default(), lower };
    let attached = change.patch(Map::new(), change.ephemeral()).map(LowerPatch::EphemeralContainers);
    let resized = change.patch(Map::new(), change.resources()).map(LowerPatch::Resize);
    if attached.is_none() {
        dropped.clear();
    }
    let (mut metadata, mut spec) = (change.metadata(), change.spec());
    let mut patches = Vec::new();
    if attached.is_some() || resized.is_some() {
        patches.extend(change.patch(mem::take(&mut metadata), mem::take(&mut spec)).map(LowerPatch::Pod));
        patches.extend(attached.into_iter().chain(resized));
    }
    change.stamp(&mut metadata, &noted, (!stash_edited).then_some(revision));
    patches.extend(change.patch(metadata, spec).map(LowerPatch::Pod));

    if patches.is_empty() && stash_edited {
        return Err(Refusal::StashEdited);
    }
    Ok(Update { patches, dropped })
}

/// What of the lower pod should follow `upper`, as the upper pod now says.
fn wanted(
    upper: &Upper<'_>,
    placement: Option<Placement>,
    link: &LinkView,
    dropped: &mut Vec<String>,
) -> Followed<Value> {
    let mut spec: Map<String, Value> = LISTS
        .iter()
        .chain(&["resources", "activeDeadlineSeconds", "terminationGracePeriodSeconds"])
        .filter_map(|name| Some(((*name).to_owned(), upper.spec.get(*name)?.clone())))
        .collect();
    if let Some(tolerations) = placement.and_then(|placement| placement.tolerations) {
        spec.insert("tolerations".to_owned(), tolerations);
    }
    let ephemeral = container::lower(upper, "ephemeralContainers", link, dropped);
    spec.insert("ephemeralContainers".to_owned(), Value::Array(ephemeral));
    Followed::read(&metadata::lower(upper, link, &mut Vec::new()), &spec, upper.stash())
}

/// The three sides of an update.
struct Change<'a> {
    wanted: &'a Followed<Value>,
    record: &'a Followed<String>,
    lower: &'a Value,
}

impl Change<'_> {
    fn metadata(&self) -> Map<String, Value> {
        let labels = self.members("labels", &self.wanted.labels, &self.record.labels);
        let annotations = self.members("annotations", &self.wanted.annotations, &self.record.annotations);
        [("labels", labels), ("annotations", annotations)]
            .into_iter()
            .filter(|(_, members)| !members.is_empty())
            .map(|(map, members)| (map.to_owned(), Value::Object(members)))
            .collect()
    }

    /// Notes in a patch's `metadata` what will have been applied with it.
    fn stamp(&self, metadata: &mut Map<String, Value>, noted: &Followed<String>, revision: Option<u64>) {
        let stamps = [
            (names::APPLIED, Some(noted.to_text())),
            (names::APPLIED_REVISION, revision.map(|revision| revision.to_string())),
        ];
        for (key, text) in stamps {
            if let Some(text) = text.filter(|text| self.lower_member("annotations", key) != Some(&json!(text))) {
                metadata.entry("annotations").or_insert_with(|| json!({}))[key] = Value::String(text);
            }
        }
    }

    /// Changed members of a map of the metadata; `null` removes one.
    fn members(
        &self,
        map: &str,
        wanted: &BTreeMap<String, Value>,
        record: &BTreeMap<String, String>,
    ) -> Map<String, Value> {
        let set = changed(wanted, record)
            .filter(|(key, value)| self.lower_member(map, key) != Some(value))
            .map(|(key, value)| (key.to_owned(), value.clone()));
        let removed = record
            .keys()
            .filter(|key| !wanted.contains_key(*key) && self.lower_member(map, key).is_some())
            .map(|key| (key.clone(), Value::Null));
        set.chain(removed).collect()
    }

    fn lower_member(&self, map: &str, key: &str) -> Option<&Value> {
        self.lower.get("metadata")?.get(map)?.get(key)
    }

    fn spec(&self) -> Map<String, Value> {
        let mut spec = self.containers(|container, key| {
            let image = changed(&self.wanted.images, &self.record.images).find(|(name, _)| *name == key)?.1;
            (container.get("image") != Some(image)).then(|| ("image".to_owned(), image.clone()))
        });
        for (name, value) in changed(&self.wanted.fields, &self.record.fields) {
            if may_become(name, self.lower_spec().get(name), value) {
                spec.insert(name.to_owned(), value.clone());
            }
        }
        if let Some(tolerations) = self.tolerations() {
            spec.insert("tolerations".to_owned(), tolerations);
        }
        spec
    }

    /// The whole list, since it has no merge key; those of the lower cluster's admission remain in it.
    fn tolerations(&self) -> Option<Value> {
        let present = items(self.lower_spec(), "tolerations");
        let mut tolerations = present.to_vec();
        for (key, wanted) in changed(&self.wanted.tolerations, &self.record.tolerations) {
            match tolerations.iter_mut().find(|toleration| toleration_key(toleration) == key) {
                Some(toleration) => toleration.clone_from(wanted),
                None => tolerations.push(wanted.clone()),
            }
        }
        (tolerations != present).then_some(Value::Array(tolerations))
    }

    fn resources(&self) -> Map<String, Value> {
        let mut spec = self.containers(|container, key| {
            let amounts = self.amounts(container.get("resources"), &format!("{key}/"))?;
            Some(("resources".to_owned(), amounts))
        });
        if let Some(amounts) = self.amounts(self.lower_spec().get("resources"), "") {
            spec.insert("resources".to_owned(), amounts);
        }
        spec
    }

    /// What changes in the `resources` of a container or, with an empty prefix, of the pod.
    fn amounts(&self, present: Option<&Value>, prefix: &str) -> Option<Value> {
        let mut amounts = Map::new();
        for (place, amount) in changed(&self.wanted.resources, &self.record.resources) {
            let Some((kind, name)) = place.strip_prefix(prefix).and_then(|place| place.split_once('/')) else {
                continue;
            };
            let present = present.and_then(|resources| resources.get(kind)?.get(name));
            if !name.contains('/') && present != Some(amount) {
                amounts.entry(kind).or_insert_with(|| json!({}))[name] = amount.clone();
            }
        }
        (!amounts.is_empty()).then_some(Value::Object(amounts))
    }

    fn ephemeral(&self) -> Map<String, Value> {
        let new: Vec<Value> = changed(&self.wanted.ephemeral, &self.record.ephemeral)
            .filter(|(name, _)| !by_name(self.lower_spec(), "ephemeralContainers").any(|(present, _)| present == *name))
            .map(|(_, container)| container.clone())
            .collect();
        if new.is_empty() {
            return Map::new();
        }
        Map::from_iter([("ephemeralContainers".to_owned(), Value::Array(new))])
    }

    /// The lists of containers in which `difference` finds something to change; in the order they have below, which a
    /// merge would otherwise change.
    fn containers(&self, difference: impl Fn(&Value, &str) -> Option<(String, Value)>) -> Map<String, Value> {
        let mut spec = Map::new();
        for list in LISTS {
            let changed: Vec<Value> = by_name(self.lower_spec(), list)
                .filter_map(|(name, container)| {
                    let (member, value) = difference(container, &format!("{list}/{name}"))?;
                    Some(json!({"name": name, member: value}))
                })
                .collect();
            if !changed.is_empty() {
                spec.insert((*list).to_owned(), Value::Array(changed));
            }
        }
        spec
    }

    fn lower_spec(&self) -> &Map<String, Value> {
        self.lower.get("spec").and_then(Value::as_object).unwrap_or(&NOTHING)
    }

    fn patch(&self, mut metadata: Map<String, Value>, spec: Map<String, Value>) -> Option<Value> {
        if metadata.is_empty() && spec.is_empty() {
            return None;
        }
        if let Some(uid) = self.lower.get("metadata").and_then(|metadata| metadata.get("uid")) {
            metadata.insert("uid".to_owned(), uid.clone());
        }
        Some(object([("metadata", Value::Object(metadata)), ("spec", Value::Object(spec))]))
    }
}

/// What is wanted otherwise than recorded.
fn changed<'a>(
    wanted: &'a BTreeMap<String, Value>,
    record: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    wanted
        .iter()
        .filter(|(name, value)| record.get(*name) != Some(&names::fingerprint(value)))
        .map(|(name, value)| (name.as_str(), value))
}

/// Whether the API lets `field` of the spec change from `present` to `wanted`.
fn may_become(field: &str, present: Option<&Value>, wanted: &Value) -> bool {
    let (present, wanted) = (present.and_then(Value::as_i64), wanted.as_i64());
    match field {
        "activeDeadlineSeconds" => present.is_none_or(|present| wanted.is_some_and(|wanted| wanted < present)),
        _ => present.is_some_and(|present| present < 0) && wanted == Some(1),
    }
}
