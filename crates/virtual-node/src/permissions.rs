//! What this service may have to do in either cluster, checked at the start and granted by the chart.

use tensile_runtime::clients::Permission;

const COORDINATION: &str = "coordination.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const EVENTS: &str = "events.k8s.io";

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

/// In the lower cluster.
pub const LOWER: &[Permission<'static>] = &[
    Permission::core("list", "pods"),
    Permission::core("watch", "pods"),
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
    Permission::core("list", "nodes"),
    Permission::core("watch", "nodes"),
    Permission::core("create", "namespaces"),
    Permission::core("get", "serviceaccounts"),
];

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

/// In the upper cluster, to read the Secrets that pods bring along: in the namespaces whose pods run here, or in all.
/// Asked for when the first pod of a namespace needs it; without it, those pods say so and wait.
pub const UPPER_SECRETS: &[Permission<'static>] =
    &[Permission::core("get", "secrets"), Permission::core("list", "secrets"), Permission::core("watch", "secrets")];

/// In the lower cluster, to keep copies of those Secrets, in the same namespaces.
pub const LOWER_SECRETS: &[Permission<'static>] = &[
    Permission::core("get", "secrets"),
    Permission::core("list", "secrets"),
    Permission::core("watch", "secrets"),
    Permission::core("create", "secrets"),
    Permission::core("update", "secrets"),
    Permission::core("delete", "secrets"),
];
