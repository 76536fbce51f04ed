// SPDX-License-Identifier: Apache-2.0
//! Flags, environment and defaults, without a process environment.

use super::*;
use clap::Parser;

const LOWER: &str = "--client-kubeconfig=/lower";

fn resolve(args: &[&str], env: &[(&str, &str)], files: &[&str]) -> Result<Settings, SettingsError> {
    let args = Args::parse_from(std::iter::once("virtual-node").chain(args.iter().copied()));
    let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
    Settings::resolve(args, &Surroundings { env: &lookup, exists: &exists })
}

fn resolved(args: &[&str], env: &[(&str, &str)]) -> Settings {
    resolve(&[&[LOWER], args].concat(), env, &[]).unwrap()
}

fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
    resolve(&[&[LOWER], args].concat(), env, &[]).unwrap_err().to_string()
}

#[test]
fn the_defaults_are_those_of_tensile_kube() {
    let settings = resolved(&[], &[]);
    assert_eq!(settings.node.name, "virtual-kubelet");
    assert_eq!(settings.node.cluster_id.as_deref(), Some("virtual-kubelet"));
    assert_eq!(
        settings.node.taint,
        Some(Taint {
            key: "virtual-kubelet.io/provider".to_owned(),
            value: "k8s".to_owned(),
            effect: TaintEffect::NoSchedule
        })
    );
    assert_eq!((settings.lower.qps, settings.lower.burst), (500.0, 1000));
    assert_eq!(settings.ignored_labels, ["group.batch.scheduler.tencent.com", "pod-group.scheduling.sigs.k8s.io"]);
    assert_eq!(settings.kept_keys, KeptKeys::new(["clusterID"]));
    assert!(settings.volumes && settings.services && settings.identity.service_accounts && settings.show_pod_ips);
    assert!(!settings.allow_host_namespaces && !settings.refuse_host_path && !settings.keep_runtime_class);
    assert_eq!(settings.metrics, Some(ListenAddr::AllOn(10255)));
    let stats = StatsSettings { source: tensile_core::stats::Wanted::Auto, store: None };
    let certificate = CertificateSource::Requested { required: false };
    assert_eq!(settings.kubelet, KubeletApi { port: 10250, certificate, client_ca: None, stats });
    assert_eq!(settings.node.port, Some(10250));
}

#[test]
fn tenants_are_kept_apart_as_the_flags_say() {
    assert_eq!(resolved(&[], &[]).tenants, TenantSettings::default());
    assert_eq!(resolved(&[], &[]).missing_token, MissingToken::Omit);
    let args =
        ["--namespace-mapping=prefix:acme", "--tenant-quota=/quota", "--tenant-isolation", "--missing-token=wait"];
    let settings = resolved(&args, &[]);
    let mapping = tensile_core::tenant::Mapping::Prefix("acme".to_owned());
    assert_eq!(settings.tenants, TenantSettings { mapping, quota: Some("/quota".into()), isolation: true });
    assert_eq!(settings.missing_token, MissingToken::Wait);
    for wrong in ["--namespace-mapping=single:kube-system", "--namespace-mapping=other", "--missing-token=maybe"] {
        assert!(Args::try_parse_from(["virtual-node", wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn a_lower_cluster_is_required() {
    assert_eq!(resolve(&[], &[], &[]), Err(SettingsError::NoLowerCluster));
}

#[test]
fn the_upper_kubeconfig_is_the_flag_else_the_variable_else_the_home_else_the_pod() {
    let home = [("HOME", "/home/u")];
    let both = [("HOME", "/home/u"), ("KUBECONFIG", "/env")];
    let file = ["/home/u/.kube/config"];
    let upper = |args: &[&str], env: &[(&str, &str)], files: &[&str]| {
        resolve(&[&[LOWER], args].concat(), env, files).unwrap().upper.kubeconfig
    };
    assert_eq!(upper(&["--kubeconfig=/flag"], &both, &file), Some("/flag".into()));
    assert_eq!(upper(&[], &both, &file), Some("/env".into()));
    assert_eq!(upper(&[], &home, &file), Some("/home/u/.kube/config".into()));
    assert_eq!(upper(&[], &home, &[]), None);
}

#[test]
fn both_clients_have_their_own_context_and_limits() {
    let settings = resolved(
        &["--context=u", "--client-context=l", "--kube-api-qps=1.5", "--kube-api-burst=2", "--client-qps=0"],
        &[],
    );
    assert_eq!((settings.upper.context.as_deref(), settings.lower.context.as_deref()), (Some("u"), Some("l")));
    assert_eq!((settings.upper.qps, settings.upper.burst), (1.5, 2));
    assert_eq!((settings.lower.qps, settings.lower.burst), (0.0, 1000));
    assert!(settings.upper.user_agent.starts_with("tensile-virtual-node/"), "{}", settings.upper.user_agent);
}

#[test]
fn the_environment_of_tensile_kube_is_understood() {
    let settings = resolved(
        &[],
        &[
            ("KUBELET_PORT", "10450"),
            ("APISERVER_CERT_LOCATION", "/cert.pem"),
            ("APISERVER_KEY_LOCATION", "/key.pem"),
            ("APISERVER_CA_CERT_LOCATION", "/ca.pem"),
            ("DEFAULT_NODE_NAME", "edge-1"),
            ("VKUBELET_POD_IP", "10.1.2.3"),
            ("VKUBELET_EXTERNAL_POD_IP", "192.0.2.1"),
            ("VKUBELET_NODE_LABEL", "rack=r1,example.com/zone:z2"),
            ("VKUBELET_TAINT_KEY", "example.com/virtual"),
            ("VKUBELET_TAINT_VALUE", "yes"),
            ("VKUBELET_TAINT_EFFECT", "NoExecute"),
        ],
    );
    assert_eq!(
        settings.kubelet,
        KubeletApi {
            port: 10450,
            certificate: CertificateSource::Files(CertificateFiles {
                cert: "/cert.pem".into(),
                key: "/key.pem".into()
            }),
            client_ca: Some("/ca.pem".into()),
            stats: StatsSettings::default(),
        }
    );
    assert_eq!(settings.node.name, "edge-1");
    assert_eq!(settings.node.port, Some(10450));
    let addresses: Vec<_> = settings.node.addresses.iter().map(|at| (at.kind.as_str(), at.address.as_str())).collect();
    assert_eq!(addresses, [("InternalIP", "10.1.2.3"), ("ExternalIP", "192.0.2.1")]);
    let labels: Vec<_> = settings.node.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(labels, [("example.com/zone", "z2"), ("rack", "r1")]);
    assert_eq!(
        settings.node.taint,
        Some(Taint { key: "example.com/virtual".to_owned(), value: "yes".to_owned(), effect: TaintEffect::NoExecute })
    );
}

#[test]
fn a_flag_wins_over_the_environment() {
    let settings = resolved(
        &["--nodename=flag", "--kubelet-port=1", "--tls-cert-file=/c", "--tls-private-key-file=/k", "--node-ip=::1"],
        &[("DEFAULT_NODE_NAME", "env"), ("KUBELET_PORT", "2"), ("VKUBELET_POD_IP", "10.0.0.1")],
    );
    assert_eq!(settings.node.name, "flag");
    assert_eq!(settings.kubelet.port, 1);
    assert_eq!(settings.node.addresses[0].address, "::1");
}

#[test]
fn a_blank_variable_is_no_variable() {
    let settings = resolved(&[], &[("DEFAULT_NODE_NAME", ""), ("KUBELET_PORT", "")]);
    assert_eq!(settings.node.name, "virtual-kubelet");
}

#[test]
fn the_taint_can_be_left_out() {
    assert_eq!(resolved(&["--disable-taint"], &[]).node.taint, None);
    assert_eq!(resolved(&["--disable-taint=true"], &[("VKUBELET_TAINT_KEY", "k")]).node.taint, None);
    assert!(resolved(&["--disable-taint=false"], &[]).node.taint.is_some());
}

#[test]
fn controllers_are_chosen_by_name() {
    let chosen = |arg: &str| {
        let settings = resolved(&[arg], &[]);
        (settings.volumes, settings.services)
    };
    assert_eq!(chosen("--enable-controllers=PVControllers"), (true, false));
    assert_eq!(chosen("--enable-controllers=ServiceControllers,"), (false, true));
    assert_eq!(chosen("--enable-controllers="), (false, false));
}

#[test]
fn an_empty_list_of_labels_means_nothing_is_dropped() {
    assert!(resolved(&["--ignore-labels="], &[]).ignored_labels.is_empty());
}

#[test]
fn the_keys_of_the_cluster_level_are_those_of_the_webhook() {
    let settings = resolved(&["--ignore-selector-keys=clusterID,region"], &[]);
    assert_eq!(settings.kept_keys, KeptKeys::new(["clusterID", "region"]));
    let settings = resolved(&["--ignore-selector-keys=region", "--cluster-topology-keys=zone"], &[]);
    assert_eq!(settings.kept_keys, KeptKeys::new(["region"]).with_topology(["zone"]));
    let settings = resolved(&["--cluster-topology-keys="], &[]);
    assert_eq!(settings.kept_keys, KeptKeys::default().with_topology([""; 0]));
    assert!(refused(&["--ignore-selector-keys= ,"], &[]).starts_with("--ignore-selector-keys names no key"));
}

#[test]
fn a_long_node_name_is_still_a_cluster_id() {
    let name = format!("{}.example.com", "n".repeat(60));
    let settings = resolved(&[&format!("--nodename={name}")], &[]);
    let cluster_id = settings.node.cluster_id.unwrap();
    assert!(cluster_id.len() <= 63 && is_label_value(&cluster_id), "{cluster_id}");
}

#[test]
fn what_means_nothing_is_refused_with_its_origin() {
    assert_eq!(refused(&["--provider=aws"], &[]), "--provider: \"aws\" is not known; this program is provider k8s");
    assert_eq!(
        refused(&["--enable-controllers=PodControllers"], &[]),
        "--enable-controllers: \"PodControllers\" is not one of PVControllers, ServiceControllers"
    );
    assert_eq!(refused(&["--node-labels=rack"], &[]), "--node-labels: \"rack\" is not a label as KEY=VALUE");
    assert!(refused(&["--nodename=Node_1"], &[]).starts_with("--nodename: \"Node_1\" is not a node name"));
    assert_eq!(refused(&["--cluster-id=a b"], &[]), "--cluster-id: \"a b\" is not a label value");
    assert!(refused(&[], &[("VKUBELET_TAINT_EFFECT", "No")]).starts_with("VKUBELET_TAINT_EFFECT: \"No\" "));
    let certificate = [("APISERVER_CERT_LOCATION", "/c"), ("APISERVER_KEY_LOCATION", "/k"), ("KUBELET_PORT", "x")];
    assert!(refused(&[], &certificate).starts_with("KUBELET_PORT: \"x\" cannot be used"));
    assert_eq!(
        refused(&[], &[("APISERVER_CERT_LOCATION", "/c")]),
        "--tls-cert-file is set and --tls-private-key-file is not: the kubelet API needs certificate and key"
    );
    assert_eq!(refused(&["--namespace=a"], &[]), "--namespace is not supported: a virtual node serves all namespaces");
}

#[test]
fn label_keys_and_values_follow_the_api_server() {
    for good in ["a", "a.b_c-d", "example.com/a", "A1"] {
        assert!(is_label_key(good), "{good}");
    }
    for bad in ["", "/a", "a/", "a/b/c", "-a", "Example.com/a", "a b"] {
        assert!(!is_label_key(bad), "{bad}");
    }
    assert!(is_label_value(""));
    assert!(!is_label_value(&"v".repeat(64)));
}

#[test]
fn metrics_of_containers_come_from_where_the_operator_says() {
    use tensile_core::stats::{Source, Wanted};
    let stats = |args: &[&str]| resolved(args, &[]).kubelet.stats;
    assert_eq!(stats(&["--metrics-source=metrics-api"]).source, Wanted::Only(Source::MetricsApi));
    let store = stats(&["--prometheus-url=https://store:9090/select/0/prometheus/", "--prometheus-matchers={a=\"b\"}"]);
    assert_eq!(store.source, Wanted::Auto);
    let store = store.store.unwrap();
    assert_eq!(store.url, "https://store:9090/select/0/prometheus");
    assert_eq!(store.matchers, "a=\"b\"");
}

#[test]
fn a_store_that_cannot_be_asked_is_refused_without_repeating_what_may_be_a_password() {
    assert!(refused(&["--metrics-source=prometheus"], &[]).contains("needs --prometheus-url"));
    assert!(refused(&["--prometheus-matchers=a=\"b\""], &[]).contains("needs --prometheus-url"));
    for url in ["store:9090", "ftp://store", "http://user:secret@store", "http://", "secret nonsense"] {
        let refusal = refused(&["--prometheus-url", url], &[]);
        assert!(refusal.contains("--prometheus-url") && !refusal.contains("secret"), "{refusal}");
    }
}

#[test]
fn traces_go_where_the_flag_says_else_where_opentelemetry_s_variable_does() {
    let variable = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318/")];
    let traces = |args: &[&str], env| resolved(args, env).traces.map(|url| url.to_string());
    assert_eq!(traces(&[], &[]), None);
    assert_eq!(traces(&[], &variable).as_deref(), Some("http://there:4318/"));
    assert_eq!(traces(&["--otlp-endpoint=https://here:1"], &variable).as_deref(), Some("https://here:1/"));
    assert_eq!(traces(&["--otlp-endpoint="], &variable), None);
    let refusal = refused(&["--otlp-endpoint=here:4318"], &[]);
    assert!(refusal.contains("--otlp-endpoint") && refusal.contains("not an http or https URL"), "{refusal}");
}

#[test]
fn the_certificate_comes_from_files_else_from_a_request_unless_another_is_chosen() {
    let files = ["--tls-cert-file=/c", "--tls-private-key-file=/k"];
    let choice = |choice: &str| format!("--kubelet-serving-certificate={choice}");
    let of = |chosen: &str| resolved(&[&choice(chosen)], &[]).kubelet.certificate;
    assert_eq!(of("auto"), CertificateSource::Requested { required: false });
    assert_eq!(of("csr"), CertificateSource::Requested { required: true });
    assert_eq!(of("self-signed"), CertificateSource::SelfSigned);
    for chosen in ["auto", "files"] {
        let given = resolved(&[files[0], files[1], &choice(chosen)], &[]).kubelet.certificate;
        assert_eq!(
            given,
            CertificateSource::Files(CertificateFiles { cert: "/c".into(), key: "/k".into() }),
            "{chosen}"
        );
    }
    for chosen in ["csr", "self-signed"] {
        let told = format!("--kubelet-serving-certificate={chosen} and --tls-cert-file is set");
        assert_eq!(refused(&[files[0], files[1], &choice(chosen)], &[]), told);
    }
    let told = "--kubelet-serving-certificate=files and --tls-cert-file is not set";
    assert_eq!(refused(&[&choice("files")], &[]), told);
    assert!(Args::try_parse_from(["virtual-node", &choice("other")]).is_err());
}

#[test]
fn pods_keep_their_accounts_and_the_lower_dns_unless_told_otherwise() {
    let identity = |args: &[&str]| resolved(args, &[]).identity;
    let usual = IdentitySettings { service_accounts: true, upper_apiserver: None, dns: None };
    assert_eq!(identity(&[]), usual);
    assert_eq!(
        identity(&["--enable-serviceaccount=false", "--upper-apiserver=api.example.org:6443"]),
        IdentitySettings {
            service_accounts: false,
            upper_apiserver: Some("api.example.org:6443".to_owned()),
            dns: None
        }
    );
    for (args, domain) in [
        (&["--cluster-dns=10.0.0.10,fd00::a"][..], "cluster.local"),
        (&["--cluster-dns=10.0.0.10,fd00::a", "--cluster-domain=up.local."], "up.local"),
    ] {
        let dns = identity(args).dns.unwrap();
        assert_eq!(dns.servers, ["10.0.0.10".parse::<std::net::IpAddr>().unwrap(), "fd00::a".parse().unwrap()]);
        assert_eq!(dns.domain, domain);
    }
}

#[test]
fn a_domain_alone_is_taken_and_told_to_have_no_effect() {
    let settings = resolved(&["--cluster-domain=cluster.local"], &[]);
    assert_eq!(settings.identity.dns, None);
    assert_eq!(settings.warnings, ["--cluster-domain has no effect without --cluster-dns"]);
    assert!(refused(&["--cluster-dns=10.0.0.10", "--cluster-domain=a b"], &[]).contains("is not a domain"));
}

#[test]
fn classes_of_lower_clusters_are_named_with_or_without_another_name_below() {
    let classes = resolved(&["--storage-classes=fast=ssd, slow"], &[]).storage.classes;
    let expected = [("fast", "ssd"), ("slow", "slow")].map(|(upper, lower)| (upper.to_owned(), lower.to_owned()));
    assert_eq!(classes, expected.into());
    assert!(resolved(&[], &[]).storage.classes.is_empty());
    assert!(refused(&["--storage-classes=Fast=ssd"], &[]).starts_with("--storage-classes: \"Fast=ssd\" is not"));
}

#[test]
fn addresses_of_pods_are_shown_where_they_lead_somewhere_unless_the_operator_says_otherwise() {
    for (args, shown) in [
        (&["--pod-network=joined"][..], true),
        (&["--pod-network=separate"], false),
        (&["--pod-network=separate", "--show-pod-ips"], true),
        (&["--show-pod-ips=false"], false),
    ] {
        assert_eq!(resolved(args, &[]).show_pod_ips, shown, "{args:?}");
    }
    let settings = resolved(&["--pod-network=separate", "--service-path=loadbalancer", "--event-qps=0"], &[]);
    let path = tensile_core::service::Path::LoadBalancer;
    assert_eq!(settings.networking, Networking { network: Network::Separate, path, legacy_endpoints: false });
    assert!(resolved(&["--legacy-endpoints"], &[]).networking.legacy_endpoints);
    assert!(settings.event_qps.abs() < f32::EPSILON);
}
