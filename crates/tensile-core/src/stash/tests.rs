// SPDX-License-Identifier: Apache-2.0
//! The codec: its bytes, its errors, what survives.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Annotations as tensile-kube writes them: `json.Marshal` of its `ClustersNodeSelection`.
const OF_TENSILE_KUBE: &[&str] = &[
    "{}",
    r#"{"nodeSelector":{"disk":"ssd","zone":"z1"}}"#,
    r#"{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}"#,
    r#"{"nodeSelector":{"gpu":"a100"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"cores","operator":"Gt","values":["16"]},{"key":"spot","operator":"DoesNotExist"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}}},"tolerations":[{"key":"team","operator":"Equal","value":"ml","effect":"NoSchedule"},{"operator":"Exists"}]}"#,
    // Its older versions stashed the whole affinity.
    r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":5,"preference":{"matchExpressions":[{"key":"c","operator":"Exists"}]}}]},"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"cache"},"matchExpressions":[{"key":"tier","operator":"NotIn","values":["x","y"]}]},"namespaces":["one"],"topologyKey":"kubernetes.io/hostname","namespaceSelector":{}}]},"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"podAffinityTerm":{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"zone"}}]}}}"#,
];

#[test]
fn what_tensile_kube_wrote_is_written_again_byte_for_byte() {
    for text in OF_TENSILE_KUBE {
        assert_eq!(Stash::decode(text).unwrap().encode(), *text);
    }
}

#[test]
fn members_are_written_in_gos_order_whatever_order_they_were_read_in() {
    let text = r#"{"tolerations":[{"effect":"NoSchedule","value":"v","key":"k","tolerationSeconds":1,"operator":"Equal"}],
        "affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{},"weight":1}]}},
        "nodeSelector":{"b":"2","a":"1"}}"#;
    let encoded = concat!(
        r#"{"nodeSelector":{"a":"1","b":"2"},"#,
        r#""affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}}]}},"#,
        r#""tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule","tolerationSeconds":1}]}"#,
    );
    assert_eq!(Stash::decode(text).unwrap().encode(), encoded);
}

#[test]
fn members_that_are_empty_or_null_are_omitted() {
    let text = r#"{"nodeSelector":{},"affinity":null,"tolerations":[],"requiredTerms":null}"#;
    assert_eq!(Stash::decode(text), Ok(Stash::default()));
    assert_eq!(Stash::default().encode(), "{}");
}

#[test]
fn a_selector_that_selects_everything_is_not_omitted() {
    let text = r#"{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{},"topologyKey":"zone","namespaceSelector":{}}]}}}"#;
    assert_eq!(Stash::decode(text).unwrap().encode(), text);
}

#[test]
fn text_is_escaped_as_go_escapes_it() {
    let stash = Stash { node_selector: [("k".to_owned(), "a<b>&\u{2028}\"\n".to_owned())].into(), ..Stash::default() };
    assert_eq!(stash.encode(), r#"{"nodeSelector":{"k":"a\u003cb\u003e\u0026\u2028\"\n"}}"#);
    assert_eq!(Stash::decode(&stash.encode()), Ok(stash));
}

#[test]
fn members_that_are_not_known_survive_at_every_level() {
    let text = concat!(
        r#"{"nodeSelector":{"a":"b"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":"#,
        r#"{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"],"later":true}],"#,
        r#""matchMore":{"x":[]}}]},"later":[1]},"later":""},"tolerations":[{"operator":"Exists","later":null}],"#,
        r#""futureMember":{"empty":{},"none":null}}"#,
    );
    let stash = Stash::decode(text).unwrap();
    assert_eq!(stash.other["futureMember"], json!({"empty": {}, "none": null}));
    assert_eq!(stash.encode(), text);
}

#[test]
fn a_malformed_annotation_says_what_is_wrong() {
    for (text, sentence) in [
        ("", "annotation clusterSelector is not JSON: EOF while parsing a value at line 1 column 0"),
        ("{} x", "annotation clusterSelector is not JSON: trailing characters at line 1 column 4"),
        ("null", "annotation clusterSelector: the value must be an object"),
        ("[]", "annotation clusterSelector: the value must be an object"),
        (r#"{"nodeSelector":["a"]}"#, "annotation clusterSelector: nodeSelector must be an object"),
        (r#"{"nodeSelector":{"a":1}}"#, "annotation clusterSelector: nodeSelector.a must be a string"),
        (r#"{"affinity":"x"}"#, "annotation clusterSelector: affinity must be an object"),
        (r#"{"tolerations":{}}"#, "annotation clusterSelector: tolerations must be a list"),
        (r#"{"tolerations":[{},3]}"#, "annotation clusterSelector: tolerations[1] must be an object"),
        (r#"{"requiredTerms":[[]]}"#, "annotation clusterSelector: requiredTerms[0] must be an object"),
    ] {
        assert_eq!(Stash::decode(text).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn a_pod_without_the_annotation_or_with_an_empty_one_has_no_stash() {
    for pod in [
        json!({}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"annotations": {"other": "{}"}}}),
        json!({"metadata": {"annotations": {"clusterSelector": ""}}}),
    ] {
        assert_eq!(Stash::of_pod(&pod), Ok(None));
    }
}

#[test]
fn a_pod_with_an_annotation_of_nothing_has_a_stash() {
    let pod = json!({"metadata": {"annotations": {"clusterSelector": "{}"}}});
    assert_eq!(Stash::of_pod(&pod), Ok(Some(Stash::default())));
}

#[test]
fn an_annotation_that_is_not_text_is_an_error() {
    let pod = json!({"metadata": {"annotations": {"clusterSelector": {"nodeSelector": {}}}}});
    assert!(matches!(Stash::of_pod(&pod), Err(StashError::Malformed(_))));
}

/// Text that is likely to get past the first checks: JSON in the stash's own words.
fn likely_text() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "nodeSelector",
        "affinity",
        "tolerations",
        "requiredTerms",
        "preferredTerms",
        "nodeAffinity",
        "key",
        "x<y",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "matchExpressions",
        "weight",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    });
    value.prop_map(|value| value.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in prop_oneof![any::<String>(), likely_text()]) {
        if let Ok(stash) = Stash::decode(&text) {
            let encoded = stash.encode();
            let again = Stash::decode(&encoded);
            prop_assert!(again.is_ok(), "{text} became {encoded}");
            prop_assert_eq!(again.unwrap().encode(), encoded);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(stash) = Stash::decode(&text) {
            prop_assert!(Stash::decode(&stash.encode()).is_ok());
        }
    }
}
