// SPDX-License-Identifier: Apache-2.0
//! What can be typed: every flag of tensile-kube's virtual node, and ours. What the flags mean is decided in
//! [`crate::config`].
//!
//! All flags are optional here, so that a settings file or the environment may hold them.

mod accepted;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tensile_core::identity::{ApiServer, ApiServerError};
use tensile_core::node::TaintEffect;
use tensile_core::service::{Network, Path};
use tensile_core::stats::{UnknownSource, Wanted};
use tensile_core::tenant::{Mapping, UnknownMapping};
use tensile_runtime::args::value::{boolean, duration, rate};
use tensile_runtime::args::{Accepted, ConfigArgs};
use tensile_runtime::listen::ListenAddr;
use tensile_runtime::telemetry::LogArgs;

pub use accepted::TensileKube;

use crate::identity::MissingToken;
use crate::objects::OnConflict;

/// One lower Kubernetes cluster as one node of the upper cluster.
///
/// Pods bound to the node run in the lower cluster; their status comes back up. Nothing is installed in the lower
/// cluster. A flag may also stand in the settings file; what is typed wins over the file, the file over the
/// environment, the environment over the default.
///
/// Exit codes: 0 ended by a signal and drained, 1 could not start or failed while running, 2 a flag or setting is wrong.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "virtual-node", version, max_term_width = 100)]
#[allow(clippy::doc_markdown, reason = "these texts are the help page, which knows no markdown")]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub config: ConfigArgs,

    /// Kubeconfig of the upper cluster [env: KUBECONFIG] [default: ~/.kube/config if there is one, else the service
    /// account of this pod]
    #[arg(long, value_name = "FILE", help_heading = CLUSTERS)]
    pub kubeconfig: Option<PathBuf>,

    /// Context in the upper kubeconfig [default: its current-context]
    #[arg(long, value_name = "NAME", help_heading = CLUSTERS)]
    pub context: Option<String>,

    /// Requests per second to the upper API server, 0 for no limit [default: 500]
    #[arg(long, value_name = "QPS", value_parser = rate, help_heading = CLUSTERS)]
    pub kube_api_qps: Option<f32>,

    /// Requests at once to the upper API server [default: 1000]
    #[arg(long, value_name = "N", help_heading = CLUSTERS)]
    pub kube_api_burst: Option<u32>,

    /// Kubeconfig of the lower cluster; required
    #[arg(long, value_name = "FILE", help_heading = CLUSTERS)]
    pub client_kubeconfig: Option<PathBuf>,

    /// Context in the lower kubeconfig [default: its current-context]
    #[arg(long, value_name = "NAME", help_heading = CLUSTERS)]
    pub client_context: Option<String>,

    /// Requests per second to the lower API server, 0 for no limit [default: 500]
    #[arg(long, value_name = "QPS", value_parser = rate, help_heading = CLUSTERS)]
    pub client_qps: Option<f32>,

    /// Requests at once to the lower API server [default: 1000]
    #[arg(long, value_name = "N", help_heading = CLUSTERS)]
    pub client_burst: Option<u32>,

    /// Name of the virtual node [env: DEFAULT_NODE_NAME] [default: virtual-kubelet]
    #[arg(long, value_name = "NAME", help_heading = NODE)]
    pub nodename: Option<String>,

    /// Value of the node label `clusterID` [default: the node's name]
    #[arg(long, value_name = "ID", help_heading = NODE)]
    pub cluster_id: Option<String>,

    /// More labels of the node, as KEY=VALUE,... [env: VKUBELET_NODE_LABEL]
    #[arg(long, value_name = "LABELS", help_heading = NODE)]
    pub node_labels: Option<String>,

    /// Leave out the taint that keeps ordinary pods away
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = NODE)]
    pub disable_taint: Option<bool>,

    /// Key of the taint [env: VKUBELET_TAINT_KEY] [default: virtual-kubelet.io/provider]
    #[arg(long, visible_alias = "taint", value_name = "KEY", help_heading = NODE)]
    pub taint_key: Option<String>,

    /// Value of the taint [env: VKUBELET_TAINT_VALUE] [default: the provider]
    #[arg(long, value_name = "VALUE", help_heading = NODE)]
    pub taint_value: Option<String>,

    /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute [env: VKUBELET_TAINT_EFFECT] [default:
    /// NoSchedule]
    #[arg(long, value_name = "EFFECT", value_parser = effect, help_heading = NODE)]
    pub taint_effect: Option<TaintEffect>,

    /// Name of the provider; only k8s is known [default: k8s]
    #[arg(long, value_name = "NAME", help_heading = NODE)]
    pub provider: Option<String>,

    /// Labels of pods that do not go down, as KEY,... [default:
    /// group.batch.scheduler.tencent.com,pod-group.scheduling.sigs.k8s.io]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub ignore_labels: Option<Vec<String>>,

    /// Node label keys that the upper scheduler decides on, as KEY,...; the same as the webhook's [default: clusterID]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub ignore_selector_keys: Option<Vec<String>>,

    /// Topology keys of the cluster level, as KEY,...; the same as the webhook's, and the first must be a label of this
    /// node. Pod affinity and spread over other keys are decided below; empty to copy them all down [default: those of
    /// --ignore-selector-keys]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub cluster_topology_keys: Option<Vec<String>>,

    /// Object controllers that run, as NAME,... of PVControllers (claims and volumes) and ServiceControllers (Services and
    /// their endpoints); empty for none [default: both]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = PODS)]
    pub enable_controllers: Option<Vec<String>>,

    /// Give pods below the service account that they have above: its tokens, the CA of the upper cluster and the address of
    /// its API server [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub enable_serviceaccount: Option<bool>,

    /// Address of the upper API server as lower pods reach it, as https://HOST:PORT, HOST:PORT or HOST [default: the one
    /// that this process uses]
    #[arg(long, value_name = "ADDRESS", value_parser = api_server, help_heading = PODS)]
    pub upper_apiserver: Option<String>,

    /// Addresses of the upper cluster's DNS, as IP,...: lower pods with dnsPolicy ClusterFirst use it instead of the lower
    /// cluster's [default: the lower cluster's]
    #[arg(long, value_name = "IPS", value_delimiter = ',', help_heading = PODS)]
    pub cluster_dns: Option<Vec<IpAddr>>,

    /// Domain of the upper cluster's Services, with --cluster-dns [default: cluster.local]
    #[arg(long, value_name = "DOMAIN", help_heading = PODS)]
    pub cluster_domain: Option<String>,

    /// Whether pods of different clusters reach one another by their IPs: joined or separate [default: joined]
    #[arg(long, value_name = "NETWORK", value_parser = network, help_heading = PODS)]
    pub pod_network: Option<Network>,

    /// Where networks are separate, what a Service below leads to: endpoints (the pods of the same cluster) or loadbalancer
    /// (its load balancer upstairs, if it has one) [default: endpoints]
    #[arg(long, value_name = "PATH", value_parser = service_path, help_heading = PODS)]
    pub service_path: Option<Path>,

    /// Write Endpoints below beside EndpointSlices, for clients there that do not know those; Kubernetes has deprecated them
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub legacy_endpoints: Option<bool>,

    /// Show the IPs of lower pods on upper pods [default: true if --pod-network=joined]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub show_pod_ips: Option<bool>,

    /// Take pods that use the network, process ids or IPC of their node [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub allow_host_namespaces: Option<bool>,

    /// Refuse pods that mount a path of their node, and claims whose volume is one [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub refuse_host_path: Option<bool>,

    /// StorageClasses upstairs whose volumes are made in the lower cluster, and what they are called there, as
    /// UPPER=LOWER,... or UPPER,... for the same name. Those with provisioner volumes.tensile.io need not be named
    #[arg(long, value_name = "CLASSES", help_heading = PODS)]
    pub storage_classes: Option<String>,

    /// Pass runtimeClassName down; the lower cluster must have classes of the same names [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub keep_runtime_class: Option<bool>,

    /// When the lower cluster has a ConfigMap or Secret of the same name that is not a copy of ours: rename the copy and
    /// the pod's references to it, or refuse the pod [default: rename]
    #[arg(long, value_name = "WHAT", value_parser = on_conflict, help_heading = PODS)]
    pub on_conflict: Option<OnConflict>,

    /// Where the lower cluster lets no token be kept: omit (a pod that has account default, and its token only because
    /// every pod has one, runs without it and is warned; others wait) or wait (all wait) [default: omit]
    #[arg(long, value_name = "WHAT", value_parser = missing_token, help_heading = PODS)]
    pub missing_token: Option<MissingToken>,

    /// Events of lower pods that are shown on their upper pods, a second in the long run; 0 for none [default: 20]
    #[arg(long, value_name = "QPS", value_parser = rate, help_heading = PODS)]
    pub event_qps: Option<f32>,

    /// Pods that are worked on at the same time [default: 24]
    #[arg(long, value_name = "N", help_heading = PODS)]
    pub pod_sync_workers: Option<u16>,

    /// Which namespace below a namespace upstairs becomes: same (the one of the same name), prefix or suffix (one of its
    /// own, with a text of this link before or behind; prefix:TEXT and suffix:TEXT choose it), or single:NAMESPACE (this one
    /// for all, with hashed names). Cannot change while there are pods [default: same]
    #[arg(long, value_name = "MAPPING", value_parser = mapping, help_heading = TENANTS)]
    pub namespace_mapping: Option<Mapping>,

    /// Manifests of ResourceQuotas and LimitRanges (YAML) that are in each namespace below that this virtual node makes; an
    /// empty file takes them away
    #[arg(long, value_name = "FILE", help_heading = TENANTS)]
    pub tenant_quota: Option<PathBuf>,

    /// Put a NetworkPolicy into each of these namespaces: its pods are reached by pods of the same upper cluster only
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = TENANTS)]
    pub tenant_isolation: Option<bool>,

    /// Address of the node where API servers reach its kubelet API [env: VKUBELET_POD_IP]
    #[arg(long, value_name = "IP", help_heading = KUBELET)]
    pub node_ip: Option<String>,

    /// The same for outside the upper cluster's network [env: VKUBELET_EXTERNAL_POD_IP]
    #[arg(long, value_name = "IP", help_heading = KUBELET)]
    pub node_external_ip: Option<String>,

    /// Port of the kubelet API on all addresses, 0 for any that is free; the Node announces it [env: KUBELET_PORT]
    /// [default: 10250]
    #[arg(long, value_name = "PORT", help_heading = KUBELET)]
    pub kubelet_port: Option<u16>,

    /// Where the certificate of the kubelet API comes from: files, csr (asked of the upper cluster, to be approved there),
    /// self-signed, or auto: the first of these that files or rights allow [default: auto]
    #[arg(long, value_name = "SOURCE", value_parser = certificate, help_heading = KUBELET)]
    pub kubelet_serving_certificate: Option<CertificateChoice>,

    /// Certificate of the kubelet API (PEM), read anew when it changes [env: APISERVER_CERT_LOCATION]
    #[arg(long, value_name = "FILE", help_heading = KUBELET)]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of that certificate (PEM) [env: APISERVER_KEY_LOCATION]
    #[arg(long, value_name = "FILE", help_heading = KUBELET)]
    pub tls_private_key_file: Option<PathBuf>,

    /// CA of the clients of the kubelet API (PEM), read anew when it changes [env: APISERVER_CA_CERT_LOCATION]
    /// [default: what the upper API server trusts]
    #[arg(long, visible_alias = "client-verify-ca", value_name = "FILE", help_heading = KUBELET)]
    pub client_ca_file: Option<PathBuf>,

    /// Where metrics of containers come from, for kubectl top and autoscalers: kubelet (those below, through their API
    /// server), metrics-api (the one below), prometheus (a store, see --prometheus-url), none, or auto: the first of
    /// them that the lower cluster allows [default: auto]
    #[arg(long, value_name = "SOURCE", value_parser = source, help_heading = METRICS)]
    pub metrics_source: Option<Wanted>,

    /// Address of a metric store that speaks Prometheus' HTTP API and scrapes the lower cluster's kubelets, as
    /// SCHEME://HOST:PORT, and the path before /api/v1 if there is one
    #[arg(long, value_name = "URL", help_heading = METRICS)]
    pub prometheus_url: Option<String>,

    /// Label matchers that select the lower cluster in a store of several, such as cluster="east"
    #[arg(long, value_name = "MATCHERS", help_heading = METRICS)]
    pub prometheus_matchers: Option<String>,

    /// Address of /metrics, /healthz and /readyz, as IP:PORT or :PORT; empty for none [default: :10255]
    #[arg(long, value_name = "ADDRESS", value_parser = address, help_heading = SERVICE)]
    pub metrics_addr: Option<MetricsAddr>,

    /// Address of a collector of OpenTelemetry traces that speaks OTLP over HTTP, as SCHEME://HOST:PORT, usually with port
    /// 4318; one trace for each pod start, under the pod's UID [default: $OTEL_EXPORTER_OTLP_ENDPOINT, else no traces]
    #[arg(long, value_name = "URL", help_heading = SERVICE)]
    pub otlp_endpoint: Option<String>,

    /// How long to finish what is in hand after a signal, such as 20s or 1m [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = SERVICE)]
    pub drain_timeout: Option<Duration>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub log: LogArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub accepted: Accepted<TensileKube>,
}

const CLUSTERS: &str = "Clusters";
const NODE: &str = "Node";
const PODS: &str = "Pods";
const TENANTS: &str = "Tenants";
const KUBELET: &str = "Kubelet API";
const METRICS: &str = "Metrics of containers";
const SERVICE: &str = "Service";

/// Where metrics are served; none for an empty address.
///
/// A type of its own because clap reads `Option<Option<T>>` as a flag with an optional value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsAddr(pub Option<ListenAddr>);

fn address(text: &str) -> Result<MetricsAddr, String> {
    if text.is_empty() {
        return Ok(MetricsAddr(None));
    }
    text.parse().map(Some).map(MetricsAddr).map_err(|error: tensile_runtime::listen::ListenAddrError| error.to_string())
}

/// Where the certificate of the kubelet API comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CertificateChoice {
    /// Files if some are named, else a request if it may be made, else self-signed.
    #[default]
    Auto,
    /// A request to the upper cluster.
    Csr,
    /// Files.
    Files,
    /// Nobody else signs it.
    SelfSigned,
}

fn certificate(text: &str) -> Result<CertificateChoice, String> {
    match text {
        "auto" => Ok(CertificateChoice::Auto),
        "csr" => Ok(CertificateChoice::Csr),
        "files" => Ok(CertificateChoice::Files),
        "self-signed" => Ok(CertificateChoice::SelfSigned),
        _ => Err("none of auto, csr, files and self-signed".to_owned()),
    }
}

fn effect(text: &str) -> Result<TaintEffect, String> {
    text.parse().map_err(|error: tensile_core::node::build::UnknownTaintEffect| error.to_string())
}

fn source(text: &str) -> Result<Wanted, String> {
    text.parse().map_err(|error: UnknownSource| error.to_string())
}

fn api_server(text: &str) -> Result<String, String> {
    ApiServer::parse(text).map(|_| text.to_owned()).map_err(|error: ApiServerError| error.to_string())
}

fn network(text: &str) -> Result<Network, String> {
    match text {
        "joined" => Ok(Network::Joined),
        "separate" => Ok(Network::Separate),
        _ => Err("neither joined nor separate".to_owned()),
    }
}

fn service_path(text: &str) -> Result<Path, String> {
    match text {
        "endpoints" => Ok(Path::Endpoints),
        "loadbalancer" => Ok(Path::LoadBalancer),
        _ => Err("neither endpoints nor loadbalancer".to_owned()),
    }
}

fn on_conflict(text: &str) -> Result<OnConflict, String> {
    match text {
        "rename" => Ok(OnConflict::Rename),
        "refuse" => Ok(OnConflict::Refuse),
        _ => Err("neither rename nor refuse".to_owned()),
    }
}

fn missing_token(text: &str) -> Result<MissingToken, String> {
    match text {
        "omit" => Ok(MissingToken::Omit),
        "wait" => Ok(MissingToken::Wait),
        _ => Err("neither omit nor wait".to_owned()),
    }
}

fn mapping(text: &str) -> Result<Mapping, String> {
    text.parse().map_err(|error: UnknownMapping| error.to_string())
}

#[cfg(test)]
mod tests;
