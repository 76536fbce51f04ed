// SPDX-License-Identifier: Apache-2.0
//! Pods that run, on a node that they have to leave: one after another, each when the others serve.

use super::*;

const CORDON: &str = "node.kubernetes.io/unschedulable";

fn cordoned(name: &str) -> (Arc<str>, VirtualNode) {
    // As it is before a controller adds the taint, with the one of all virtual nodes.
    let taints = json!([{"key": "virtual-kubelet.io/provider", "value": "k8s", "effect": "NoSchedule"}]);
    let read = VirtualNode::read(&json!({
        "metadata": {"labels": {"clusterID": name}}, "spec": {"unschedulable": true, "taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }));
    (name.into(), read)
}

fn running(uid: &str, owner: &str, node: &str, ready: bool) -> Value {
    let conditions = if ready { json!([{"type": "Ready", "status": "True"}]) } else { json!([]) };
    let status = json!({"phase": "Running", "startTime": at(-600).to_string(), "conditions": conditions});
    with(stuck(uid, owner, node, -600), &json!({"status": status}))
}

fn drains(taints: Taints, surge: bool) -> Policy {
    let plugin = Plugin::NodeTaints { taints, surge };
    let strategy = Strategy { profile: "drain".to_owned(), namespaces: Namespaces::default(), plugin };
    Policy { strategies: vec![strategy], ..policy() }
}

fn seen(pods: &[Value]) -> Seen {
    let mut seen = Seen::of(&["b"], pods);
    seen.nodes.extend([cordoned("a")]);
    seen
}

fn chosen(seen: &Seen, policy: &Policy) -> Vec<String> {
    seen.plan_by(policy, 0).exclude.iter().map(|one| one.pod.to_string()).collect()
}

#[test]
fn pods_leave_a_cordoned_node_unless_they_tolerate_it() {
    let tolerant = json!({"spec": {"tolerations": [{"key": CORDON, "operator": "Exists"}]}});
    let pods = [running("p", "o", "a", true), with(running("q", "other", "a", true), &tolerant)];
    assert_eq!(chosen(&seen(&pods), &drains(Taints::default(), false)), ["p"]);
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (taints, found) in [
        (Taints { included: named(&[CORDON]), ..Taints::default() }, true),
        (Taints { included: named(&["maintenance"]), ..Taints::default() }, false),
        (Taints { excluded: named(&[CORDON]), ..Taints::default() }, false),
        (Taints { excluded: named(&["node.kubernetes.io/unschedulable=now"]), ..Taints::default() }, true),
    ] {
        let chosen = chosen(&seen(&pods), &drains(taints.clone(), false));
        assert_eq!(!chosen.is_empty(), found, "{taints:?}");
    }
    // Of a node that is not ready, nothing is known.
    let mut away = seen(&pods);
    away.nodes.get_mut("a").unwrap().not_ready_since = Some(at(-5));
    assert_eq!(chosen(&away, &drains(Taints::default(), false)), Vec::<String>::new());
    // A drain of many is no outage.
    let many: Vec<Value> = (0..20).map(|n| running(&format!("p{n}"), &format!("o{n}"), "a", true)).collect();
    assert_eq!(chosen(&seen(&many), &drains(Taints::default(), false)).len(), 20);
}

#[test]
fn a_pod_that_serves_is_evicted_when_the_others_of_its_owner_do() {
    let excluded = |pods: &[Value]| seen(pods).excluded("owner.o", &[exclusion("a", -5, 1)]);
    let policy = drains(Taints::default(), false);
    let taken = |seen: &Seen, now| evicted(&seen.plan_by(&policy, now)).join(" ");
    let both = [running("p", "o", "a", true), running("q", "o", "b", true)];
    assert_eq!(taken(&excluded(&both), 0), "p");
    let waits = [running("p", "o", "a", true), running("q", "o", "b", false)];
    assert_eq!(taken(&excluded(&waits), 0), "");
    let itself = [running("p", "o", "a", false), running("q", "o", "b", true)];
    assert_eq!(taken(&excluded(&itself), 0), "p", "one that does not serve is no loss");

    // One was evicted, and its successor is not there yet.
    let mut left = excluded(&both);
    left.left.insert("o".into(), at(0));
    assert_eq!((taken(&left, 1), left.plan_by(&policy, 1).again), (String::new(), Some(at(10))));
    assert_eq!(taken(&left, 10), "p", "it is not waited for for ever");
    let mut successor = running("r", "o", "b", true);
    successor["metadata"]["creationTimestamp"] = json!(at(0).to_string());
    left.pods.insert("r".into(), Box::new(Pod::read(&successor).unwrap()));
    assert_eq!(taken(&left, 1), "p");
}

#[test]
fn a_deployment_that_surges_is_rolled_out_anew_instead() {
    let policy = drains(Taints::default(), true);
    let mut seen = seen(&[running("p", "o", "a", true), running("q", "o", "a", true)]);
    let first = seen.plan_by(&policy, 0);
    assert_eq!((first.ask.len(), first.exclude.len(), first.restart.len()), (2, 0, 0));
    let revision = |n: &str| json!({"deployment.kubernetes.io/revision": n});
    let rollout = |revision_above: &str, surge: Value| {
        Rollout::read(
            &json!({"metadata": {"annotations": revision("3")}}),
            Some(&json!({
                "metadata": {"name": "web", "uid": "u", "resourceVersion": "9", "annotations": revision(revision_above)},
                "spec": {"strategy": {"rollingUpdate": {"maxSurge": surge}}},
            })),
        )
    };
    seen.rollouts.insert("o".into(), rollout("3", json!(1)));
    let plan = seen.plan_by(&policy, 0);
    assert_eq!((plan.restart.len(), &*plan.restart[0].deployment.name, plan.exclude.len()), (1, "web", 0));
    seen.rollouts.insert("o".into(), rollout("4", json!(1)));
    let plan = seen.plan_by(&policy, 0);
    assert_eq!((plan.restart.len(), plan.exclude.len(), plan.again), (0, 0, Some(at(5))));
    seen.rollouts.insert("o".into(), rollout("3", json!(0)));
    assert_eq!(chosen(&seen, &policy), ["p"]);
    // Without any other node there is nothing to roll it out to.
    seen.rollouts.insert("o".into(), rollout("3", json!(1)));
    seen.nodes.remove("b");
    let plan = seen.plan_by(&policy, 0);
    assert_eq!((plan.restart.len(), held(&plan)[0].1), (0, &Why::NowhereElse));
}
