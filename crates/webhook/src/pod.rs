// SPDX-License-Identifier: Apache-2.0
//! A pod, as far as admission looks at it. The rest of it, such as its containers, is passed over unread.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tensile_core::exclusion::Subject;
use tensile_core::names;

/// What an API server writes into a pod that names no scheduler.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What is read of a pod.
#[derive(Debug, Deserialize)]
pub struct Pod<'a> {
    /// Its `metadata`.
    #[serde(borrow, default, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    /// Its `spec`, which every pod has: a patch adds to it.
    #[serde(deserialize_with = "object")]
    pub spec: Spec,
}

/// What is read of a pod's `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    /// All labels.
    #[serde(borrow, default)]
    pub labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    /// All annotations, each unread.
    #[serde(borrow, default)]
    pub annotations: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<OwnerReference<'a>>>,
}

#[derive(Debug, Deserialize)]
struct OwnerReference<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: Option<bool>,
}

/// What is read of a pod's `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[serde(default)]
    node_selector: Option<Value>,
    #[serde(default)]
    affinity: Option<Value>,
    #[serde(default)]
    tolerations: Option<Value>,
    #[serde(default)]
    topology_spread_constraints: Option<Value>,
    #[serde(default)]
    host_network: Option<bool>,
    #[serde(default, rename = "hostPID")]
    host_pid: Option<bool>,
    #[serde(default, rename = "hostIPC")]
    host_ipc: Option<bool>,
    #[serde(default)]
    volumes: Option<Vec<Volume>>,
    #[serde(default)]
    node_name: Option<IgnoredAny>,
    #[serde(default)]
    scheduler_name: Option<Box<str>>,
    #[serde(default)]
    scheduling_gates: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    resource_claims: Option<Vec<IgnoredAny>>,
}

/// What virtual nodes were told to take, in flags that are the same there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Pods may use the network, process ids and IPC of lower nodes.
    pub host_namespaces: bool,
    /// Pods that mount a path of their node are refused.
    pub no_host_path: bool,
}

/// Something in a pod that cannot work on a virtual node, or not as its author may expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// A sentence for the author.
    pub text: String,
    /// A virtual node refuses the pod for it.
    pub refused: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    #[serde(default)]
    host_path: Option<IgnoredAny>,
    #[serde(default)]
    persistent_volume_claim: Option<Claim>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    #[serde(default)]
    claim_name: String,
}

/// Reads an object and nothing else: what is derived takes a list too, its items in the order of the fields, and a patch
/// by names would not apply to that.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(members))
        }
    }

    deserializer.deserialize_map(Object(PhantomData))
}

impl<'a> Pod<'a> {
    /// Reads a pod.
    pub fn read(text: &'a RawValue) -> serde_json::Result<Self> {
        object(&mut serde_json::Deserializer::from_str(text.get()))
    }
}

impl Pod<'_> {
    /// Whether it has this label with the value `true`.
    pub fn is_labelled(&self, label: &str) -> bool {
        self.metadata.labels.as_ref().is_some_and(|labels| labels.get(label).is_some_and(|value| value == names::TRUE))
    }

    /// Whose pod it is, to those who exclude an owner's pods from nodes.
    pub fn subjects<'s>(&'s self, namespace: &'s str) -> Vec<Subject<'s>> {
        let labels = self.metadata.labels.as_ref();
        let index = names::POD_INDEXES.iter().find_map(|label| labels?.get(*label));
        let owner = self.controller().map(|owner| owner.uid.as_ref());
        Subject::of_pod(owner, index.map(AsRef::as_ref), namespace, &self.metadata.name)
    }

    /// The claims it uses by name. None if its author chose a node already, or gates it: the two exclude each other.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        let gated = self.spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        let volumes = self.spec.volumes.iter().flatten();
        let volumes = volumes.filter(move |_| self.spec.node_name.is_none() && !gated);
        volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()).map(|claim| claim.claim_name.as_str())
    }

    /// Whether another scheduler may be put in the place of the one it has: its author chose none, nor a node. To name the
    /// default one is to choose none: an API server writes that name itself.
    pub fn takes_scheduler(&self, other: &str) -> bool {
        let named = self.spec.scheduler_name.as_deref().unwrap_or_default();
        self.spec.node_name.is_none() && named != other && ["", DEFAULT_SCHEDULER].contains(&named)
    }

    fn controller(&self) -> Option<&OwnerReference<'_>> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    /// Its placement fields and its stash as a pod of their own, which is what a split looks at.
    pub fn placement(&mut self) -> serde_json::Result<Value> {
        let spec = [
            ("nodeSelector", self.spec.node_selector.take()),
            ("affinity", self.spec.affinity.take()),
            ("tolerations", self.spec.tolerations.take()),
            ("topologySpreadConstraints", self.spec.topology_spread_constraints.take()),
        ];
        let spec: Map<String, Value> =
            spec.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect();
        let mut annotations = Map::new();
        let stash = self.metadata.annotations.as_ref().and_then(|all| all.get(names::CLUSTER_SELECTOR));
        if let Some(stash) = stash {
            annotations.insert(names::CLUSTER_SELECTOR.to_owned(), serde_json::from_str(stash.get())?);
        }
        Ok(json!({"metadata": {"annotations": annotations}, "spec": spec}))
    }

    /// What in it cannot work on virtual nodes that take this, or not as its author may expect.
    pub fn doubts(&self, taken: Taken) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        let mut doubt = |refused, text: String| doubts.push(Doubt { text, refused });
        if self.controller().is_some_and(|owner| owner.kind == "DaemonSet") {
            doubt(true, "pods of a DaemonSet do not run on virtual nodes".to_owned());
        }
        for (field, wanted) in
            [("hostNetwork", self.spec.host_network), ("hostPID", self.spec.host_pid), ("hostIPC", self.spec.host_ipc)]
        {
            if wanted == Some(true) && !taken.host_namespaces {
                doubt(true, format!("spec.{field}: virtual nodes refuse it"));
            }
        }
        if self.spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
            doubt(
                true,
                "spec.resourceClaims: virtual nodes refuse it, lower nodes cannot serve these claims".to_owned(),
            );
        }
        for Volume { name, .. } in self.spec.volumes.iter().flatten().filter(|volume| volume.host_path.is_some()) {
            let text = if taken.no_host_path {
                format!("volume {name:?}: virtual nodes refuse hostPath")
            } else {
                format!("volume {name:?}: hostPath is a path of whichever lower node the pod lands on")
            };
            doubt(taken.no_host_path, text);
        }
        doubts
    }
}
