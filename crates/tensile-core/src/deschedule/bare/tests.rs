// SPDX-License-Identifier: Apache-2.0
//! Moves with kills, other hands and changes in between, in a small model of an API server; and the codecs.

use proptest::prelude::*;
use serde_json::{Value, json};
use tensile_testkit::fuzz::{Numbers, cases, damage_bytes, damage_json};

use super::*;

const OLD: &str = "u-1";

fn journal(state: State) -> Journal {
    let manifest = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "solo", "namespace": "n", "annotations": {"note": "kept"}}, "spec": {"containers": []}});
    Journal { namespace: "n".into(), name: "solo".into(), uid: OLD.into(), state, manifest }
}

/// What an API server, a kubelet and a user make of the steps. The user may delete and change the pod.
#[derive(Debug, Clone, Default)]
struct Model {
    pod: Option<Value>,
    journal: Option<Journal>,
    version: u64,
    made: usize,
    /// A pod that nobody but we deleted is there in the end.
    withdrawn: bool,
    /// Uid of the pod whose containers may run below.
    below: Option<String>,
}

impl Model {
    fn begun() -> Self {
        let mut model = Self { journal: Some(journal(State::Prepared)), ..Self::default() };
        model.make(json!({}));
        model
    }

    #[allow(clippy::needless_pass_by_value, reason = "made for the call")]
    fn make(&mut self, more: Value) {
        assert!(self.pod.is_none(), "two of one name");
        assert!(self.below.is_none(), "the old one still runs below");
        self.made += 1;
        let uid = format!("u-{}", self.made);
        let mut pod = json!({"metadata": {"name": "solo", "namespace": "n", "uid": uid, "resourceVersion": "0",
            "creationTimestamp": "2026-01-02T15:04:05Z"}, "spec": {"nodeName": "east"}, "status": {"phase": "Pending"}});
        for (name, value) in more.as_object().unwrap() {
            pod["metadata"][name] = value.clone();
        }
        self.below = Some(uid);
        self.pod = Some(pod);
        self.touch();
    }

    fn touch(&mut self) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(pod) = &mut self.pod {
            pod["metadata"]["resourceVersion"] = version.into();
        }
    }

    /// The API server removes what is deleted, has ended and is not held.
    fn collect(&mut self) {
        let done = self.pod.as_ref().is_some_and(|pod| {
            let held = pod["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
            Pod::read(pod).unwrap().ended && !held
        });
        if done {
            self.pod = None;
        }
    }

    fn delete(&mut self, evicted: bool) {
        let Some(pod) = &mut self.pod else { return };
        if pod["metadata"]["deletionTimestamp"].is_null() {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T15:04:06Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
            if evicted {
                pod["status"]["conditions"] =
                    json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
            }
            self.touch();
        }
    }

    /// The kubelet says that all has ended.
    fn end(&mut self) {
        let Some(pod) = self.pod.as_mut().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) else { return };
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        pod["status"]["phase"] = json!("Failed");
        self.below = None;
        self.touch();
        self.collect();
    }

    fn keep(&mut self, kept: bool) {
        if let Some(pod) = &mut self.pod {
            pod["metadata"]["finalizers"] = if kept { json!(["tensile.io/move"]) } else { json!([]) };
        }
        self.touch();
        self.collect();
    }

    fn look(&self) -> Step {
        let pod = self.pod.as_ref().map(|pod| Pod::read(pod).unwrap());
        match &self.journal {
            Some(journal) => step(journal, pod.as_ref().map(|pod| Sight { pod, same: true })),
            None if pod.is_some_and(|pod| pod.kept) => Step::Release,
            None => Step::Wait,
        }
    }

    /// Performs a step that was decided when the model was as `seen`: preconditions hold it to that.
    fn perform(&mut self, step: &Step, seen: &Self) {
        let same_pod = self.version == seen.version;
        let set = |state| Some(journal(state));
        match step {
            Step::Keep | Step::Release if same_pod => self.keep(*step == Step::Keep),
            Step::Evict if same_pod => self.delete(true),
            Step::Commit if self.journal == seen.journal => {
                let version = seen.pod.as_ref().unwrap()["metadata"]["resourceVersion"].as_str().unwrap().into();
                self.journal = set(State::Deleting { version });
            }
            Step::Reconsider if self.journal == seen.journal => self.journal = set(State::Prepared),
            Step::Create if self.pod.is_none() => {
                self.make(json!({"annotations": {"tensile.io/origin-uid": OLD}, "finalizers": ["tensile.io/move"]}));
            }
            Step::Close(_) if self.journal == seen.journal => self.journal = None,
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Happens {
    /// The descheduler does its next step.
    Step,
    /// It does what it decided before this, as after a long pause.
    LateStep,
    /// The pod's status changes.
    Status,
    /// The kubelet has ended what was deleted.
    Ends,
    /// Its owner deletes it.
    Deleted,
}

fn lives() -> impl proptest::strategy::Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        6 => Just(Happens::Step),
        2 => Just(Happens::LateStep),
        2 => Just(Happens::Status),
        3 => Just(Happens::Ends),
        1 => Just(Happens::Deleted),
    ];
    prop::collection::vec(one, 0..40)
}

fn live(happens: &[Happens], deletions: bool) -> Model {
    let mut model = Model::begun();
    let mut late: Option<(Step, Model)> = None;
    for what in happens {
        match what {
            Happens::Step => {
                let seen = model.clone();
                let step = seen.look();
                model.perform(&step, &seen);
                late = Some((step, seen));
            }
            Happens::LateStep => {
                if let Some((step, seen)) = late.take() {
                    model.perform(&step, &seen);
                }
            }
            Happens::Status => model.touch(),
            Happens::Ends => model.end(),
            Happens::Deleted if deletions => {
                let ours = model.pod.as_ref().is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
                model.withdrawn |= !ours && model.pod.is_some();
                model.delete(false);
            }
            Happens::Deleted => {}
        }
    }
    // Then peace, for as long as it takes.
    for _ in 0..40 {
        let seen = model.clone();
        model.perform(&seen.look(), &seen);
        model.end();
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_late_or_lost_the_pod_is_there_once_in_the_end(happens in lives()) {
        let model = live(&happens, false);
        let pod = model.pod.as_ref().expect("it is lost");
        prop_assert_eq!(&pod["metadata"]["finalizers"], &json!([]));
        prop_assert_eq!(pod["metadata"]["uid"].as_str(), Some("u-2"));
        prop_assert!(model.journal.is_none() && model.made == 2);
    }

    #[test]
    fn a_pod_that_its_owner_deletes_before_we_do_or_afterwards_does_not_come_again(happens in lives()) {
        let model = live(&happens, true);
        prop_assert_eq!(model.pod.is_none(), model.withdrawn, "{:?}", model.pod);
        prop_assert!(model.journal.is_none());
    }
}

#[test]
fn a_journal_is_written_as_it_was_read() {
    for state in [State::Prepared, State::Deleting { version: "7".into() }] {
        let journal = journal(state);
        assert_eq!(Journal::decode(&journal.encode()), Ok(journal));
    }
}

#[test]
fn a_journal_that_is_damaged_newer_or_about_another_pod_is_refused_by_name() {
    let good: Value = serde_json::from_str(&journal(State::Prepared).encode()).unwrap();
    for (pointer, value, words) in [
        ("/version", json!(2), "it is of version 2, this build knows up to 1"),
        ("/version", json!("1"), "version must be a positive number"),
        ("/uid", json!(""), "uid must be a text"),
        ("/state", json!("Done"), "state must be Prepared or Deleting"),
        ("/state", json!("Deleting"), "podVersion must be a text"),
        ("/manifest", json!([]), "manifest must be an object"),
        ("/manifest/metadata/name", json!("other"), "manifest.metadata must be of the pod that the journal names"),
        ("/manifest/metadata/annotations", json!("x"), "manifest.metadata.annotations must be an object"),
        ("/manifest/spec", json!(1), "manifest.spec must be an object"),
    ] {
        let mut damaged = good.clone();
        *damaged.pointer_mut(pointer).unwrap() = value;
        assert_eq!(Journal::decode(&damaged.to_string()).unwrap_err().to_string(), words);
    }
    assert!(matches!(Journal::decode("{"), Err(JournalError::NotJson(_))));
}

/// A pod as an API server shows it, after it was split and kept off `east`.
fn stored() -> Value {
    let not_east = json!({"key": "metadata.name", "operator": "NotIn", "values": ["east"]});
    let merged = json!({"matchLabels": {"app": "solo"}, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["2"]}]});
    json!({
        "metadata": {
            "name": "solo", "namespace": "n", "uid": "u-9", "resourceVersion": "12", "generation": 3, "managedFields": [{}],
            "creationTimestamp": "2026-01-02T15:04:05Z", "deletionTimestamp": "2026-01-02T15:05:05Z",
            "labels": {"app": "solo", "rev": "2"}, "finalizers": ["tensile.io/move", "example.org/own"],
            "annotations": {
                "note": "kept", "tensile.io/origin-uid": "u-8", "tensile.io/kept-off": "[\"east\"]",
                "clusterSelector": json!({"requiredTerms": [
                    {"matchExpressions": [{"key": "clusterID", "operator": "Exists"}], "matchFields": [not_east]}]}).to_string(),
            },
        },
        "spec": {
            "nodeName": "west", "ephemeralContainers": [{}], "hostname": "solo", "later": {"unknown": 1},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "clusterID", "operator": "Exists"}], "matchFields": [not_east]}]}},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": merged, "matchLabelKeys": ["rev"]}]},
            },
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "labelSelector": merged, "matchLabelKeys": ["rev", "absent"]},
                {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "solo"}}, "matchLabelKeys": ["rev"]},
            ],
        },
        "status": {"phase": "Pending"},
    })
}

#[test]
fn what_is_made_again_is_what_its_author_wrote() {
    let made = sanitized(&stored(), &[]);
    let expression = json!({"matchExpressions": [{"key": "clusterID", "operator": "Exists"}]});
    assert_eq!(made["metadata"]["finalizers"], json!(["example.org/own"]));
    let annotations = made["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["clusterSelector", "note"]);
    let stash: Value = serde_json::from_str(annotations["clusterSelector"].as_str().unwrap()).unwrap();
    assert_eq!(stash["requiredTerms"], json!([expression]));
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    assert_eq!(made.pointer(terms), Some(&json!([expression])));
    let term = &made["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert!(term["matchLabelKeys"].is_null() && term["labelSelector"]["matchExpressions"].is_array());
    let spread = &made["spec"]["topologySpreadConstraints"];
    assert!(spread[0]["matchLabelKeys"].is_null());
    assert_eq!(spread[1]["matchLabelKeys"], json!(["rev"]), "an older API server has not merged it");
    assert_eq!(made["spec"]["later"], json!({"unknown": 1}));
    for gone in ["/spec/nodeName", "/spec/ephemeralContainers", "/status", "/metadata/uid", "/metadata/resourceVersion"]
    {
        assert_eq!(made.pointer(gone), None, "{gone}");
    }
}

#[test]
fn a_successor_is_kept_off_nodes_and_becomes_what_its_origin_was_again() {
    let made = sanitized(&stored(), &[]);
    let mut next = placed(&made, "u-9", &["west"]).unwrap();
    assert_eq!(next["metadata"]["annotations"]["tensile.io/origin-uid"], "u-9");
    assert_eq!(next["metadata"]["finalizers"], json!(["example.org/own", "tensile.io/move"]));
    assert!(next["spec"]["affinity"].to_string().contains("west"));
    next["spec"]["nodeName"] = json!("east");
    assert_eq!(sanitized(&next, &[]), made);
    let plain = json!({"metadata": {"name": "a"}, "spec": {}});
    let kept = placed(&sanitized(&plain, &[]), "u", &["west"]).unwrap();
    assert_eq!(sanitized(&kept, &[]), sanitized(&plain, &[]));
    assert_eq!(checked(kept)["metadata"]["name"], Value::Null);
}

#[test]
fn an_annotation_that_was_tampered_with_takes_no_constraint_away() {
    // Of east it says that its author wrote it now; before, that we did.
    let kept = |pod: &Value| sanitized(pod, &[]).to_string().contains("east");
    assert!(!kept(&stored()));
    for text in ["", "{", "3", "[1]", "\"east\"", "[\"west\"]", "{\"east\":1}"] {
        let mut pod = stored();
        pod["metadata"]["annotations"]["tensile.io/kept-off"] = json!(text);
        assert!(kept(&pod), "{text}");
        let made = sanitized(&pod, &[]);
        assert!(made["metadata"]["annotations"]["tensile.io/kept-off"].is_null(), "{text}");
    }
}

#[test]
fn fuzz_of_damaged_pods_and_journals() {
    let words = [
        "metadata",
        "spec",
        "annotations",
        "finalizers",
        "affinity",
        "tensile.io/kept-off",
        "[\"east\"]",
        "matchFields",
        "matchLabelKeys",
        "labelSelector",
        "state",
        "Deleting",
        "manifest",
        "version",
        "tensile.io/move",
    ];
    for seed in 0..cases(5_000) {
        let mut numbers = Numbers::new(seed);
        let mut pod = stored();
        damage_json(&mut pod, &mut numbers, &words);
        if pod["metadata"].is_object() && pod["spec"].is_object() {
            let made = sanitized(&pod, &["west"]);
            let journal = Journal { manifest: made, ..journal(State::Prepared) };
            let mut text = journal.encode();
            if numbers.one_in(2) {
                let mut bytes = text.into_bytes();
                damage_bytes(&mut bytes, &mut numbers);
                text = String::from_utf8_lossy(&bytes).into_owned();
            }
            if let Ok(journal) = Journal::decode(&text) {
                assert_eq!(Journal::decode(&journal.encode()).as_ref(), Ok(&journal));
                // A manifest that was let in can be placed, or says why not.
                if let Ok(next) = placed(&journal.manifest, "u", &["east"]) {
                    assert_eq!(next["metadata"]["name"], "solo");
                }
            }
        }
    }
}
