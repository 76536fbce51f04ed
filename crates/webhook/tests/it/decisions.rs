// SPDX-License-Identifier: Apache-2.0
//! Which pods are changed, and how.

use serde_json::{Value, json};
use webhook::mutate::Policy;
use webhook::review::{Denial, Operation, Review, Verdict};

use super::{admitted, on_create, review, verdict_on, virtual_pod};

fn loss_tolerations() -> Value {
    json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    ])
}

/// The pod that the API server sends for a plain pod with a node selector.
fn plain_pod() -> Value {
    virtual_pod(&json!({
        "nodeSelector": {"clusterID": "a", "disk": "ssd"},
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "containers": [{"name": "c", "image": "i"}],
    }))
}

#[test]
fn a_pod_is_split_and_tolerates_the_loss_of_its_node() {
    let verdict = on_create(&plain_pod(), &Policy::default());
    let stash = concat!(
        r#"{"nodeSelector":{"disk":"ssd"},"tolerations":["#,
        r#"{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},"#,
        r#"{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}"#,
    );
    let add = |path: &str, value: Value| Operation::Add { path: path.to_owned(), value };
    assert_eq!(
        verdict,
        Verdict::Changed {
            patch: vec![
                add("/metadata/annotations", json!({"clusterSelector": stash})),
                add("/spec/nodeSelector", json!({"clusterID": "a"})),
                add("/spec/tolerations", loss_tolerations()),
            ],
            warnings: vec![],
        }
    );
}

#[test]
fn annotations_that_are_there_stay() {
    let mut pod = plain_pod();
    pod["metadata"]["annotations"] = json!({"mine/and~yours": "x"});
    let pod = admitted(&pod, &Policy::default());
    assert_eq!(pod["metadata"]["annotations"]["mine/and~yours"], "x");
    assert!(pod["metadata"]["annotations"]["clusterSelector"].is_string());
}

#[test]
fn a_field_of_which_nothing_stays_is_removed() {
    let pod = virtual_pod(&json!({"nodeSelector": {"disk": "ssd"}}));
    let Verdict::Changed { patch, .. } = on_create(&pod, &Policy::default()) else { panic!() };
    assert!(patch.contains(&Operation::Remove { path: "/spec/nodeSelector".to_owned() }), "{patch:?}");
}

#[test]
fn a_pod_that_went_through_already_is_not_changed_again() {
    let once = admitted(&plain_pod(), &Policy::default());
    assert_eq!(on_create(&once, &Policy::default()), Verdict::Changed { patch: vec![], warnings: vec![] });
}

#[test]
fn the_operator_may_bound_the_loss_of_a_node() {
    let policy = Policy { node_lost_seconds: Some(90), ..Policy::default() };
    let pod = admitted(&plain_pod(), &policy);
    assert_eq!(pod["spec"]["tolerations"][0]["tolerationSeconds"], 90);
    assert_eq!(pod["spec"]["tolerations"][1]["tolerationSeconds"], 90);
}

#[test]
fn what_is_none_of_its_business_is_left_as_it_is() {
    let labelled = |labels: Value| {
        let mut pod = plain_pod();
        pod["metadata"]["labels"] = labels;
        review("CREATE", "default", &pod)
    };
    let mut status = review("CREATE", "default", &plain_pod());
    status["request"]["subResource"] = json!("status");
    let mut deployment = review("CREATE", "default", &plain_pod());
    deployment["request"]["kind"] = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let mut foreign = review("CREATE", "default", &plain_pod());
    foreign["request"]["kind"]["group"] = json!("example.com");
    let mut debugging = review("UPDATE", "default", &plain_pod());
    debugging["request"]["subResource"] = json!("ephemeralcontainers");
    let mut binding = review("CREATE", "default", &plain_pod());
    binding["request"]["kind"]["kind"] = json!("Binding");
    binding["request"]["subResource"] = json!("binding");
    for review in [
        review("CREATE", "kube-system", &plain_pod()),
        review("UPDATE", "default", &plain_pod()),
        review("DELETE", "default", &Value::Null),
        status,
        deployment,
        foreign,
        debugging,
        binding,
        labelled(json!(null)),
        labelled(json!({})),
        labelled(json!({"virtual-pod": "yes"})),
        labelled(json!({"virtual-pod": "true", "tensile.io/leave-placement": "true"})),
        labelled(json!({"virtual-pod": "true", "create-by-descheduler": "true"})),
    ] {
        assert_eq!(verdict_on(&review, &Policy::default()), Verdict::Untouched, "{review}");
        // Byte for byte: the answer has no patch, not even an empty one.
        let body = review.to_string();
        let answer = Review::read(body.as_bytes()).unwrap().answer(&Verdict::Untouched).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": true}));
    }
}

#[test]
fn a_gated_pod_is_split_and_its_gates_stay() {
    let mut pod = plain_pod();
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let gated = admitted(&pod, &Policy::default());
    assert_eq!(gated["spec"]["schedulingGates"], pod["spec"]["schedulingGates"]);
    assert_eq!(gated["spec"]["nodeSelector"], json!({"clusterID": "a"}));
}

#[test]
fn a_pod_that_is_made_again_with_its_stash_is_merged_and_nothing_is_nested() {
    let mut copy = admitted(&plain_pod(), &Policy::default());
    copy["spec"]["nodeSelector"]["zone"] = json!("z1");
    copy["spec"]["tolerations"].as_array_mut().unwrap().push(json!({"key": "new", "operator": "Exists"}));
    let again = admitted(&copy, &Policy::default());
    assert_eq!(again["spec"]["nodeSelector"], json!({"clusterID": "a"}));
    let loss = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let stash: Value =
        serde_json::from_str(again["metadata"]["annotations"]["clusterSelector"].as_str().unwrap()).unwrap();
    assert_eq!(
        stash,
        json!({
            "nodeSelector": {"disk": "ssd", "zone": "z1"},
            "tolerations": [
                loss("node.kubernetes.io/not-ready"),
                loss("node.kubernetes.io/unreachable"),
                {"key": "new", "operator": "Exists"},
            ],
        })
    );
}

#[test]
fn match_label_keys_go_where_their_constraint_goes() {
    // The API server merges them into the selector when it stores a pod, which is after this.
    let spread = |key: &str| {
        json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"]})
    };
    let constraints = json!([spread("clusterID"), spread("kubernetes.io/hostname")]);
    let pod = admitted(&virtual_pod(&json!({"topologySpreadConstraints": constraints})), &Policy::default());
    assert_eq!(pod["spec"]["topologySpreadConstraints"], json!([spread("clusterID")]));
    let stash: Value =
        serde_json::from_str(pod["metadata"]["annotations"]["clusterSelector"].as_str().unwrap()).unwrap();
    assert_eq!(stash["topologySpreadConstraints"], json!([spread("kubernetes.io/hostname")]));
}

#[test]
fn a_pod_whose_stash_cannot_be_read_is_denied() {
    let mut pod = plain_pod();
    pod["metadata"]["annotations"] = json!({"clusterSelector": "{"});
    let message = "annotation clusterSelector is not JSON: EOF while parsing an object at line 1 column 1";
    assert_eq!(
        on_create(&pod, &Policy::default()),
        Verdict::Denied(Denial { code: 422, reason: "Invalid", message: message.to_owned() })
    );
}

#[test]
fn a_pod_that_is_no_pod_is_denied() {
    for (pod, reason) in [
        (json!({"metadata": {"labels": ["virtual-pod"]}, "spec": {}}), "invalid type: sequence"),
        (json!({"metadata": {"labels": {"virtual-pod": "true"}}}), "missing field `spec`"),
        (
            json!({"metadata": {"labels": {"virtual-pod": "true"}}, "spec": []}),
            "invalid type: sequence, expected an object",
        ),
        (json!([{"labels": {"virtual-pod": "true"}}, {}]), "invalid type: sequence, expected an object"),
    ] {
        let Verdict::Denied(denial) = on_create(&pod, &Policy::default()) else { panic!() };
        assert_eq!((denial.code, denial.reason), (400, "BadRequest"));
        assert!(denial.message.starts_with(&format!("the pod cannot be read: {reason}")), "{}", denial.message);
    }
}

#[test]
fn a_pod_that_names_no_scheduler_gets_the_operators() {
    let policy = Policy { scheduler: Some("multi-scheduler".to_owned()), ..Policy::default() };
    let scheduler =
        |spec: Value, policy: &Policy| admitted(&virtual_pod(&spec), policy)["spec"]["schedulerName"].clone();
    // The second is what an API server sends for the first.
    for spec in [json!({}), json!({"schedulerName": "default-scheduler"}), json!({"schedulerName": "multi-scheduler"})]
    {
        assert_eq!(scheduler(spec.clone(), &policy), "multi-scheduler", "{spec}");
        assert_eq!(scheduler(spec.clone(), &Policy::default()), spec["schedulerName"], "nobody asked for that");
    }
    assert_eq!(scheduler(json!({"schedulerName": "mine"}), &policy), "mine");
    assert_eq!(scheduler(json!({"nodeName": "east"}), &policy), Value::Null, "its author chose the node");
    let once = admitted(&plain_pod(), &policy);
    assert_eq!(on_create(&once, &policy), Verdict::Changed { patch: vec![], warnings: vec![] });
}
