// SPDX-License-Identifier: Apache-2.0
//! What is done for claims, and what never is.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Action, Claim, Facts, Plan, Problem, SecretRef, Standing, Storage, carried_name, plan, secrets, shown_claim,
    shown_name, with_secrets,
};
use crate::pod::LinkView;

fn link() -> LinkView {
    LinkView {
        upper_cluster: "up".to_owned(),
        virtual_node: "east".to_owned(),
        node_labels: [("clusterID".to_owned(), "east".to_owned())].into(),
        ..LinkView::default()
    }
}

fn claim() -> Claim {
    Claim { namespace: "team".to_owned(), name: "data".to_owned(), uid: "c-1".to_owned() }
}

fn upper() -> Value {
    json!({
        "metadata": { "name": "data", "namespace": "team", "uid": "c-1", "annotations": { "volume.kubernetes.io/selected-node": "east" } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            "storageClassName": "fast", "volumeMode": "Filesystem",
        },
        "status": { "phase": "Pending" },
    })
}

fn class(binding: &str) -> Value {
    json!({ "provisioner": "volumes.tensile.io", "volumeBindingMode": binding, "reclaimPolicy": "Delete" })
}

/// The claim below, made by what the plan says and bound to a volume of this size.
fn lower(bound: Option<&str>) -> Value {
    let mut lower = json!({
        "metadata": {
            "name": "data", "namespace": "team", "uid": "l-1",
            "labels": { "tensile.io/upper-cluster": "up", "tensile.io/virtual-node": "east" },
            "annotations": { "tensile.io/upper-uid": "c-1", "tensile.io/upper-name": "team/data" },
        },
        "spec": { "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "fast" },
        "status": { "phase": "Pending" },
    });
    if let Some(size) = bound {
        lower["spec"]["volumeName"] = json!("pv-below");
        lower["status"] = json!({ "phase": "Bound", "capacity": { "storage": size } });
    }
    lower
}

fn shown(policy: &str) -> Value {
    json!({
        "metadata": { "name": "pvc-c-1", "labels": { "tensile.io/virtual-node": "east" } },
        "spec": {
            "csi": { "driver": "volumes.tensile.io", "volumeHandle": "l-1" }, "claimRef": { "uid": "c-1" },
            "capacity": { "storage": "1Gi" }, "persistentVolumeReclaimPolicy": policy,
        },
    })
}

fn of(facts: &Facts) -> Plan {
    plan(&claim(), facts, &Storage::default(), &link())
}

fn base() -> Facts {
    Facts { upper: Some(upper()), upper_class: Some(class("WaitForFirstConsumer")), ..Facts::default() }
}

fn below() -> Standing {
    Standing::Below("data".to_owned())
}

#[test]
fn a_claim_for_which_this_node_was_chosen_goes_down_and_others_do_not() {
    let Plan { action: Some(Action::CreateClaim { body, dropped }), standing: Standing::Open } = of(&base()) else {
        panic!("{:?}", of(&base()))
    };
    assert_eq!(
        body,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data", "namespace": "team",
                "labels": { "tensile.io/upper-cluster": "up", "tensile.io/virtual-node": "east",
                    "tensile.io/upper-namespace": "team" },
                "annotations": {
                    "global": "true", "tensile.io/upper-name": "team/data", "tensile.io/upper-uid": "c-1",
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                "storageClassName": "fast", "volumeMode": "Filesystem",
            },
        })
    );
    assert!(dropped.is_empty());
    for node in [json!(null), json!("west")] {
        let mut facts = base();
        facts.upper.as_mut().unwrap()["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node;
        assert_eq!(of(&facts), Plan { action: None, standing: Standing::Foreign });
        facts.wanted = true;
        assert!(matches!(of(&facts).action, Some(Action::CreateClaim { .. })), "a pod of ours needs it");
    }
}

#[test]
fn classes_are_mapped_and_one_that_is_not_for_lower_clusters_makes_nothing() {
    let mut facts = base();
    facts.upper_class.as_mut().unwrap()["provisioner"] = json!("ebs.csi.aws.com");
    let Standing::Problem(problem) = of(&facts).standing else { panic!("it is no problem") };
    assert_eq!(problem, Problem::NotBound { claim: "data".to_owned(), class: "fast".to_owned() });
    assert_eq!(problem.reason(), "ClaimNotBound");
    let storage = Storage { classes: [("fast".to_owned(), "ssd".to_owned())].into() };
    let Some(Action::CreateClaim { body, .. }) = plan(&claim(), &facts, &storage, &link()).action else { panic!() };
    assert_eq!(body["spec"]["storageClassName"], "ssd");
}

#[test]
fn a_data_source_is_refused_and_what_is_not_known_is_dropped_visibly() {
    let mut facts = base();
    facts.upper.as_mut().unwrap()["spec"]["newField"] = json!(1);
    let Some(Action::CreateClaim { dropped, .. }) = of(&facts).action else { panic!() };
    assert_eq!(dropped, ["spec.newField"]);
    facts.upper.as_mut().unwrap()["spec"]["dataSource"] = json!({ "kind": "VolumeSnapshot", "name": "s" });
    assert_eq!(of(&facts).standing, Standing::Problem(Problem::DataSource("data".to_owned())));
}

#[test]
fn a_volume_is_shown_once_the_claim_below_is_bound_or_at_once_if_that_waits_for_a_pod() {
    let mut facts = Facts { lower: Some(lower(None)), ..base() };
    assert_eq!(of(&facts), Plan { action: None, standing: below() }, "an immediate class binds by itself");
    facts.lower_class = Some(class("WaitForFirstConsumer"));
    let Some(Action::ShowVolume(early)) = of(&facts).action else { panic!() };
    assert_eq!(early["spec"]["capacity"]["storage"], "1Gi");
    facts.lower = Some(lower(Some("2Gi")));
    let Plan { action: Some(Action::ShowVolume(volume)), standing } = of(&facts) else { panic!() };
    assert_eq!(standing, below());
    assert_eq!(
        volume,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-c-1", "labels": { "tensile.io/virtual-node": "east" },
                "annotations": {
                    "tensile.io/claim": "team/data", "pv.kubernetes.io/provisioned-by": "volumes.tensile.io",
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "2Gi" }, "storageClassName": "fast",
                "volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "team", "name": "data",
                    "uid": "c-1",
                },
                "csi": {
                    "driver": "volumes.tensile.io", "volumeHandle": "l-1",
                    "volumeAttributes": { "namespace": "team", "claim": "data" },
                },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": ["east"] },
                ] }] } },
            },
        })
    );
    facts.upper_class = None;
    let Some(Action::ShowVolume(volume)) = of(&facts).action else { panic!() };
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain", "nobody said that data may go");
}

#[test]
fn growth_goes_down_and_what_came_of_it_comes_up() {
    let mut facts = Facts { lower: Some(lower(Some("1Gi"))), upper_volume: Some(shown("Delete")), ..base() };
    let upper = facts.upper.as_mut().unwrap();
    upper["spec"]["volumeName"] = json!("pvc-c-1");
    upper["status"] = json!({ "phase": "Bound", "capacity": { "storage": "1Gi" } });
    assert_eq!(of(&facts), Plan { action: None, standing: below() });
    facts.upper.as_mut().unwrap()["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    let more = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
    assert_eq!(of(&facts).action, Some(Action::GrowClaim(more)));
    let grown = facts.lower.as_mut().unwrap();
    grown["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    assert_eq!(of(&facts).action, None, "it takes its time");
    facts.lower.as_mut().unwrap()["status"]["capacity"]["storage"] = json!("2048Mi");
    let more = json!({ "spec": { "capacity": { "storage": "2048Mi" } } });
    assert_eq!(of(&facts).action, Some(Action::GrowVolume(more)));
    facts.upper_volume.as_mut().unwrap()["spec"]["capacity"]["storage"] = json!("2Gi");
    let more = json!({ "status": { "capacity": { "storage": "2048Mi" } } });
    assert_eq!(of(&facts).action, Some(Action::GrowStatus(more)));
    facts.upper.as_mut().unwrap()["status"]["capacity"]["storage"] = json!("2Gi");
    assert_eq!(of(&facts).action, None);
}

#[test]
fn a_volume_that_is_gone_below_is_lost_and_not_replaced_by_an_empty_one() {
    let mut facts = Facts { upper_volume: Some(shown("Delete")), wanted: true, ..base() };
    facts.upper.as_mut().unwrap()["spec"]["volumeName"] = json!("pvc-c-1");
    let lost = Plan { action: None, standing: Standing::Problem(Problem::Lost("data".to_owned())) };
    assert_eq!(of(&facts), lost);
    let mut gone = lower(Some("1Gi"));
    gone["status"]["phase"] = json!("Lost");
    facts.lower = Some(gone);
    assert_eq!(of(&facts), lost);
}

#[test]
fn a_volume_of_another_lower_cluster_is_elsewhere() {
    let mut facts = Facts { upper_volume: Some(shown("Delete")), wanted: true, ..base() };
    facts.upper.as_mut().unwrap()["spec"]["volumeName"] = json!("pvc-c-1");
    facts.upper_volume.as_mut().unwrap()["metadata"]["labels"]["tensile.io/virtual-node"] = json!("west");
    let elsewhere = Problem::Elsewhere { claim: "data".to_owned(), node: "west".to_owned() };
    assert_eq!(of(&facts), Plan { action: None, standing: Standing::Problem(elsewhere) });
}

/// A volume of the upper cluster's own.
fn own() -> Value {
    json!({
        "metadata": { "name": "disk-7", "uid": "v-1" },
        "spec": {
            "capacity": { "storage": "5Gi" }, "accessModes": ["ReadWriteOnce"], "newField": 1,
            "csi": {
                "driver": "disks.example.org", "volumeHandle": "7",
                "nodeStageSecretRef": { "namespace": "storage", "name": "key" },
                "nodePublishSecretRef": { "namespace": "storage", "name": "key" },
            },
            "claimRef": { "uid": "c-1", "name": "data", "namespace": "team" },
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast",
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "clusterID", "operator": "In", "values": ["east"] },
                { "key": "zone", "operator": "In", "values": ["a"] },
            ] }] } },
        },
    })
}

fn carried() -> Facts {
    let mut facts = Facts { upper_volume: Some(own()), wanted: true, ..base() };
    facts.upper.as_mut().unwrap()["spec"]["volumeName"] = json!("disk-7");
    facts.upper.as_mut().unwrap()["status"]["phase"] = json!("Bound");
    facts
}

#[test]
fn a_volume_of_the_upper_cluster_is_carried_down_before_its_claim_and_never_deletes_its_data() {
    let mut facts = carried();
    let Some(Action::CarryVolume(volume)) = of(&facts).action else { panic!("{:?}", of(&facts)) };
    let name = carried_name(&own(), &link());
    assert!(name.starts_with("disk-7-"));
    assert_eq!(volume["metadata"]["name"], name);
    assert_eq!(volume["metadata"]["labels"]["tensile.io/virtual-node"], "east");
    let spec = &volume["spec"];
    assert_eq!((&spec["csi"], &spec["newField"]), (&own()["spec"]["csi"], &json!(1)));
    assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(spec["storageClassName"], "");
    assert_eq!(spec["claimRef"]["name"], "data");
    assert_eq!(spec["claimRef"].get("uid"), None);
    let terms = json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }]);
    assert_eq!(spec["nodeAffinity"]["required"]["nodeSelectorTerms"], terms);

    facts.lower_volume = Some(volume);
    let Some(Action::CreateClaim { body, .. }) = of(&facts).action else { panic!() };
    assert_eq!((&body["spec"]["volumeName"], &body["spec"]["storageClassName"]), (&json!(name), &json!("")));
    facts.lower = Some(lower(Some("5Gi")));
    assert_eq!(of(&facts), Plan { action: None, standing: below() });
}

#[test]
fn paths_of_machines_are_refused_where_the_operator_says_so_and_a_wrong_place_is_told() {
    let strict = LinkView { refuse_host_path: true, ..link() };
    for source in ["hostPath", "local"] {
        let mut facts = carried();
        let spec = facts.upper_volume.as_mut().unwrap()["spec"].as_object_mut().unwrap();
        spec.remove("csi");
        spec.insert(source.to_owned(), json!({ "path": "/data" }));
        let refused = plan(&claim(), &facts, &Storage::default(), &strict).standing;
        assert_eq!(refused, Standing::Problem(Problem::HostPath("disk-7".to_owned())));
        assert!(matches!(of(&facts).action, Some(Action::CarryVolume(_))));
    }
    let mut facts = carried();
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values";
    *facts.upper_volume.as_mut().unwrap().pointer_mut(terms).unwrap() = json!(["west"]);
    let Standing::Problem(problem @ Problem::Excluded { .. }) = of(&facts).standing else { panic!() };
    assert_eq!(problem.reason(), "VolumeElsewhere");
}

#[test]
fn a_carried_volume_and_its_claim_go_in_this_order_when_the_claim_upstairs_is_gone() {
    let name = carried_name(&own(), &link());
    let mut facts = carried();
    let Some(Action::CarryVolume(mut volume)) = of(&facts).action else { panic!() };
    volume["metadata"]["name"] = json!(name);
    facts = Facts { lower: Some(lower(Some("5Gi"))), lower_volume: Some(volume), ..Facts::default() };
    assert_eq!(of(&facts).action, Some(Action::DropVolume));
    facts.lower_volume.as_mut().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(of(&facts).action, Some(Action::DeleteClaim));
    facts.lower_volume.as_mut().unwrap()["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    assert_eq!(of(&facts).action, None, "somebody below made it a volume that goes with its claim");
}

#[test]
fn the_secrets_of_a_volume_are_found_and_renamed_where_they_stand() {
    let key = SecretRef { namespace: "storage".to_owned(), name: "key".to_owned() };
    assert_eq!(secrets(&own()), std::slice::from_ref(&key));
    let below = SecretRef { namespace: "acme-storage".to_owned(), name: "key-below".to_owned() };
    let renamed = with_secrets(own(), |secret| (*secret == key).then(|| below.clone()));
    for place in ["nodeStageSecretRef", "nodePublishSecretRef"] {
        assert_eq!(renamed["spec"]["csi"][place], json!({ "namespace": "acme-storage", "name": "key-below" }));
    }
}

#[test]
fn a_volume_that_is_shown_names_its_claim() {
    assert_eq!(shown_claim(&shown_name(&claim()), "team/data"), Some(claim()));
    assert_eq!(shown_claim("disk-7", "team/data"), None);
}

fn some<T: Clone + std::fmt::Debug + 'static>(values: Vec<T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(proptest::sample::select(values))
}

proptest! {
    /// However things stand, what has data below is deleted only if the claim upstairs is gone, and either the volume that
    /// shows it says so or the data is not in the lower cluster's hands.
    #[test]
    fn data_goes_only_when_the_policy_says_so(
        there in any::<bool>(), wanted in any::<bool>(), ours in any::<bool>(), bound in any::<bool>(),
        policy in some(vec!["Delete", "Retain"]), of_another in any::<bool>(), below_policy in some(vec!["Delete", "Retain"]),
        below_ours in any::<bool>(), names_it in any::<bool>(),
    ) {
        let mut upper_volume = policy.map(shown);
        if let Some(volume) = upper_volume.as_mut().filter(|_| of_another) {
            volume["spec"]["claimRef"]["uid"] = json!("c-2");
        }
        let mut copy = lower(bound.then_some("1Gi"));
        if !ours {
            copy["metadata"]["labels"]["tensile.io/virtual-node"] = json!("west");
        }
        let lower_volume = below_policy.filter(|_| bound).map(|policy| {
            let node = if below_ours { "east" } else { "west" };
            json!({
                "metadata": { "labels": { "tensile.io/upper-cluster": "up", "tensile.io/virtual-node": node }, "deletionTimestamp": "x" },
                "spec": { "persistentVolumeReclaimPolicy": policy },
            })
        });
        let mut facts = Facts { upper_volume, lower: Some(copy), lower_volume, wanted, ..base() };
        if names_it {
            facts.upper.as_mut().unwrap()["spec"]["volumeName"] = json!("pvc-c-1");
        }
        if !there {
            facts.upper = None;
        }
        let deletes = matches!(of(&facts).action, Some(Action::DeleteClaim));
        let kept_by_source = below_policy == Some("Retain") && below_ours;
        let not_ours_below = below_policy.is_none() || !below_ours;
        let says_delete = policy == Some("Delete") && !of_another;
        let allowed = !there && ours && (!bound || kept_by_source || (not_ours_below && says_delete));
        prop_assert_eq!(deletes, allowed);
    }
}
