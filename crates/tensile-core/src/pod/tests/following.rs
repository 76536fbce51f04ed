// SPDX-License-Identifier: Apache-2.0
//! Changes upstairs of a pod that is already below.

use serde_json::{Value, json};

use super::{down, link, set, upper, upper_with};
use crate::{
    names,
    pod::{LowerPatch, Refusal, Reported, Update, update},
};

fn foreign_containers(lower: &Value) -> Vec<String> {
    Reported::parse(&lower.to_string()).unwrap().foreign_containers()
}

/// The lower pod of `upper` as the lower API server has it: with a UID, defaults, and what admission added and changed.
fn admitted(upper: &Value) -> Value {
    let mut lower = down(upper).pod;
    set(&mut lower, "/metadata/uid", json!("lower-uid"));
    set(&mut lower, "/metadata/labels/injected", json!("yes"));
    set(&mut lower, "/metadata/annotations/injector~1status", json!("done"));
    let image = lower["spec"]["containers"][0]["image"].as_str().map(|image| format!("mirror.local/{image}"));
    set(&mut lower, "/spec/containers/0/image", json!(image));
    set(&mut lower, "/spec/containers/0/resources/limits", json!({"memory": "1Gi"}));
    let sidecar = json!({"name": "mesh", "image": "mesh:1"});
    lower["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
    set(
        &mut lower,
        "/spec/tolerations",
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 300}]),
    );
    lower
}

/// Applies a strategic merge patch, as far as pods need it.
pub(super) fn merge(value: &mut Value, patch: &Value) {
    let (Some(object), Some(members)) = (value.as_object_mut(), patch.as_object()) else {
        *value = patch.clone();
        return;
    };
    for (name, new) in members {
        let place = object.entry(name).or_insert(Value::Null);
        match new {
            Value::Null => {
                object.remove(name);
            }
            Value::Array(items) if name.to_lowercase().ends_with("containers") => {
                if place.is_null() {
                    *place = json!([]);
                }
                let list = place.as_array_mut().unwrap();
                for item in items {
                    match list.iter_mut().find(|present| present["name"] == item["name"]) {
                        Some(present) => merge(present, item),
                        None => list.push(item.clone()),
                    }
                }
            }
            Value::Object(_) if place.is_object() => merge(place, new),
            _ => *place = new.clone(),
        }
    }
}

/// Applies all patches of an update.
pub(super) fn apply(lower: &mut Value, update: &Update) {
    for patch in &update.patches {
        let (LowerPatch::Pod(patch) | LowerPatch::Resize(patch) | LowerPatch::EphemeralContainers(patch)) = patch;
        merge(lower, patch);
    }
}

/// The update when the upper pod's member at `pointer` becomes `value`, and the lower pod after it.
fn change(pointer: &str, value: Value) -> (Update, Value) {
    let mut lower = admitted(&upper());
    let changed = upper_with(pointer, value);
    let made = update(&changed, &lower, &link(), 8).unwrap();
    apply(&mut lower, &made);
    assert_eq!(update(&changed, &lower, &link(), 8).unwrap(), Update::default(), "once is enough: {pointer}");
    (made, lower)
}

/// What every update notes is checked once, in the first test of it; the others look at the rest.
fn without_notes(update: &Update) -> Vec<LowerPatch> {
    let strip = |mut patch: Value| {
        if let Some(annotations) = patch["metadata"]["annotations"].as_object_mut() {
            annotations.retain(|key, _| key != names::APPLIED && key != names::APPLIED_REVISION);
            if annotations.is_empty() {
                patch["metadata"].as_object_mut().unwrap().remove("annotations");
            }
        }
        patch
    };
    let patches = update.patches.iter().cloned();
    patches
        .map(|patch| if let LowerPatch::Pod(patch) = patch { LowerPatch::Pod(strip(patch)) } else { patch })
        .collect()
}

fn pod(labels_or_spec: (&str, Value)) -> Vec<LowerPatch> {
    let (member, value) = labels_or_spec;
    let mut patch = json!({"metadata": {"uid": "lower-uid"}, "spec": {}});
    set(&mut patch, member, value);
    vec![LowerPatch::Pod(patch)]
}

#[test]
fn a_pod_that_is_up_to_date_needs_nothing_whatever_admission_did_to_it() {
    assert_eq!(update(&upper(), &admitted(&upper()), &link(), 7).unwrap(), Update::default());
}

#[test]
fn a_revision_without_a_difference_is_noted() {
    let made = update(&upper(), &admitted(&upper()), &link(), 8).unwrap();
    let note =
        json!({"metadata": {"uid": "lower-uid", "annotations": {"tensile.io/applied-revision": "8"}}, "spec": {}});
    assert_eq!(made.patches, [LowerPatch::Pod(note)]);
}

#[test]
fn a_new_image_goes_down_and_only_then_replaces_a_mirrors() {
    let (made, _) = change("/spec/containers/0/image", json!("web:2"));
    assert_eq!(without_notes(&made), pod(("/spec/containers", json!([{"name": "main", "image": "web:2"}]))));
    let (_, lower) = change("/metadata/labels/tier", json!("front"));
    assert_eq!(lower["spec"]["containers"][0]["image"], "mirror.local/web:1", "nobody upstairs asked for another");
}

#[test]
fn labels_and_annotations_are_set_and_removed_and_those_of_others_stay() {
    let (made, lower) = change("/metadata/labels", json!({"app": "web2", "new": "1"}));
    assert_eq!(without_notes(&made), pod(("/metadata/labels", json!({"app": "web2", "new": "1"}))));
    assert_eq!(lower["metadata"]["labels"]["injected"], "yes");

    let (made, lower) = change("/metadata/annotations", json!({}));
    assert_eq!(without_notes(&made), pod(("/metadata/annotations", json!({"note": null}))));
    assert_eq!(lower["metadata"]["annotations"]["injector/status"], "done");
    assert_eq!(lower["metadata"]["annotations"]["tensile.io/upper-uid"], "upper-uid");

    let (_, lower) = change("/metadata/labels", json!({"gang": "g1"}));
    assert_eq!(lower["metadata"]["labels"].get("app"), None);
    assert_eq!(lower["metadata"]["annotations"]["tripped-labels"], r#"{"gang":"g1"}"#);
}

#[test]
fn a_value_that_was_changed_below_stays_until_it_changes_upstairs() {
    let mut lower = admitted(&upper());
    set(&mut lower, "/metadata/labels/app", json!("canary"));
    let made = update(&upper_with("/metadata/labels/tier", json!("front")), &lower, &link(), 8).unwrap();
    assert_eq!(without_notes(&made), pod(("/metadata/labels", json!({"tier": "front"}))));
    let made = update(&upper_with("/metadata/labels/app", json!("web2")), &lower, &link(), 8).unwrap();
    assert_eq!(without_notes(&made), pod(("/metadata/labels", json!({"app": "web2"}))));
}

#[test]
fn tolerations_are_added_to_those_the_lower_pod_has() {
    let (made, _) = change("/spec/tolerations", json!([{"key": "gpu", "operator": "Exists"}]));
    let all = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "gpu", "operator": "Exists"},
    ]);
    assert_eq!(without_notes(&made), pod(("/spec/tolerations", all)));

    let longer = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 900}]);
    let (made, _) = change("/spec/tolerations", longer.clone());
    assert_eq!(without_notes(&made), pod(("/spec/tolerations", longer)), "its seconds may change");

    let ours = json!([{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]);
    let (made, _) = change("/spec/tolerations", ours);
    assert_eq!(without_notes(&made), [LowerPatch::Pod(json!({"metadata": {"uid": "lower-uid"}, "spec": {}}))]);
}

#[test]
fn a_deadline_is_set_and_shortened_and_never_lengthened() {
    let (made, _) = change("/spec/activeDeadlineSeconds", json!(60));
    assert_eq!(without_notes(&made), pod(("/spec/activeDeadlineSeconds", json!(60))));

    for (below, goes_down) in [(90, true), (60, false), (30, false)] {
        let mut lower = admitted(&upper());
        set(&mut lower, "/spec/activeDeadlineSeconds", json!(below));
        let made = update(&upper_with("/spec/activeDeadlineSeconds", json!(60)), &lower, &link(), 8).unwrap();
        let [LowerPatch::Pod(patch)] = &made.patches[..] else { panic!("{made:?}") };
        assert_eq!(patch["spec"].get("activeDeadlineSeconds").is_some(), goes_down, "{below}");
    }
}

#[test]
fn a_grace_period_changes_only_from_negative_to_one() {
    for (below, upstairs, goes_down) in [(-5, 1, true), (-5, 2, false), (30, 1, false)] {
        let mut lower = admitted(&upper());
        set(&mut lower, "/spec/terminationGracePeriodSeconds", json!(below));
        let changed = upper_with("/spec/terminationGracePeriodSeconds", json!(upstairs));
        let made = update(&changed, &lower, &link(), 8).unwrap();
        let [LowerPatch::Pod(patch)] = &made.patches[..] else { panic!("{made:?}") };
        assert_eq!(patch["spec"].get("terminationGracePeriodSeconds").is_some(), goes_down, "{below} {upstairs}");
    }
}

#[test]
fn resources_change_through_resize_and_limits_from_below_stay() {
    let mut lower = admitted(&upper());
    let mut changed =
        upper_with("/spec/containers/0/resources", json!({"requests": {"cpu": "2", "nvidia.com/gpu": 1}}));
    set(&mut changed, "/spec/resources", json!({"limits": {"memory": "4Gi"}}));
    set(&mut changed, "/metadata/labels/app", json!("web2"));
    let made = update(&changed, &lower, &link(), 8).unwrap();
    let [LowerPatch::Pod(labels), LowerPatch::Resize(resize), LowerPatch::Pod(_)] = &made.patches[..] else {
        panic!("what a refused resize must not hold up goes first: {made:?}")
    };
    assert_eq!(*labels, json!({"metadata": {"uid": "lower-uid", "labels": {"app": "web2"}}, "spec": {}}));
    assert_eq!(
        *resize,
        json!({"metadata": {"uid": "lower-uid"}, "spec": {
            "resources": {"limits": {"memory": "4Gi"}},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
        }})
    );
    apply(&mut lower, &made);
    assert_eq!(lower["spec"]["containers"][0]["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(update(&changed, &lower, &link(), 8).unwrap(), Update::default());
}

#[test]
fn an_update_that_was_cut_off_before_its_note_is_finished() {
    let mut lower = admitted(&upper());
    let changed = upper_with("/spec/containers/0/resources", json!({"requests": {"cpu": "2"}}));
    let made = update(&changed, &lower, &link(), 8).unwrap();
    apply(&mut lower, &Update { patches: made.patches[..1].to_vec(), dropped: Vec::new() });
    let rest = update(&changed, &lower, &link(), 8).unwrap();
    assert_eq!(rest.patches, made.patches[1..], "the resize is not repeated");
}

#[test]
fn ephemeral_containers_are_added_once_and_translated_like_all_others() {
    let debug = json!([{"name": "debug", "image": "d", "targetContainerName": "main", "fooBar": 1,
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]);
    let (made, lower) = change("/spec/ephemeralContainers", debug);
    let below = json!([{"name": "debug", "image": "d", "targetContainerName": "main", "env": [{"name": "NODE", "value": "east"}]}]);
    assert_eq!(
        made.patches[0],
        LowerPatch::EphemeralContainers(
            json!({"metadata": {"uid": "lower-uid"}, "spec": {"ephemeralContainers": below}})
        )
    );
    assert_eq!(made.dropped, ["spec.ephemeralContainers[debug].fooBar"]);
    assert_eq!(foreign_containers(&lower), ["mesh"]);

    let mut lower = lower;
    lower["spec"]["ephemeralContainers"].as_array_mut().unwrap().push(json!({"name": "below", "image": "b"}));
    assert_eq!(foreign_containers(&lower), ["mesh", "below"]);
}

#[test]
fn an_image_that_the_lower_pod_has_already_is_not_sent_again() {
    let mut lower = admitted(&upper());
    set(&mut lower, "/spec/containers/0/image", json!("web:2"));
    let made = update(&upper_with("/spec/containers/0/image", json!("web:2")), &lower, &link(), 8).unwrap();
    assert_eq!(without_notes(&made), [LowerPatch::Pod(json!({"metadata": {"uid": "lower-uid"}, "spec": {}}))]);
}

#[test]
fn an_edited_stash_is_an_error_after_everything_else_went_down() {
    let mut changed = upper_with("/metadata/annotations/clusterSelector", json!(r#"{"nodeSelector":{"disk":"ssd"}}"#));
    set(&mut changed, "/metadata/labels/app", json!("web2"));
    let mut lower = admitted(&upper());
    let made = update(&changed, &lower, &link(), 8).unwrap();
    apply(&mut lower, &made);
    assert_eq!(lower["metadata"]["labels"]["app"], "web2");
    assert_eq!(lower["metadata"]["annotations"][names::APPLIED_REVISION], "7", "not all of revision 8 is applied");
    assert_eq!(update(&changed, &lower, &link(), 8), Err(Refusal::StashEdited));
    assert_eq!(lower["spec"].get("nodeSelector"), None);
}

#[test]
fn constraints_that_no_longer_fit_the_virtual_node_hold_up_nothing() {
    let mut bound = upper_with("/spec/nodeSelector", json!({"clusterID": "east"}));
    set(&mut bound, "/spec/tolerations", json!([{"key": "gpu", "operator": "Exists"}]));
    let mut lower = admitted(&bound);
    let mut changed = bound.clone();
    set(&mut changed, "/metadata/labels/app", json!("web2"));
    let mut moved = link();
    moved.node_labels.insert("clusterID".to_owned(), "west".to_owned());
    let made = update(&changed, &lower, &moved, 8).unwrap();
    apply(&mut lower, &made);
    assert_eq!(lower["metadata"]["labels"]["app"], "web2");
    assert_eq!(update(&changed, &lower, &moved, 8).unwrap(), Update::default());
    // Back in its place, the pod's old toleration is not mistaken for a new one: admission below took it away.
    assert_eq!(update(&changed, &lower, &link(), 8).unwrap(), Update::default());
}

#[test]
fn without_a_record_the_upper_pod_wins_and_nothing_is_removed() {
    let mut lower = admitted(&upper());
    lower["metadata"]["annotations"].as_object_mut().unwrap().remove(names::APPLIED);
    assert_eq!(foreign_containers(&lower), Vec::<String>::new());
    let made = update(&upper_with("/metadata/annotations", json!({})), &lower, &link(), 8).unwrap();
    apply(&mut lower, &made);
    assert_eq!(lower["spec"]["containers"][0]["image"], "web:1");
    assert_eq!(lower["metadata"]["annotations"]["note"], "kept");
    assert_eq!(lower["metadata"]["labels"]["injected"], "yes");
}
