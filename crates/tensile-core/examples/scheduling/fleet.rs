// SPDX-License-Identifier: Apache-2.0
//! Generated lower clusters, as JSON like that of a real API server.

use serde_json::{Value, json};
use tensile_core::names;
use tensile_testkit::fuzz::Numbers;

/// Pods on each node.
pub(crate) const PODS_PER_NODE: usize = 10;
/// Controllers in a cluster, whose pods are alike.
const CONTROLLERS: usize = 300;

/// A node with labels as clouds put them.
pub(crate) fn node(cluster: usize, number: usize, numbers: &mut Numbers) -> String {
    let name = format!("node-{cluster}-{number}");
    let zone = format!("zone-{}", numbers.below(3));
    let taints = if numbers.one_in(10) {
        json!([{"key": format!("team-{}", numbers.below(8)), "effect": "NoSchedule"}])
    } else {
        json!([])
    };
    let allocatable = json!({"cpu": "15890m", "memory": "60825124Ki", "ephemeral-storage": "95551679124", "pods": "110",
        "example.com/gpu": "4", "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": format!("type-{}", numbers.below(6)),
        "pool": format!("pool-{}", numbers.below(20)), "example.com/instance-id": format!("i-{cluster:04x}{number:08x}")});
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|kind| json!({"type": kind, "status": "False",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "KubeletHas",
        "message": "kubelet has sufficient of what it takes"}));
    let images: Vec<Value> = (0..20)
        .map(|image| {
            json!({"names": [format!("registry.example.com/team/image-{image}@sha256:0123456789abcdef"),
        format!("registry.example.com/team/image-{image}:v1")], "sizeBytes": 123_456_789})
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid(numbers), "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        "spec": {"podCIDR": "10.0.0.0/24", "taints": taints},
        "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": conditions, "images": images,
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Linux", "architecture": "amd64"}}})
    .to_string()
}

fn uid(numbers: &mut Numbers) -> String {
    let (a, b) = (numbers.next_number(), numbers.next_number());
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & 0xffff_ffff_ffff)
}

/// A pod as it comes from a watch: bound, running, of one of the controllers, one in ten with labels of its own.
pub(crate) struct Pod {
    uid: String,
    controller: usize,
    own_label: Option<usize>,
    node: String,
}

impl Pod {
    /// One on a node of the cluster.
    pub(crate) fn new(cluster: usize, nodes: usize, number: usize, numbers: &mut Numbers) -> Self {
        Self {
            uid: uid(numbers),
            controller: numbers.below(CONTROLLERS),
            own_label: numbers.one_in(10).then_some(number),
            node: format!("node-{cluster}-{}", number % nodes),
        }
    }

    /// Its JSON, at a version.
    pub(crate) fn json(&self, version: usize) -> String {
        let Self { uid, controller, own_label, node } = self;
        let name = format!("app-{controller}-7f9c6bd8c5-{}", uid.get(..5).unwrap_or_default());
        let mut labels = json!({"app": format!("app-{controller}"), "pod-template-hash": "7f9c6bd8c5", "tier": format!("tier-{}", controller % 5),
            "app.kubernetes.io/name": format!("app-{controller}"), "app.kubernetes.io/managed-by": "helm", "virtual-pod": "true",
            (names::UPPER_CLUSTER): "d9f0c1de-8f1c-4f4e-9c0a-0f8a2b6c7d8e", (names::VIRTUAL_NODE): "virtual-1"});
        if let Some(number) = own_label {
            labels["statefulset.kubernetes.io/pod-name"] = json!(format!("app-{controller}-{number}"));
        }
        let mut affinity = json!({});
        if controller % 5 == 0 {
            affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": format!("app-{controller}")}}}]}});
        }
        let millis = 100 * (1 + controller % 6);
        let resources = json!({"requests": {"cpu": format!("{millis}m"), "memory": format!("{}Mi", 128 * (1 + controller % 9))},
            "limits": {"cpu": "2", "memory": "4Gi"}});
        let env: Vec<Value> = (0..6)
            .map(|number| json!({"name": format!("SETTING_{number}"), "value": "a value of some length"}))
            .collect();
        let container = |name: &str| {
            json!({"name": name, "image": "registry.example.com/team/app:v1.2.3", "resources": resources, "env": env,
            "ports": [{"containerPort": 8080, "protocol": "TCP", "name": "http"}], "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}]})
        };
        let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"}));
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": format!("team-{}", controller % 30), "uid": uid, "resourceVersion": version.to_string(),
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels, "generateName": "app-7f9c6bd8c5-",
                "annotations": {(names::UPPER_UID): uid, (names::UPPER_NAME): "team/app", (names::APPLIED_REVISION): "1"},
                "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "subresource": "status",
                    "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:lastTransitionTime": {}, "f:status": {}}},
                        "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:startTime": {}}}}]},
            "spec": {"nodeName": node, "affinity": affinity, "containers": [container("main"), container("side")], "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "priority": 0,
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
                "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}}]},
            "status": {"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "qosClass": "Burstable",
                "startTime": "2026-01-01T00:00:00Z",
                "containerStatuses": (["main", "side"].map(|name| json!({"name": name, "ready": true, "restartCount": version, "started": true,
                    "image": "registry.example.com/team/app:v1.2.3", "imageID": "registry.example.com/team/app@sha256:0123456789abcdef",
                    "containerID": "containerd://0123456789abcdef", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})))}})
        .to_string()
    }
}
