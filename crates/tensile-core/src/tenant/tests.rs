// SPDX-License-Identifier: Apache-2.0
//! Tenants of a lower cluster, and what they cannot do to one another.

use std::collections::{BTreeMap, HashSet};

use proptest::{prelude::*, string::string_regex};
use serde_json::{Value, json};

use super::{Action, Mapping, Policy, PolicyError, Rule, UnknownMapping, plan};
use crate::pod::{LinkView, lower_pod};

fn link(mapping: &str) -> LinkView {
    let (upper_cluster, virtual_node) = ("5e8e7a2c".to_owned(), "east".to_owned());
    let namespaces = mapping.parse::<Mapping>().unwrap().of_link(&upper_cluster, &virtual_node);
    LinkView { upper_cluster, virtual_node, namespaces, ..LinkView::default() }
}

#[test]
fn a_mapping_is_read_as_it_is_written() {
    for text in ["same", "prefix", "suffix", "prefix:acme", "suffix:acme-2", "single:shared"] {
        assert_eq!(text.parse::<Mapping>().unwrap().to_string(), text);
    }
    for text in ["", "other", "same:x", "single", "singles:x"] {
        assert_eq!(text.parse::<Mapping>(), Err(UnknownMapping::Kind), "{text:?}");
    }
    for text in ["prefix:", "prefix:A", "prefix:a.b", "suffix:-a", "prefix:0123456789012345678901234567890"] {
        assert!(matches!(text.parse::<Mapping>(), Err(UnknownMapping::Text(_))), "{text:?}");
    }
    for text in ["single:", "single:Team", "single:kube-system", "single:a/b"] {
        assert!(matches!(text.parse::<Mapping>(), Err(UnknownMapping::Namespace(_))), "{text:?}");
    }
    assert_eq!(Mapping::noted(None), Mapping::Same);
    assert_eq!(Mapping::noted(Some("suffix:x")), Mapping::Suffix("x".to_owned()));
}

#[test]
fn each_link_has_a_text_of_its_own_unless_one_is_chosen() {
    let of = |upper: &str, node: &str| Mapping::Prefix(String::new()).of_link(upper, node).to_string();
    assert_eq!(of("a", "east"), of("a", "east"));
    assert!(of("a", "east").starts_with("prefix:east-"));
    let all: HashSet<String> =
        [("a", "east"), ("b", "east"), ("a", "west"), ("a/east", ""), ("a", &"n".repeat(253)), ("a", "a.b.c")]
            .map(|(upper, node)| of(upper, node))
            .into();
    assert_eq!(all.len(), 6, "{all:?}");
    for text in all {
        assert_eq!(text.parse::<Mapping>().unwrap().to_string(), text, "it can be typed as well");
    }
    assert_eq!(Mapping::Suffix("x".to_owned()).of_link("a", "east"), Mapping::Suffix("x".to_owned()));
}

#[test]
fn a_namespace_of_another_link_or_of_another_namespace_is_never_entered() {
    let link = link("prefix:acme");
    let own = link.namespace_labels("team");
    assert!(link.may_enter("team", &own) && link.owns_namespace(&own));
    assert!(!link.may_enter("other", &own));
    assert!(!link.may_enter("team", &BTreeMap::new()), "nobody has said that it is ours");
    for (key, value) in [("tensile.io/upper-cluster", "another"), ("tensile.io/virtual-node", "west")] {
        let mut theirs = own.clone();
        theirs.insert(key.to_owned(), value.to_owned());
        assert!(!link.may_enter("team", &theirs) && !link.owns_namespace(&theirs), "{key}");
    }
    for mapping in ["same", "single:shared"] {
        assert!(super::tests::link(mapping).may_enter("team", &BTreeMap::new()), "{mapping}: the operator named it");
    }
}

/// A pod as an upper API server has it, with marks that its author would like to have.
fn crafted() -> Value {
    json!({
        "metadata": {
            "name": "web-0", "namespace": "team", "uid": "u",
            "labels": {
                "app": "web", "tensile.io/upper-cluster": "victim", "tensile.io/virtual-node": "victim",
                "tensile.io/upper-namespace": "victim",
            },
            "annotations": {
                "tensile.io/upper-uid": "victim", "tensile.io/upper-name": "victim/web", "tensile.io/pod-name": "victim",
            },
        },
        "spec": { "containers": [{ "name": "main", "image": "i", "env": [
            { "name": "NS", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
            { "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        ] }] },
    })
}

#[test]
fn no_mark_that_a_user_writes_goes_down() {
    for mapping in ["same", "prefix", "suffix:x", "single:shared"] {
        let pod = lower_pod(&crafted(), &link(mapping), 1).unwrap().pod;
        assert!(!pod["metadata"].to_string().contains("victim"), "{mapping}: {}", pod["metadata"]);
        let labels = &pod["metadata"]["labels"];
        assert_eq!((&labels["tensile.io/upper-namespace"], &labels["app"]), (&json!("team"), &json!("web")));
        assert_eq!(pod["metadata"]["annotations"]["tensile.io/upper-name"], "team/web-0");
    }
}

#[test]
fn a_pod_is_told_its_names_upstairs_wherever_it_is() {
    let told = |mapping: &str| {
        let pod = lower_pod(&crafted(), &link(mapping), 1).unwrap().pod;
        let env = &pod["spec"]["containers"][0]["env"];
        let path = |place: usize| env[place]["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap().to_owned();
        (path(0), path(1), pod["spec"]["hostname"].as_str().map(str::to_owned))
    };
    let (namespace, name) = ("metadata.namespace".to_owned(), "metadata.name".to_owned());
    assert_eq!(told("same"), (namespace, name.clone(), None));
    let of_label = "metadata.labels['tensile.io/upper-namespace']".to_owned();
    assert_eq!(told("prefix"), (of_label.clone(), name, None));
    let of_annotation = "metadata.annotations['tensile.io/pod-name']".to_owned();
    assert_eq!(told("single:shared"), (of_label, of_annotation, Some("web-0".to_owned())));
}

#[test]
fn where_others_share_the_namespace_a_claim_goes_down_only_by_our_hand() {
    let mut pod = crafted();
    pod["spec"]["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "theirs" } }]);
    let refusal = lower_pod(&pod, &link("single:shared"), 1).unwrap_err();
    assert_eq!(refusal.reason(), "ClaimNotAllowed");
    assert!(lower_pod(&pod, &LinkView { brings_claims: true, ..link("single:shared") }, 1).is_ok());
    assert!(lower_pod(&pod, &link("prefix"), 1).is_ok());
}

/// What becomes of a pod affinity term.
fn term(mapping: &str, term: &Value) -> (Value, Vec<String>) {
    let mut pod = crafted();
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let preferred =
        json!({ "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": term }] });
    pod["spec"]["affinity"] = json!({ "podAffinity": preferred, "podAntiAffinity": required });
    let lower = lower_pod(&pod, &link(mapping), 1).unwrap();
    let affinity = &lower.pod["spec"]["affinity"];
    let required = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let preferred = &affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
    assert_eq!(required, preferred);
    (required.clone(), lower.dropped)
}

#[test]
fn pod_affinity_means_the_same_pods_below() {
    let of_upper = json!({ "key": "tensile.io/upper-cluster", "operator": "In", "values": ["5e8e7a2c"] });
    let of = |namespaces: Value| json!({ "key": "tensile.io/upper-namespace", "operator": "In", "values": namespaces });
    let plain = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "a": "b" } } });
    let with = |key: &str, value: Value| {
        let mut term = plain.clone();
        term[key] = value;
        term
    };
    let asking = |expressions: Value| {
        json!({ "topologyKey": "zone",
        "labelSelector": { "matchLabels": { "a": "b" }, "matchExpressions": expressions } })
    };
    for given in [plain.clone(), with("namespaces", json!(["x"])), with("namespaceSelector", json!({}))] {
        assert_eq!(term("same", &given), (given, vec![]));
    }
    assert_eq!(term("prefix:p", &plain).0, plain);
    assert_eq!(term("prefix:p", &with("namespaces", json!(["x", "y"]))).0["namespaces"], json!(["p-x", "p-y"]));
    let all = term("prefix:p", &with("namespaceSelector", json!({}))).0;
    assert_eq!(all["labelSelector"]["matchExpressions"], json!([of_upper]), "of all tenants: ours");

    let single = |given: Value| term("single:shared", &given);
    assert_eq!(single(plain.clone()), (asking(json!([of_upper, of(json!(["team"]))])), vec![]));
    assert_eq!(single(with("namespaces", json!(["x", "y"]))).0, asking(json!([of_upper, of(json!(["x", "y"]))])));
    assert_eq!(single(with("namespaceSelector", json!({}))), (asking(json!([of_upper])), vec![]));
    let (some, dropped) = single(with("namespaceSelector", json!({ "matchLabels": { "c": "d" } })));
    assert_eq!(some, asking(json!([of_upper, of(json!([""]))])));
    assert_eq!(dropped.len(), 2, "{dropped:?}");
    let nobody = json!({ "topologyKey": "zone" });
    assert_eq!(single(nobody.clone()).0, nobody, "no selector matches no pod");
}

#[test]
fn a_spread_constraint_counts_the_pods_of_its_own_namespace() {
    let mut pod = crafted();
    let constraint = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } } });
    pod["spec"]["topologySpreadConstraints"] = json!([constraint]);
    let below =
        |mapping: &str| lower_pod(&pod, &link(mapping), 1).unwrap().pod["spec"]["topologySpreadConstraints"][0].clone();
    assert_eq!(below("prefix"), constraint);
    let expressions = &below("single:shared")["labelSelector"]["matchExpressions"];
    assert_eq!(expressions[1]["values"], json!(["team"]), "{expressions}");
}

fn quota(name: &str, pods: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": name }, "spec": { "hard": { "pods": pods } } })
}

#[test]
fn a_policy_is_read_from_manifests() {
    let limits = json!({ "kind": "LimitRange", "metadata": { "name": "q" }, "spec": { "limits": [] } });
    assert!(Policy::read(&[quota("q", "1"), limits.clone(), Value::Null]).is_ok());
    assert_eq!(
        Policy::read(&[quota("q", "1"), quota("q", "2")]),
        Err(PolicyError::Twice("ResourceQuota q".to_owned()))
    );
    assert_eq!(Policy::read(&[json!({ "kind": "Pod" })]), Err(PolicyError::Kind("Pod".to_owned())));
    assert_eq!(
        Policy::read(&[json!({ "kind": "LimitRange", "spec": {} })]),
        Err(PolicyError::Incomplete("LimitRange"))
    );
}

/// What is there when the actions have been performed.
fn done(mut present: Vec<(Rule, Value)>, actions: Vec<Action>) -> Vec<(Rule, Value)> {
    for action in actions {
        match action {
            Action::Create(rule, object) => present.push((rule, object)),
            Action::Replace(rule, object) => {
                present.retain(|(of, there)| *of != rule || there["metadata"]["name"] != object["metadata"]["name"]);
                present.push((rule, object));
            }
            Action::Delete(rule, name, _) => {
                present.retain(|(of, there)| *of != rule || there["metadata"]["name"] != name.as_str());
            }
        }
    }
    present
}

#[test]
fn the_namespace_has_what_the_operator_gives_and_follows_it() {
    let link = link("prefix");
    let policy = |manifests: &[Value], isolates| {
        Policy::read(manifests).unwrap().isolating(isolates).objects("acme-team", &link)
    };
    let first = policy(&[quota("a", "1"), quota("b", "1")], true);
    assert_eq!(first.len(), 3);
    let wall = &first[2].1;
    let ours = json!({ "matchLabels": { "tensile.io/upper-cluster": "5e8e7a2c" } });
    assert_eq!((&wall["kind"], &wall["spec"]["podSelector"]), (&json!("NetworkPolicy"), &ours));
    assert_eq!(wall["spec"]["ingress"][0]["from"][0]["podSelector"], ours);
    let mut present = done(Vec::new(), plan(first.clone(), &[]));
    assert_eq!(plan(first, &present), []);

    let second = policy(&[quota("a", "2"), quota("c", "1")], false);
    let actions = plan(second.clone(), &present);
    assert!(
        matches!(actions.as_slice(), [Action::Delete(..), Action::Delete(..), Action::Replace(..), Action::Create(..)]),
        "{actions:?}"
    );
    present = done(present, actions);
    assert_eq!(plan(second, &present), []);
    assert_eq!(plan(Vec::new(), &present).len(), 2, "nothing is left of what is given no more");
}

fn namespace() -> impl Strategy<Value = String> {
    string_regex("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").unwrap()
}

fn mapping() -> impl Strategy<Value = Mapping> {
    let text = || string_regex("[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?").unwrap();
    prop_oneof![
        Just(Mapping::Same),
        text().prop_map(Mapping::Prefix),
        text().prop_map(Mapping::Suffix),
        "[a-z]{1,20}".prop_map(Mapping::Single),
    ]
}

proptest! {
    /// Every namespace below has a name that the API takes, always the same; what is shortened is told from what is not.
    #[test]
    fn a_namespace_below_fits_and_two_are_two(mapping in mapping(), one in namespace(), other in namespace()) {
        let below = mapping.namespace(&one).into_owned();
        prop_assert!(below.len() <= 63 && below.starts_with(|c: char| c.is_ascii_alphanumeric())
            && below.ends_with(|c: char| c.is_ascii_alphanumeric()), "{below}");
        prop_assert_eq!(&below, &mapping.namespace(&one));
        prop_assert_eq!(mapping.to_string().parse::<Mapping>(), Ok(mapping.clone()));
        if one != other && !mapping.is_shared() {
            prop_assert_ne!(&below, &mapping.namespace(&other));
            // Not even if it is given the name that the other one got.
            if mapping.is_own() {
                prop_assert_ne!(&below, &mapping.namespace(&below));
            }
        }
    }

    /// The way back is by the label.
    #[test]
    fn the_namespace_upstairs_is_on_whatever_is_made_for_it(mapping in mapping(), namespace in namespace()) {
        let link = LinkView { namespaces: mapping, ..link("same") };
        let marks = link.marks(&namespace);
        prop_assert_eq!(&marks["tensile.io/upper-namespace"], namespace.as_str());
        prop_assert!(namespace.len() <= 63, "a label value");
        prop_assert!(link.may_enter(&namespace, &link.namespace_labels(&namespace)));
    }

    /// In a namespace that all share, pods and Services of different namespaces, nodes and clusters have different names.
    #[test]
    fn names_in_a_shared_namespace_are_each_ones_own(
        one in (0..3_usize, 0..3_usize, namespace(), namespace()),
        other in (0..3_usize, 0..3_usize, namespace(), namespace()),
    ) {
        let names = |(upper, node, namespace, name): &(usize, usize, String, String)| {
            let link = LinkView {
                upper_cluster: format!("up-{upper}"), virtual_node: format!("node-{node}"), ..link("single:shared")
            };
            (link.lower_pod(namespace, name).into_owned(), link.lower_service(namespace, name).into_owned())
        };
        let (pod, service) = names(&one);
        prop_assert!(pod.len() <= 253 && service.len() <= 63);
        prop_assert_eq!((&pod, &service), (&names(&one).0, &names(&one).1));
        if one != other {
            prop_assert_ne!(pod, names(&other).0);
            prop_assert_ne!(service, names(&other).1);
        }
    }
}
