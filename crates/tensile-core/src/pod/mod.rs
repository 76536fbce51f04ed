// SPDX-License-Identifier: Apache-2.0
//! The pod on its way down, and its status on the way up.
//!
//! Everything works on raw JSON, so that a field this build does not know is dropped *visibly* and never by accident:
//! each level of the API has a list of what goes down, and whatever no list names is returned to the caller.
//! `docs/src/reference/pod-fields.md` explains each decision to users.

mod claims;
mod container;
mod dns;
pub(crate) mod fields;
mod followed;
mod metadata;
mod references;
mod refuse;
mod reported;
mod spec;
mod status;
mod update;
mod upper;
mod volume;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::{
    fields::{Fields, object},
    followed::Followed,
    upper::Upper,
};
use crate::{
    identity::{self, ApiServer, Tokens},
    names, placement,
    tenant::Mapping,
};

pub use claims::{claims, ephemeral_claims, rename_claims};
pub use dns::ClusterDns;
pub use references::{Names, References, references, rename};
pub use refuse::Refusal;
pub use reported::Reported;
pub use status::{StatusView, upper_status};
pub use update::{LowerPatch, Update, update};

/// The members of a pod: its status is the upper cluster's own.
const POD: Fields = Fields { kept: &[], decided: &["apiVersion", "kind", "metadata", "spec", "status"] };

/// What translation must know of a link.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own, which the operator flips by itself")]
pub struct LinkView {
    /// UID of the upper cluster's `kube-system` namespace.
    pub upper_cluster: String,
    /// Name of the virtual node.
    pub virtual_node: String,
    /// How the namespaces of the upper cluster become those of the lower one.
    pub namespaces: Mapping,
    /// Labels of the virtual node: the upper half of a constraint is matched against them.
    pub node_labels: BTreeMap<String, String>,
    /// Node label keys that were decided upstairs.
    pub kept_keys: placement::KeptKeys,
    /// Labels that do not go down (`--ignore-labels`).
    pub ignored_labels: Vec<String>,
    /// Key of the virtual node's taint; tolerations of it do not go down. Empty when there is no taint.
    pub provider_taint_key: String,
    /// Pods may use the network, process ids and IPC of lower nodes.
    pub allow_host_namespaces: bool,
    /// Pods that mount a path of their node are refused.
    pub refuse_host_path: bool,
    /// Claims are kept in step: a pod brings its own along.
    pub brings_claims: bool,
    /// `runtimeClassName` goes down: the lower cluster has classes of the same names.
    pub keep_runtime_class: bool,
    /// Pods keep their upper service accounts, and find the API server that knows them here.
    pub identity: Option<ApiServer>,
    /// The DNS of the upper cluster, for pods that ask for the DNS of their cluster.
    pub dns: Option<ClusterDns>,
}

/// A pod as it is to be created below.
#[derive(Clone, Debug, PartialEq)]
pub struct LowerPod {
    /// The object.
    pub pod: Value,
    /// Paths of fields that do not go down although somebody may count on them, for instance `spec.fooBar`: to be
    /// warned about.
    pub dropped: Vec<String>,
    /// The objects it refers to, by their names upstairs.
    pub references: References,
    /// The tokens that it projected upstairs, which a Secret is to hold.
    pub tokens: Option<Tokens>,
    /// It projects a token only because every pod does: it has account `default`, and nobody asked for a token.
    pub needs_no_token: bool,
}

impl LowerPod {
    /// Makes it refer to the objects below.
    pub fn rename(&mut self, names: &Names) {
        references::rename(&mut self.pod, names);
        if !names.is_empty() {
            references::note(&mut self.pod, names);
        }
    }

    /// Makes it do without what this Secret would hold.
    pub fn omit_tokens(&mut self, secret: &str) {
        identity::omit(&mut self.pod, secret);
    }
}

/// The lower pod to create for `upper`, or why it cannot run here.
///
/// `revision` is noted on it as the one applied, in decimal. A pod that already has ephemeral containers gets revision
/// 0 instead: they cannot be created with it, so an [`update`] is still due.
///
/// # Errors
/// A [`Refusal`] says what the pod's owner can do about it.
pub fn lower_pod(upper: &Value, link: &LinkView, revision: u64) -> Result<LowerPod, Refusal> {
    let upper = Upper::read(upper)?;
    refuse::check(&upper, link)?;
    let placement = upper.placement(link)?;

    let mut dropped = Vec::new();
    POD.sift(upper.pod, "", &mut dropped);
    let mut metadata = metadata::lower(&upper, link, &mut dropped);
    let spec = spec::lower(&upper, placement, link, &mut dropped)?;

    let applied = Followed::read(&metadata, &spec, upper.stash());
    let revision = if upper.list("ephemeralContainers").is_empty() { revision } else { 0 };
    metadata::annotate(&mut metadata, names::APPLIED, applied.hashes().to_text());
    metadata::annotate(&mut metadata, names::APPLIED_REVISION, revision.to_string());
    let mut pod = object([
        ("apiVersion", json!("v1")),
        ("kind", json!("Pod")),
        ("metadata", Value::Object(metadata)),
        ("spec", Value::Object(spec)),
    ]);
    let references = references::references(&mut pod);
    // After the references: the Secret with the tokens is none that the upper cluster has.
    let tokens = identity::take(&mut pod, upper.name, upper.uid, upper.account(), link);
    Ok(LowerPod { pod, dropped, references, tokens, needs_no_token: volume::needs_no_token(&upper) })
}

/// An empty JSON object, to read absent ones as.
static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
