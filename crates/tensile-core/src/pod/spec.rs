// SPDX-License-Identifier: Apache-2.0
//! The spec of the lower pod.

use serde_json::{Map, Value, json};

use super::{LinkView, Refusal, container, dns, fields::Fields, refuse::HOST_NAMESPACES, upper::Upper, volume};
use crate::{placement::Placement, tenant};

/// The members of a pod's spec. `schedulingGroup` is left unnamed on purpose: it names objects of the upper scheduler,
/// and that a gang is not one below is worth a warning.
pub(super) const SPEC: Fields = Fields {
    kept: &[
        "activeDeadlineSeconds",
        "dnsConfig",
        "dnsPolicy",
        "hostAliases",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "os",
        "resources",
        "restartPolicy",
        "securityContext",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
    ],
    decided: &[
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "serviceAccount",
        "serviceAccountName",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    ],
};

pub(super) fn lower(
    upper: &Upper<'_>,
    placement: Placement,
    link: &LinkView,
    dropped: &mut Vec<String>,
) -> Result<Map<String, Value>, Refusal> {
    let mut spec = SPEC.sift(upper.spec, "spec", dropped);
    // A lower account's token would open the lower API server; those of the upper account come as what a Secret holds.
    spec.insert("automountServiceAccountToken".to_owned(), json!(false));
    spec.insert("enableServiceLinks".to_owned(), json!(false));
    dns::resolve_above(&mut spec, upper, link);
    for field in HOST_NAMESPACES.iter().filter(|_| link.allow_host_namespaces) {
        if let Some(flag) = upper.spec.get(*field) {
            spec.insert((*field).to_owned(), flag.clone());
        }
    }
    if let Some(class) = upper.spec.get("runtimeClassName") {
        if link.keep_runtime_class {
            spec.insert("runtimeClassName".to_owned(), class.clone());
        } else {
            dropped.push("spec.runtimeClassName".to_owned());
        }
    }
    for list in ["containers", "initContainers"] {
        let containers = container::lower(upper, list, link, dropped);
        if !containers.is_empty() {
            spec.insert(list.to_owned(), Value::Array(containers));
        }
    }
    let volumes = volume::lower(upper, link, dropped)?;
    if !volumes.is_empty() {
        spec.insert("volumes".to_owned(), Value::Array(volumes));
    }
    for (name, value) in [
        ("nodeSelector", placement.node_selector),
        ("affinity", placement.affinity),
        ("tolerations", placement.tolerations),
        ("topologySpreadConstraints", placement.topology_spread),
    ] {
        if let Some(value) = value {
            spec.insert(name.to_owned(), value);
        }
    }
    tenant::keep_apart(&mut spec, upper.namespace, link, dropped);
    if link.namespaces.is_shared() && !spec.contains_key("hostname") && is_hostname(upper.name) {
        // Its programs know the pod by the name that it has upstairs.
        spec.insert("hostname".to_owned(), json!(upper.name));
    }
    Ok(spec)
}

/// A DNS label, as the API wants it.
fn is_hostname(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.')
}
