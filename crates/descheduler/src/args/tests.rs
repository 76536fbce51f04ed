// SPDX-License-Identifier: Apache-2.0
//! What flags mean together, and what is refused.

use std::ffi::OsString;

use tensile_runtime::args::parse;

use super::*;

fn resolve(flags: &[&str]) -> Result<Settings, SettingsError> {
    let argv = ["descheduler", "--identity=me"].iter().chain(flags).map(OsString::from);
    Settings::resolve(parse(argv).unwrap())
}

#[test]
fn tensile_kubes_manifest_starts() {
    let settings = resolve(&[
        "--descheduling-interval=10s",
        "--node-selector=type=virtual-kubelet,tier==a",
        "--max-pods-to-evict-per-node=100",
        "--evict-local-storage-pods",
        "--dry-run=false",
        "--kubeconfig=/root/config",
        "--v=4",
    ])
    .unwrap();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(settings.policy.nodes, [pair("type", "virtual-kubelet"), pair("tier", "a")]);
    assert_eq!((settings.limits.per_node, settings.limits.interval), (Some(100), Duration::from_secs(10)));
    assert!(!settings.policy.protections.local_storage && !settings.dry_run);
    assert_eq!(settings.warnings, ["--v has no effect: use --log-level"]);
}

#[test]
fn nothing_needs_to_be_said() {
    let settings = resolve(&[]).unwrap();
    assert_eq!((settings.namespace.as_str(), settings.policy.moves), ("kube-system", 6));
    assert_eq!(settings.policy.strategies.len(), 1);
    assert_eq!(settings.election, Some(Terms::new("descheduler", "me")));
    assert!(resolve(&["--leader-elect=false"]).unwrap().election.is_none());
}

#[test]
fn what_does_not_add_up_is_refused() {
    for (flags, words) in [
        (["--node-selector=a!=b"].as_slice(), "--node-selector \"a!=b\" is not KEY=VALUE"),
        (&["--node-selector=a"], "--node-selector \"a\" is not KEY=VALUE"),
        (&["--leader-elect-renew-deadline=15s"], "must be shorter"),
        (&["--leader-elect-retry-period=10s"], "must be shorter"),
        (&["--policy-config-file=/nowhere/policy.yaml"], "cannot read the policy file /nowhere/policy.yaml"),
    ] {
        let error = resolve(flags).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
