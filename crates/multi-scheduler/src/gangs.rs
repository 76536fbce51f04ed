// SPDX-License-Identifier: Apache-2.0
//! Pods that are of use only together: a group is offered one lower cluster, and only one that can take all of it.
//!
//! A pod names its group by a label, as the coscheduling plugin's users write it, or by a field of the core API. How many
//! members there must be is said by the group's object, where the server has that API, else by labels. Where members are is
//! learnt from the upper watch; which cluster a group of which none is bound yet was offered is remembered for as long as room
//! is kept for a pod.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;

use crate::reservations::ClusterId;

/// Labels that name a pod's group; the first that is there counts.
const NAMES: [&str; 3] =
    ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io"];
/// Label or annotation that says how many members there must be.
const LEAST: &str = "pod-group.scheduling.sigs.k8s.io/min-available";

/// How a pod names its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Naming {
    /// By a label; its object is a `PodGroup` of `scheduling.x-k8s.io`.
    Label,
    /// By `spec.schedulingGroup`; its object is a `PodGroup` of `scheduling.k8s.io`.
    SchedulingGroup,
    /// By `spec.workloadRef`; it is one of those that a `Workload` of `scheduling.k8s.io` lists.
    WorkloadRef,
}

/// A group of pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    object: GroupObject,
    /// Which of several groups of the same object.
    replica: String,
}

/// What says how many members a group must have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupObject {
    /// How pods name it.
    pub naming: Naming,
    /// Its namespace.
    pub namespace: String,
    /// Its name; of a group in a workload, `WORKLOAD/GROUP`.
    pub name: String,
}

/// What of a pod's `spec` names its group.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Membership {
    /// The group's object.
    pub scheduling_group: Option<SchedulingGroup>,
    /// The workload that lists it.
    pub workload_ref: Option<WorkloadRef>,
}

/// A pod's `spec.schedulingGroup`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingGroup {
    pod_group_name: Option<String>,
}

/// A pod's `spec.workloadRef`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    name: String,
    pod_group: String,
    #[serde(default)]
    pod_group_replica_key: Option<String>,
}

impl Group {
    /// The group that a pod is in, by its labels or its `spec`.
    pub fn of<'l>(
        namespace: &str,
        label: impl Fn(&'static str) -> Option<&'l str>,
        membership: Membership,
    ) -> Option<Self> {
        let Membership { scheduling_group, workload_ref } = membership;
        let group = |naming, name: String, replica: Option<String>| Self {
            object: GroupObject { naming, namespace: namespace.to_owned(), name },
            replica: replica.unwrap_or_default(),
        };
        if let Some(name) = scheduling_group.and_then(|group| group.pod_group_name) {
            return Some(group(Naming::SchedulingGroup, name, None));
        }
        if let Some(WorkloadRef { name, pod_group, pod_group_replica_key }) = workload_ref {
            return Some(group(Naming::WorkloadRef, format!("{name}/{pod_group}"), pod_group_replica_key));
        }
        let name = NAMES.into_iter().find_map(label).filter(|name| !name.is_empty())?;
        Some(group(Naming::Label, name.to_owned(), None))
    }

    /// The group that a pod is in, and how many of it there must be as far as the pod itself says.
    pub fn wanted(pod: &Value) -> Option<(Self, Option<u64>)> {
        let meta = &pod["metadata"];
        let membership = Membership::deserialize(&pod["spec"]).unwrap_or_default();
        let namespace = meta["namespace"].as_str().unwrap_or_default();
        let group = Self::of(namespace, |label| meta["labels"][label].as_str(), membership)?;
        let least = [&meta["labels"], &meta["annotations"]].into_iter().find_map(|map| map[LEAST].as_str());
        let least = least.filter(|_| group.object.naming == Naming::Label).and_then(|least| least.parse().ok());
        Some((group, least))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.object.name
    }
}

/// What is known of groups.
#[derive(Debug, Default)]
pub struct Gangs {
    /// The members, each with the node it is bound to; none while it is only known that a scheduler was told of it.
    groups: HashMap<Group, BTreeMap<String, Option<String>>>,
    group_of: HashMap<String, Group>,
    offered: HashMap<Group, (ClusterId, Instant)>,
    /// What objects say, by the API that they are of.
    least: BTreeMap<&'static str, BTreeMap<GroupObject, u64>>,
}

impl Gangs {
    /// These are all groups of an API, each with how many members it must have.
    pub fn set_least(&mut self, api: &'static str, groups: BTreeMap<GroupObject, u64>) {
        self.least.insert(api, groups);
    }

    /// How many members a group must have, if that is more than one. What its object says counts before what its pods say.
    pub fn least(&self, group: &Group, said: Option<u64>) -> Option<u64> {
        let told = self.least.values().find_map(|groups| groups.get(&group.object).copied());
        told.or(said).filter(|least| *least > 1)
    }

    /// A member was seen on a node.
    pub fn bound(&mut self, uid: &str, group: Group, node: &str) {
        self.groups.entry(group.clone()).or_default().insert(uid.to_owned(), Some(node.to_owned()));
        self.group_of.insert(uid.to_owned(), group);
    }

    /// A scheduler was told where a member fits.
    pub fn told(&mut self, uid: &str, group: Group) {
        self.groups.entry(group.clone()).or_default().entry(uid.to_owned()).or_default();
        self.group_of.insert(uid.to_owned(), group);
    }

    /// A scheduler asks about a pod, or nothing was seen of it: what it was told does not count.
    pub fn untold(&mut self, uid: &str) {
        let members = self.group_of.get(uid).and_then(|group| self.groups.get(group));
        if members.is_some_and(|members| members.get(uid) == Some(&None)) {
            self.gone(uid);
        }
    }

    /// A pod is gone or has ended.
    pub fn gone(&mut self, uid: &str) {
        let Some(group) = self.group_of.remove(uid) else { return };
        if let Some(members) = self.groups.get_mut(&group) {
            members.remove(uid);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// The nodes of the members that have one, without the pod `uid`.
    pub fn nodes<'a>(&'a self, group: &Group, uid: &'a str) -> impl Iterator<Item = &'a str> {
        let members = self.groups.get(group).into_iter().flatten();
        members.filter(move |(member, _)| *member != uid).filter_map(|(_, node)| node.as_deref())
    }

    /// How many members have a node or may have one soon, without the pod `uid`.
    pub fn count(&self, group: &Group, uid: &str) -> usize {
        self.groups.get(group).map_or(0, |members| members.keys().filter(|member| *member != uid).count())
    }

    /// The cluster that the group was offered, if that still counts.
    pub fn offered(&self, group: &Group, now: Instant) -> Option<&ClusterId> {
        self.offered.get(group).filter(|(_, until)| now < *until).map(|(cluster, _)| cluster)
    }

    /// The group is offered a cluster until then.
    pub fn offer(&mut self, group: Group, cluster: ClusterId, until: Instant, now: Instant) {
        self.offered.retain(|_, (_, until)| now < *until);
        self.offered.insert(group, (cluster, until));
    }

    /// The group is offered nothing: it does not fit where it was.
    pub fn withdraw(&mut self, group: &Group) {
        self.offered.remove(group);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn object(naming: Naming, name: &str) -> GroupObject {
        GroupObject { naming, namespace: "ns".to_owned(), name: name.to_owned() }
    }

    fn group(name: &str) -> Group {
        Group { object: object(Naming::Label, name), replica: String::new() }
    }

    #[test]
    fn a_group_is_named_by_a_label_and_its_number_by_a_label_or_an_annotation() {
        let pod = |labels: Value| json!({"metadata": {"namespace": "ns", "labels": labels}});
        for name in NAMES {
            assert_eq!(Group::wanted(&pod(json!({name: "g", LEAST: "3"}))), Some((group("g"), Some(3))));
        }
        assert_eq!(Group::wanted(&pod(json!({NAMES[0]: "g"}))), Some((group("g"), None)));
        for labels in [json!({LEAST: "3"}), json!({NAMES[0]: "", LEAST: "3"})] {
            assert_eq!(Group::wanted(&pod(labels)), None);
        }
        let annotated =
            json!({"metadata": {"namespace": "ns", "labels": {NAMES[0]: "g"}, "annotations": {LEAST: "2"}}});
        assert_eq!(Group::wanted(&annotated), Some((group("g"), Some(2))));
    }

    #[test]
    fn a_group_is_named_by_the_fields_of_the_core_api() {
        let wanted = |spec: Value| {
            let labels = json!({NAMES[0]: "labelled", LEAST: "3"});
            Group::wanted(&json!({"metadata": {"namespace": "ns", "labels": labels}, "spec": spec})).unwrap()
        };
        let (group, least) = wanted(json!({"schedulingGroup": {"podGroupName": "g"}, "containers": []}));
        assert_eq!((group.object, least), (object(Naming::SchedulingGroup, "g"), None));
        let workload =
            |key: Value| wanted(json!({"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": key}})).0;
        let (first, second) = (workload(json!("0")), workload(Value::Null));
        assert_eq!(first.object, object(Naming::WorkloadRef, "w/g"));
        assert_eq!((&first.object, first == second), (&second.object, false), "replicas are groups of their own");
    }

    #[test]
    fn an_object_says_how_many_members_there_must_be_before_labels_do() {
        let mut gangs = Gangs::default();
        assert_eq!(gangs.least(&group("g"), Some(3)), Some(3));
        assert_eq!(gangs.least(&group("g"), Some(1)), None);
        gangs.set_least("a", [(object(Naming::Label, "g"), 5), (object(Naming::SchedulingGroup, "h"), 2)].into());
        assert_eq!(gangs.least(&group("g"), Some(3)), Some(5));
        assert_eq!(gangs.least(&group("h"), None), None, "it is another kind of group");
        gangs.set_least("a", BTreeMap::new());
        assert_eq!(gangs.least(&group("g"), Some(3)), Some(3));
    }

    #[test]
    fn members_are_where_they_were_seen_until_they_end() {
        let mut gangs = Gangs::default();
        gangs.bound("a", group("g"), "east");
        gangs.bound("a", group("g"), "east");
        gangs.bound("b", group("g"), "east");
        assert_eq!(gangs.nodes(&group("g"), "b").collect::<Vec<_>>(), ["east"]);
        gangs.told("c", group("g"));
        gangs.told("a", group("g"));
        assert_eq!((gangs.count(&group("g"), "b"), gangs.nodes(&group("g"), "b").count()), (2, 1));
        gangs.untold("c");
        gangs.untold("a");
        assert_eq!(gangs.count(&group("g"), "b"), 1, "what is bound stays");
        gangs.gone("a");
        gangs.gone("a");
        gangs.gone("b");
        assert!(gangs.groups.is_empty() && gangs.group_of.is_empty());
    }

    #[test]
    fn an_offer_counts_for_a_time_and_is_forgotten_after_it() {
        let (mut gangs, now) = (Gangs::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        gangs.offer(group("g"), "a".into(), later, now);
        assert_eq!(gangs.offered(&group("g"), now).map(|cluster| &**cluster), Some("a"));
        assert_eq!(gangs.offered(&group("g"), later), None);
        gangs.offer(group("h"), "b".into(), later + Duration::from_secs(1), later);
        assert_eq!(gangs.offered.len(), 1);
        gangs.withdraw(&group("h"));
        assert!(gangs.offered.is_empty());
    }
}
