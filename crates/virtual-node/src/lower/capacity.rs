// SPDX-License-Identifier: Apache-2.0
//! What the lower cluster can still take: a snapshot kept by its watches, summed up when it is asked for.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tensile_core::node::{ForeignPod, LowerNode, Totals, capacity};
use tokio::sync::watch;

/// Lower nodes and the pods there that are not ours.
#[derive(Debug)]
pub(super) struct Usage {
    snapshot: Mutex<Snapshot>,
    /// Counts the changes that may matter for capacity.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Snapshot {
    nodes: HashMap<String, LowerNode>,
    pods: HashMap<Box<str>, ForeignPod>,
    /// A list under way: it replaces what is there when it is complete.
    listed_nodes: Option<HashMap<String, LowerNode>>,
    listed_pods: Option<HashMap<Box<str>, ForeignPod>>,
    /// Both have been listed at least once.
    nodes_known: bool,
    pods_known: bool,
}

impl Default for Usage {
    fn default() -> Self {
        Self { snapshot: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Usage {
    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the snapshot; `change` says whether capacity may differ now.
    fn change(&self, change: impl FnOnce(&mut Snapshot) -> bool) {
        if change(&mut self.lock()) {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn nodes_begin(&self) {
        self.lock().listed_nodes = Some(HashMap::new());
    }

    pub(super) fn nodes_complete(&self) {
        self.change(|snapshot| {
            snapshot.nodes = snapshot.listed_nodes.take().unwrap_or_default();
            snapshot.nodes_known = true;
            true
        });
    }

    pub(super) fn node_seen(&self, node: LowerNode) {
        self.change(|snapshot| match &mut snapshot.listed_nodes {
            Some(list) => {
                list.insert(node.name.clone(), node);
                false
            }
            None => snapshot.nodes.insert(node.name.clone(), node.clone()) != Some(node),
        });
    }

    pub(super) fn node_gone(&self, name: &str) {
        self.change(|snapshot| snapshot.nodes.remove(name).is_some());
    }

    pub(super) fn pods_begin(&self) {
        self.lock().listed_pods = Some(HashMap::new());
    }

    pub(super) fn pods_complete(&self) {
        self.change(|snapshot| {
            snapshot.pods = snapshot.listed_pods.take().unwrap_or_default();
            snapshot.pods_known = true;
            true
        });
    }

    /// A pod that is not ours, as JSON.
    pub(super) fn pod_seen(&self, uid: &str, raw: &str) {
        let pod = match ForeignPod::from_json(raw) {
            Ok(pod) => pod,
            Err(error) => return tracing::error!(uid, %error, "a lower pod cannot be counted against capacity"),
        };
        self.change(|snapshot| {
            let listing = snapshot.listed_pods.is_some();
            let pods = snapshot.listed_pods.as_mut().unwrap_or(&mut snapshot.pods);
            let before = match pod.clone() {
                Some(pod) => pods.insert(uid.into(), pod),
                None => pods.remove(uid),
            };
            !listing && before != pod
        });
    }

    pub(super) fn pod_gone(&self, uid: &str) {
        self.change(|snapshot| snapshot.pods.remove(uid).is_some());
    }
}

/// The lower cluster's capacity, to read and to wait on.
#[derive(Debug)]
pub struct CapacityView<'a> {
    usage: &'a Usage,
}

impl<'a> CapacityView<'a> {
    pub(super) fn new(usage: &'a Usage) -> Self {
        Self { usage }
    }

    /// What the cluster can still take; `None` until it is known.
    pub fn totals(&self) -> Option<Totals> {
        let snapshot = self.usage.lock();
        let known = snapshot.nodes_known && snapshot.pods_known;
        known.then(|| capacity(snapshot.nodes.values(), snapshot.pods.values()))
    }

    /// Tells when it may have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.usage.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use tensile_core::resources::ResourceName;

    use super::*;

    fn node(name: &str, cpu: u32) -> LowerNode {
        LowerNode::from_json(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{}},"status":{{"allocatable":{{"cpu":"{cpu}","pods":"10"}},
                "conditions":[{{"type":"Ready","status":"True"}}]}}}}"#
        ))
        .unwrap()
    }

    fn pod(cpu: u32) -> String {
        format!(
            r#"{{"metadata":{{}},"spec":{{"nodeName":"a","containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}},"status":{{"phase":"Running"}}}}"#
        )
    }

    fn cpu(usage: &Usage) -> i128 {
        CapacityView::new(usage).totals().unwrap().allocatable.get(&ResourceName::CPU).unwrap() / 1000
    }

    #[test]
    fn nothing_is_claimed_before_nodes_and_pods_are_known() {
        let usage = Usage::default();
        usage.nodes_begin();
        usage.node_seen(node("a", 8));
        usage.nodes_complete();
        assert!(CapacityView::new(&usage).totals().is_none());
    }

    #[test]
    fn pods_of_others_take_room_until_they_are_gone_and_a_new_list_starts_afresh() {
        let usage = Usage::default();
        usage.nodes_begin();
        usage.node_seen(node("a", 8));
        usage.nodes_complete();
        usage.pods_begin();
        usage.pod_seen("1", &pod(2));
        usage.pods_complete();
        assert_eq!(cpu(&usage), 6);
        usage.pod_seen("2", &pod(1));
        usage.pod_seen("2", &pod(1));
        assert_eq!(cpu(&usage), 5, "a repeated event does not count twice");
        usage.pod_gone("1");
        assert_eq!(cpu(&usage), 7);
        usage.pods_begin();
        usage.pods_complete();
        assert_eq!(cpu(&usage), 8, "a missed deletion is mended by the next list");
    }

    #[test]
    fn only_what_matters_wakes_up() {
        let usage = Usage::default();
        usage.node_seen(node("a", 8));
        let before = *usage.changed.borrow();
        usage.node_seen(node("a", 8));
        assert_eq!(*usage.changed.borrow(), before);
        usage.node_seen(node("a", 9));
        assert_ne!(*usage.changed.borrow(), before);
    }
}
