// SPDX-License-Identifier: Apache-2.0
//! What becomes of each field of a pod, and which pods are refused.

use serde_json::{Value, json};

use super::{down, link, refused, upper, upper_with};
use crate::{
    names,
    pod::{LinkView, lower_pod},
};

/// Each member of the spec and what it is below; `Value::Null`: absent.
#[test]
fn each_field_of_the_spec_goes_where_it_was_decided_to() {
    let same: &[(&str, Value)] = &[
        ("hostname", json!("h")),
        ("subdomain", json!("s")),
        ("setHostnameAsFQDN", json!(true)),
        ("hostnameOverride", json!("o")),
        ("dnsPolicy", json!("None")),
        ("dnsConfig", json!({"nameservers": ["10.0.0.10"]})),
        ("hostAliases", json!([{"ip": "10.0.0.1", "hostnames": ["x"]}])),
        ("hostUsers", json!(false)),
        ("os", json!({"name": "linux"})),
        ("resources", json!({"limits": {"cpu": "2"}})),
        ("imagePullSecrets", json!([{"name": "registry"}])),
        ("securityContext", json!({"runAsUser": 7, "notYetInvented": 1})),
        ("shareProcessNamespace", json!(true)),
        ("terminationGracePeriodSeconds", json!(5)),
        ("activeDeadlineSeconds", json!(60)),
        ("restartPolicy", json!("Never")),
    ];
    for (field, value) in same {
        let lower = down(&upper_with(&format!("/spec/{field}"), value.clone()));
        assert_eq!(lower.pod["spec"][field], *value, "{field}");
        assert!(lower.dropped.is_empty(), "{field}");
    }

    let other: &[(&str, Value, Value)] = &[
        ("nodeName", json!("east"), Value::Null),
        ("schedulerName", json!("mine"), Value::Null),
        ("schedulingGates", json!([{"name": "g"}]), Value::Null),
        ("priority", json!(1000), Value::Null),
        ("priorityClassName", json!("high"), Value::Null),
        ("preemptionPolicy", json!("Never"), Value::Null),
        ("overhead", json!({"cpu": "100m"}), Value::Null),
        ("serviceAccountName", json!("robot"), Value::Null),
        ("serviceAccount", json!("robot"), Value::Null),
        ("automountServiceAccountToken", json!(true), json!(false)),
        ("enableServiceLinks", json!(true), json!(false)),
        ("readinessGates", json!([{"conditionType": "lb"}]), Value::Null),
        ("ephemeralContainers", json!([{"name": "debug", "image": "d"}]), Value::Null),
        ("hostNetwork", json!(false), Value::Null),
        ("resourceClaims", json!([]), Value::Null),
    ];
    for (field, value, below) in other {
        let lower = down(&upper_with(&format!("/spec/{field}"), value.clone()));
        assert_eq!(lower.pod["spec"][field], *below, "{field}");
        assert!(lower.dropped.is_empty(), "{field} is a decision, not a loss");
    }
}

#[test]
fn a_token_of_the_lower_cluster_is_declined_even_if_the_upper_pod_does_not_say() {
    let lower = down(&upper()).pod;
    assert_eq!(lower["spec"]["automountServiceAccountToken"], false);
    assert_eq!(lower["spec"]["enableServiceLinks"], false);
}

#[test]
fn the_lower_pod_says_whose_it_is() {
    let lower = down(&upper()).pod;
    assert_eq!(
        lower["metadata"]["labels"],
        json!({
            "app": "web", "virtual-pod": "true", "tensile.io/upper-cluster": "5e8e7a2c", "tensile.io/virtual-node": "east",
            "tensile.io/upper-namespace": "team",
        })
    );
    let annotations = &lower["metadata"]["annotations"];
    assert_eq!(annotations["note"], "kept");
    assert_eq!(annotations["tensile.io/upper-uid"], "upper-uid");
    assert_eq!(annotations["tensile.io/upper-name"], "team/web-0");
    assert_eq!(annotations["tensile.io/applied-revision"], "7");
    assert_eq!((&lower["metadata"]["name"], &lower["metadata"]["namespace"]), (&json!("web-0"), &json!("team")));
}

#[test]
fn metadata_of_the_upper_object_stays_up() {
    for (field, value) in [
        ("ownerReferences", json!([{"kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}])),
        ("finalizers", json!(["batch.kubernetes.io/job-tracking"])),
        ("managedFields", json!([{"manager": "x"}])),
        ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(30)),
        ("generateName", json!("web-")),
        ("selfLink", json!("/api")),
    ] {
        let lower = down(&upper_with(&format!("/metadata/{field}"), value));
        let members: Vec<&String> = lower.pod["metadata"].as_object().unwrap().keys().collect();
        assert_eq!(members, ["annotations", "labels", "name", "namespace"], "{field}");
        assert!(lower.dropped.is_empty(), "{field}");
        assert_eq!(lower.pod.get("status"), None);
    }
}

#[test]
fn ignored_labels_are_kept_in_an_annotation() {
    let lower = down(&upper_with("/metadata/labels", json!({"app": "web", "gang": "g1"}))).pod;
    assert_eq!(lower["metadata"]["labels"].get("gang"), None);
    assert_eq!(lower["metadata"]["annotations"][names::TRIPPED_LABELS], r#"{"gang":"g1"}"#);
    assert_eq!(down(&upper()).pod["metadata"]["annotations"].get(names::TRIPPED_LABELS), None);
}

#[test]
fn forged_ownership_is_overwritten() {
    let mut forged = upper_with("/metadata/labels/tensile.io~1virtual-node", json!("west"));
    super::set(&mut forged, "/metadata/annotations/tensile.io~1upper-uid", json!("other"));
    let lower = down(&forged).pod;
    assert_eq!(lower["metadata"]["labels"]["tensile.io/virtual-node"], "east");
    assert_eq!(lower["metadata"]["annotations"]["tensile.io/upper-uid"], "upper-uid");
}

#[test]
fn annotations_that_would_do_harm_below_stay_up() {
    for key in [
        "clusterSelector",
        "kubectl.kubernetes.io~1last-applied-configuration",
        "kubernetes.io~1config.source",
        "kubernetes.io~1config.hash",
        "kubernetes.io~1config.seen",
    ] {
        let lower = down(&upper_with(&format!("/metadata/annotations/{key}"), json!("{}")));
        assert_eq!(lower.pod.pointer(&format!("/metadata/annotations/{key}")), None, "{key}");
        assert!(lower.dropped.is_empty());
    }
}

#[test]
fn placement_is_restored_and_the_virtual_nodes_taint_is_not_tolerated_below() {
    let mut pod = upper_with("/spec/nodeSelector", json!({"clusterID": "east"}));
    let stash = json!({"nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]});
    super::set(&mut pod, "/metadata/annotations/clusterSelector", json!(stash.to_string()));
    super::set(&mut pod, "/spec/tolerations", json!([{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]));
    let lower = down(&pod).pod;
    assert_eq!(lower["spec"]["nodeSelector"], json!({"gpu": "a100"}));
    let tolerations = lower["spec"]["tolerations"].as_array().unwrap();
    assert!(tolerations.contains(&json!({"key": "gpu", "operator": "Exists"})));
    assert!(tolerations.iter().all(|toleration| toleration["key"] != "virtual-kubelet.io/provider"));
}

#[test]
fn without_a_taint_on_the_virtual_node_no_toleration_is_taken_for_its() {
    let pod = upper_with("/spec/tolerations", json!([{"key": "", "operator": "Exists"}]));
    let lower = lower_pod(&pod, &LinkView { provider_taint_key: String::new(), ..link() }, 7).unwrap().pod;
    assert_eq!(lower["spec"]["tolerations"], json!([{"key": "", "operator": "Exists"}]));
}

#[test]
fn the_token_volume_goes_with_its_mounts_and_others_stay() {
    let mut pod = upper_with(
        "/spec/volumes",
        json!([
            {"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {"name": "kube-api-access-like", "emptyDir": {}},
        ]),
    );
    let mounts = json!([
        {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
        {"name": "kube-api-access-like", "mountPath": "/data"},
    ]);
    super::set(&mut pod, "/spec/containers/0/volumeMounts", mounts.clone());
    super::set(&mut pod, "/spec/initContainers", json!([{"name": "init", "image": "i", "volumeMounts": mounts}]));
    let lower = down(&pod);
    assert_eq!(lower.pod["spec"]["volumes"], json!([{"name": "kube-api-access-like", "emptyDir": {}}]));
    let kept = json!([{"name": "kube-api-access-like", "mountPath": "/data"}]);
    assert_eq!(lower.pod["spec"]["containers"][0]["volumeMounts"], kept);
    assert_eq!(lower.pod["spec"]["initContainers"][0]["volumeMounts"], kept);
    assert!(lower.dropped.is_empty(), "every pod has it: {:?}", lower.dropped);
}

#[test]
fn credentials_of_the_other_cluster_are_not_projected_and_their_absence_is_told() {
    let volume = json!({"name": "all", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"audience": "vault", "path": "token"}},
        {"configMap": {"name": "c"}},
        {"clusterTrustBundle": {"name": "t", "path": "ca"}},
        {"podCertificate": {"signerName": "s", "keyType": "ED25519"}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}]}},
    ]}});
    let lower = down(&upper_with("/spec/volumes", json!([volume])));
    let uid = "metadata.annotations['tensile.io/upper-uid']";
    assert_eq!(
        lower.pod["spec"]["volumes"],
        json!([{"name": "all", "projected": {"defaultMode": 420, "sources": [
            {"configMap": {"name": "c"}},
            {"secret": {"name": "s"}},
            {"downwardAPI": {"items": [{"path": "uid", "fieldRef": {"fieldPath": uid}}]}},
        ]}}])
    );
    assert_eq!(
        lower.dropped,
        [
            "spec.volumes[all].projected.sources[0].serviceAccountToken",
            "spec.volumes[all].projected.sources[2].clusterTrustBundle",
            "spec.volumes[all].projected.sources[3].podCertificate",
        ]
    );
}

#[test]
fn what_a_container_learns_about_its_pod_is_true_upstairs() {
    let reference = |path: &str| json!({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let annotation = "metadata.annotations['tensile.io/upper-uid']";
    for (from, below) in [
        (reference("metadata.uid"), reference(annotation)),
        (reference("spec.nodeName"), json!({"name": "V", "value": "east"})),
        (reference("spec.serviceAccountName"), json!({"name": "V", "value": "robot"})),
        (reference("metadata.name"), reference("metadata.name")),
        (reference("metadata.labels['app']"), reference("metadata.labels['app']")),
        (reference("status.podIP"), reference("status.podIP")),
        (reference("status.hostIP"), reference("status.hostIP")),
        (json!({"name": "V", "value": "$(X)"}), json!({"name": "V", "value": "$(X)"})),
    ] {
        let lower = down(&upper_with("/spec/containers/0/env", json!([from]))).pod;
        assert_eq!(lower["spec"]["containers"][0]["env"], json!([below]), "{from}");
    }
    let mut nobody = upper_with("/spec/containers/0/env", json!([reference("spec.serviceAccountName")]));
    nobody["spec"].as_object_mut().unwrap().remove("serviceAccountName");
    assert_eq!(down(&nobody).pod["spec"]["containers"][0]["env"], json!([{"name": "V", "value": "default"}]));

    let volume = json!({"name": "info", "downwardAPI": {"items": [
        {"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}, {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}});
    let lower = down(&upper_with("/spec/volumes", json!([volume]))).pod;
    let items = &lower["spec"]["volumes"][0]["downwardAPI"]["items"];
    assert_eq!(items[0]["fieldRef"]["fieldPath"], annotation);
    assert_eq!(items[1]["fieldRef"]["fieldPath"], "metadata.annotations['tensile.io/upper-labels']");
}

#[test]
fn fields_that_no_rule_names_are_dropped_visibly_at_every_level() {
    for (pointer, path) in [
        ("/fooBar", "fooBar"),
        ("/metadata/fooBar", "metadata.fooBar"),
        ("/spec/fooBar", "spec.fooBar"),
        ("/spec/schedulingGroup", "spec.schedulingGroup"),
        ("/spec/containers/0/fooBar", "spec.containers[main].fooBar"),
        ("/spec/volumes/0/fooBar", "spec.volumes[v].fooBar"),
        ("/spec/runtimeClassName", "spec.runtimeClassName"),
    ] {
        let mut pod = upper_with("/spec/volumes", json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]));
        super::set(&mut pod, pointer, json!("x"));
        let lower = down(&pod);
        assert_eq!(lower.dropped, [path]);
        assert_eq!(lower.pod.pointer(pointer), None);
    }
}

#[test]
fn a_runtime_class_goes_down_when_the_operator_says_so() {
    let link = LinkView { keep_runtime_class: true, ..link() };
    let lower = lower_pod(&upper_with("/spec/runtimeClassName", json!("gvisor")), &link, 7).unwrap();
    assert_eq!(lower.pod["spec"]["runtimeClassName"], "gvisor");
    assert!(lower.dropped.is_empty());
}

#[test]
fn pods_that_cannot_run_below_are_refused_with_a_reason() {
    let volume = |source: Value| {
        let mut volume = json!({"name": "data"});
        volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        json!([volume])
    };
    for (pointer, value, reason) in [
        (
            "/metadata/ownerReferences",
            json!([{"kind": "DaemonSet", "name": "agent", "uid": "1", "controller": true}]),
            "DaemonSetNotSupported",
        ),
        ("/metadata/annotations/kubernetes.io~1config.mirror", json!("abc"), "MirrorPodNotSupported"),
        ("/spec/hostNetwork", json!(true), "HostNamespaceNotAllowed"),
        ("/spec/hostPID", json!(true), "HostNamespaceNotAllowed"),
        ("/spec/hostIPC", json!(true), "HostNamespaceNotAllowed"),
        ("/spec/resourceClaims", json!([{"name": "gpu"}]), "ResourceClaimsNotSupported"),
        ("/spec/volumes", volume(json!({"quantumDisk": {}})), "VolumeNotSupported"),
        ("/metadata/annotations/clusterSelector", json!("{"), "PlacementNotPossible"),
        ("/spec/nodeSelector", json!({"clusterID": "west"}), "PlacementNotPossible"),
        ("/metadata/uid", Value::Null, "MalformedPod"),
        ("/spec/containers", json!("none"), "MalformedPod"),
        ("/metadata/labels", json!([1]), "MalformedPod"),
    ] {
        let refusal = refused(&upper_with(pointer, value));
        assert_eq!(refusal.reason(), reason, "{pointer}");
        assert!(refusal.to_string().len() > 30, "it says what to do: {refusal}");
    }
}

#[test]
fn a_pod_that_a_daemon_set_does_not_control_is_not_its_pod() {
    for owner in [
        json!({"kind": "DaemonSet", "name": "agent", "uid": "1"}),
        json!({"kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}),
    ] {
        assert!(lower_pod(&upper_with("/metadata/ownerReferences", json!([owner])), &link(), 7).is_ok());
    }
}

#[test]
fn operators_decide_about_host_namespaces_and_host_paths() {
    let open = LinkView { allow_host_namespaces: true, ..link() };
    let lower = lower_pod(&upper_with("/spec/hostNetwork", json!(true)), &open, 7).unwrap().pod;
    assert_eq!(lower["spec"]["hostNetwork"], true);

    let volumes = json!([{"name": "logs", "hostPath": {"path": "/var/log"}}]);
    let pod = upper_with("/spec/volumes", volumes.clone());
    assert_eq!(down(&pod).pod["spec"]["volumes"], volumes);
    let strict = LinkView { refuse_host_path: true, ..link() };
    assert_eq!(lower_pod(&pod, &strict, 7).unwrap_err().reason(), "HostPathNotAllowed");
}

#[test]
fn a_pod_with_ephemeral_containers_is_still_to_be_updated() {
    let pod = upper_with("/spec/ephemeralContainers", json!([{"name": "debug", "image": "d"}]));
    assert_eq!(down(&pod).pod["metadata"]["annotations"][names::APPLIED_REVISION], "0");
}
