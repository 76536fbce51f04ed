// SPDX-License-Identifier: Apache-2.0
//! The configuration of containerd, of the pods' network and of the kubelet, as small machines need it.

use std::path::Path;

use serde_json::{Value, json};

use super::images::SANDBOX;
use super::machine::{CNI_PLUGINS, Place};

/// containerd's: control groups without systemd, and no lowering of `oom_score_adj`, which needs `CAP_SYS_RESOURCE`.
pub(super) fn containerd(folder: &Path, shim: &Path, runc: &Path) -> String {
    let (folder, shim, runc) = (folder.display(), shim.display(), runc.display());
    let plugins = CNI_PLUGINS.0;
    format!(
        r#"version = 3
root = "{folder}/containerd"

[debug]
level = "warn"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{SANDBOX}"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{plugins}"]
conf_dir = "{folder}/cni"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{runc}"
"#
    )
}

/// The pods' network: the node's bridge, whose address is their gateway. Ports of the host lead nowhere.
pub(super) fn network(place: &Place) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": place.name(),
        "plugins": [{
            "type": "bridge",
            "bridge": place.name(),
            "isGateway": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": place.subnet() }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}

/// The kubelet's: authentication and authorization as in production, and nothing that touches the machine's own firewall.
pub(super) fn kubelet(folder: &Path, place: &Place) -> Value {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": file("ca.crt") },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": file("serving.crt"),
        "tlsPrivateKeyFile": file("serving.key"),
        "address": place.address(),
        "port": super::PORT,
        "healthzPort": 0,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        // Alpha from 1.32 on: the outputs of a container one by one.
        "featureGates": { "PodLogsQuerySplitStreams": true },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", place.name()),
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "resolvConf": file("resolv.conf"),
        "serializeImagePulls": false,
        // A small disk is no reason to evict what a test runs.
        "evictionHard": { "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "imageGCHighThresholdPercent": 100,
    })
}
