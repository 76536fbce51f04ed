// SPDX-License-Identifier: Apache-2.0
//! Flags, as typed and as meant.

use std::ffi::OsString;

use super::*;

/// Plain HTTP, for tests about something else.
const PLAIN: &str = "--self-managed-certificate=false";

fn resolve(flags: &[&str]) -> Result<Settings, SettingsError> {
    let argv = ["webhook"].iter().chain(flags).map(OsString::from);
    Settings::resolve(tensile_runtime::args::parse(argv).unwrap())
}

#[test]
fn the_defaults_are_those_of_tensile_kube() {
    let settings = resolve(&[PLAIN]).unwrap();
    assert_eq!(settings.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(settings.certificate, Certificate::None);
    assert_eq!(settings.policy.kept, KeptKeys::new(["clusterID"]));
    assert_eq!(settings.policy.node_lost_seconds, None);
    assert!(!settings.policy.deny_unsupported);
}

#[test]
fn the_manifest_of_tensile_kube_starts() {
    let settings = resolve(&["--tlscert=/root/cert.pem", "--tlskey=/root/key.pem", "--port=443", "--v=6"]).unwrap();
    assert_eq!(settings.listen.port(), 443);
    let files = Certificate::Files { cert: "/root/cert.pem".into(), key: "/root/key.pem".into() };
    assert_eq!(settings.certificate, files);
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
    assert_eq!(settings.client_ca, Some("ca".into()));
    assert_eq!(settings.api, ClientSource::new("webhook", Some("f".into())));
    assert_eq!(settings.policy.kept, KeptKeys::new(["clusterID", "region"]));
    assert_eq!(settings.warnings.len(), 7);
}

#[test]
fn topology_keys_are_the_kept_keys_unless_given() {
    let settings = resolve(&[PLAIN, "--ignore-selector-keys=region", "--cluster-topology-keys=zone"]).unwrap();
    assert_eq!(settings.policy.kept, KeptKeys::new(["region"]).with_topology(["zone"]));
    let settings = resolve(&[PLAIN, "--cluster-topology-keys="]).unwrap();
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
    assert_eq!(resolve(&[PLAIN, "--CA=ca"]).unwrap_err(), SettingsError::ClientCaWithoutTls);
}

#[test]
fn no_kept_key_is_an_error() {
    assert_eq!(resolve(&[PLAIN, "--ignore-selector-keys="]).unwrap_err(), SettingsError::NoKeptKey(NoKeptKey));
    assert_eq!(resolve(&[PLAIN, "--ignore-selector-keys= ,"]).unwrap_err(), SettingsError::NoKeptKey(NoKeptKey));
}

#[test]
fn plain_http_is_warned_of() {
    assert!(resolve(&[PLAIN]).unwrap().warnings[0].starts_with("plain HTTP is served"));
    assert!(resolve(&["--tlscert=c", "--tlskey=k"]).unwrap().warnings.is_empty());
}

#[test]
fn without_files_the_certificate_is_its_own() {
    let settings = resolve(&["--webhook-configuration=w", "--serving-names=webhook.tensile.svc, 127.0.0.1,"]).unwrap();
    let expected = SelfManaged {
        namespace: None,
        secret: "tensile-webhook-certificate".to_owned(),
        configuration: "w".to_owned(),
        names: ["127.0.0.1", "webhook.tensile.svc"].map(str::to_owned).into(),
        lives: crate::certificates::issue::Lifetimes {
            ca: Duration::from_secs(365 * 24 * 3600),
            leaf: Duration::from_secs(30 * 24 * 3600),
        },
    };
    assert_eq!(settings.certificate, Certificate::SelfManaged(expected));
    assert!(settings.warnings.is_empty());
}

#[test]
fn what_a_certificate_of_its_own_needs_is_named() {
    let told = |flags: &[&str]| resolve(flags).unwrap_err().to_string();
    let missing =
        "--webhook-configuration is missing: it names the MutatingWebhookConfiguration; or give --tlscert and --tlskey";
    assert_eq!(told(&[]), missing);
    assert_eq!(told(&["--webhook-configuration= "]), missing);
    let configured = "--webhook-configuration=w";
    for names in ["--serving-names=", "--serving-names= ,"] {
        let expected =
            "--serving-names is missing: it says at which names API servers call; or give --tlscert and --tlskey";
        assert_eq!(told(&[configured, names]), expected);
    }
    assert_eq!(
        told(&[configured, "--serving-names=a,n\u{f6}"]),
        "--serving-names: cannot make a certificate: \"n\u{f6}\" is neither a DNS name nor an IP address"
    );
    let lives = ["--certificate-lifetime=10h", "--ca-lifetime=29h"];
    assert_eq!(
        told(&[configured, "--serving-names=a", lives[0], lives[1]]),
        "--certificate-lifetime is at most a third of --ca-lifetime"
    );
    assert_eq!(
        told(&["--self-managed-certificate", "--tlscert=c", "--tlskey=k"]),
        "--self-managed-certificate and --tlscert exclude each other"
    );
}
