// SPDX-License-Identifier: Apache-2.0
//! Admission reviews of pods as a real API server sent them (Kubernetes 1.36), for a bare pod and those of a Deployment,
//! a Job and a StatefulSet.

use serde_json::Value;

const TEXTS: [&str; 4] = [
    include_str!("reviews/bare.json"),
    include_str!("reviews/deployment.json"),
    include_str!("reviews/job.json"),
    include_str!("reviews/statefulset.json"),
];

/// The reviews.
pub fn reviews() -> Vec<Value> {
    TEXTS.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_about_a_pod_that_opts_in() {
        let reviews = reviews();
        assert_eq!(reviews.len(), TEXTS.len());
        for review in reviews {
            assert_eq!(review["request"]["operation"], "CREATE");
            assert_eq!(review["request"]["object"]["metadata"]["labels"]["virtual-pod"], "true");
        }
    }
}
