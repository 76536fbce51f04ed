// SPDX-License-Identifier: Apache-2.0
//! "Not these nodes", as a requirement of a pod.

use serde_json::{Map, Value, json};

use crate::names;
use crate::placement::Malformed;
use crate::placement::raw::{self, Path};
use crate::placement::selector::METADATA_NAME;
use crate::stash::Stash;

const NODE_AFFINITY: &str = "nodeAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const TERMS: &str = "nodeSelectorTerms";
const MATCH_FIELDS: &str = "matchFields";

/// Keeps a pod with this `affinity` off the virtual nodes `nodes`, and changes nothing else about where it may go.
///
/// Nodes are named by the field `metadata.name`, in every term, or in a term of its own where nothing was required. The
/// label `kubernetes.io/hostname` would do less: other nodes may share its value, it may differ from the name, and it
/// is a label that is decided below, so that a second review would move it into the stash. A field names upper nodes
/// and stays with the upper pod.
pub fn exclude<'a>(affinity: &mut Option<Value>, nodes: impl IntoIterator<Item = &'a str>) -> Result<(), Malformed> {
    let absent: Vec<Value> = nodes.into_iter().map(absent).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let at = Path::Root("spec.affinity");
    let mut whole = match affinity.take().filter(|affinity| !affinity.is_null()) {
        None => Map::new(),
        Some(affinity) => raw::into_object(affinity, at)?,
    };
    let mut node_affinity = raw::take_object(&mut whole, NODE_AFFINITY, at)?.unwrap_or_default();
    let at = at.member(NODE_AFFINITY);
    let required = match raw::take_object(&mut node_affinity, REQUIRED, at)? {
        None => [(TERMS.to_owned(), json!([{MATCH_FIELDS: absent}]))].into_iter().collect(),
        Some(mut required) => {
            let at = at.member(REQUIRED);
            let mut terms = raw::take_list(&mut required, TERMS, at)?;
            let at = at.member(TERMS);
            for (index, term) in terms.iter_mut().enumerate() {
                add(term, &absent, at.item(index))?;
            }
            required.insert(TERMS.to_owned(), terms.into());
            required
        }
    };
    node_affinity.insert(REQUIRED.to_owned(), Value::Object(required));
    whole.insert(NODE_AFFINITY.to_owned(), Value::Object(node_affinity));
    *affinity = Some(Value::Object(whole));
    Ok(())
}

/// Adds requirements to a term. One without any matches nothing and is left so: with the first, it would match.
fn add(term: &mut Value, absent: &[Value], at: Path<'_>) -> Result<(), Malformed> {
    let Value::Object(members) = term else {
        return Err(at.must_be("an object"));
    };
    let is_given = |name| Ok::<_, Malformed>(!raw::list(members, name, at)?.is_empty());
    if is_given("matchExpressions")? || is_given(MATCH_FIELDS)? {
        let mut fields = raw::take_list(members, MATCH_FIELDS, at)?;
        raw::extend_new(&mut fields, absent.iter().cloned());
        members.insert(MATCH_FIELDS.to_owned(), fields.into());
    }
    Ok(())
}

/// Undoes [`exclude`] for `nodes`. A term that is empty then was all ours, and so was that anything is required.
pub fn lift<'a>(affinity: &mut Option<Value>, nodes: impl IntoIterator<Item = &'a str>) {
    let nodes: Vec<&str> = nodes.into_iter().collect();
    let Some(Value::Object(whole)) = affinity else { return };
    let Some(Value::Object(node_affinity)) = whole.get_mut(NODE_AFFINITY) else { return };
    let required = node_affinity.get_mut(REQUIRED).and_then(|required| required.get_mut(TERMS));
    let Some(Value::Array(terms)) = required else { return };
    let mut all_ours = false;
    for term in terms {
        all_ours |= lift_term(term, &nodes);
    }
    if !all_ours {
        return;
    }
    node_affinity.remove(REQUIRED);
    if node_affinity.is_empty() {
        whole.remove(NODE_AFFINITY);
    }
    if whole.is_empty() {
        *affinity = None;
    }
}

/// Takes out of a term what was put in for `nodes`. Whether nothing else was in it.
fn lift_term(term: &mut Value, nodes: &[&str]) -> bool {
    let Some(Value::Array(fields)) = term.get_mut(MATCH_FIELDS) else { return false };
    let before = fields.len();
    fields.retain(|field| !nodes.iter().any(|node| *field == absent(node)));
    let (lifted, empty) = (fields.len() < before, fields.is_empty());
    let alone = term["matchExpressions"].as_array().is_none_or(Vec::is_empty);
    if let (true, Value::Object(members)) = (lifted && empty && !alone, term) {
        members.remove(MATCH_FIELDS);
    }
    lifted && empty && alone
}

fn absent(node: &str) -> Value {
    json!({"key": METADATA_NAME, "operator": "NotIn", "values": [node]})
}

/// Undoes [`exclude`] on a pod, also in what was stashed of it: terms there are whole, with what was put in.
pub fn lift_pod(pod: &mut Value, nodes: &[&str]) {
    if nodes.is_empty() {
        return;
    }
    let mut affinity = pod["spec"].as_object_mut().and_then(|spec| spec.remove("affinity"));
    lift(&mut affinity, nodes.iter().copied());
    if let (Some(affinity), Value::Object(spec)) = (affinity, &mut pod["spec"]) {
        spec.insert("affinity".to_owned(), affinity);
    }
    // What cannot be read was not put there by the webhook.
    let Ok(Some(mut stash)) = Stash::of_pod(pod) else { return };
    let mut changed = false;
    for term in &mut stash.required_terms {
        let before = term.clone();
        // A term that was all ours requires nothing; such terms are not stashed.
        lift_term(term, nodes);
        changed |= before != *term;
    }
    if changed {
        pod["metadata"]["annotations"][names::CLUSTER_SELECTOR] = stash.encode().into();
    }
}
