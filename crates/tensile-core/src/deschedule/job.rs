// SPDX-License-Identifier: Apache-2.0
//! What a Job makes of an eviction: a deleted pod counts as a failure, unless its failure policy says otherwise.

use serde_json::Value;

/// What decides whether a Job bears the loss of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// Pods that failed.
    pub failed: u64,
    /// How many may: the Job fails with one more.
    pub back_off_limit: u64,
    /// How many of one index may, where that is counted.
    pub per_index: Option<u64>,
    /// Evicted pods do not count.
    pub ignores_disruption: bool,
}

impl JobFacts {
    /// Reads a Job. What is missing is read as the API server defaults it.
    pub fn read(job: &Value) -> Self {
        let spec = &job["spec"];
        let per_index = spec["backoffLimitPerIndex"].as_u64();
        let default = if per_index.is_some() { i32::MAX.unsigned_abs().into() } else { 6 };
        Self {
            failed: job["status"]["failed"].as_u64().unwrap_or_default(),
            back_off_limit: spec["backoffLimit"].as_u64().unwrap_or(default),
            per_index,
            ignores_disruption: ignores_disruption(&spec["podFailurePolicy"]["rules"][0]),
        }
    }

    /// Whether a pod may be evicted that may count as a failure: at least one real failure must still be borne
    /// afterwards. `failures`: of the pod's index.
    pub fn may_lose_a_pod(&self, failures: u32) -> bool {
        self.ignores_disruption
            || (self.failed + 1 < self.back_off_limit
                && self.per_index.is_none_or(|limit| u64::from(failures) + 1 < limit))
    }
}

/// The first rule that matches decides, and what matches before this one depends on exit codes nobody can foresee: so
/// it must be the first.
fn ignores_disruption(rule: &Value) -> bool {
    let disrupted = |pattern: &Value| {
        pattern["type"] == "DisruptionTarget" && pattern["status"].as_str().is_none_or(|status| status == "True")
    };
    rule["action"] == "Ignore" && rule["onPodConditions"].as_array().is_some_and(|list| list.iter().any(disrupted))
}
