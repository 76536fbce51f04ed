//! The decision for one Service: from what is upstairs and what is below to what is to be done.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    Networking, annotation,
    below::{self, Leads},
    is_of_upper, is_ours, slices, text,
};
use crate::{names, pod::LinkView};

/// What is known. What is `None` does not exist for certain.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The Service upstairs.
    pub upper: Option<Value>,
    /// Its EndpointSlices, of whoever.
    pub upper_slices: Vec<Value>,
    /// The Service of the name below, whoever made it.
    pub lower: Option<Value>,
    /// Our EndpointSlices of it.
    pub lower_slices: Vec<Value>,
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
    /// Create a slice.
    CreateSlice(Value),
    /// Bring a slice up to date.
    ReplaceSlice(Value),
    /// Delete a slice.
    DeleteSlice(Value),
    /// Show these addresses of load balancers on the Service upstairs.
    ShowBalancer(Value),
    /// Note on the Service below which of them are its own.
    NoteShown(Value),
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
    let upper =
        facts.upper.as_ref().filter(|upper| facts.wanted && text(upper, "/metadata/deletionTimestamp").is_none());
    let Some(upper) = upper else {
        plan.actions.extend(facts.lower_slices.iter().cloned().map(Action::DeleteSlice));
        if let Some(lower) = facts.lower.as_ref().filter(|lower| is_ours(lower, link)) {
            plan.actions.extend(facts.upper.as_ref().and_then(|upper| show(upper, lower, &[])));
            plan.actions.push(Action::Delete(lower.clone()));
        }
        return plan;
    };
    let leads = below::leads(upper, networking);
    let wanted = below::service(upper, leads, link, &mut plan.dropped);
    match &facts.lower {
        None => plan.actions.push(Action::Create(wanted)),
        Some(lower) if is_ours(lower, link) => {
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
        Some(lower) if is_of_upper(lower, link) => {}
        Some(_) => {
            plan.name_taken = true;
            plan.actions.extend(facts.lower_slices.iter().cloned().map(Action::DeleteSlice));
            return plan;
        }
    }
    let is_served_by_another = facts.lower.as_ref().is_some_and(|lower| !is_ours(lower, link));
    let name = text(upper, "/metadata/name").unwrap_or_default();
    let slices = match leads {
        _ if is_served_by_another => Vec::new(),
        Leads::ToUpperSlices => facts.upper_slices.iter().map(|slice| slices::copy(slice, name, link)).collect(),
        Leads::ToLoadBalancer => slices::of_load_balancer(upper, link),
        Leads::ToLowerPods | Leads::Nowhere => Vec::new(),
    };
    follow(slices, &facts.lower_slices, &mut plan);
    plan
}

/// The slices below become these.
fn follow(wanted: Vec<Value>, present: &[Value], plan: &mut Plan) {
    fn name(slice: &Value) -> &str {
        text(slice, "/metadata/name").unwrap_or_default()
    }
    let mut left: BTreeMap<&str, &Value> = present.iter().map(|slice| (name(slice), slice)).collect();
    for slice in wanted {
        match left.remove(name(&slice)) {
            None => plan.actions.push(Action::CreateSlice(slice)),
            Some(present) if is_same(present, &slice) => {}
            Some(present) if present.get("addressType") != slice.get("addressType") => {
                plan.actions.push(Action::DeleteSlice(present.clone()));
                plan.actions.push(Action::CreateSlice(slice));
            }
            Some(present) => plan.actions.push(Action::ReplaceSlice(replacing(slice, present))),
        }
    }
    plan.actions.extend(left.into_values().cloned().map(Action::DeleteSlice));
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

fn ingress(service: &Value) -> &[Value] {
    service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
