// SPDX-License-Identifier: Apache-2.0
//! Every key, label, annotation and reason that Tensile writes or understands, spelled once.
//!
//! The first half is compatible with tensile-kube, so that its users keep their manifests; what is ours lives
//! under `tensile.io/`.

use serde_json::Value;

/// Label by which a pod opts in. Also set on every lower pod.
pub const VIRTUAL_POD: &str = "virtual-pod";
/// Value of [`VIRTUAL_POD`] that opts in.
pub const TRUE: &str = "true";
/// Annotation that carries the stash: the placement fields that only lower nodes can satisfy.
pub const CLUSTER_SELECTOR: &str = "clusterSelector";
/// Node label that marks a virtual node, with value [`VIRTUAL_KUBELET`].
pub const NODE_TYPE: &str = "type";
/// Value of [`NODE_TYPE`] on a virtual node.
pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";
/// Node label that names the lower cluster; the default kept key.
pub const CLUSTER_ID: &str = "clusterID";
/// Node label for the role, with value `agent`.
pub const NODE_ROLE: &str = "kubernetes.io/role";
/// Kubernetes' node label for the host's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Kubernetes' node labels for the operating system: today's, and the one that old selectors name.
pub const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
/// Kubernetes' node labels for the architecture: today's, and the one that old selectors name.
pub const ARCH_LABELS: [&str; 2] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];
/// Kubernetes' node label that keeps service load balancers from sending traffic to the node.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Kubernetes' pod labels with the pod's index in its owner: the ordinal in a StatefulSet, the completion index in a Job.
pub const POD_INDEXES: [&str; 2] = ["apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"];
/// Annotation on objects that are copied between clusters.
pub const GLOBAL: &str = "global";
/// Annotation that keeps, as JSON, the labels that were dropped below (`--ignore-labels`).
pub const TRIPPED_LABELS: &str = "tripped-labels";
/// Labels that are dropped below unless `--ignore-labels` says otherwise.
pub const DEFAULT_IGNORED_LABELS: &[&str] = &["group.batch.scheduler.tencent.com", "pod-group.scheduling.sigs.k8s.io"];
/// Node label keys that upper scheduling decides on unless `--ignore-selector-keys` says otherwise.
pub const DEFAULT_KEPT_KEYS: &[&str] = &[CLUSTER_ID];
/// Key of the taint on a virtual node; its value is the provider's name.
pub const PROVIDER_TAINT: &str = "virtual-kubelet.io/provider";
/// Label that tensile-kube's descheduler put on pods it created.
pub const CREATED_BY_DESCHEDULER: &str = "create-by-descheduler";
/// Annotation in which tensile-kube's descheduler named the node to avoid.
pub const UNSCHEDULABLE_NODE: &str = "unschedulable-node";
/// Annotation in which tensile-kube's descheduler counted its moves.
pub const DESCHEDULE_COUNT: &str = "sigs.k8s.io/deschedule-count";
/// Key of the taint on a node that is not ready.
pub const NODE_NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Key of the taint on a node that is not heard of.
pub const NODE_UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Key of the taint on a node that is cordoned.
pub const NODE_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Annotation of a claim in which the upper scheduler names the node that it chose for it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Label by which a pod opts out of the webhook with value `true`: its constraints stay where its author put them.
pub const LEAVE_PLACEMENT: &str = "tensile.io/leave-placement";
/// Label with value `true` on ConfigMaps that hold exclusions: virtual nodes that an owner's pods keep off for a while.
pub const EXCLUSIONS: &str = "tensile.io/exclusions";
/// Label on a virtual node: the UID of the `kube-system` namespace of the lower cluster that it stands for.
pub const LOWER_CLUSTER: &str = "tensile.io/lower-cluster";
/// Label with value `true` on Secrets that hold the kubeconfig of a lower cluster for the multi-scheduler.
pub const KUBECONFIG: &str = "tensile.io/kubeconfig";
/// Annotation on a virtual node: when the multi-scheduler last saw room for a pod that it had refused there. That it
/// changes makes schedulers try such pods again.
pub const ROOM: &str = "tensile.io/room";
/// Label with value `true` on ConfigMaps that each say how far the move of a pod without a controller has come.
pub const JOURNAL: &str = "tensile.io/journal";
/// Finalizer on a pod without a controller that is being moved, and on its successor until the journal is closed.
pub const MOVE: &str = "tensile.io/move";
/// Annotation on a pod that the descheduler made again: the UID of the pod it was made of.
pub const ORIGIN_UID: &str = "tensile.io/origin-uid";
/// Annotation on such a pod: the virtual nodes that it was kept off when it was made, as a JSON list.
pub const KEPT_OFF: &str = "tensile.io/kept-off";
/// Annotation on a Deployment's pod template: when the descheduler rolled it out anew. That it changes makes its controller
/// do so.
pub const RESTARTED_AT: &str = "tensile.io/restarted-at";
/// Condition on an upper pod, `False` while no other lower cluster has room for it, absent otherwise.
pub const PLACEABLE: &str = "tensile.io/Placeable";
/// Label on everything made below: the UID of the upper cluster's `kube-system` namespace.
pub const UPPER_CLUSTER: &str = "tensile.io/upper-cluster";
/// Label on everything made below, and on what is shown of it above: the virtual node it was made for (see
/// [`label_value`]).
pub const VIRTUAL_NODE: &str = "tensile.io/virtual-node";
/// Label on lower pods, copies and namespaces: the namespace upstairs.
pub const UPPER_NAMESPACE: &str = "tensile.io/upper-namespace";
/// Annotation on a lower pod that has another name than its upper pod: the name of that.
pub const POD_NAME: &str = "tensile.io/pod-name";
/// Annotation on a virtual node: how the namespaces of its pods become those below.
pub const NAMESPACE_MAPPING: &str = "tensile.io/namespace-mapping";
/// Annotation on a lower object: the UID of its upper object.
pub const UPPER_UID: &str = "tensile.io/upper-uid";
/// Annotation on a lower object: `namespace/name` of its upper object.
pub const UPPER_NAME: &str = "tensile.io/upper-name";
/// Annotation on a copy: the revision of the object that was last applied to it.
pub const APPLIED_REVISION: &str = "tensile.io/applied-revision";
/// Annotation on a lower pod: hashes of what was last applied to it, by which a change upstairs is told from one below.
pub const APPLIED: &str = "tensile.io/applied";
/// Annotation on a lower pod: what the objects it refers to are called upstairs and below, as JSON by kind.
pub const REFERENCES: &str = "tensile.io/references";
/// Annotation on a lower pod that shows its labels in a file: those of the upper pod, as a kubelet writes them.
pub const UPPER_LABELS: &str = "tensile.io/upper-labels";
/// Label with value `true` on Secrets below that hold the tokens of one pod, and annotation on them that says when each runs
/// out; annotation on a lower pod: which tokens it has, as JSON.
pub const TOKENS: &str = "tensile.io/tokens";
/// Provisioner of upper StorageClasses whose volumes are made in lower clusters, and driver of the volumes that show them.
pub const PROVISIONER: &str = "volumes.tensile.io";
/// Class of upper Services of type LoadBalancer whose load balancers are those of lower clusters.
pub const LOAD_BALANCER_CLASS: &str = "services.tensile.io/lower";
/// Kubernetes' label of an EndpointSlice: the Service it is of.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Kubernetes' label of an EndpointSlice: who manages it.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of that label on EndpointSlices that go down.
pub const SLICE_MANAGER: &str = "virtual-node.tensile.io";
/// Annotation on a lower Service: the load balancer's addresses that the upper one was given from it, as JSON.
pub const SHOWN: &str = "tensile.io/shown";
/// Annotation on a volume upstairs that shows one below: `namespace/name` of its claim.
pub const CLAIM: &str = "tensile.io/claim";
/// Condition on an upper pod, `False` while the lower cluster refuses it, absent otherwise.
pub const ACCEPTED: &str = "virtual-kubelet.io/Accepted";
/// Condition on an upper pod, `False` while the lower scheduler finds no node for it, absent otherwise.
pub const SCHEDULED: &str = "virtual-kubelet.io/Scheduled";

/// Longest label value the API server takes, in characters.
const LABEL_VALUE_MAX: usize = 63;

/// `name` as a label value: itself when it fits 63 characters, else its head and a stable hash.
///
/// Node names may be 253 characters long, label values only 63.
#[must_use]
pub fn label_value(name: &str) -> String {
    if name.len() <= LABEL_VALUE_MAX {
        return name.to_owned();
    }
    let head = name.get(..46).unwrap_or_default();
    format!("{head}-{:016x}", fnv1a(name.as_bytes()))
}

/// Longest name of an object, in characters.
const NAME_MAX: usize = 253;
/// A dash and 16 hexadecimal digits.
const HASH_LENGTH: usize = 17;

/// A name that nobody else comes to: the head of `name`, and a hash of `whose` it is. Always the same for the same two,
/// at most 253 characters.
#[must_use]
pub fn hashed(name: &str, whose: &str) -> String {
    hashed_within(NAME_MAX, name, whose)
}

/// The same for objects whose names are DNS labels, such as Services: at most 63 characters.
#[must_use]
pub fn hashed_label(name: &str, whose: &str) -> String {
    hashed_within(LABEL_VALUE_MAX, name, whose)
}

fn hashed_within(max: usize, name: &str, whose: &str) -> String {
    let mut end = name.len().min(max - HASH_LENGTH);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let head = name.get(..end).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{head}-{:016x}", fnv1a(whose.as_bytes()))
}

/// FNV-1a, 64 bit: stable over versions and machines, for names that are written into clusters.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What was applied of a value, in 16 characters: stable over builds and machines, it is written into clusters.
pub(crate) fn fingerprint(value: &Value) -> String {
    format!("{:016x}", fnv1a(value.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_its_own_label_value() {
        assert_eq!(label_value("cluster-a"), "cluster-a");
    }

    #[test]
    fn a_long_name_is_shortened_to_63_characters_and_stays_distinct() {
        let (a, b) = (format!("{}a", "n".repeat(200)), format!("{}b", "n".repeat(200)));
        assert_eq!(label_value(&a).len(), 63);
        assert_ne!(label_value(&a), label_value(&b));
    }

    #[test]
    fn the_hash_is_fnv1a() {
        // Test vectors of the FNV reference (draft-eastlake-fnv).
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
