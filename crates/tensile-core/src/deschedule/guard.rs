// SPDX-License-Identifier: Apache-2.0
//! Whether exclusions are enforced: nothing is moved before a canary has shown it.
//!
//! The canary is a pod that is never created: a dry run shows what the API server would store. An entry of the exclusions
//! keeps its owner's pods off a node that does not exist. If the answer keeps the pod off that node, admission asks the
//! webhook, and the webhook hears the exclusions. The entry ends soon unless it is written again, so that a webhook that
//! hears nothing more is found out too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::back_off::later;
use super::plan::{Exclude, Plan, look_again};
use crate::exclusion::{Exclusion, Record, Subject};
use crate::names;
use crate::placement::selector::{HardConstraints, Node};

/// UID of the canary's owner, which does not exist.
const OWNER: &str = "tensile-canary";
/// The node that it is kept off, which does not exist either.
const NODE: &str = "tensile-canary";
/// How long the entry counts.
const LASTS: Duration = Duration::from_secs(600);
/// It is written again when it counts no longer than this.
const RENEW: Duration = Duration::from_secs(300);
/// Time between two looks while all is well.
const EVERY: Duration = Duration::from_secs(60);
/// The first pause after a look that did not go well; the next are twice as long, up to [`MOST`].
const FIRST: Duration = Duration::from_millis(250);
const MOST: Duration = Duration::from_secs(15);
/// So long it may take the webhook to hear of the entry, and a failure to pass by; only then is it told.
const SETTLES: Duration = Duration::from_secs(5);

/// What is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    known: Known,
    /// When to look again.
    next: Timestamp,
    /// Looks in a row that did not go well.
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// It does not matter: nothing is moved anyhow.
    NotAsked,
    /// Nothing yet.
    Nothing,
    /// They are.
    Enforced,
    /// Since when it does not look so, and why.
    Missing(Timestamp, Arc<str>),
}

/// Whether pods may be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Exclusions are enforced.
    Yes,
    /// It will be known soon.
    NotYet,
    /// They are not; what is missing.
    No(Arc<str>),
}

/// What is done to know it.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Write(Record),
    Look,
    Wait(Timestamp),
}

impl Default for Guard {
    fn default() -> Self {
        Self { known: Known::Nothing, next: Timestamp::MIN, failures: 0 }
    }
}

impl Guard {
    /// One that permits everything and asks nothing, for a dry run.
    pub fn off() -> Self {
        Self { known: Known::NotAsked, ..Self::default() }
    }

    /// Whether pods may be moved.
    pub fn permit(&self, now: Timestamp) -> Permit {
        match &self.known {
            Known::NotAsked | Known::Enforced => Permit::Yes,
            Known::Nothing => Permit::NotYet,
            Known::Missing(since, _) if now < later(*since, SETTLES) => Permit::NotYet,
            Known::Missing(_, why) => Permit::No(why.clone()),
        }
    }

    /// The canary is on its way; none is sent before `until`, unless the answer says so.
    pub fn asked(&mut self, until: Timestamp) {
        self.next = until;
    }

    /// Takes in how the canary fared ([`shown`], or why there is no answer).
    pub fn answered(&mut self, answer: Result<(), String>, now: Timestamp) {
        match answer {
            Ok(()) => {
                (self.known, self.failures) = (Known::Enforced, 0);
                self.next = later(now, EVERY);
            }
            Err(why) => {
                let since = if let Known::Missing(since, _) = &self.known { *since } else { now };
                self.known = Known::Missing(since, why.into());
                self.next = later(now, FIRST.saturating_mul(1 << self.failures.min(10)).min(MOST));
                self.failures = self.failures.saturating_add(1);
            }
        }
    }

    fn step(&self, record: Option<&Record>, now: Timestamp) -> Step {
        if self.known == Known::NotAsked {
            return Step::Wait(Timestamp::MAX);
        }
        let until = record.and_then(|record| record.nodes.iter().find(|one| one.node == NODE)).map(|one| one.until);
        if until.is_none_or(|until| until <= later(now, RENEW)) {
            let exclusion =
                Exclusion { node: NODE.to_owned(), until: later(now, LASTS), attempts: 0, other: Map::new() };
            return Step::Write(Record { nodes: vec![exclusion], ..Record::default() });
        }
        if self.next <= now { Step::Look } else { Step::Wait(self.next) }
    }

    /// Adds to a plan what is to be done to know more. Without pods to move it can wait, but whoever runs this wants to
    /// know beforehand.
    pub(super) fn plan(&self, records: &BTreeMap<String, Record>, plan: &mut Plan, now: Timestamp) {
        let key = Subject::Owner(OWNER).key();
        match self.step(records.get(&key), now) {
            Step::Write(record) => plan.exclude.push(Exclude { key, record, pod: "".into() }),
            Step::Look => plan.canary = true,
            Step::Wait(until) if until == Timestamp::MAX => {}
            Step::Wait(until) => look_again(plan, until),
        }
        if let Known::Missing(since, _) = &self.known {
            let told = later(*since, SETTLES);
            if told > now {
                look_again(plan, told);
            }
        }
    }
}

/// The canary, for a namespace of which it is known that the webhook is asked about its pods. It keeps the rules of the
/// restricted pod security standard.
pub fn canary() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "tensile-canary-",
            "labels": { names::VIRTUAL_POD: names::TRUE },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "tensile-canary", "uid": OWNER, "controller": true },
            ],
        },
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "canary",
                "image": "tensile/canary",
                "resources": {
                    "requests": { "cpu": "1m", "memory": "1Mi" },
                    "limits": { "cpu": "1m", "memory": "1Mi" },
                },
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    })
}

/// Whether the canary, as the API server would store it, shows that exclusions are enforced; else what is missing.
pub fn shown(stored: &Value) -> Result<(), String> {
    let empty = Map::new();
    let constraints = HardConstraints::of_spec(stored["spec"].as_object().unwrap_or(&empty));
    let constraints = constraints.map_err(|error| format!("the answer about a canary cannot be read: {error}"))?;
    let labels = BTreeMap::new();
    if !constraints.select(Node { name: NODE, labels: &labels }) {
        return Ok(());
    }
    // What the webhook leaves on every pod that it was asked about.
    let asked = stored["metadata"]["annotations"][names::CLUSTER_SELECTOR].is_string();
    Err(if asked {
        "the webhook was asked about a canary and does not know its exclusion: it looks in another namespace \
         (--exclusions-namespace), or cannot read there"
    } else {
        "no webhook was asked about a canary: it is not installed, not reached, or not registered for the canary's namespace"
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn planned(guard: &Guard, records: &BTreeMap<String, Record>, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        guard.plan(records, &mut plan, now);
        plan
    }

    fn written(until: i64) -> BTreeMap<String, Record> {
        let text = format!(r#"{{"nodes":[{{"node":"tensile-canary","until":"{}"}}]}}"#, at(until));
        [("owner.tensile-canary".to_owned(), Record::decode(&text).unwrap().0)].into()
    }

    #[test]
    fn the_entry_is_written_first_then_the_canary_is_sent_and_the_entry_renewed_in_time() {
        let guard = Guard::default();
        let first = planned(&guard, &BTreeMap::new(), at(0));
        assert_eq!((first.exclude.len(), first.canary), (1, false));
        assert_eq!(
            (first.exclude[0].key.as_str(), first.exclude[0].record.nodes[0].until),
            ("owner.tensile-canary", at(600))
        );
        assert!(planned(&guard, &written(600), at(0)).canary);
        assert_eq!(planned(&guard, &written(300), at(0)).exclude.len(), 1);
    }

    #[test]
    fn pods_may_be_moved_once_it_is_shown_and_it_is_looked_at_again_now_and_then() {
        let mut guard = Guard::default();
        assert_eq!(guard.permit(at(0)), Permit::NotYet);
        guard.answered(Ok(()), at(0));
        assert_eq!(guard.permit(at(0)), Permit::Yes);
        assert_eq!(planned(&guard, &written(600), at(1)).again, Some(at(60)));
        assert!(planned(&guard, &written(600), at(60)).canary);
    }

    #[test]
    fn what_is_missing_is_told_when_it_has_lasted_and_looked_for_soon() {
        let mut guard = Guard::default();
        guard.answered(Ok(()), at(0));
        guard.answered(Err("no webhook".to_owned()), at(60));
        assert_eq!(guard.permit(at(64)), Permit::NotYet);
        assert_eq!(guard.permit(at(65)), Permit::No("no webhook".into()));
        assert!(planned(&guard, &written(600), at(61)).canary);
        for _ in 0..40 {
            guard.answered(Err("still none".to_owned()), at(70));
        }
        assert_eq!(guard.permit(at(70)), Permit::No("still none".into()));
        assert_eq!(planned(&guard, &written(600), at(70)).again, Some(at(85)));
        guard.answered(Ok(()), at(90));
        assert_eq!(guard.permit(at(90)), Permit::Yes);
    }

    #[test]
    fn a_dry_run_asks_nothing_and_permits_everything() {
        assert_eq!(Guard::off().permit(at(0)), Permit::Yes);
        assert_eq!(planned(&Guard::off(), &BTreeMap::new(), at(0)), Plan::default());
    }

    #[test]
    fn the_answer_tells_what_is_missing() {
        let terms = |terms: Value| {
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": terms}}}}})
        };
        let not =
            |node: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [node]}]});
        assert_eq!(shown(&terms(json!([not("tensile-canary")]))), Ok(()));
        assert_eq!(shown(&terms(json!([not("east"), not("tensile-canary")]))).map_err(|_| ()), Err(()));
        assert!(shown(&canary()).unwrap_err().contains("no webhook was asked"));
        let asked = json!({"metadata": {"annotations": {"clusterSelector": "{}"}}, "spec": {}});
        assert!(shown(&asked).unwrap_err().contains("does not know its exclusion"));
    }
}
