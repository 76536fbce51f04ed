// SPDX-License-Identifier: Apache-2.0
//! The decision for one Service: from what is upstairs and what is below to what is to be done.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Network, Networking, Path, annotation,
    below::{self, Leads},
    endpoints, ingress, is_of_upper, is_ours, label, name_of, slices, text,
};
use crate::{names, pod::LinkView};

/// What is known. What is `None` does not exist for certain.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `namespace/name` upstairs.
    pub of: String,
    /// The Service upstairs.
    pub upper: Option<Value>,
    /// Its EndpointSlices, of whoever.
    pub upper_slices: Vec<Value>,
    /// The Service of the name below, whoever made it.
    pub lower: Option<Value>,
    /// Our EndpointSlices of it.
    pub lower_slices: Vec<Value>,
    /// The Endpoints of the name below, whoever made them; not looked for unless they are to be written.
    pub lower_endpoints: Option<Value>,
    /// Its namespace has pods of ours, or its author wants it everywhere.
    pub wanted: bool,
}

/// What is to be done; `Replace` and `Delete` carry what is there now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the Service below.
    Create(Value),
    /// Bring it up to date.
    Replace(Value),
    /// Delete it.
    Delete(Value),
    /// Make, change or delete a slice below.
    Slice(Change),
    /// Make, change or delete the Endpoints below.
    Endpoints(Change),
    /// Make, change or delete a slice upstairs.
    Above(Change),
    /// Show these addresses of load balancers on the Service upstairs.
    ShowBalancer(Value),
    /// Note on the Service below which of them are its own.
    NoteShown(Value),
}

/// What is to be done for a slice or Endpoints; `Replace` and `Delete` carry what is there now.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Create it.
    Create(Value),
    /// Bring it up to date.
    Replace(Value),
    /// Delete it.
    Delete(Value),
}

/// What is to be done for a Service, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The steps.
    pub actions: Vec<Action>,
    /// Somebody else's Service has the name below: it is left alone.
    pub name_taken: bool,
    /// Members that do not go down.
    pub dropped: Vec<String>,
}

/// What is to be done for a Service.
#[must_use]
pub fn plan(facts: &Facts, networking: Networking, link: &LinkView) -> Plan {
    let mut plan = Plan::default();
    let node = names::label_value(&link.virtual_node);
    let shown: Vec<Value> = facts
        .upper_slices
        .iter()
        .filter(|slice| slices::is_from_below(slice) && label(slice, names::VIRTUAL_NODE) == Some(node.as_str()))
        .cloned()
        .collect();
    let upper =
        facts.upper.as_ref().filter(|upper| facts.wanted && text(upper, "/metadata/deletionTimestamp").is_none());
    let Some(upper) = upper else {
        plan.actions.extend(shown.into_iter().map(|slice| Action::Above(Change::Delete(slice))));
        plan.actions.extend(follow(Vec::new(), &facts.lower_slices).into_iter().map(Action::Slice));
        let endpoints = facts.lower_endpoints.iter().filter(|lower| is_copy(lower, facts, link)).cloned();
        plan.actions.extend(endpoints.map(|endpoints| Action::Endpoints(Change::Delete(endpoints))));
        if let Some(lower) = facts.lower.as_ref().filter(|lower| is_copy(lower, facts, link)) {
            plan.actions.extend(facts.upper.as_ref().and_then(|upper| show(upper, lower, &[])));
            plan.actions.push(Action::Delete(lower.clone()));
        }
        return plan;
    };
    let leads = below::leads(upper, networking);
    let wanted = below::service(upper, leads, link, &mut plan.dropped);
    match &facts.lower {
        None => plan.actions.push(Action::Create(wanted)),
        Some(lower) if is_copy(lower, facts, link) => {
            // A Service that is headless, or an external name, cannot become another.
            let other =
                text(lower, "/spec/clusterIP") == Some("None") || text(&wanted, "/spec/clusterIP") == Some("None");
            if is_same(lower, &wanted) {
                balance(upper, lower, &mut plan);
            } else if other && lower.pointer("/spec/clusterIP") != wanted.pointer("/spec/clusterIP") {
                plan.actions.push(Action::Delete(lower.clone()));
                plan.actions.push(Action::Create(wanted));
            } else {
                plan.actions.push(Action::Replace(replacing(wanted, lower)));
            }
        }
        // Another virtual node of the same upper cluster serves it.
        Some(lower) if is_of_upper(lower, link) && is_of(lower, facts) => {}
        Some(_) => {
            plan.name_taken = true;
            plan.actions.extend(follow(Vec::new(), &facts.lower_slices).into_iter().map(Action::Slice));
            return plan;
        }
    }
    let is_served_by_another = facts.lower.as_ref().is_some_and(|lower| !is_copy(lower, facts, link));
    let (name, _) = name_of(upper);
    let slices = match leads {
        _ if is_served_by_another => Vec::new(),
        Leads::ToUpperSlices => {
            let theirs = facts.upper_slices.iter().filter(|slice| !slices::is_from_below(slice));
            theirs.map(|slice| slices::copy(slice, name, link)).collect()
        }
        Leads::ToLoadBalancer => slices::of_load_balancer(upper, link),
        Leads::ToLowerPods | Leads::Nowhere => Vec::new(),
    };
    if networking.legacy_endpoints && facts.lower_endpoints.as_ref().is_none_or(|lower| is_copy(lower, facts, link)) {
        let wanted = endpoints::of(upper, &slices, link);
        let present = facts.lower_endpoints.as_slice();
        plan.actions.extend(follow(wanted.into_iter().collect(), present).into_iter().map(Action::Endpoints));
    }
    plan.actions.extend(follow(slices, &facts.lower_slices).into_iter().map(Action::Slice));
    let is_over_balancer = networking.network == Network::Separate && networking.path == Path::LoadBalancer;
    let leads_down = is_over_balancer && below::is_balanced_below(upper);
    let above = match &facts.lower {
        Some(lower) if leads_down && !is_served_by_another => slices::above(upper, lower, link),
        _ => Vec::new(),
    };
    plan.actions.extend(follow(above, &shown).into_iter().map(Action::Above));
    plan
}

/// Whether the Service below was made for this one: where names are hashed, two may come to the same.
fn is_of(lower: &Value, facts: &Facts) -> bool {
    annotation(lower, names::UPPER_NAME) == Some(facts.of.as_str())
}

/// Whether it is this link's copy of this one.
fn is_copy(lower: &Value, facts: &Facts, link: &LinkView) -> bool {
    is_ours(lower, link) && is_of(lower, facts)
}

/// What makes these slices of those that are there.
fn follow(wanted: Vec<Value>, present: &[Value]) -> Vec<Change> {
    fn name(slice: &Value) -> &str {
        text(slice, "/metadata/name").unwrap_or_default()
    }
    let mut changes = Vec::new();
    let mut left: BTreeMap<&str, &Value> = present.iter().map(|slice| (name(slice), slice)).collect();
    for slice in wanted {
        match left.remove(name(&slice)) {
            None => changes.push(Change::Create(slice)),
            Some(present) if is_same(present, &slice) => {}
            Some(present) if present.get("addressType") != slice.get("addressType") => {
                changes.push(Change::Delete(present.clone()));
                changes.push(Change::Create(slice));
            }
            Some(present) => changes.push(Change::Replace(replacing(slice, present))),
        }
    }
    changes.extend(left.into_values().cloned().map(Change::Delete));
    changes
}

/// Whether what was last applied is what is wanted.
fn is_same(present: &Value, wanted: &Value) -> bool {
    let marks = |object| [names::APPLIED, names::UPPER_UID].map(|key| annotation(object, key).map(str::to_owned));
    marks(present) == marks(wanted)
}

/// `wanted`, to replace exactly `present`.
fn replacing(mut wanted: Value, present: &Value) -> Value {
    for member in ["uid", "resourceVersion"] {
        wanted["metadata"][member] = present["metadata"][member].clone();
    }
    if let Some(shown) = annotation(present, names::SHOWN) {
        wanted["metadata"]["annotations"][names::SHOWN] = json!(shown);
    }
    wanted
}

/// The load balancer below is shown above.
fn balance(upper: &Value, lower: &Value, plan: &mut Plan) {
    if !below::is_balanced_below(upper) {
        plan.actions.extend(show(upper, lower, &[]));
        return;
    }
    let ours = ingress(lower);
    plan.actions.extend(show(upper, lower, ours));
    let (text, shown) = (Value::from(ours).to_string(), annotation(lower, names::SHOWN));
    if shown.map_or(!ours.is_empty(), |shown| shown != text) {
        plan.actions.push(Action::NoteShown(json!({ "metadata": { "annotations": { names::SHOWN: text } } })));
    }
}

/// What is shown upstairs when `ours` takes the place of what was shown before of the load balancer of `lower`; nothing when
/// that is so already. Addresses of other lower clusters stay.
fn show(upper: &Value, lower: &Value, ours: &[Value]) -> Option<Action> {
    let before = annotation(lower, names::SHOWN).and_then(|text| serde_json::from_str(text).ok());
    let before: Vec<Value> = before.unwrap_or_default();
    let there = ingress(upper);
    let others = there.iter().filter(|entry| !before.contains(entry) && !ours.contains(entry));
    let wanted: Vec<Value> = others.chain(ours).cloned().collect();
    let same = wanted.len() == there.len() && wanted.iter().all(|entry| there.contains(entry));
    (!same).then(|| {
        Action::ShowBalancer(json!({
            "metadata": { "resourceVersion": upper.pointer("/metadata/resourceVersion") },
            "status": { "loadBalancer": { "ingress": wanted } },
        }))
    })
}
