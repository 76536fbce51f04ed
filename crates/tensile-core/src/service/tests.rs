// SPDX-License-Identifier: Apache-2.0
//! Services on their way down.

use serde_json::{Value, json};

use super::{Action, Change, Facts, Network, Networking, Path, Plan, plan};
use crate::pod::LinkView;

const JOINED: Networking = Networking { network: Network::Joined, path: Path::Endpoints, legacy_endpoints: false };
const SEPARATE: Networking = Networking { network: Network::Separate, path: Path::Endpoints, legacy_endpoints: false };
const BALANCED: Networking =
    Networking { network: Network::Separate, path: Path::LoadBalancer, legacy_endpoints: false };

fn link() -> LinkView {
    let ignored_labels = vec!["queue".to_owned()];
    LinkView { upper_cluster: "up".to_owned(), virtual_node: "east".to_owned(), ignored_labels, ..LinkView::default() }
}

fn upper() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "team", "uid": "s-1", "resourceVersion": "7" },
        "spec": {
            "type": "NodePort", "selector": { "app": "web", "queue": "q" }, "clusterIP": "10.0.0.7",
            "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None", "newField": 1,
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP", "nodePort": 30080 }],
        },
    })
}

fn slice(address: &str) -> Value {
    json!({
        "metadata": { "name": "web-x7k2p", "namespace": "team", "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": [{
            "addresses": [address], "conditions": { "ready": true }, "nodeName": "east", "zone": "z",
            "targetRef": { "kind": "Pod", "name": "web-0" }, "hostname": "web-0",
        }],
    })
}

fn facts() -> Facts {
    Facts {
        of: "team/web".to_owned(),
        upper: Some(upper()),
        upper_slices: vec![slice("10.1.0.1")],
        wanted: true,
        ..Facts::default()
    }
}

/// The facts when everything that is created or replaced is there.
fn done(mut facts: Facts, plan: &Plan) -> Facts {
    for action in plan.actions.clone() {
        match action {
            Action::Create(service) | Action::Replace(service) => facts.lower = Some(service),
            Action::Slice(Change::Create(slice)) => facts.lower_slices.push(slice),
            Action::Slice(Change::Replace(slice)) => {
                facts.lower_slices.retain(|present| present["metadata"]["name"] != slice["metadata"]["name"]);
                facts.lower_slices.push(slice);
            }
            Action::Slice(Change::Delete(slice)) => {
                facts.lower_slices.retain(|present| present["metadata"]["name"] != slice["metadata"]["name"]);
            }
            Action::Delete(_) => facts.lower = None,
            Action::Endpoints(Change::Create(endpoints) | Change::Replace(endpoints)) => {
                facts.lower_endpoints = Some(endpoints);
            }
            Action::Endpoints(Change::Delete(_)) => facts.lower_endpoints = None,
            Action::Above(Change::Create(slice) | Change::Replace(slice)) => {
                facts.upper_slices.retain(|present| present["metadata"]["name"] != slice["metadata"]["name"]);
                facts.upper_slices.push(slice);
            }
            Action::Above(Change::Delete(slice)) => {
                facts.upper_slices.retain(|present| present["metadata"]["name"] != slice["metadata"]["name"]);
            }
            Action::ShowBalancer(patch) => facts.upper.as_mut().unwrap()["status"] = patch["status"].clone(),
            Action::NoteShown(patch) => {
                let shown = patch["metadata"]["annotations"]["tensile.io/shown"].clone();
                facts.lower.as_mut().unwrap()["metadata"]["annotations"]["tensile.io/shown"] = shown;
            }
        }
    }
    facts
}

#[test]
fn where_networks_are_joined_a_service_has_no_selector_and_the_endpoints_of_all_clusters() {
    let planned = plan(&facts(), JOINED, &link());
    let [Action::Create(service), Action::Slice(Change::Create(copy))] = planned.actions.as_slice() else {
        panic!("{planned:?}")
    };
    assert_eq!(planned.dropped, ["spec.newField"]);
    assert_eq!(
        service["spec"],
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "ipFamilies": ["IPv4"],
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }],
        })
    );
    assert_eq!((&service["metadata"]["name"], &service["metadata"]["namespace"]), (&json!("web"), &json!("team")));
    assert_eq!(
        copy["endpoints"],
        json!([{ "addresses": ["10.1.0.1"], "conditions": { "ready": true }, "hostname": "web-0" }])
    );
    assert_eq!(copy["ports"], slice("")["ports"]);
    assert_eq!(copy["metadata"]["labels"]["kubernetes.io/service-name"], "web");
    assert_eq!(copy["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"], "virtual-node.tensile.io");
    assert!(copy["metadata"]["name"].as_str().unwrap().starts_with("web-x7k2p-"));

    let mut now = done(facts(), &planned);
    assert_eq!(plan(&now, JOINED, &link()).actions, []);
    now.upper_slices = vec![slice("10.1.0.2")];
    let moved = plan(&now, JOINED, &link());
    assert!(matches!(moved.actions.as_slice(), [Action::Slice(Change::Replace(_))]), "{moved:?}");
    now.upper_slices.clear();
    let gone = plan(&now, JOINED, &link());
    assert!(matches!(gone.actions.as_slice(), [Action::Slice(Change::Delete(_))]), "{gone:?}");
}

/// The Endpoints that a plan writes, after which there is nothing left to do.
fn endpoints_of(facts: Facts, networking: Networking) -> Option<Value> {
    let planned = plan(&facts, networking, &link());
    let now = done(facts, &planned);
    assert_eq!(plan(&now, networking, &link()).actions, []);
    now.lower_endpoints
}

#[test]
fn endpoints_are_written_beside_the_slices_where_they_are_asked_for() {
    let legacy = Networking { legacy_endpoints: true, ..JOINED };
    assert_eq!(endpoints_of(facts(), JOINED), None);
    let mut facts = facts();
    let mut waiting = slice("10.1.0.2");
    waiting["metadata"]["name"] = json!("web-b");
    waiting["endpoints"][0]["conditions"]["ready"] = json!(false);
    let mut six = slice("fd00::1");
    (six["addressType"], six["metadata"]["name"]) = (json!("IPv6"), json!("web-c"));
    facts.upper_slices.extend([waiting, six]);
    let endpoints = endpoints_of(facts.clone(), legacy).unwrap();
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    assert_eq!(
        endpoints["subsets"],
        json!([
            { "addresses": [{ "ip": "10.1.0.1", "hostname": "web-0" }], "ports": ports },
            { "notReadyAddresses": [{ "ip": "10.1.0.2", "hostname": "web-0" }], "ports": ports },
        ])
    );
    assert_eq!((&endpoints["metadata"]["name"], &endpoints["metadata"]["namespace"]), (&json!("web"), &json!("team")));
    assert_eq!(endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"], "true");

    // The lower cluster writes those of Services with a selector.
    assert_eq!(endpoints_of(facts.clone(), Networking { legacy_endpoints: true, ..SEPARATE }), None);
    // They go with the Service.
    let there = done(facts.clone(), &plan(&facts, legacy, &link()));
    let gone = plan(&Facts { wanted: false, ..there.clone() }, legacy, &link());
    assert!(
        matches!(gone.actions.as_slice(), [.., Action::Endpoints(Change::Delete(_)), Action::Delete(_)]),
        "{gone:?}"
    );
    // Those that somebody else made stay.
    let mut theirs = there;
    theirs.lower_endpoints = Some(json!({ "metadata": { "name": "web", "namespace": "team" } }));
    assert_eq!(plan(&theirs, legacy, &link()).actions, []);
}

#[test]
fn of_more_addresses_than_endpoints_hold_those_that_are_ready_come_first() {
    let mut facts = facts();
    let endpoint = |address: String, ready: bool| json!({ "addresses": [address], "conditions": { "ready": ready } });
    let mut waiting = slice("");
    waiting["endpoints"] = (0..900).map(|n| endpoint(format!("10.2.{}.{}", n / 250, n % 250), false)).collect();
    let mut ready = slice("");
    ready["metadata"]["name"] = json!("web-b");
    ready["endpoints"] = (0..900).map(|n| endpoint(format!("10.3.{}.{}", n / 250, n % 250), true)).collect();
    facts.upper_slices = vec![waiting, ready];
    let endpoints = endpoints_of(facts, Networking { legacy_endpoints: true, ..JOINED }).unwrap();
    let count = |index: usize, of: &str| endpoints["subsets"][index][of].as_array().map_or(0, Vec::len);
    assert_eq!((count(0, "notReadyAddresses"), count(1, "addresses")), (100, 900));
    assert_eq!(endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"], "truncated");
}

#[test]
fn where_networks_are_separate_the_lower_cluster_finds_its_own_pods_of_this_upper_cluster() {
    let planned = plan(&facts(), SEPARATE, &link());
    let [Action::Create(service)] = planned.actions.as_slice() else { panic!("{planned:?}") };
    assert_eq!(service["spec"]["selector"], json!({ "app": "web", "tensile.io/upper-cluster": "up" }));
    // Endpoints that somebody wrote go down as they are.
    let mut manual = facts();
    manual.upper.as_mut().unwrap()["spec"].as_object_mut().unwrap().remove("selector");
    assert_eq!(plan(&manual, SEPARATE, &link()).actions.len(), 2);
}

#[test]
fn over_a_load_balancer_the_slice_holds_its_addresses_by_family() {
    let mut facts = facts();
    let service = facts.upper.as_mut().unwrap();
    service["spec"]["type"] = json!("LoadBalancer");
    service["status"] =
        json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }, { "ip": "2001:db8::7" }, { "hostname": "x" }] } });
    let planned = plan(&facts, BALANCED, &link());
    let [Action::Create(service), Action::Slice(Change::Create(four)), Action::Slice(Change::Create(six))] =
        planned.actions.as_slice()
    else {
        panic!("{planned:?}")
    };
    assert_eq!((service["spec"].get("selector"), &service["spec"]["type"]), (None, &json!("ClusterIP")));
    assert_eq!((&four["addressType"], &four["endpoints"][0]["addresses"]), (&json!("IPv4"), &json!(["192.0.2.7"])));
    assert_eq!((&six["addressType"], &six["endpoints"][0]["addresses"]), (&json!("IPv6"), &json!(["2001:db8::7"])));
    assert_eq!(four["ports"], json!([{ "name": "http", "port": 80, "protocol": "TCP" }]));
}

#[test]
fn a_lower_load_balancer_is_shown_beside_others_and_withdrawn_with_its_service() {
    let mut now = facts();
    let service = now.upper.as_mut().unwrap();
    service["spec"]["type"] = json!("LoadBalancer");
    service["spec"]["loadBalancerClass"] = json!("services.tensile.io/lower");
    service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    let planned = plan(&now, JOINED, &link());
    now = done(now, &planned);
    assert_eq!(now.lower.as_ref().unwrap()["spec"]["type"], "LoadBalancer");
    assert_eq!(now.lower.as_ref().unwrap()["spec"].get("loadBalancerClass"), None);
    for address in ["192.0.2.2", "192.0.2.3"] {
        now.lower.as_mut().unwrap()["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        let planned = plan(&now, JOINED, &link());
        assert!(matches!(planned.actions.as_slice(), [Action::ShowBalancer(_), Action::NoteShown(_)]), "{planned:?}");
        now = done(now, &planned);
        let shown = &now.upper.as_ref().unwrap()["status"]["loadBalancer"]["ingress"];
        assert_eq!(*shown, json!([{ "ip": "192.0.2.1" }, { "ip": address }]));
        assert_eq!(plan(&now, JOINED, &link()).actions, []);
    }
    now.wanted = false;
    let planned = plan(&now, JOINED, &link());
    now = done(now, &planned);
    assert_eq!(now.upper.unwrap()["status"]["loadBalancer"]["ingress"], json!([{ "ip": "192.0.2.1" }]));
    assert_eq!((now.lower, now.lower_slices.len()), (None, 0));
}

#[test]
fn over_a_lower_load_balancer_clients_upstairs_are_led_down_and_nobody_in_a_circle() {
    let mut now = facts();
    let service = now.upper.as_mut().unwrap();
    service["spec"]["type"] = json!("LoadBalancer");
    service["spec"]["loadBalancerClass"] = json!("services.tensile.io/lower");
    let settle = |mut now: Facts, networking| {
        for _ in 0..4 {
            let planned = plan(&now, networking, &link());
            now = done(now, &planned);
        }
        assert_eq!(plan(&now, networking, &link()).actions, []);
        now
    };
    now = settle(now, BALANCED);
    assert_eq!(now.upper_slices.len(), 1, "there is no address yet");
    for address in ["192.0.2.2", "192.0.2.3"] {
        now.lower.as_mut().unwrap()["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        now = settle(now, BALANCED);
        let [_, ours] = now.upper_slices.as_slice() else { panic!("{:?}", now.upper_slices) };
        assert_eq!(ours["endpoints"], json!([{ "addresses": [address], "conditions": { "ready": true } }]));
        assert_eq!(ours["ports"], json!([{ "name": "http", "port": 80, "protocol": "TCP" }]));
        assert_eq!(ours["metadata"]["labels"]["kubernetes.io/service-name"], "web");
        assert_eq!(ours["metadata"]["ownerReferences"][0]["uid"], "s-1");
    }
    let joined = settle(now.clone(), JOINED);
    assert_eq!(joined.upper_slices.len(), 1, "where networks are joined it is not needed");
    let mut by_hand = now.clone();
    by_hand.upper.as_mut().unwrap()["spec"].as_object_mut().unwrap().remove("selector");
    let by_hand = settle(by_hand, BALANCED);
    assert!(!json!(by_hand.lower_slices).to_string().contains("192.0.2.3"), "{:?}", by_hand.lower_slices);
    now.wanted = false;
    let planned = plan(&now, BALANCED, &link());
    assert_eq!(done(now, &planned).upper_slices.len(), 1);
}

#[test]
fn families_of_addresses_go_down_as_wishes() {
    for (policy, families, expected_policy, expected_families) in [
        ("SingleStack", json!(["IPv6"]), None, Some(json!(["IPv6"]))),
        ("PreferDualStack", json!(["IPv4", "IPv6"]), Some("PreferDualStack"), None),
        ("RequireDualStack", json!(["IPv6", "IPv4"]), Some("PreferDualStack"), None),
    ] {
        let mut facts = facts();
        let spec = &mut facts.upper.as_mut().unwrap()["spec"];
        spec["ipFamilyPolicy"] = json!(policy);
        spec["ipFamilies"] = families;
        let planned = plan(&facts, JOINED, &link());
        let Some(Action::Create(service)) = planned.actions.first() else { panic!() };
        assert_eq!(service["spec"].get("ipFamilyPolicy").and_then(Value::as_str), expected_policy);
        assert_eq!(service["spec"].get("ipFamilies").cloned(), expected_families);
    }
}

#[test]
fn headless_stays_headless_and_a_service_that_becomes_so_is_made_again() {
    let mut now = facts();
    let planned = plan(&now, JOINED, &link());
    now = done(now, &planned);
    now.lower.as_mut().unwrap()["spec"]["clusterIP"] = json!("10.9.0.1");
    now.upper.as_mut().unwrap()["spec"]["clusterIP"] = json!("None");
    let planned = plan(&now, JOINED, &link());
    let [Action::Delete(_), Action::Create(service)] = planned.actions.as_slice() else { panic!("{planned:?}") };
    assert_eq!(service["spec"]["clusterIP"], "None");
}

#[test]
fn what_others_made_is_left_alone() {
    let mut now = facts();
    now.lower = Some(json!({ "metadata": { "name": "web", "uid": "x" }, "spec": {} }));
    let planned = plan(&now, JOINED, &link());
    assert!(planned.name_taken && planned.actions.is_empty(), "{planned:?}");
    now.wanted = false;
    assert_eq!(plan(&now, JOINED, &link()), Plan::default());
    let another = json!({ "tensile.io/upper-cluster": "up", "tensile.io/virtual-node": "west" });
    now.lower.as_mut().unwrap()["metadata"]["labels"] = another;
    now.lower.as_mut().unwrap()["metadata"]["annotations"] = json!({ "tensile.io/upper-name": "team/web" });
    assert_eq!(plan(&now, JOINED, &link()), Plan::default());
    now.wanted = true;
    let planned = plan(&now, JOINED, &link());
    assert!(!planned.name_taken && planned.actions.is_empty(), "another virtual node serves it: {planned:?}");
}

#[test]
fn a_service_goes_with_its_upper_one_or_when_nobody_needs_it() {
    let planned = plan(&facts(), JOINED, &link());
    let there = done(facts(), &planned);
    let deleted = Facts { upper: None, upper_slices: Vec::new(), ..there.clone() };
    for facts in [deleted, Facts { wanted: false, ..there }] {
        let planned = plan(&facts, JOINED, &link());
        assert!(
            matches!(planned.actions.as_slice(), [Action::Slice(Change::Delete(_)), Action::Delete(_)]),
            "{planned:?}"
        );
    }
}

/// However the two sides stand, doing what is planned ends, with the copy as it should be.
#[test]
fn what_is_planned_leads_to_what_is_wanted() {
    let kinds = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    for (networking, kind, wanted, before) in [JOINED, SEPARATE, BALANCED].into_iter().flat_map(|networking| {
        let all = kinds.into_iter().flat_map(|kind| [true, false].map(|wanted| (kind, wanted)));
        all.flat_map(move |(kind, wanted)| kinds.map(|before| (networking, kind, wanted, before)))
    }) {
        let mut now = facts();
        now.upper.as_mut().unwrap()["spec"]["type"] = json!(before);
        let planned = plan(&now, JOINED, &link());
        now = done(now, &planned);
        now.upper.as_mut().unwrap()["spec"]["type"] = json!(kind);
        now.upper_slices = vec![slice("10.1.0.9")];
        now.wanted = wanted;
        let mut rounds = 0;
        loop {
            let planned = plan(&now, networking, &link());
            if planned.actions.is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 4, "{networking:?} {kind} {wanted} {before}: {planned:?}");
            now = done(now, &planned);
        }
        assert_eq!(now.lower.is_some(), wanted);
        assert!(wanted || now.lower_slices.is_empty());
    }
}
