// SPDX-License-Identifier: Apache-2.0
//! A rollout that makes new pods before old ones go: what a Deployment does on its own when its template changes.

use std::sync::Arc;

use serde_json::Value;

/// What a `ReplicaSet` and its Deployment say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The Deployment, if there is one.
    pub deployment: Option<Version>,
    /// It makes new pods before it removes old ones.
    surges: bool,
    /// It makes its pods with this `ReplicaSet`.
    current: bool,
    /// It has not looked at its latest version yet.
    pending: bool,
}

/// An object as it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// Its version.
    pub resource_version: Arc<str>,
}

/// What is done about a pod of it that has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is evicted.
    Evict,
    /// Its Deployment is rolled out anew.
    Restart,
    /// It goes with the rollout that is under way.
    Wait,
}

impl Rollout {
    /// Reads both. What is missing is read as the API server defaults it.
    pub fn read(replica_set: &Value, deployment: Option<&Value>) -> Self {
        let Some(deployment) = deployment else { return Self::default() };
        let (meta, spec) = (&deployment["metadata"], &deployment["spec"]);
        let text = |value: &Value| value.as_str().map(Arc::<str>::from);
        let version = || {
            Some(Version {
                name: text(&meta["name"])?,
                uid: text(&meta["uid"])?,
                resource_version: text(&meta["resourceVersion"])?,
            })
        };
        let strategy = &spec["strategy"];
        let surge = &strategy["rollingUpdate"]["maxSurge"];
        let surges = strategy["type"].as_str().is_none_or(|kind| kind == "RollingUpdate")
            && *surge != 0
            && surge != "0%"
            && spec["paused"] != true;
        let revision = |object: &Value| object["metadata"]["annotations"][REVISION].clone();
        let observed = deployment["status"]["observedGeneration"].as_i64().unwrap_or_default();
        Self {
            deployment: version(),
            surges,
            current: revision(replica_set) == revision(deployment),
            pending: meta["generation"].as_i64().unwrap_or_default() > observed,
        }
    }

    /// What is done about a pod that has to go.
    pub fn turn(&self) -> Turn {
        match self {
            Self { deployment: None, .. } | Self { surges: false, .. } => Turn::Evict,
            Self { pending: false, current: true, .. } => Turn::Restart,
            _ => Turn::Wait,
        }
    }
}

/// Kubernetes' annotation on a Deployment and its `ReplicaSet`s (`deployment/util/deployment_util.go`, `RevisionAnnotation`).
const REVISION: &str = "deployment.kubernetes.io/revision";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(deployment: &Value) -> Turn {
        let replica_set = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}}});
        let mut whole = json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "9", "generation": 4,
                "annotations": {"deployment.kubernetes.io/revision": "3"}},
            "spec": {}, "status": {"observedGeneration": 4},
        });
        for (member, change) in deployment.as_object().into_iter().flatten() {
            for (name, value) in change.as_object().into_iter().flatten() {
                whole[member][name] = value.clone();
            }
        }
        Rollout::read(&replica_set, Some(&whole)).turn()
    }

    #[test]
    fn a_deployment_that_surges_is_rolled_out_once_and_others_pods_are_evicted() {
        let strategy = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let surge = |surge: Value| strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}));
        for (change, expected) in [
            (json!({}), Turn::Restart),
            (surge(json!(1)), Turn::Restart),
            (surge(json!("25%")), Turn::Restart),
            (surge(json!(0)), Turn::Evict),
            (surge(json!("0%")), Turn::Evict),
            (strategy(json!({"type": "Recreate"})), Turn::Evict),
            (json!({"spec": {"paused": true}}), Turn::Evict),
            // Changed, and its controller has not seen it.
            (json!({"metadata": {"generation": 5}}), Turn::Wait),
            // The pod's ReplicaSet is an old one.
            (json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "4"}}}), Turn::Wait),
            // It lacks what tells one version from another.
            (json!({"metadata": {"uid": null}}), Turn::Evict),
        ] {
            assert_eq!(turn(&change), expected, "{change}");
        }
        assert_eq!(Rollout::read(&json!({}), None).turn(), Turn::Evict);
    }
}
