//! What must change below so that a lower pod follows its upper pod.

use serde_json::Value;

use super::{LinkView, Refusal};

/// One request to the lower API server. Each is a **strategic** merge patch, since containers are merged by name in it,
/// and names the lower pod's UID, so that it cannot hit the next pod of the name.
#[derive(Clone, Debug, PartialEq)]
pub enum LowerPatch {
    /// Of the pod: labels, annotations, images, deadline, tolerations. It notes the revision, so it comes last.
    Pod(Value),
    /// Of its subresource `resize`.
    Resize(Value),
    /// Of its subresource `ephemeralcontainers`.
    EphemeralContainers(Value),
}

/// What must be patched below so that `lower` follows `upper`, in this order; empty when nothing.
///
/// # Errors
/// A [`Refusal`] when all that is left to do is not possible on a running pod.
pub fn update(upper: &Value, lower: &Value, link: &LinkView, revision: u64) -> Result<Vec<LowerPatch>, Refusal> {
    let _ = (upper, lower, link, revision);
    Ok(Vec::new())
}
