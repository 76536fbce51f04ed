// SPDX-License-Identifier: Apache-2.0
//! Refuses pods that a quota of their namespace would refuse when they are created.
//!
//! A quota that wants each container to name its requests is not modelled.

use serde_json::Value;

use super::super::framework::{Cycle, Plugin, Prepared};
use super::super::objects::Quota;
use super::super::quota_request::QuotaRequest;
use crate::resources::ResourceName;

pub(super) const NAME: &str = "ResourceQuota";

/// One of a thing, in thousandths.
const ONE: i128 = 1000;

struct ResourceQuota;

pub(super) fn make(_: &Value) -> Result<Box<dyn Plugin>, String> {
    Ok(Box::new(ResourceQuota))
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter<'c>(&'c self, cycle: &'c Cycle<'_>) -> Prepared<'c> {
        let Some(asked) = &cycle.question.quota else { return Prepared::Skip };
        let namespace = cycle.question.namespace();
        for quota in cycle.namespaces.quotas.of(namespace).filter(|quota| counts(quota, asked)) {
            for (name, hard) in quota.hard.iter() {
                let wanted = amount(name, asked);
                if wanted <= 0 {
                    continue;
                }
                let to_come = cycle.assumed.to_come(namespace).filter(|request| counts(quota, request));
                let to_come: i128 = to_come.map(|request| amount(name, request)).sum();
                let used = quota.used.get(name).unwrap_or(0).saturating_add(to_come);
                if used.saturating_add(wanted) > hard {
                    let (quota, name) = (&quota.name, name.as_str());
                    let why = format!("quota {quota} of namespace {namespace} leaves too little of {name}");
                    return Prepared::Refused { resolvable: false, why };
                }
            }
        }
        Prepared::Skip
    }
}

/// How many such pods a namespace's quotas leave room for.
pub(in super::super) fn room(cycle: &Cycle<'_>) -> u64 {
    let mut room = u64::MAX;
    let Some(asked) = &cycle.question.quota else { return room };
    let namespace = cycle.question.namespace();
    for quota in cycle.namespaces.quotas.of(namespace).filter(|quota| counts(quota, asked)) {
        for (name, hard) in quota.hard.iter() {
            let wanted = amount(name, asked);
            if wanted > 0 {
                let to_come = cycle.assumed.to_come(namespace).filter(|request| counts(quota, request));
                let to_come: i128 = to_come.map(|request| amount(name, request)).sum();
                let left = hard.saturating_sub(quota.used.get(name).unwrap_or(0)).saturating_sub(to_come);
                room = room.min(u64::try_from((left / wanted).max(0)).unwrap_or(u64::MAX));
            }
        }
    }
    room
}

/// What a pod takes of what a quota calls `name`, in thousandths.
fn amount(name: &ResourceName, request: &QuotaRequest) -> i128 {
    let of = |name: &str| request.requests.get(&name.into()).unwrap_or(0);
    let text = name.as_str();
    if let Some(limited) = text.strip_prefix("limits.") {
        return request.limits.get(&limited.into()).unwrap_or(0);
    }
    if let Some(requested) = text.strip_prefix("requests.") {
        return of(requested);
    }
    match text {
        "pods" | "count/pods" => ONE,
        "cpu" | "memory" | "ephemeral-storage" => of(text),
        _ if name.is_hugepages() => of(text),
        _ => 0,
    }
}

/// Whether the quota is about such pods.
fn counts(quota: &Quota, request: &QuotaRequest) -> bool {
    quota.scopes.iter().all(|scope| match &*scope.name {
        "BestEffort" => request.best_effort,
        "NotBestEffort" => !request.best_effort,
        "Terminating" => request.terminating,
        "NotTerminating" => !request.terminating,
        "CrossNamespacePodAffinity" => request.crosses_namespaces,
        // A lower pod names no priority class.
        "PriorityClass" => matches!(&*scope.operator, "NotIn" | "DoesNotExist"),
        _ => false,
    })
}
