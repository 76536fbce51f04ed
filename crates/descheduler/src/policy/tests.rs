// SPDX-License-Identifier: Apache-2.0
//! Policies as the field writes them, and the errors of those that cannot be used.

use serde_json::json;
use tensile_core::deschedule::Taints;
use tensile_testkit::fuzz::{Numbers, cases, damage_bytes, damage_json};

use super::*;

const HEAD: &str = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n";

fn parsed(text: &str) -> Result<PolicyFile, String> {
    parse("policy.yaml", &format!("{HEAD}{text}")).map_err(|error| error.to_string())
}

#[test]
fn a_policy_of_the_fields_descheduler_is_understood() {
    let text = r#"
nodeSelector: "tier=gold"
maxNoOfPodsToEvictPerNode: 10
maxNoOfPodsToEvictPerNamespace: 20
maxNoOfPodsToEvictTotal: 30
profiles:
- name: stuck
  pluginConfig:
  - name: DefaultEvictor
    args:
      evictLocalStoragePods: true
      minPodAge: 1m
      recreateBarePods: true
      priorityThreshold: {value: 1000}
      podProtections: {defaultDisabled: ["PodsWithPVC"]}
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 86400, states: ["Pending", "ImagePullBackOff"], namespaces: {exclude: ["kube-system"]}}
  - name: RemovePodsHavingTooManyRestarts
    args: {podRestartThreshold: 100, includingInitContainers: true}
  plugins:
    filter: {enabled: ["DefaultEvictor"]}
    deschedule:
      enabled: ["RemovePodsUnschedulableBelow", "PodLifeTime", "RemovePodsHavingTooManyRestarts"]
- name: failed
  pluginConfig:
  - name: RemoveFailedPods
    args: {reasons: ["OutOfcpu"], excludeOwnerKinds: ["Job"], minPodLifetimeSeconds: 3600}
  plugins: {deschedule: {enabled: ["RemoveFailedPods"]}}
"#;
    let read = parsed(text).unwrap();
    let limits = &read.limits;
    assert_eq!((limits.per_node, limits.per_namespace, limits.total), (Some(10), Some(20), Some(30)));
    let protections = Protections {
        priority: 1000,
        claims: false,
        local_storage: false,
        min_age: Duration::from_secs(60),
        recreate: true,
    };
    assert_eq!(read.policy.protections, protections);
    assert_eq!(read.policy.nodes, [("tier".to_owned(), "gold".to_owned())]);
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let found: Vec<_> = read.policy.strategies.iter().map(|s| (s.profile.as_str(), s.plugin.clone())).collect();
    assert_eq!(
        found,
        [
            ("stuck", Plugin::UnschedulableBelow { after: Duration::from_secs(10) }),
            (
                "stuck",
                Plugin::LifeTime { max: Duration::from_secs(86_400), states: owned(&["Pending", "ImagePullBackOff"]) }
            ),
            ("stuck", Plugin::TooManyRestarts { threshold: 100, init: true, states: vec![] }),
            (
                "failed",
                Plugin::Failed {
                    min_life: Duration::from_secs(3600),
                    reasons: owned(&["OutOfcpu"]),
                    not_owned_by: owned(&["Job"])
                }
            ),
        ]
    );
    assert_eq!(read.policy.strategies[1].namespaces.exclude, ["kube-system"]);
    assert!(read.warnings.is_empty());
}

#[test]
fn a_policy_of_the_field_that_balances_is_understood() {
    let text = r#"
profiles:
- name: balance
  pluginConfig:
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 20, "example.com/gpu": 5}, targetThresholds: {cpu: 50, "example.com/gpu": 70}, numberOfNodes: 1}
  - name: HighNodeUtilization
    args: {thresholds: {memory: 30}, evictableNamespaces: {exclude: ["kube-system"]}}
  - name: RemovePodsViolatingNodeTaints
    args: {includedTaints: ["node.kubernetes.io/unschedulable"], surge: true}
  plugins:
    deschedule: {enabled: ["RemovePodsViolatingNodeTaints"]}
    balance: {enabled: ["LowNodeUtilization", "HighNodeUtilization"]}
"#;
    let strategies = parsed(text).unwrap().policy.strategies;
    let levels = |all: &[(&str, u32)]| all.iter().map(|(name, percent)| ((*name).into(), *percent)).collect();
    let gpu = "example.com/gpu";
    let included = vec!["node.kubernetes.io/unschedulable".to_owned()];
    let expected = [
        Plugin::NodeTaints { taints: Taints { included, ..Taints::default() }, surge: true },
        Plugin::LowNodeUtilization {
            low: levels(&[("cpu", 20), (gpu, 5)]),
            high: levels(&[("cpu", 50), (gpu, 70)]),
            deviation: false,
            nodes: 1,
        },
        Plugin::HighNodeUtilization { low: levels(&[("memory", 30)]), nodes: 0 },
    ];
    assert_eq!(strategies.iter().map(|one| one.plugin.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(strategies[2].namespaces.exclude, ["kube-system"]);
}

#[test]
fn what_is_not_known_is_refused_by_name_and_line() {
    let enabled =
        |name: &str| format!("profiles:\n- name: p\n  plugins:\n    deschedule:\n      enabled:\n      - {name}\n");
    let args =
        |name: &str, args: &str| format!("profiles:\n- name: p\n  pluginConfig:\n  - name: {name}\n    args: {args}\n");
    for (text, words) in [
        (
            enabled("RemoveDuplicates"),
            "policy.yaml:8: plugin \"RemoveDuplicates\" is not known; those that are: Remove",
        ),
        (enabled("PodLifeTime"), "policy.yaml:8: args of PodLifeTime: maxPodLifeTimeSeconds is missing"),
        (
            args("PodLifeTime", "{maxPodLifetimeSeconds: 3}"),
            "policy.yaml:6: args of PodLifeTime: unknown field `maxPodLifetimeSeconds`",
        ),
        (
            args("RemoveFailedPods", "{namespaces: {include: [a], exclude: [b]}}"),
            "policy.yaml:6: args of RemoveFailedPods: namespaces",
        ),
        (args("RemovePodsHavingTooManyRestarts", "{podRestartThreshold: 0}"), "podRestartThreshold is missing or 0"),
        (
            args("DefaultEvictor", "{minReplicas: 2}"),
            "policy.yaml:6: args of DefaultEvictor: unknown field `minReplicas`",
        ),
        (args("DefaultEvictor", "{minPodAge: soon}"), "policy.yaml:6: args of DefaultEvictor: minPodAge"),
        (
            args("DefaultEvictor", "{podProtections: {extraEnabled: [PodsWithoutPDB]}}"),
            "\"PodsWithoutPDB\" is not known",
        ),
        ("profiles: []\nbalance: 1\n".to_owned(), "unknown field"),
        (
            "profiles:\n- name: p\n  plugins:\n    balance: {enabled: [X]}\n".to_owned(),
            "policy.yaml:6: plugin \"X\" is not known",
        ),
        ("profiles:\n- name: p\n  plugins:\n    sort: {enabled: [X]}\n".to_owned(), "unknown field"),
        (
            "profiles:\n- name: p\n  plugins:\n    balance: {enabled: [RemoveFailedPods]}\n".to_owned(),
            "policy.yaml:6: plugin \"RemoveFailedPods\" is enabled under deschedule",
        ),
        (
            args("LowNodeUtilization", "{thresholds: {cpu: 20}}"),
            "policy.yaml:6: args of LowNodeUtilization: targetThresholds is missing",
        ),
        (
            args("LowNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {memory: 50}}"),
            "not about the same resources",
        ),
        (
            args("LowNodeUtilization", "{thresholds: {cpu: 60}, targetThresholds: {cpu: 50}}"),
            "thresholds of cpu is above its targetThresholds",
        ),
        (args("HighNodeUtilization", "{thresholds: {cpu: 101}}"), "101 percent of cpu is more than all"),
        (args("HighNodeUtilization", "{targetThresholds: {cpu: 20}}"), "unknown field `targetThresholds`"),
        (
            args("RemovePodsViolatingNodeTaints", "{includedTaints: [a], excludedTaints: [b]}"),
            "includedTaints and excludedTaints contradict each other",
        ),
        ("profiles: 3\n".to_owned(), "policy.yaml is not valid"),
    ] {
        let error = parsed(&text).unwrap_err();
        assert!(error.contains(words), "{error}\n does not say\n{words}");
    }
}

#[test]
fn another_version_or_kind_is_refused_with_its_line() {
    for (text, words) in [
        (
            "kind: DeschedulerPolicy\napiVersion: descheduler/v1alpha1\nprofiles: []\n",
            "p:2: apiVersion \"descheduler/v1alpha1\"",
        ),
        ("apiVersion: descheduler/v1alpha2\nkind: X\nprofiles: []\n", "p:2: kind \"X\""),
        ("", "p is not valid"),
    ] {
        let error = parse("p", text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn limits_that_contradict_each_other_are_refused_by_name_and_line() {
    let text = "maxNoOfPodsToEvictTotal: 5\nmaxNoOfPodsToEvictPerNode: 6\nprofiles: []\n";
    let error = parsed(text).unwrap_err();
    assert_eq!(
        error,
        "policy.yaml:4: maxNoOfPodsToEvictPerNode 6 contradicts maxNoOfPodsToEvictTotal 5, which is less"
    );
    let text = "maxNoOfPodsToEvictPerNamespace: 6\nmaxNoOfPodsToEvictTotal: 5\nprofiles: []\n";
    assert!(parsed(text).unwrap_err().starts_with("policy.yaml:3: maxNoOfPodsToEvictPerNamespace 6"));
    assert!(parsed("maxNoOfPodsToEvictPerNode: 5\nmaxNoOfPodsToEvictTotal: 5\nprofiles: []\n").is_ok());
}

#[test]
fn fuzz_of_damaged_policies() {
    let whole = json!({
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "nodeSelector": "tier=gold",
        "maxNoOfPodsToEvictPerNode": 1, "maxNoOfPodsToEvictTotal": 3,
        "profiles": [{"name": "p", "pluginConfig": [
            {"name": "DefaultEvictor", "args": {"minPodAge": "1m", "recreateBarePods": true, "priorityThreshold": {"value": 9},
                "podProtections": {"defaultDisabled": ["PodsWithPVC"]}}},
            {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 5, "states": ["Pending"], "namespaces": {"include": ["a"]}}},
            {"name": "RemoveFailedPods", "args": {"reasons": ["x"], "excludeOwnerKinds": ["Job"]}},
        ], "plugins": {"filter": {"enabled": ["DefaultEvictor"]}, "deschedule": {"enabled": ["PodLifeTime", "RemoveFailedPods"]}}}],
    });
    let words = [
        "args",
        "enabled",
        "disabled",
        "profiles",
        "plugins",
        "PodLifeTime",
        "DefaultEvictor",
        "minPodAge",
        "1h",
        "!!int",
        "&a",
    ];
    let (mut taken, all) = (0, cases(5_000));
    for seed in 0..all {
        let mut numbers = Numbers::new(seed);
        let mut policy = whole.clone();
        damage_json(&mut policy, &mut numbers, &words);
        let mut bytes = policy.to_string().into_bytes();
        if numbers.one_in(2) {
            damage_bytes(&mut bytes, &mut numbers);
        }
        let text = String::from_utf8_lossy(&bytes);
        match parse("policy.yaml", &text) {
            Ok(read) => {
                taken += 1;
                let names = read.policy.strategies.iter().map(|strategy| strategy.plugin.name());
                names.for_each(|name| assert!(text.contains(name), "{name} comes from nowhere"));
            }
            Err(error) => assert!(error.to_string().contains("policy.yaml"), "{error}"),
        }
    }
    assert!(taken > 0 && taken < all, "{taken}");
}

#[test]
fn a_policy_without_plugins_is_worth_a_warning() {
    assert_eq!(parsed("profiles: []\n").unwrap().warnings, ["policy.yaml enables no plugin: nothing is moved"]);
}
