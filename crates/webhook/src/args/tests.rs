//! Flags, as typed and as meant.

use std::ffi::OsString;

use super::*;

fn resolve(flags: &[&str]) -> Result<Settings, SettingsError> {
    let argv = ["webhook"].iter().chain(flags).map(OsString::from);
    Settings::resolve(tensile_runtime::args::parse(argv).unwrap())
}

#[test]
fn the_defaults_are_those_of_tensile_kube() {
    let settings = resolve(&[]).unwrap();
    assert_eq!(settings.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(settings.tls, None);
    assert_eq!(settings.policy.kept, KeptKeys::new(["clusterID"]));
    assert_eq!(settings.policy.node_lost_seconds, None);
    assert!(!settings.policy.deny_unsupported);
}

#[test]
fn the_manifest_of_tensile_kube_starts() {
    let settings = resolve(&["--tlscert=/root/cert.pem", "--tlskey=/root/key.pem", "--port=443", "--v=6"]).unwrap();
    assert_eq!(settings.listen.port(), 443);
    let files = TlsFiles { cert: "/root/cert.pem".into(), key: "/root/key.pem".into(), client_ca: None };
    assert_eq!(settings.tls, Some(files));
    assert_eq!(settings.warnings, ["--v has no effect: use --log-level"]);
}

#[test]
fn each_flag_of_tensile_kube_is_taken() {
    let flags = [
        "--address=127.0.0.1",
        "--port=1",
        "--tlscert=c",
        "--tlskey=k",
        "--CA=ca",
        "--kubeconfig=f",
        "--master=u",
        "--incluster",
        "--ignore-selector-keys=clusterID, region",
        "--v=1",
        "--vmodule=a=1",
        "--logtostderr",
        "--alsologtostderr=false",
        "--stderrthreshold=2",
    ];
    let settings = resolve(&flags).unwrap();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:1");
    assert_eq!(settings.tls.unwrap().client_ca, Some("ca".into()));
    assert_eq!(settings.policy.kept, KeptKeys::new(["clusterID", "region"]));
    assert_eq!(settings.warnings.len(), 8);
}

#[test]
fn topology_keys_are_the_kept_keys_unless_given() {
    let settings = resolve(&["--ignore-selector-keys=region", "--cluster-topology-keys=zone"]).unwrap();
    assert_eq!(settings.policy.kept, KeptKeys::new(["region"]).with_topology(["zone"]));
    let settings = resolve(&["--cluster-topology-keys="]).unwrap();
    assert_eq!(settings.policy.kept, KeptKeys::default().with_topology([""; 0]));
}

#[test]
fn half_a_certificate_is_an_error() {
    assert_eq!(
        resolve(&["--tlscert=c"]).unwrap_err().to_string(),
        "--tlscert and --tlskey belong together: --tlskey is missing"
    );
    assert_eq!(
        resolve(&["--tlskey=k"]).unwrap_err().to_string(),
        "--tlscert and --tlskey belong together: --tlscert is missing"
    );
}

#[test]
fn a_client_ca_without_a_certificate_is_an_error() {
    assert_eq!(resolve(&["--CA=ca"]).unwrap_err(), SettingsError::ClientCaWithoutTls);
}

#[test]
fn no_kept_key_is_an_error() {
    assert_eq!(resolve(&["--ignore-selector-keys="]).unwrap_err(), SettingsError::NoKeptKey(NoKeptKey));
    assert_eq!(resolve(&["--ignore-selector-keys= ,"]).unwrap_err(), SettingsError::NoKeptKey(NoKeptKey));
}

#[test]
fn plain_http_is_warned_of() {
    assert!(resolve(&[]).unwrap().warnings[0].starts_with("plain HTTP is served"));
    assert!(resolve(&["--tlscert=c", "--tlskey=k"]).unwrap().warnings.is_empty());
}
