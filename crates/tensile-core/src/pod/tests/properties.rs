// SPDX-License-Identifier: Apache-2.0
//! What holds for every pod.

use std::collections::BTreeMap;

use proptest::{collection::btree_map, prelude::*, sample::select, string::string_regex};
use serde_json::{Value, json};

use super::{
    following::{apply, merge},
    link, set, upper,
};
use crate::{
    names,
    pod::{Reported, StatusView, Update, lower_pod, update, upper_status},
};

/// Any JSON, with the names the rules look for in unexpected places.
fn anything() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        select(vec![
            "metadata",
            "spec",
            "status",
            "name",
            "namespace",
            "uid",
            "labels",
            "annotations",
            "containers",
            "volumes",
            "env",
            "valueFrom",
            "fieldRef",
            "fieldPath",
            "projected",
            "sources",
            "volumeMounts",
            "ownerReferences",
            "tolerations",
            "resources",
            "requests",
            "cpu",
            "conditions",
            "type",
            "containerStatuses",
            "state",
            "clusterSelector",
            "tensile.io/applied",
            "ephemeralContainers",
            "restartPolicy",
            "key",
            "affinity",
            "items",
            "downwardAPI",
        ])
        .prop_map(str::to_owned),
        string_regex("[a-z]{1,4}").unwrap(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        select(vec!["metadata.uid", "spec.nodeName", "{}", "main", "Always", "DaemonSet"]).prop_map(Value::from),
        string_regex("[a-z0-9]{0,4}").unwrap().prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 90, 6, move |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => btree_map(name.clone(), inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

/// An object with a name and anything else.
fn named() -> impl Strategy<Value = Value> {
    (string_regex("[a-z]{1,2}").unwrap(), anything()).prop_map(|(name, mut item)| {
        if !item.is_object() {
            item = json!({"emptyDir": item});
        }
        item["name"] = json!(name);
        item
    })
}

/// Something that passes for a pod: what is asked of every pod is there, anything may be where it is not asked.
fn pod_like() -> impl Strategy<Value = Value> {
    let list = prop_oneof![9 => proptest::collection::vec(named(), 0..3).prop_map(Value::from), 1 => anything()];
    let lists =
        select(vec!["containers", "initContainers", "ephemeralContainers", "volumes", "affinity", "nodeSelector"]);
    let any_member = select(vec!["hostNetwork", "resourceClaims", "activeDeadlineSeconds", "resources", "hostname"]);
    let member = prop_oneof![(lists, list), (any_member, anything())];
    let map =
        || prop_oneof![9 => btree_map("[a-z]{1,3}", anything(), 0..3).prop_map(|map| json!(map)), 1 => anything()];
    (map(), map(), proptest::collection::vec(member, 0..4)).prop_map(|(labels, annotations, members)| {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        });
        for (member, value) in members {
            pod["spec"][member] = value;
        }
        pod
    })
}

/// A part of a pod that can change while it runs.
#[derive(Clone, Debug)]
struct State {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    image: String,
    init_image: String,
    cpu: u32,
    tolerations: usize,
    seconds: u32,
    deadline: Option<u32>,
    debuggers: usize,
}

impl State {
    fn pod(&self) -> Value {
        let mut pod = upper();
        pod["metadata"]["labels"] = json!(self.labels);
        pod["metadata"]["annotations"] = json!(self.annotations);
        pod["spec"]["containers"][0]["image"] = json!(self.image);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(self.cpu.to_string());
        pod["spec"]["initContainers"] = json!([{"name": "init", "image": self.init_image}]);
        pod["spec"]["tolerations"] = (0..self.tolerations)
            .map(|n| json!({"key": format!("k{n}"), "operator": "Exists", "tolerationSeconds": self.seconds}))
            .collect();
        if let Some(deadline) = self.deadline {
            pod["spec"]["activeDeadlineSeconds"] = json!(deadline);
        }
        if self.debuggers > 0 {
            pod["spec"]["ephemeralContainers"] =
                (0..self.debuggers).map(|n| json!({"name": format!("d{n}"), "image": "d"})).collect();
        }
        pod
    }
}

fn state() -> impl Strategy<Value = State> {
    let map = || {
        let key = select(vec!["a", "b", "c", "gang", "example.com/x"]).prop_map(str::to_owned);
        btree_map(key, string_regex("[a-z]{0,2}").unwrap(), 0..4)
    };
    let image = || select(vec!["i:1", "i:2", "i:3"]).prop_map(str::to_owned);
    (map(), map(), image(), image(), 1..4_u32, 0..3_usize, 1..3_u32, proptest::option::of(1..100_u32), 0..2_usize)
        .prop_map(|(labels, annotations, image, init_image, cpu, tolerations, seconds, deadline, debuggers)| State {
            labels,
            annotations,
            image,
            init_image,
            cpu,
            tolerations,
            seconds,
            deadline,
            debuggers,
        })
}

/// A pod, and what the upper API server may let it become.
fn two_states() -> impl Strategy<Value = (State, State)> {
    (state(), state()).prop_map(|(mut before, mut after)| {
        before.debuggers = 0;
        after.tolerations += before.tolerations;
        after.deadline = match (before.deadline, after.deadline) {
            (Some(before), after) => Some(after.map_or(before, |after| after.min(before))),
            (None, after) => after,
        };
        (before, after)
    })
}

/// The lower pod of `upper`, as a lower API server with `admission` of its own has it.
fn admitted(upper: &Value, admission: &Value) -> Value {
    let mut lower = lower_pod(upper, &link(), 1).unwrap().pod;
    set(&mut lower, "/metadata/uid", json!("lower-uid"));
    merge(&mut lower, admission);
    lower
}

fn admission() -> impl Strategy<Value = Value> {
    select(vec![
        json!({}),
        json!({"metadata": {"labels": {"injected": "yes", "a": "below"}, "annotations": {"by": "injector"}}}),
        json!({"spec": {"containers": [{"name": "mesh", "image": "m"}, {"name": "main", "image": "mirror/i"}]}}),
        json!({"spec": {"tolerations": [{"key": "added", "operator": "Exists"}]}}),
        json!({"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "9", "memory": "1Gi"}}}]}}),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn whatever_comes_in_there_is_one_answer_and_no_panic(
        one in anything(), other in anything(), pod in pod_like(), another in pod_like()
    ) {
        let view = StatusView { host_ip: "10.0.0.1", show_pod_ips: true, foreign_containers: &["main".to_owned()] };
        for (upper, lower) in [(&one, &other), (&pod, &another), (&pod, &one)] {
            prop_assert_eq!(lower_pod(upper, &link(), 1), lower_pod(upper, &link(), 1));
            prop_assert_eq!(update(upper, lower, &link(), 1), update(upper, lower, &link(), 1));
            if let Ok(reported) = Reported::parse(&lower.to_string())
                && lower["metadata"]["annotations"].get(names::APPLIED).is_none()
            {
                prop_assert_eq!(reported.foreign_containers(), Vec::<String>::new(), "there is no record");
            }
            prop_assert!(upper_status(lower.clone(), &view).is_object());
        }
    }

    #[test]
    fn nothing_of_the_upper_objects_identity_goes_down(pod in pod_like(), owner in anything()) {
        let mut pod = pod;
        for member in ["ownerReferences", "resourceVersion", "finalizers", "managedFields", "generation", "status"] {
            pod["metadata"][member] = owner.clone();
        }
        pod["spec"]["nodeName"] = json!("east");
        pod["status"] = owner;
        if let Ok(lower) = lower_pod(&pod, &link(), 1) {
            let members = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            prop_assert_eq!(members(&lower.pod), ["apiVersion", "kind", "metadata", "spec"]);
            prop_assert_eq!(members(&lower.pod["metadata"]), ["annotations", "labels", "name", "namespace"]);
            prop_assert_eq!(lower.pod["spec"].get("nodeName"), None);
            prop_assert_eq!(lower.pod["spec"].get("serviceAccountName"), None);
            prop_assert_eq!(lower.pod["spec"].get("ephemeralContainers"), None);
        }
    }

    #[test]
    fn exactly_what_no_rule_names_is_listed_as_dropped(
        names in proptest::collection::vec(string_regex("x[a-z]{2,6}").unwrap(), 6), value in anything()
    ) {
        let mut pod = upper();
        pod["spec"]["initContainers"] = json!([{"name": "init"}]);
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}, {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}}]);
        let mut expected = Vec::new();
        for (name, (pointer, path)) in names.iter().zip([
            ("", ""),
            ("/metadata", "metadata."),
            ("/spec", "spec."),
            ("/spec/initContainers/0", "spec.initContainers[init]."),
            ("/spec/volumes/0", "spec.volumes[v]."),
            ("/spec/volumes/1/projected/sources/0", "spec.volumes[p].projected.sources[0]."),
        ]) {
            pod.pointer_mut(pointer).unwrap()[name] = value.clone();
            expected.push(format!("{path}{name}"));
        }
        let lower = lower_pod(&pod, &link(), 1).unwrap();
        let mut dropped = lower.dropped;
        dropped.sort();
        expected.sort();
        prop_assert_eq!(dropped, expected);
    }

    #[test]
    fn translation_is_a_function_of_the_pod_alone_and_leaves_nothing_to_do(before in state(), admission in admission()) {
        let mut before = before;
        before.debuggers = 0;
        let pod = before.pod();
        prop_assert_eq!(lower_pod(&pod, &link(), 1).unwrap(), lower_pod(&pod, &link(), 1).unwrap());
        prop_assert_eq!(update(&pod, &admitted(&pod, &admission), &link(), 1).unwrap(), Update::default());
    }

    /// A lower cluster may itself be an upper one: what goes down again is the same pod, under another owner.
    #[test]
    fn what_went_down_can_go_down_again(before in state()) {
        let first = lower_pod(&before.pod(), &link(), 1).unwrap().pod;
        let mut placed = first.clone();
        set(&mut placed, "/metadata/uid", json!("lower-uid"));
        let second = lower_pod(&placed, &link(), 1).unwrap();
        prop_assert!(second.dropped.is_empty());
        prop_assert_eq!(&second.pod["spec"], &first["spec"]);
        prop_assert_eq!(&second.pod["metadata"]["labels"], &first["metadata"]["labels"]);
        prop_assert_eq!(&second.pod["metadata"]["annotations"]["tensile.io/upper-uid"], "lower-uid");
    }

    #[test]
    fn an_update_brings_down_what_changed_and_nothing_else_and_is_done(
        (before, after) in two_states(), admission in admission()
    ) {
        let mut lower = admitted(&before.pod(), &admission);
        let old = lower.clone();
        let made = update(&after.pod(), &lower, &link(), 2).unwrap();
        apply(&mut lower, &made);
        prop_assert_eq!(update(&after.pod(), &lower, &link(), 2).unwrap(), Update::default());
        prop_assert_eq!(&lower["metadata"]["annotations"]["tensile.io/applied-revision"], "2");

        let wanted = lower_pod(&after.pod(), &link(), 2).unwrap().pod;
        let unchanged = |pointer: &str| old.pointer(pointer) == lower.pointer(pointer);
        for (pointer, changed) in [
            ("/metadata/labels/a", before.labels.get("a") != after.labels.get("a")),
            ("/metadata/labels/injected", false),
            ("/metadata/annotations/b", before.annotations.get("b") != after.annotations.get("b")),
            ("/metadata/annotations/by", false),
            ("/spec/containers/0/image", before.image != after.image),
            ("/spec/initContainers/0/image", before.init_image != after.init_image),
            ("/spec/containers/0/resources/requests/cpu", before.cpu != after.cpu),
            ("/spec/containers/0/resources/limits", false),
            ("/spec/containers/1", false),
            ("/spec/activeDeadlineSeconds", before.deadline != after.deadline),
            ("/spec/ephemeralContainers", after.debuggers > 0),
        ] {
            if !changed {
                prop_assert!(unchanged(pointer), "{} is as it was", pointer);
            } else if pointer != "/spec/ephemeralContainers" {
                prop_assert_eq!(lower.pointer(pointer), wanted.pointer(pointer), "{}", pointer);
            }
        }
        let count = |pod: &Value, list: &str| pod["spec"][list].as_array().map_or(0, Vec::len);
        prop_assert_eq!(count(&lower, "ephemeralContainers"), after.debuggers);
        let tolerations = lower["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        for toleration in after.pod()["spec"]["tolerations"].as_array().unwrap() {
            let known = before.pod()["spec"]["tolerations"].as_array().unwrap().contains(toleration);
            prop_assert!(known || tolerations.contains(toleration), "{toleration}");
        }
        for toleration in old["spec"]["tolerations"].as_array().into_iter().flatten() {
            prop_assert!(tolerations.iter().any(|present| present["key"] == toleration["key"]), "none is taken away");
        }
    }
}
