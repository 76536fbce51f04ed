// SPDX-License-Identifier: Apache-2.0
//! Flags of tensile-kube and of the library under it that have no effect here, taken so that its manifests start.

use tensile_runtime::args::{Foreign, Shape};

/// tensile-kube's virtual node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TensileKube;

const LOGGING: &str = "use --log-level";

impl Foreign for TensileKube {
    const HEADING: &'static str = "Accepted from tensile-kube, without effect";

    // `klog` is how they logged.
    const WITHOUT_EFFECT: &'static [(&'static str, Shape, &'static str)] = &[
        ("authentication-token-webhook", Shape::Switch, "tokens are always reviewed"),
        ("authentication-token-webhook-cache-ttl", Shape::Value, "the kubelet's own times are used"),
        ("authorization-webhook-cache-authorized-ttl", Shape::Value, "the kubelet's own times are used"),
        ("authorization-webhook-cache-unauthorized-ttl", Shape::Value, "the kubelet's own times are used"),
        ("enable-node-lease", Shape::Switch, "there is always a lease"),
        ("full-resync-period", Shape::Value, "watches need no resync"),
        ("os", Shape::Value, "taken from the lower nodes"),
        ("provider-config", Shape::Value, "there is no file for the provider"),
        ("startup-timeout", Shape::Value, "the node appears at once and says whether it is ready"),
        ("klog.add_dir_header", Shape::Switch, LOGGING),
        ("klog.alsologtostderr", Shape::Switch, LOGGING),
        ("klog.log_backtrace_at", Shape::Value, LOGGING),
        ("klog.log_dir", Shape::Value, LOGGING),
        ("klog.log_file", Shape::Value, LOGGING),
        ("klog.log_file_max_size", Shape::Value, LOGGING),
        ("klog.logtostderr", Shape::Switch, LOGGING),
        ("klog.skip_headers", Shape::Switch, LOGGING),
        ("klog.skip_log_headers", Shape::Switch, LOGGING),
        ("klog.stderrthreshold", Shape::Value, LOGGING),
        ("klog.v", Shape::Value, LOGGING),
        ("klog.vmodule", Shape::Value, LOGGING),
    ];

    const REFUSED: &'static [(&'static str, Shape, &'static str)] = &[
        ("namespace", Shape::Value, "a virtual node serves all namespaces"),
        ("no-verify-clients", Shape::Switch, "clients of the kubelet API are always verified"),
    ];
}
