// SPDX-License-Identifier: Apache-2.0
//! The decision for one claim: from what is upstairs and what is below to the one thing to do next.

use serde_json::{Value, json};

use super::{Claim, Problem, Storage, annotation, carried, claim, is_copy_of, is_deleting, is_ours, shown, size, text};
use crate::{names, pod::LinkView};

/// Where a claim has what was asked for, and what there is.
const REQUEST: &str = "/spec/resources/requests/storage";
const CAPACITY: &str = "/status/capacity/storage";

/// What is known. What is `None` does not exist for certain.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The claim upstairs, this incarnation of it.
    pub upper: Option<Value>,
    /// Its StorageClass.
    pub upper_class: Option<Value>,
    /// The volume that it names, else the one that has the name of what would show its volume.
    pub upper_volume: Option<Value>,
    /// Its copy below.
    pub lower: Option<Value>,
    /// The StorageClass of that.
    pub lower_class: Option<Value>,
    /// The volume below: of the copy, or carried for it.
    pub lower_volume: Option<Value>,
    /// A pod of ours needs it.
    pub wanted: bool,
}

/// What is to be done for one claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the claim below. Members of `dropped` do not go down.
    CreateClaim {
        /// The claim.
        body: Value,
        /// Paths of members that are not known here.
        dropped: Vec<String>,
    },
    /// Create the volume below.
    CarryVolume(Value),
    /// Note on the claim below whose it is now.
    AdoptClaim(Value),
    /// Ask for more below.
    GrowClaim(Value),
    /// Show the volume upstairs.
    ShowVolume(Value),
    /// Show that it has grown.
    GrowVolume(Value),
    /// The same, on the claim.
    GrowStatus(Value),
    /// Delete the claim below.
    DeleteClaim,
    /// Delete the carried volume below; its data stays.
    DropVolume,
    /// Delete the volume upstairs that showed the one that is gone.
    HideVolume,
}

/// How things stand with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is none of our business.
    Foreign,
    /// It is below, under this name.
    Below(String),
    /// It is being settled.
    Open,
    /// It cannot be served.
    Problem(Problem),
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do next; nothing when all is as it should be, or cannot be.
    pub action: Option<Action>,
    /// How things stand.
    pub standing: Standing,
}

impl Plan {
    fn act(action: Action, standing: Standing) -> Self {
        Self { action: Some(action), standing }
    }

    fn rest(standing: Standing) -> Self {
        Self { action: None, standing }
    }
}

/// What to do next for `claim`.
#[must_use]
pub fn plan(claim: &Claim, facts: &Facts, storage: &Storage, link: &LinkView) -> Plan {
    let Some(upper) = &facts.upper else {
        return Plan { action: gone(claim, facts, link), standing: Standing::Foreign };
    };
    let chosen = annotation(upper, names::SELECTED_NODE) == Some(link.virtual_node.as_str());
    if !facts.wanted && !chosen && facts.lower.is_none() {
        return Plan::rest(Standing::Foreign);
    }
    let planned = match &facts.upper_volume {
        Some(volume) if is_named(upper, volume) && shown::shown_by(volume).is_none() => {
            with_carried(claim, upper, volume, facts, link)
        }
        _ => with_shown(claim, upper, facts, storage, link),
    };
    planned.unwrap_or_else(|problem| Plan::rest(Standing::Problem(problem)))
}

fn is_named(upper: &Value, volume: &Value) -> bool {
    text(upper, "/spec/volumeName").is_some_and(|name| text(volume, "/metadata/name") == Some(name))
}

/// The claim's volume is, or is to be, in the lower cluster.
fn with_shown(
    claim: &Claim,
    upper: &Value,
    facts: &Facts,
    storage: &Storage,
    link: &LinkView,
) -> Result<Plan, Problem> {
    let name = || claim.name.clone();
    let bound_to = text(upper, "/spec/volumeName");
    if let (Some(volume), None) = (bound_to, &facts.upper_volume) {
        return Err(Problem::NoVolume { claim: name(), volume: volume.to_owned() });
    }
    let shown = match &facts.upper_volume {
        None => None,
        Some(volume) => match shown::shown_by(volume) {
            Some(node) if node == names::label_value(&link.virtual_node) => Some(volume),
            Some(node) => return Err(Problem::Elsewhere { claim: name(), node: node.to_owned() }),
            None => return Err(Problem::NameTaken(shown::shown_name(claim))),
        },
    };
    let Some(lower) = &facts.lower else {
        if bound_to.is_some() || shown.is_some() {
            return Err(Problem::Lost(name()));
        }
        let class = lower_class(claim, upper, facts, storage)?;
        if is_deleting(upper) {
            return Err(Problem::Ending(name()));
        }
        if ["dataSource", "dataSourceRef"].iter().any(|source| upper["spec"][*source].is_object()) {
            return Err(Problem::DataSource(name()));
        }
        let mut dropped = Vec::new();
        let body = claim::lower(upper, claim, &claim::Source::Class(class), link, &mut dropped);
        return Ok(Plan::act(Action::CreateClaim { body, dropped }, Standing::Open));
    };
    if text(lower, "/status/phase") == Some("Lost") || is_deleting(lower) {
        return Err(Problem::Lost(name()));
    }
    let below = Standing::Below(text(lower, "/metadata/name").unwrap_or_default().to_owned());
    if !is_copy_of(lower, claim, link) {
        // A volume that was kept, and that an administrator gave to this claim.
        let whose = json!({ "metadata": { "annotations": {
            names::UPPER_NAME: format!("{}/{}", claim.namespace, claim.name), names::UPPER_UID: claim.uid,
        } } });
        return Ok(Plan::act(Action::AdoptClaim(whose), Standing::Open));
    }
    if let Some(wanted) = text(upper, REQUEST)
        && size(upper, REQUEST) > size(lower, REQUEST)
    {
        let more = json!({ "spec": { "resources": { "requests": { "storage": wanted } } } });
        return Ok(Plan::act(Action::GrowClaim(more), below));
    }
    let is_bound = text(lower, "/status/phase") == Some("Bound");
    let capacity = text(lower, CAPACITY).filter(|_| is_bound);
    let Some(shown) = shown else {
        let waits_for_a_pod = facts
            .lower_class
            .as_ref()
            .is_some_and(|class| text(class, "/volumeBindingMode") == Some("WaitForFirstConsumer"));
        if is_deleting(upper) || !(is_bound || waits_for_a_pod) {
            return Ok(Plan::rest(below));
        }
        let capacity = capacity.or(text(upper, REQUEST)).unwrap_or("0");
        let volume = shown::volume(claim, upper, lower, facts.upper_class.as_ref(), capacity, link);
        return Ok(Plan::act(Action::ShowVolume(volume), below));
    };
    if let Some(capacity) = capacity {
        let has = size(lower, CAPACITY);
        if has > size(shown, "/spec/capacity/storage") {
            let more = json!({ "spec": { "capacity": { "storage": capacity } } });
            return Ok(Plan::act(Action::GrowVolume(more), below));
        }
        if text(upper, "/status/phase") == Some("Bound") && has > size(upper, CAPACITY) {
            let more = json!({ "status": { "capacity": { "storage": capacity } } });
            return Ok(Plan::act(Action::GrowStatus(more), below));
        }
    }
    Ok(Plan::rest(below))
}

/// The class below of a claim that has no volume yet.
fn lower_class<'a>(
    claim: &Claim,
    upper: &'a Value,
    facts: &Facts,
    storage: &'a Storage,
) -> Result<Option<&'a str>, Problem> {
    let class = text(upper, "/spec/storageClassName");
    if let Some(below) = class.and_then(|class| storage.classes.get(class)) {
        return Ok(Some(below));
    }
    let provisioner = facts.upper_class.as_ref().and_then(|class| text(class, "/provisioner"));
    if provisioner == Some(names::PROVISIONER) {
        return Ok(class);
    }
    Err(Problem::NotBound { claim: claim.name.clone(), class: class.unwrap_or_default().to_owned() })
}

/// The claim's volume is the upper cluster's, and goes down with it.
fn with_carried(claim: &Claim, upper: &Value, volume: &Value, facts: &Facts, link: &LinkView) -> Result<Plan, Problem> {
    let name = text(volume, "/metadata/name").unwrap_or_default();
    let is_bound =
        text(upper, "/status/phase") == Some("Bound") && text(volume, "/spec/claimRef/uid") == Some(claim.uid.as_str());
    if let Some(lower) = facts.lower.as_ref().filter(|lower| !is_deleting(lower)) {
        return Ok(Plan::rest(Standing::Below(text(lower, "/metadata/name").unwrap_or_default().to_owned())));
    }
    if !is_bound {
        return Err(Problem::Binding { claim: claim.name.clone(), volume: name.to_owned() });
    }
    if is_deleting(upper) || facts.lower.is_some() {
        return Err(Problem::Ending(claim.name.clone()));
    }
    let below = carried::carried_name(volume, link);
    match &facts.lower_volume {
        None => {
            let body = carried::volume(claim, volume, &claim::first_name(claim, link), link)?;
            Ok(Plan::act(Action::CarryVolume(body), Standing::Open))
        }
        // Of an earlier claim: it is made anew for this one.
        Some(lower) if is_deleting(lower) => Err(Problem::Ending(claim.name.clone())),
        Some(lower) if text(lower, "/status/phase") == Some("Released") && may_drop(lower, link) => {
            Ok(Plan::act(Action::DropVolume, Standing::Open))
        }
        Some(_) => {
            let mut dropped = Vec::new();
            let body = claim::lower(upper, claim, &claim::Source::Volume(&below), link, &mut dropped);
            Ok(Plan::act(Action::CreateClaim { body, dropped }, Standing::Open))
        }
    }
}

/// The object of a carried volume may go: its data stays.
fn may_drop(lower: &Value, link: &LinkView) -> bool {
    is_ours(lower, link) && text(lower, "/spec/persistentVolumeReclaimPolicy") == Some("Retain")
}

/// The claim upstairs is gone for certain.
fn gone(claim: &Claim, facts: &Facts, link: &LinkView) -> Option<Action> {
    let shown = facts.upper_volume.as_ref().filter(|volume| {
        let here = shown::shown_by(volume) == Some(names::label_value(&link.virtual_node).as_str());
        here && text(volume, "/spec/claimRef/uid") == Some(claim.uid.as_str())
    });
    let may_delete = shown.is_some_and(|volume| text(volume, "/spec/persistentVolumeReclaimPolicy") == Some("Delete"));
    let carried = facts.lower_volume.as_ref().filter(|volume| is_ours(volume, link));
    let Some(lower) = facts.lower.as_ref().filter(|lower| is_copy_of(lower, claim, link)) else {
        return (may_delete && !shown.is_some_and(is_deleting)).then_some(Action::HideVolume);
    };
    if is_deleting(lower) {
        return None;
    }
    if let Some(volume) = carried {
        // The volume first: it goes when the claim has gone, and is not forgotten in between.
        let next = if is_deleting(volume) { Action::DeleteClaim } else { Action::DropVolume };
        return may_drop(volume, link).then_some(next);
    }
    let is_empty = text(lower, "/spec/volumeName").is_none();
    (is_empty || may_delete).then_some(Action::DeleteClaim)
}
