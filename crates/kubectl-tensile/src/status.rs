// SPDX-License-Identifier: Apache-2.0
//! `status`: the virtual nodes, and what they have and hold.

use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};
use tensile_core::names;
use tensile_core::resources::{ResourceName, ResourceVector, pod_request};

use crate::cluster::Upper;
use crate::output::{Cell, Mood, Output, Table};

/// Where kubelets, and virtual nodes, renew their heartbeat.
const HEARTBEATS: &str = "kube-node-lease";
/// A heartbeat that is older makes the control plane doubt the node (its `--node-monitor-grace-period` is 40 s or more).
const LATE: i64 = 30;

/// A virtual node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The lower cluster, as its label says.
    pub cluster: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// No new pods are bound to it.
    pub cordoned: bool,
    /// What it says about itself, if it is not ready.
    pub message: Option<String>,
    /// Version of the lower kubelets.
    pub version: String,
    /// Seconds since its last heartbeat.
    pub heartbeat_seconds: Option<i64>,
    /// Pods that have not ended.
    pub pods: Pods,
    /// What can be given to pods.
    pub allocatable: Value,
    /// What is left of it.
    pub free: Value,
}

/// Pods by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pods {
    /// They run.
    pub running: usize,
    /// They wait.
    pub pending: usize,
}

/// Prints them. Says whether all are ready.
pub async fn run(upper: &Upper, output: Output) -> anyhow::Result<bool> {
    let leases: Api<Lease> = Api::namespaced(upper.client.clone(), HEARTBEATS);
    let nodes = upper.nodes(None).await?;
    let each = nodes.iter().map(|node| async {
        let name = node.name_any();
        // Its absence is shown, its reason is for `doctor`.
        let lease = leases.get_opt(&name).await.ok().flatten();
        let renewed = lease.and_then(|lease| Some(lease.spec?.renew_time?.0));
        let pods = upper.pods_on(&name).await?;
        anyhow::Ok(status(node, &pods, renewed.map(|renewed| age(renewed, Timestamp::now()))))
    });
    let all = try_join_all(each).await?;
    output.print(&all, |all| table(all))?;
    Ok(all.iter().all(|status| status.ready))
}

/// Seconds from then to now.
fn age(then: Timestamp, now: Timestamp) -> i64 {
    now.as_second() - then.as_second()
}

fn status(node: &Node, pods: &[Value], heartbeat_seconds: Option<i64>) -> Status {
    let status = node.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_ready = ready.is_some_and(|condition| condition.status == "True");
    let allocatable = ResourceVector::from_json(&json!(status.allocatable)).unwrap_or_default();
    let (mut counts, mut taken) = (Pods::default(), ResourceVector::new());
    for pod in pods {
        match pod["status"]["phase"].as_str() {
            Some("Succeeded" | "Failed") => continue,
            Some("Running") => counts.running += 1,
            _ => counts.pending += 1,
        }
        taken.add_all(&pod_request(&pod["spec"]).unwrap_or_default());
        taken.add(ResourceName::PODS, 1000);
    }
    Status {
        name: node.name_any(),
        cluster: node.labels().get(names::CLUSTER_ID).cloned(),
        ready: is_ready,
        cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default(),
        message: ready.filter(|_| !is_ready).and_then(|condition| condition.message.clone()),
        version: status.node_info.map(|info| info.kubelet_version).unwrap_or_default(),
        heartbeat_seconds,
        pods: counts,
        free: allocatable.less(&taken).to_json(),
        allocatable: allocatable.to_json(),
    }
}

fn table(all: &[Status]) -> Table {
    let amount = |list: &Value, name: &str| list[name].as_str().unwrap_or("-").to_owned();
    let row = |status: &Status| {
        let ready = match (status.ready, status.cordoned) {
            (true, false) => Cell::new("yes", Mood::Good),
            (true, true) => Cell::new("cordoned", Mood::Waiting),
            (false, _) => Cell::new("no", Mood::Bad),
        };
        let heartbeat = match status.heartbeat_seconds {
            Some(seconds) if seconds > LATE => Cell::new(format!("{seconds}s ago"), Mood::Bad),
            Some(seconds) => format!("{seconds}s ago").into(),
            None => Cell::new("never", Mood::Bad),
        };
        let pods = match status.pods {
            Pods { running, pending: 0 } => running.to_string(),
            Pods { running, pending } => format!("{running} + {pending} pending"),
        };
        vec![
            status.name.clone().into(),
            status.cluster.clone().unwrap_or_else(|| "-".to_owned()).into(),
            ready,
            status.version.clone().into(),
            heartbeat,
            pods.into(),
            amount(&status.free, "cpu").into(),
            amount(&status.free, "memory").into(),
            status.message.clone().unwrap_or_default().into(),
        ]
    };
    Table {
        head: &["NAME", "CLUSTER", "READY", "VERSION", "HEARTBEAT", "PODS", "FREE CPU", "FREE MEMORY", "MESSAGE"],
        rows: all.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_what_pods_that_have_not_ended_leave() {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "east", "labels": { "clusterID": "c" } },
            "status": {
                "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": "False", "message": "lower cluster is away" }],
            },
        }))
        .unwrap();
        let pod = |phase: &str| {
            let containers = json!([{ "name": "a", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } }]);
            json!({ "spec": { "containers": containers }, "status": { "phase": phase } })
        };
        let seen = status(&node, &[pod("Running"), pod("Pending"), pod("Failed")], Some(3));
        assert_eq!(seen.free, json!({ "cpu": "7", "memory": "14Gi", "pods": "108" }));
        assert_eq!(seen.pods, Pods { running: 1, pending: 1 });
        assert_eq!((seen.ready, seen.message.as_deref()), (false, Some("lower cluster is away")));
        assert_eq!(seen.cluster.as_deref(), Some("c"));
    }
}
