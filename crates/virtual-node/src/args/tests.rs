// SPDX-License-Identifier: Apache-2.0
//! What is typed is what is parsed; what cannot be typed is refused with a hint.

use super::*;
use std::ffi::OsString;
use tensile_runtime::args::{help, parse};

fn typed(args: &[&str]) -> Result<Args, clap::Error> {
    parse(std::iter::once("virtual-node").chain(args.iter().copied()).map(OsString::from))
}

#[test]
fn the_command_line_of_tensile_kubes_guide_is_taken() {
    let args = typed(&[
        "--nodename",
        "10.0.0.7",
        "--provider",
        "k8s",
        "--kube-api-qps",
        "500",
        "--kube-api-burst",
        "1000",
        "--client-qps",
        "500",
        "--client-burst",
        "1000",
        "--kubeconfig",
        "/root/server-kube.config",
        "--client-kubeconfig",
        "/client-kube.config",
        "--klog.v",
        "4",
        "--log-level",
        "debug",
    ])
    .unwrap();
    assert_eq!(args.nodename.as_deref(), Some("10.0.0.7"));
    assert_eq!((args.kube_api_qps, args.kube_api_burst), (Some(500.0), Some(1000)));
    assert_eq!(args.client_kubeconfig, Some(PathBuf::from("/client-kube.config")));
    assert_eq!(args.log.directives(), "debug");
    assert_eq!(args.accepted.without_effect, ["--klog.v has no effect: use --log-level"]);
}

#[test]
fn the_arguments_of_tensile_kubes_manifest_are_taken() {
    let args = typed(&[
        "--provider=k8s",
        "--nodename=virtual-kubelet",
        "--disable-taint=true",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--client-qps=500",
        "--client-burst=1000",
        "--client-kubeconfig=/root/kube.config",
        "--klog.v=5",
        "--log-level=debug",
        "--metrics-addr=:10455",
    ])
    .unwrap();
    assert_eq!(args.disable_taint, Some(true));
    assert_eq!(args.metrics_addr, Some(MetricsAddr(Some(ListenAddr::AllOn(10455)))));
}

#[test]
fn every_flag_of_the_library_under_tensile_kube_is_taken() {
    let args = typed(&[
        "--cluster-domain=cluster.local",
        "--os=Linux",
        "--provider-config=",
        "--taint=example.com/taint",
        "--pod-sync-workers=10",
        "--enable-node-lease",
        "--full-resync-period=1m",
        "--startup-timeout=0s",
        "--client-verify-ca=/ca.pem",
        "--no-verify-clients=false",
        "--authentication-token-webhook",
        "--authentication-token-webhook-cache-ttl=2m",
        "--authorization-webhook-cache-authorized-ttl=5m",
        "--authorization-webhook-cache-unauthorized-ttl=30s",
        "--namespace=",
        "--enable-serviceaccount=false",
        "--enable-controllers=PVControllers,ServiceControllers",
        "--ignore-labels=a,b",
    ])
    .unwrap();
    assert_eq!(args.taint_key.as_deref(), Some("example.com/taint"));
    assert_eq!(args.client_ca_file, Some(PathBuf::from("/ca.pem")));
    assert_eq!(args.enable_serviceaccount, Some(false));
    assert_eq!(args.ignore_labels.unwrap(), ["a", "b"]);
    assert_eq!(args.accepted.refused, Vec::<String>::new());
    assert_eq!(args.accepted.without_effect.len(), 9);
}

#[test]
fn what_would_change_what_happens_is_not_swallowed() {
    let args = typed(&["--namespace=team-a", "--no-verify-clients"]).unwrap();
    assert_eq!(
        args.accepted.refused,
        [
            "--namespace is not supported: a virtual node serves all namespaces",
            "--no-verify-clients is not supported: clients of the kubelet API are always verified"
        ]
    );
}

#[test]
fn an_unknown_flag_ends_with_code_2_and_a_hint() {
    let error = typed(&["--client-kubeconfg=/x"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--client-kubeconfig"), "{error}");
}

#[test]
fn values_that_mean_nothing_are_refused_by_flag() {
    for (arg, hint) in [
        ("--client-qps=-1", "not a rate"),
        ("--client-qps=inf", "not a rate"),
        ("--disable-taint=maybe", "neither true nor false"),
        ("--taint-effect=Never", "NoSchedule, PreferNoSchedule or NoExecute"),
        ("--metrics-addr=10255", ":PORT"),
        ("--drain-timeout=soon", "such as 20s"),
        ("--upper-apiserver=ftp://a", "https://HOST:PORT"),
        ("--cluster-dns=kube-dns", "invalid IP address"),
        ("--drain-timeout=-5s", "such as 20s"),
    ] {
        let error = typed(&[arg]).unwrap_err().to_string();
        let flag = arg.split('=').next().unwrap();
        assert!(error.contains(flag) && error.contains(hint), "{arg}: {error}");
    }
}

#[test]
fn an_empty_metrics_address_turns_the_server_off() {
    assert_eq!(typed(&["--metrics-addr="]).unwrap().metrics_addr, Some(MetricsAddr(None)));
}

#[test]
fn durations_are_written_as_in_go() {
    assert_eq!(typed(&["--drain-timeout=1m30s"]).unwrap().drain_timeout, Some(Duration::from_secs(90)));
}

#[test]
fn the_help_names_every_group_and_explains_itself() {
    let help = help::<Args>();
    for heading in [CLUSTERS, NODE, PODS, KUBELET, SERVICE, "Logging"] {
        assert!(help.contains(&format!("\n{heading}:\n")), "no heading {heading} in:\n{help}");
    }
    assert!(help.starts_with("One lower Kubernetes cluster as one node of the upper cluster"), "{help}");
}

#[test]
fn the_definitions_of_the_flags_agree_with_each_other() {
    <Args as clap::CommandFactory>::command().debug_assert();
}
