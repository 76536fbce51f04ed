//! Which pods are changed, and how.

use serde_json::{Value, json};
use webhook::mutate::Policy;
use webhook::review::{Denial, Operation, Verdict};

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
    for review in [
        review("CREATE", "kube-system", &plain_pod()),
        review("UPDATE", "default", &plain_pod()),
        review("DELETE", "default", &Value::Null),
        status,
        deployment,
        foreign,
        labelled(json!(null)),
        labelled(json!({})),
        labelled(json!({"virtual-pod": "yes"})),
        labelled(json!({"virtual-pod": "true", "tensile.io/leave-placement": "true"})),
        labelled(json!({"virtual-pod": "true", "create-by-descheduler": "true"})),
    ] {
        assert_eq!(verdict_on(&review, &Policy::default()), Verdict::Untouched, "{review}");
    }
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
    let pod = json!({"metadata": {"labels": ["virtual-pod"]}});
    let Verdict::Denied(denial) = on_create(&pod, &Policy::default()) else { panic!() };
    assert_eq!((denial.code, denial.reason), (400, "BadRequest"));
    assert!(denial.message.starts_with("the pod cannot be read: invalid type: sequence"), "{}", denial.message);
}

#[test]
fn what_cannot_work_on_a_virtual_node_is_warned_of_or_denied() {
    let mut pod = virtual_pod(&json!({
        "hostNetwork": true, "hostPID": true, "hostIPC": true,
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log"}}],
    }));
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    let doubts = [
        "pods of a DaemonSet do not run on virtual nodes",
        "spec.hostNetwork: virtual nodes refuse it unless they are told to allow it",
        "spec.hostPID: virtual nodes refuse it unless they are told to allow it",
        "spec.hostIPC: virtual nodes refuse it unless they are told to allow it",
        "volume \"logs\": hostPath is a path of whichever lower node the pod lands on",
    ];
    let Verdict::Changed { warnings, .. } = on_create(&pod, &Policy::default()) else { panic!() };
    assert_eq!(warnings, doubts);

    let policy = Policy { deny_unsupported: true, ..Policy::default() };
    let denial = Denial { code: 403, reason: "Forbidden", message: doubts.join("; ") };
    assert_eq!(on_create(&pod, &policy), Verdict::Denied(denial));
}
