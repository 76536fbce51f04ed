// SPDX-License-Identifier: Apache-2.0
//! What this service may have to do in either cluster, checked at the start and granted by the chart.

use tensile_runtime::clients::Permission;

const COORDINATION: &str = "coordination.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const EVENTS: &str = "events.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const NETWORKING: &str = "networking.k8s.io";

/// In the upper cluster.
pub const UPPER: &[Permission<'static>] = &[
    Permission::core("list", "pods"),
    Permission::core("watch", "pods"),
    Permission::core("get", "pods"),
    Permission::core("delete", "pods"),
    Permission::core("patch", "pods/status"),
    Permission::core("get", "configmaps"),
    Permission::core("list", "configmaps"),
    Permission::core("watch", "configmaps"),
    Permission::core("create", "nodes"),
    Permission::core("get", "nodes"),
    Permission::core("list", "nodes"),
    Permission::core("watch", "nodes"),
    Permission::core("patch", "nodes"),
    Permission::core("patch", "nodes/status"),
    Permission::of("create", EVENTS, "events"),
    Permission::of("patch", EVENTS, "events"),
    Permission::of("create", "authentication.k8s.io", "tokenreviews"),
    Permission::of("create", "authorization.k8s.io", "subjectaccessreviews"),
    Permission::of("create", COORDINATION, "leases").within("kube-node-lease"),
    Permission::of("get", COORDINATION, "leases").within("kube-node-lease"),
    Permission::of("update", COORDINATION, "leases").within("kube-node-lease"),
    // The cluster is known by its UID.
    Permission::core("get", "namespaces").on("kube-system"),
];

/// In the upper cluster, for a serving certificate that it signs. An operator may keep them back: then the certificate is
/// from files, or self-signed.
pub const UPPER_CERTIFICATE: &[Permission<'static>] = &[
    Permission::of("create", CERTIFICATES, "certificatesigningrequests"),
    Permission::of("get", CERTIFICATES, "certificatesigningrequests"),
];

/// In the lower cluster, in all of it: what takes room there.
pub const LOWER: &[Permission<'static>] = &[
    Permission::core("list", "pods"),
    Permission::core("watch", "pods"),
    Permission::core("list", "nodes"),
    Permission::core("watch", "nodes"),
];

/// Whoever has this in all of the lower cluster is to have the others there too; an operator may as well give them in some
/// namespaces only, and make these.
pub const LOWER_SIGN: &[Permission<'static>] = &[Permission::core("create", "pods")];

/// In the lower cluster, where pods are to run. Where it is not given, they say that it is forbidden.
pub const LOWER_PODS: &[Permission<'static>] = &[
    Permission::core("get", "pods"),
    Permission::core("create", "pods"),
    Permission::core("patch", "pods"),
    Permission::core("delete", "pods"),
    Permission::core("patch", "pods/resize"),
    Permission::core("patch", "pods/ephemeralcontainers"),
    Permission::core("get", "configmaps"),
    Permission::core("list", "configmaps"),
    Permission::core("watch", "configmaps"),
    Permission::core("create", "configmaps"),
    Permission::core("update", "configmaps"),
    Permission::core("delete", "configmaps"),
    Permission::core("create", "namespaces"),
    Permission::core("get", "serviceaccounts"),
];

/// In the lower cluster, to know whose a namespace is (`--namespace-mapping=prefix` and `suffix`, `--tenant-quota`,
/// `--tenant-isolation`), and to put into it what the operator gives.
pub const LOWER_TENANTS: &[Permission<'static>] = &[
    Permission::core("get", "namespaces"),
    Permission::core("list", "resourcequotas"),
    Permission::core("create", "resourcequotas"),
    Permission::core("update", "resourcequotas"),
    Permission::core("delete", "resourcequotas"),
    Permission::core("list", "limitranges"),
    Permission::core("create", "limitranges"),
    Permission::core("update", "limitranges"),
    Permission::core("delete", "limitranges"),
    Permission::of("list", NETWORKING, "networkpolicies"),
    Permission::of("create", NETWORKING, "networkpolicies"),
    Permission::of("update", NETWORKING, "networkpolicies"),
    Permission::of("delete", NETWORKING, "networkpolicies"),
];

/// In the lower cluster, to tell upstairs which one it is: the multi-scheduler finds the virtual node by that. An operator
/// may keep it back: then the node does not say so.
pub const LOWER_IDENTITY: &[Permission<'static>] = &[Permission::core("get", "namespaces").on("kube-system")];

/// In the lower cluster, for those who ask the kubelet API. An operator may keep them back: pods run all the same, and
/// who asks is told. A stream is opened with a POST or, over WebSocket, a GET; newer API servers want `create` for both.
pub const LOWER_STREAMS: &[Permission<'static>] = &[
    Permission::core("get", "pods/log"),
    Permission::core("get", "pods/exec"),
    Permission::core("create", "pods/exec"),
    Permission::core("get", "pods/attach"),
    Permission::core("create", "pods/attach"),
    Permission::core("get", "pods/portforward"),
    Permission::core("create", "pods/portforward"),
];

/// In the lower cluster, for metrics of containers by the metrics API.
pub const LOWER_METRICS: &[Permission<'static>] = &[Permission::of("list", "metrics.k8s.io", "pods")];

/// In the lower cluster, for metrics of containers by its kubelets. The finer rights that kubelets know (`nodes/metrics`,
/// `nodes/stats`) do not reach them through an API server. Whoever has this one may read everything there, and over
/// WebSocket even run commands in containers: an operator gives it knowingly, or not.
pub const LOWER_KUBELETS: &[Permission<'static>] = &[Permission::core("get", "nodes/proxy")];

/// The group that nodes are in.
pub const NODES: &str = "system:nodes";

/// The user that a node is to its API server.
#[must_use]
pub fn node_user(node: &str) -> String {
    format!("system:node:{node}")
}

/// In the upper cluster, to request tokens for the pods of this node in its name, as `user` ([`node_user`]). The API server
/// allows that for pods that are bound to the node, and no others. Without it they are requested in our own name, which needs
/// `create serviceaccounts/token`: a right that nobody should have in all namespaces.
#[must_use]
pub const fn upper_node(user: &str) -> [Permission<'_>; 2] {
    [Permission::core("impersonate", "users").on(user), Permission::core("impersonate", "groups").on(NODES)]
}
/// In the lower cluster, to show the events of pods upstairs. An operator may keep them back: then none are shown.
pub const LOWER_EVENTS: &[Permission<'static>] =
    &[Permission::core("list", "events"), Permission::core("watch", "events")];

/// In the upper cluster, to show them. Written by the older of the two APIs of events, in which counts and times may rise.
pub const UPPER_EVENTS: &[Permission<'static>] =
    &[Permission::core("list", "events"), Permission::core("create", "events"), Permission::core("update", "events")];

/// In the upper cluster, for claims of pods (`PVControllers`), and the volumes that show what is below. Without them, pods with
/// claims say so and wait.
pub const UPPER_VOLUMES: &[Permission<'static>] = &[
    Permission::core("get", "persistentvolumeclaims"),
    Permission::core("list", "persistentvolumeclaims"),
    Permission::core("watch", "persistentvolumeclaims"),
    Permission::core("patch", "persistentvolumeclaims/status"),
    Permission::core("get", "persistentvolumes"),
    Permission::core("list", "persistentvolumes"),
    Permission::core("watch", "persistentvolumes"),
    Permission::core("create", "persistentvolumes"),
    Permission::core("patch", "persistentvolumes"),
    Permission::core("delete", "persistentvolumes"),
    Permission::of("get", STORAGE, "storageclasses"),
];

/// In the lower cluster, for the same.
pub const LOWER_VOLUMES: &[Permission<'static>] = &[
    Permission::core("get", "persistentvolumeclaims"),
    Permission::core("list", "persistentvolumeclaims"),
    Permission::core("watch", "persistentvolumeclaims"),
    Permission::core("create", "persistentvolumeclaims"),
    Permission::core("patch", "persistentvolumeclaims"),
    Permission::core("delete", "persistentvolumeclaims"),
    Permission::core("get", "persistentvolumes"),
    Permission::core("create", "persistentvolumes"),
    Permission::core("delete", "persistentvolumes"),
    Permission::of("get", STORAGE, "storageclasses"),
];

/// In the upper cluster, for Services (`ServiceControllers`). Without them, none go down.
pub const UPPER_SERVICES: &[Permission<'static>] = &[
    Permission::core("get", "services"),
    Permission::core("list", "services"),
    Permission::core("watch", "services"),
    Permission::core("patch", "services/status"),
    Permission::of("list", DISCOVERY, "endpointslices"),
    Permission::of("watch", DISCOVERY, "endpointslices"),
];

/// In the upper cluster, to lead clients there to the load balancers of lower clusters (`--service-path=loadbalancer`).
pub const UPPER_SLICES: &[Permission<'static>] = &[
    Permission::of("create", DISCOVERY, "endpointslices"),
    Permission::of("update", DISCOVERY, "endpointslices"),
    Permission::of("delete", DISCOVERY, "endpointslices"),
];

/// In the lower cluster, to write Endpoints beside EndpointSlices (`--legacy-endpoints`).
pub const LOWER_ENDPOINTS: &[Permission<'static>] = &[
    Permission::core("get", "endpoints"),
    Permission::core("create", "endpoints"),
    Permission::core("update", "endpoints"),
    Permission::core("delete", "endpoints"),
];

/// In the lower cluster, for Services.
pub const LOWER_SERVICES: &[Permission<'static>] = &[
    Permission::core("get", "services"),
    Permission::core("list", "services"),
    Permission::core("watch", "services"),
    Permission::core("create", "services"),
    Permission::core("update", "services"),
    Permission::core("patch", "services"),
    Permission::core("delete", "services"),
    Permission::of("list", DISCOVERY, "endpointslices"),
    Permission::of("watch", DISCOVERY, "endpointslices"),
    Permission::of("create", DISCOVERY, "endpointslices"),
    Permission::of("update", DISCOVERY, "endpointslices"),
    Permission::of("delete", DISCOVERY, "endpointslices"),
];

/// In the upper cluster, to read the Secrets that pods bring along: in the namespaces whose pods run here, or in all.
/// Asked for when the first pod of a namespace needs it; without it, those pods say so and wait.
pub const UPPER_SECRETS: &[Permission<'static>] =
    &[Permission::core("get", "secrets"), Permission::core("list", "secrets"), Permission::core("watch", "secrets")];

/// In the lower cluster, to keep copies of those Secrets, and the tokens of pods, in the namespaces whose pods run here.
pub const LOWER_SECRETS: &[Permission<'static>] = &[
    Permission::core("get", "secrets"),
    Permission::core("list", "secrets"),
    Permission::core("watch", "secrets"),
    Permission::core("create", "secrets"),
    Permission::core("update", "secrets"),
    Permission::core("patch", "secrets"),
    Permission::core("delete", "secrets"),
];
