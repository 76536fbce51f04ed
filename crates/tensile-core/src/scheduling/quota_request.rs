// SPDX-License-Identifier: Apache-2.0
//! What a pod is for quotas.

use serde_json::{Value, json};

use crate::resources::{ResourceName, ResourceVector, pod_request};

/// What a pod is for quotas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QuotaRequest {
    /// By names as quotas use them, but for `pods`.
    pub(super) requests: ResourceVector,
    pub(super) limits: ResourceVector,
    pub(super) best_effort: bool,
    /// It has a deadline (`activeDeadlineSeconds`).
    pub(super) terminating: bool,
    /// It has affinity to pods of other namespaces.
    pub(super) crosses_namespaces: bool,
}

impl QuotaRequest {
    /// Its amounts, from the pod's `spec`.
    pub(super) fn of(spec: &Value) -> Result<Self, serde_json::Error> {
        if spec.is_null() {
            return Ok(Self { best_effort: true, ..Self::default() });
        }
        let requests = pod_request(spec)?;
        let limits = pod_request(&with_limits(spec))?;
        let main = |vector: &ResourceVector| {
            vector
                .iter()
                .any(|(name, milli)| milli > 0 && (*name == ResourceName::CPU || *name == ResourceName::MEMORY))
        };
        Ok(Self { best_effort: !main(&requests) && !main(&limits), requests, limits, ..Self::default() })
    }
}

/// A `spec` that requests what this one is limited to: limits add up as requests do.
fn with_limits(spec: &Value) -> Value {
    let containers = |list: &str| -> Vec<Value> {
        let containers = spec.get(list).and_then(Value::as_array).into_iter().flatten();
        let limited = |container: &Value| {
            let limits = container.get("resources").and_then(|resources| resources.get("limits")).cloned();
            json!({ "restartPolicy": container.get("restartPolicy"), "resources": { "requests": limits } })
        };
        containers.map(limited).collect()
    };
    json!({ "containers": containers("containers"), "initContainers": containers("initContainers") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_add_up_as_requests_do_and_a_pod_without_any_is_best_effort() {
        let quota = QuotaRequest::of(&json!({"containers": [
            {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "1"}}}],
            "initContainers": [{"resources": {"limits": {"cpu": "5"}}}]}))
        .unwrap();
        assert_eq!(quota.limits.get(&ResourceName::CPU), Some(5_000));
        assert_eq!(quota.requests.get(&ResourceName::CPU), Some(1_000));
        assert!(!quota.best_effort);
        assert!(QuotaRequest::of(&json!({"containers": [{}]})).unwrap().best_effort);
    }
}
