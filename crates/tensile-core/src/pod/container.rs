// SPDX-License-Identifier: Apache-2.0
//! Containers of the lower pod, and what they learn about the pod they are in.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{LinkView, NOTHING, fields::Fields, metadata, upper::Upper, volume};
use crate::{names, tenant::Mapping};

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
    let unmounted = volume::left_out(upper, link);
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
    if let Some(env) = variables(members.get("env"), upper, link) {
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

/// The container's variables, and those that lead to the upper API server: first, so that others may refer to them, and
/// only where the container has none of the name.
fn variables(given: Option<&Value>, upper: &Upper<'_>, link: &LinkView) -> Option<Value> {
    let mut env = given.cloned();
    for variable in env.iter_mut().filter_map(Value::as_array_mut).flatten() {
        rewrite_variable(variable, upper, link);
    }
    let Some(server) = &link.identity else { return env };
    let own = match env {
        Some(Value::Array(own)) => own,
        None | Some(Value::Null) => Vec::new(),
        other => return other,
    };
    let named = |name: &str| own.iter().any(|variable| variable["name"] == name);
    let ours = server.variables().into_iter().filter(|(name, _)| !named(name));
    let ours: Vec<Value> = ours.map(|(name, value)| json!({"name": name, "value": value})).collect();
    Some(ours.into_iter().chain(own).collect())
}

/// What a variable says of the pod must be true upstairs, where its users look: its UID, node, service account, and the
/// labels and annotations that stay up. Addresses are left to the lower kubelet, which alone knows them.
fn rewrite_variable(variable: &mut Value, upper: &Upper<'_>, link: &LinkView) {
    let field = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"));
    let Some(field) = field else { return };
    let value = match field["fieldPath"].as_str() {
        Some("spec.nodeName") => link.virtual_node.as_str(),
        Some("spec.serviceAccountName") => upper.account(),
        Some(path) => match staying(path, upper, link) {
            Some(value) => value,
            None => return rewrite_reference(field, link),
        },
        None => return,
    };
    // In a literal value a `$` begins a reference, and two of them are one.
    *variable = json!({"name": variable["name"], "value": value.replace('$', "$$")});
}

/// The value of the label or annotation that `path` names, if that is one that the lower pod does not have; empty when the
/// upper pod does not have it either, as a kubelet has it.
fn staying<'a>(path: &str, upper: &Upper<'a>, link: &LinkView) -> Option<&'a str> {
    let (map, key) = path.strip_prefix("metadata.")?.strip_suffix("']")?.split_once("['")?;
    let stays = match map {
        "labels" => link.ignored_labels.iter().any(|ignored| ignored == key),
        "annotations" => metadata::STAYING_ANNOTATIONS.contains(&key),
        _ => false,
    };
    stays.then(|| upper.metadata.get(map).and_then(|map| map.get(key)).and_then(Value::as_str).unwrap_or_default())
}

/// The files of a downward API volume follow the same rule as variables; nodes and accounts are not offered in files.
pub(super) fn rewrite_items(downward: &mut Value, link: &LinkView) {
    for item in downward.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = item.get_mut("fieldRef") {
            rewrite_reference(field, link);
        }
    }
}

/// The UID and, for files, the labels upstairs are in annotations of the lower pod; so is its name upstairs, and its
/// namespace in a label, where these differ.
fn rewrite_reference(field: &mut Value, link: &LinkView) {
    let (map, key) = match field["fieldPath"].as_str() {
        Some("metadata.uid") => ("annotations", names::UPPER_UID),
        Some(volume::LABELS) => ("annotations", names::UPPER_LABELS),
        Some("metadata.namespace") if link.namespaces != Mapping::Same => ("labels", names::UPPER_NAMESPACE),
        Some("metadata.name") if link.namespaces.is_shared() => ("annotations", names::POD_NAME),
        _ => return,
    };
    field["fieldPath"] = json!(format!("metadata.{map}['{key}']"));
}
