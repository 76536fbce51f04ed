// SPDX-License-Identifier: Apache-2.0
//! Who a pod is below, and what of its own cluster it finds there.

use serde_json::{Value, json};

use super::{link, set, upper, upper_with};
use crate::{
    identity::{ApiServer, Token},
    pod::{ClusterDns, LinkView, LowerPod, lower_pod},
    sync::Kind,
};

fn keeping() -> LinkView {
    LinkView { identity: Some(ApiServer { host: "api.example.org".to_owned(), port: 6443 }), ..link() }
}

fn down(upper: &Value) -> LowerPod {
    lower_pod(upper, &keeping(), 7).unwrap()
}

/// As admission adds it (Kubernetes `plugin/pkg/admission/serviceaccount`).
fn api_access() -> Value {
    json!({"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

#[test]
fn the_token_volume_stays_and_its_token_comes_from_a_secret_of_the_pods_own() {
    let mount =
        json!([{"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let mut pod = upper_with("/spec/volumes", json!([api_access()]));
    set(&mut pod, "/spec/containers/0/volumeMounts", mount.clone());
    let lower = down(&pod);

    let tokens = lower.tokens.unwrap();
    assert_eq!(
        (tokens.account.as_str(), tokens.tokens.as_slice()),
        ("robot", &[Token { audience: String::new(), seconds: 3607 }][..])
    );
    assert!(tokens.secret.starts_with("web-0-tokens-"), "{}", tokens.secret);
    let mut expected = api_access();
    expected["projected"]["sources"][0] =
        json!({"secret": {"name": tokens.secret, "items": [{"key": "token-0", "path": "token"}]}});
    assert_eq!(lower.pod["spec"]["volumes"], json!([expected]));
    assert_eq!(lower.pod["spec"]["containers"][0]["volumeMounts"], mount);
    assert_eq!(lower.pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(lower.pod["spec"].get("serviceAccountName"), None);
    // The CA is copied under a name of its own; the Secret is none that the upper cluster has.
    assert_eq!(lower.references.iter().collect::<Vec<_>>(), [(Kind::ConfigMap, "kube-root-ca.crt", false)]);
    assert_eq!(
        lower.pod["metadata"]["annotations"]["tensile.io/tokens"],
        format!(r#"{{"account":"robot","secret":"{}","tokens":[{{"seconds":3607}}]}}"#, tokens.secret)
    );
    assert!(lower.dropped.is_empty(), "{:?}", lower.dropped);
}

#[test]
fn each_token_is_asked_for_once_and_goes_to_every_path_that_wants_it() {
    let token = |audience: &str, seconds: u64, path: &str| json!({"serviceAccountToken": {"audience": audience, "expirationSeconds": seconds, "path": path}});
    let pod = upper_with(
        "/spec/volumes",
        json!([
            {"name": "a", "projected": {"defaultMode": 256, "sources": [token("vault", 600, "a"), token("", 3607, "b")]}},
            {"name": "b", "projected": {"sources": [token("vault", 600, "c"), token("vault", 7200, "d"), {"serviceAccountToken": {"path": "e"}}]}},
        ]),
    );
    let lower = down(&pod);
    let tokens = lower.tokens.unwrap();
    let wanted: Vec<(&str, u64)> = tokens.tokens.iter().map(|token| (token.audience.as_str(), token.seconds)).collect();
    assert_eq!(wanted, [("vault", 600), ("", 3607), ("vault", 7200), ("", 3600)]);
    let from = |volume: usize, source: usize| {
        let source = &lower.pod["spec"]["volumes"][volume]["projected"]["sources"][source]["secret"];
        assert_eq!(source["name"], tokens.secret.as_str());
        format!("{}={}", source["items"][0]["path"].as_str().unwrap(), source["items"][0]["key"].as_str().unwrap())
    };
    let found = [from(0, 0), from(0, 1), from(1, 0), from(1, 1), from(1, 2)];
    assert_eq!(found, ["a=token-0", "b=token-1", "c=token-0", "d=token-2", "e=token-3"]);
    assert_eq!(lower.pod["spec"]["volumes"][0]["projected"]["defaultMode"], 256);
}

#[test]
fn no_other_pod_has_the_same_secret() {
    let pod = upper_with("/spec/volumes", json!([api_access()]));
    let name = |pod: &Value, link: &LinkView| lower_pod(pod, link, 7).unwrap().tokens.unwrap().secret;
    let first = name(&pod, &keeping());
    assert_eq!(first, name(&pod, &keeping()));
    let mut next = pod.clone();
    set(&mut next, "/metadata/uid", json!("the-next-pod-of-the-name"));
    let elsewhere = LinkView { virtual_node: "east-2".to_owned(), ..keeping() };
    assert!(first != name(&next, &keeping()) && first != name(&pod, &elsewhere));
}

#[test]
fn nothing_is_done_for_a_pod_without_tokens_or_if_service_accounts_stay_up() {
    assert_eq!(down(&upper()).tokens, None);
    assert_eq!(down(&upper()).pod["metadata"]["annotations"].get("tensile.io/tokens"), None);
    let forged = upper_with("/metadata/annotations/tensile.io~1tokens", json!("{}"));
    assert_eq!(down(&forged).pod["metadata"]["annotations"].get("tensile.io/tokens"), None);
    let lower = lower_pod(&upper_with("/spec/volumes", json!([api_access()])), &link(), 7).unwrap();
    assert_eq!((lower.tokens, lower.pod["spec"].get("volumes")), (None, None));
}

#[test]
fn every_container_finds_the_upper_api_server_unless_it_says_where_it_is() {
    let found = |name: &str, value: &str| json!({"name": name, "value": value});
    let all = [
        found("KUBERNETES_SERVICE_HOST", "api.example.org"),
        found("KUBERNETES_SERVICE_PORT", "6443"),
        found("KUBERNETES_SERVICE_PORT_HTTPS", "6443"),
    ];
    let own = json!([{"name": "A", "value": "$(KUBERNETES_SERVICE_HOST)"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "1"}]);
    let mut pod = upper_with("/spec/containers/0/env", own.clone());
    set(
        &mut pod,
        "/spec/initContainers",
        json!([{"name": "init", "image": "i"}, {"name": "null", "image": "i", "env": null}]),
    );
    let lower = down(&pod).pod;
    assert_eq!(lower["spec"]["initContainers"][0]["env"], json!(all));
    assert_eq!(lower["spec"]["initContainers"][1]["env"], json!(all));
    assert_eq!(lower["spec"]["containers"][0]["env"], json!([all[0], all[2], own[0], own[1]]));
    assert_eq!(super::down(&upper()).pod["spec"]["containers"][0].get("env"), None);
}

#[test]
fn labels_and_annotations_that_stay_up_are_known_to_variables_all_the_same() {
    let reference = |path: &str| json!({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut pod = upper_with("/metadata/labels/gang", json!("g$(1)"));
    set(&mut pod, "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", json!("{}"));
    for (path, value) in [
        ("metadata.labels['gang']", "g$$(1)"),
        ("metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']", "{}"),
        ("metadata.annotations['tensile.io/upper-uid']", ""),
    ] {
        set(&mut pod, "/spec/containers/0/env", json!([reference(path)]));
        assert_eq!(
            super::down(&pod).pod["spec"]["containers"][0]["env"],
            json!([{"name": "V", "value": value}]),
            "{path}"
        );
    }
    for path in ["metadata.labels['app']", "metadata.annotations['note']", "metadata.namespace"] {
        set(&mut pod, "/spec/containers/0/env", json!([reference(path)]));
        assert_eq!(super::down(&pod).pod["spec"]["containers"][0]["env"], json!([reference(path)]), "{path}");
    }
}

fn resolving(pod: &Value) -> Value {
    let dns = ClusterDns { servers: vec!["10.0.0.10".parse().unwrap()], domain: "up.local".to_owned() };
    lower_pod(pod, &LinkView { dns: Some(dns), ..link() }, 7).unwrap().pod["spec"].take()
}

#[test]
fn a_pod_that_asks_its_cluster_for_names_asks_the_upper_one() {
    let config = json!({
        "nameservers": ["10.0.0.10"], "searches": ["team.svc.up.local", "svc.up.local", "up.local"],
        "options": [{"name": "ndots", "value": "5"}],
    });
    for pod in [
        upper(),
        upper_with("/spec/dnsPolicy", json!("ClusterFirst")),
        upper_with("/spec/dnsPolicy", json!("ClusterFirstWithHostNet")),
    ] {
        let spec = resolving(&pod);
        assert_eq!((&spec["dnsPolicy"], &spec["dnsConfig"]), (&json!("None"), &config));
    }
    let mut pod = upper_with("/spec/dnsPolicy", json!("ClusterFirst"));
    set(
        &mut pod,
        "/spec/dnsConfig",
        json!({
            "nameservers": ["10.0.0.10", "1.1.1.1", "1.0.0.1", "9.9.9.9"], "searches": ["example.org", "up.local"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        }),
    );
    assert_eq!(
        resolving(&pod)["dnsConfig"],
        json!({
            "nameservers": ["10.0.0.10", "1.1.1.1", "1.0.0.1"],
            "searches": ["team.svc.up.local", "svc.up.local", "up.local", "example.org"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        })
    );
}

#[test]
fn a_pod_that_does_not_ask_its_cluster_for_names_is_left_alone() {
    for (policy, host_network) in [("Default", false), ("None", false), ("ClusterFirst", true)] {
        let mut pod = upper_with("/spec/dnsPolicy", json!(policy));
        set(&mut pod, "/spec/dnsConfig", json!({"nameservers": ["1.1.1.1"]}));
        set(&mut pod, "/spec/hostNetwork", json!(host_network));
        let dns = ClusterDns { servers: vec!["10.0.0.10".parse().unwrap()], domain: "up.local".to_owned() };
        let link = LinkView { dns: Some(dns), allow_host_namespaces: true, ..link() };
        let spec = lower_pod(&pod, &link, 7).unwrap().pod["spec"].take();
        assert_eq!((&spec["dnsPolicy"], &spec["dnsConfig"]), (&json!(policy), &json!({"nameservers": ["1.1.1.1"]})));
    }
    let spec = super::down(&upper_with("/spec/dnsPolicy", json!("ClusterFirst"))).pod["spec"].take();
    assert_eq!((&spec["dnsPolicy"], spec.get("dnsConfig")), (&json!("ClusterFirst"), None));
}

#[test]
fn what_the_api_would_refuse_as_too_long_is_cut_off_as_a_kubelet_does() {
    let many: Vec<String> = (0..40).map(|index| format!("{index:03}.{}", "d".repeat(100))).collect();
    let spec = resolving(&upper_with("/spec/dnsConfig", json!({"searches": many})));
    let searches: Vec<&str> =
        spec["dnsConfig"]["searches"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    assert!(searches.len() <= 32 && searches.join(" ").len() <= 2048 && searches.len() > 15, "{}", searches.len());
    assert_eq!(searches[0], "team.svc.up.local");
}

#[test]
fn a_file_with_all_labels_shows_those_of_the_upper_pod_and_follows_them() {
    let item = json!({"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}});
    let note = |lower: &Value| lower["metadata"]["annotations"].get("tensile.io/upper-labels").cloned();
    for volume in [
        json!({"name": "v", "downwardAPI": {"items": [item]}}),
        json!({"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}}),
    ] {
        let mut pod = upper_with("/spec/volumes", json!([volume]));
        set(&mut pod, "/metadata/labels", json!({"gang": "g", "app.kubernetes.io/name": "web", "app": "a"}));
        let lower = super::down(&pod).pod;
        let expected = "app=\"a\"\napp.kubernetes.io/name=\"web\"\ngang=\"g\"";
        assert_eq!(note(&lower), Some(json!(expected)));
        assert!(lower["spec"]["volumes"].to_string().contains("metadata.annotations['tensile.io/upper-labels']"));

        set(&mut pod, "/metadata/labels", json!({"app": "b"}));
        let patches = crate::pod::update(&pod, &lower, &link(), 8).unwrap().patches;
        let [crate::pod::LowerPatch::Pod(patch)] = patches.as_slice() else { panic!("{patches:?}") };
        assert_eq!(note(patch), Some(json!("app=\"b\"")));
    }
    assert_eq!(note(&super::down(&upper()).pod), None);
}
