//! Containers of the lower pod, and what they learn about the pod they are in.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{LinkView, NOTHING, fields::Fields, upper::Upper, volume};
use crate::names;

/// The members of a container, of whichever of the three lists.
pub(super) const CONTAINER: Fields = Fields {
    kept: &[
        "args",
        "command",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "targetContainerName",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "workingDir",
    ],
    decided: &["env", "volumeMounts"],
};

/// The containers of `list`, one of the three lists of a pod's containers.
pub(super) fn lower(upper: &Upper<'_>, list: &str, link: &LinkView, dropped: &mut Vec<String>) -> Vec<Value> {
    let unmounted = volume::left_out(upper);
    let containers = upper.list(list).iter();
    containers.map(|container| Value::Object(below(container, list, upper, &unmounted, link, dropped))).collect()
}

fn below(
    container: &Value,
    list: &str,
    upper: &Upper<'_>,
    unmounted: &BTreeSet<&str>,
    link: &LinkView,
    dropped: &mut Vec<String>,
) -> Map<String, Value> {
    let members = container.as_object().unwrap_or(&NOTHING);
    let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
    let mut below = CONTAINER.sift(members, &format!("spec.{list}[{name}]"), dropped);
    if let Some(env) = members.get("env") {
        let mut env = env.clone();
        for variable in env.as_array_mut().into_iter().flatten() {
            rewrite_variable(variable, upper, link);
        }
        below.insert("env".to_owned(), env);
    }
    if let Some(mounts) = members.get("volumeMounts") {
        let mut mounts = mounts.clone();
        if let Value::Array(mounts) = &mut mounts {
            mounts.retain(|mount| !mount["name"].as_str().is_some_and(|name| unmounted.contains(name)));
        }
        below.insert("volumeMounts".to_owned(), mounts);
    }
    below
}

/// What a variable says of the pod must be true upstairs, where its users look: its UID, node and service account.
/// Addresses are left to the lower kubelet, which alone knows them.
fn rewrite_variable(variable: &mut Value, upper: &Upper<'_>, link: &LinkView) {
    let field = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"));
    let Some(field) = field else { return };
    let value = match field["fieldPath"].as_str() {
        Some("spec.nodeName") => link.virtual_node.as_str(),
        Some("spec.serviceAccountName") => {
            upper.spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or("default")
        }
        _ => return rewrite_reference(field),
    };
    // Object names have no `$`, which a literal value would have to escape.
    *variable = json!({"name": variable["name"], "value": value});
}

/// The files of a downward API volume follow the same rule as variables; nodes and accounts are not offered in files.
pub(super) fn rewrite_items(downward: &mut Value) {
    for item in downward.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = item.get_mut("fieldRef") {
            rewrite_reference(field);
        }
    }
}

/// The UID upstairs is in an annotation of the lower pod.
fn rewrite_reference(field: &mut Value) {
    if field["fieldPath"] == "metadata.uid" {
        field["fieldPath"] = json!(format!("metadata.annotations['{}']", names::UPPER_UID));
    }
}
