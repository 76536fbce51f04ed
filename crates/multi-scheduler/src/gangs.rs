//! Pods that are of use only together: a group is offered one lower cluster, and only one that can take all of it.
//!
//! Who belongs together and how many there must be is said by labels, as the coscheduling plugin's users write them. Where
//! members are is learnt from the upper watch; which cluster a group of which none is bound yet was offered is remembered for
//! as long as room is kept for a pod.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use serde_json::Value;

use crate::reservations::ClusterId;

/// Labels that name a pod's group; the first that is there counts.
const NAMES: [&str; 3] =
    ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io"];
/// Label or annotation that says how many members there must be.
const LEAST: &str = "pod-group.scheduling.sigs.k8s.io/min-available";

/// A group of pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    namespace: String,
    name: String,
}

impl Group {
    /// The group that a pod is in, by its labels.
    pub fn of(namespace: &str, labels: &BTreeMap<String, String>) -> Option<Self> {
        let name = NAMES.iter().find_map(|label| labels.get(*label)).filter(|name| !name.is_empty())?;
        Some(Self { namespace: namespace.to_owned(), name: name.clone() })
    }

    /// The group that a pod is in, and how many of it there must be. A group without a number, or of one, is none.
    pub fn wanted(pod: &Value) -> Option<(Self, u64)> {
        let meta = &pod["metadata"];
        let name = NAMES.iter().find_map(|label| meta["labels"][label].as_str()).filter(|name| !name.is_empty())?;
        let least = [&meta["labels"], &meta["annotations"]].into_iter().find_map(|map| map[LEAST].as_str())?;
        let least = least.parse().ok().filter(|least| *least > 1)?;
        let namespace = meta["namespace"].as_str().unwrap_or_default().to_owned();
        Some((Self { namespace, name: name.to_owned() }, least))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What is known of groups.
#[derive(Debug, Default)]
pub struct Gangs {
    /// The members, each with the node it is bound to; none while it is only known that a scheduler was told of it.
    groups: HashMap<Group, BTreeMap<String, Option<String>>>,
    group_of: HashMap<String, Group>,
    offered: HashMap<Group, (ClusterId, Instant)>,
}

impl Gangs {
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

    fn group(name: &str) -> Group {
        Group { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_group_has_a_name_and_a_number_of_more_than_one() {
        let pod = |labels: Value| json!({"metadata": {"namespace": "ns", "labels": labels}});
        for name in NAMES {
            assert_eq!(Group::wanted(&pod(json!({name: "g", LEAST: "3"}))), Some((group("g"), 3)));
        }
        for labels in [
            json!({NAMES[0]: "g"}),
            json!({LEAST: "3"}),
            json!({NAMES[0]: "g", LEAST: "1"}),
            json!({NAMES[0]: "", LEAST: "3"}),
        ] {
            assert_eq!(Group::wanted(&pod(labels)), None);
        }
        let annotated =
            json!({"metadata": {"namespace": "ns", "labels": {NAMES[0]: "g"}, "annotations": {LEAST: "2"}}});
        assert_eq!(Group::wanted(&annotated), Some((group("g"), 2)));
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
