// SPDX-License-Identifier: Apache-2.0
//! The claims that a pod names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Names of the claims that the spec of `pod` names.
#[must_use]
pub fn claims(pod: &Value) -> BTreeSet<String> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let names = volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Makes `pod` name the claims below: `names` has them by their names upstairs.
pub fn rename_claims(pod: &mut Value, names: &BTreeMap<String, String>) {
    let volumes = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten();
    for name in volumes.filter_map(|volume| volume.pointer_mut("/persistentVolumeClaim/claimName")) {
        if let Some(below) = name.as_str().and_then(|name| names.get(name)) {
            *name = json!(below);
        }
    }
}

/// Names of the claims that the upper cluster makes for the ephemeral volumes of the upper pod `pod`. Only a claim that the
/// pod owns may be used for one.
#[must_use]
pub fn ephemeral_claims(pod: &Value) -> BTreeSet<String> {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let ephemeral = volumes.filter(|volume| volume.get("ephemeral").is_some_and(Value::is_object));
    ephemeral.filter_map(|volume| Some(ephemeral_claim(name, volume.get("name")?.as_str()?))).collect()
}

fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// The source that names the claim which the upper cluster makes for an ephemeral volume (Kubernetes
/// `staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go`). The lower cluster must not make another.
pub(super) fn of_ephemeral(pod: &str, volume: &str) -> Value {
    json!({ "claimName": ephemeral_claim(pod, volume) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_found_once_and_renamed_everywhere() {
        let claim =
            |name: &str| json!({ "name": "v", "persistentVolumeClaim": { "claimName": name, "readOnly": true } });
        let mut pod = json!({ "spec": { "volumes": [claim("a"), { "emptyDir": {} }, claim("b"), claim("a"), 7] } });
        assert_eq!(claims(&pod), ["a", "b"].map(str::to_owned).into());
        rename_claims(&mut pod, &[("a".to_owned(), "a-2".to_owned())].into());
        let volumes = json!([claim("a-2"), { "emptyDir": {} }, claim("b"), claim("a-2"), 7]);
        assert_eq!(pod["spec"]["volumes"], volumes);
        let volumes = json!([{ "name": "scratch", "ephemeral": {} }, { "name": "other", "emptyDir": {} }]);
        let pod = json!({ "metadata": { "name": "web-0" }, "spec": { "volumes": volumes } });
        assert_eq!(ephemeral_claims(&pod), ["web-0-scratch".to_owned()].into());
        assert!(claims(&json!({ "spec": {} })).is_empty() && claims(&json!(7)).is_empty());
    }
}
