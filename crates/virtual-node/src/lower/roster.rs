// SPDX-License-Identifier: Apache-2.0
//! Where our pods run below, for whoever asks what they use.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;
use tensile_core::pod::Reported;
use tensile_core::stats::{Member, Millis, Roster};
use virtual_kubelet::pod::PodId;

use super::{LowerCluster, Ours};

/// What is remembered of where a lower pod runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    node: Box<str>,
    /// When the kubelet took it.
    since: Option<Millis>,
    /// Since when each of its containers runs.
    running: Box<[(Box<str>, Millis)]>,
}

impl Placed {
    /// Of a lower pod; `None` while it has no node.
    pub(super) fn of(lower: &Reported<'_>) -> Option<Self> {
        let status = &lower.status;
        let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
        let containers = lists.iter().flat_map(|list| status[list].as_array().into_iter().flatten());
        let running = containers.filter_map(|container| {
            Some((container["name"].as_str()?.into(), millis(&container["state"]["running"]["startedAt"])?))
        });
        Some(Self { node: lower.node()?.into(), since: millis(&status["startTime"]), running: running.collect() })
    }
}

fn millis(time: &Value) -> Option<Millis> {
    time.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

impl LowerCluster {
    /// Which of `pods` run below, and where.
    pub(crate) fn roster(&self, pods: impl IntoIterator<Item = PodId>) -> Roster {
        let mut nodes: HashMap<Box<str>, Arc<str>> = HashMap::new();
        let ours = self.ours();
        let members = pods.into_iter().filter_map(|PodId { namespace, name, uid }| {
            let Ours { uid: lower_uid, placed, .. } = ours.get(&uid)?;
            let Placed { node, since, running } = placed.as_ref()?.clone();
            let lower_node = nodes.entry(node).or_insert_with_key(|node| node.clone().into()).clone();
            let lower_name = shared(&name, &self.link.lower_pod(&namespace, &name));
            let below = (shared(&namespace, &self.link.lower_namespace(&namespace)), lower_name);
            let lower_uid = lower_uid.clone();
            Some(Member { namespace, name, below, uid, lower_uid, lower_node, since, running })
        });
        members.collect()
    }
}

/// `text`, in the place of `known` if that is the same.
fn shared(known: &Arc<str>, text: &str) -> Arc<str> {
    if **known == *text { known.clone() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn placed(pod: &Value) -> Option<Placed> {
        Placed::of(&Reported::parse(&pod.to_string()).unwrap())
    }

    #[test]
    fn a_pod_is_where_its_node_is_and_its_running_containers_since_they_run() {
        let running = |name: &str| json!({"name": name, "state": {"running": {"startedAt": "1970-01-01T00:01:00Z"}}});
        let pod = json!({
            "spec": {"nodeName": "n"},
            "status": {
                "startTime": "1970-01-01T00:00:05Z",
                "containerStatuses": [running("main"), {"name": "waiting", "state": {"waiting": {}}}],
                "initContainerStatuses": [running("side")],
                "ephemeralContainerStatuses": [running("debug"), 7],
            },
        });
        let running = ["main", "side", "debug"].map(|name| (Box::from(name), 60_000));
        let expected = Placed { node: "n".into(), since: Some(5_000), running: running.into() };
        assert_eq!(placed(&pod), Some(expected));
    }

    #[test]
    fn a_pod_without_a_node_is_nowhere() {
        assert_eq!(placed(&json!({"spec": {}, "status": {}})), None);
        let bare = Placed { node: "n".into(), since: None, running: [].into() };
        assert_eq!(placed(&json!({"spec": {"nodeName": "n"}})), Some(bare));
    }
}
