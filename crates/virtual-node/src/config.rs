// SPDX-License-Identifier: Apache-2.0
//! What the flags mean: raw arguments, environment and defaults become [`Settings`], purely.
//!
//! What was typed wins over the settings file (they are merged before, in `tensile_runtime::args`), the file over the
//! environment, the environment over the default.

mod identity;
mod kubelet;
mod objects;
mod stats;
mod tenants;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use http::Uri;
use tensile_core::names;
use tensile_core::node::{Address, NodeSettings, Taint, TaintEffect};
use tensile_core::placement::{KeptKeys, NoKeptKey};
use tensile_core::service::{Network, Networking};
use tensile_core::volume::Storage;
use tensile_runtime::clients::ClientSource;
use tensile_runtime::listen::ListenAddr;
use thiserror::Error;

use crate::args::Args;
use crate::identity::MissingToken;
use crate::objects::OnConflict;
pub use identity::IdentitySettings;
pub use kubelet::{CertificateFiles, CertificateSource, KubeletApi};
pub use stats::{StatsSettings, StoreSettings};
pub use tenants::TenantSettings;

/// How the program names itself to API servers.
pub(crate) const COMPONENT: &str = "virtual-node";
/// The only provider there is, also the default value of the taint.
const PROVIDER: &str = "k8s";
/// Name of the node when nobody names it, as tensile-kube's.
const DEFAULT_NODE_NAME: &str = "virtual-kubelet";
const DEFAULT_QPS: f32 = 500.0;
const DEFAULT_BURST: u32 = 1000;
const DEFAULT_METRICS_PORT: u16 = 10255;
const DEFAULT_WORKERS: u16 = 24;
/// Less than half of what one kubelet writes by default.
const DEFAULT_EVENT_QPS: f32 = 20.0;
/// Less than the 30 s a pod has between SIGTERM and SIGKILL.
const DEFAULT_DRAIN: Duration = Duration::from_secs(20);

/// Everything that is decided before the first request.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own, which the operator flips by itself")]
pub struct Settings {
    /// The upper API server.
    pub upper: ClientSource,
    /// The lower API server.
    pub lower: ClientSource,
    /// The virtual node. Its `version` is empty until the lower API server has told its own, and its `port` is the one
    /// asked for until the kubelet API listens.
    pub node: NodeSettings,
    /// Kubelet API.
    pub kubelet: KubeletApi,
    /// Labels that do not go down.
    pub ignored_labels: Vec<String>,
    /// The keys that upper scheduling decides on.
    pub kept_keys: KeptKeys,
    /// Claims and volumes are kept in step.
    pub volumes: bool,
    /// How, if so.
    pub storage: Storage,
    /// Services and endpoints are kept in step.
    pub services: bool,
    /// How, if so.
    pub networking: Networking,
    /// What of the upper cluster pods keep below.
    pub identity: IdentitySettings,
    /// What becomes of pods whose tokens cannot be kept below.
    pub missing_token: MissingToken,
    /// How tenants are kept apart.
    pub tenants: TenantSettings,
    /// Upper pods show the IPs of their lower pods.
    pub show_pod_ips: bool,
    /// Pods may use the network, process ids and IPC of lower nodes.
    pub allow_host_namespaces: bool,
    /// Pods that mount a path of their node are refused.
    pub refuse_host_path: bool,
    /// `runtimeClassName` goes down.
    pub keep_runtime_class: bool,
    /// What becomes of a copy whose name is taken below.
    pub on_conflict: OnConflict,
    /// Events of lower pods that are shown upstairs, a second in the long run; 0 for none.
    pub event_qps: f32,
    /// Pods that are worked on at the same time; at least 1.
    pub workers: u16,
    /// Where metrics and probes are served, if at all.
    pub metrics: Option<ListenAddr>,
    /// The collector that traces go to, if any.
    pub traces: Option<Uri>,
    /// How long to finish what is in hand after a signal.
    pub drain: Duration,
    /// What was given without effect, one sentence each, to be logged.
    pub warnings: Vec<String>,
}

/// Why the arguments and the environment do not add up, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// There is no lower cluster.
    #[error("--client-kubeconfig is missing: it names the kubeconfig of the lower cluster")]
    NoLowerCluster,
    /// There is no kept key.
    #[error(transparent)]
    NoKeptKey(#[from] NoKeptKey),
    /// A flag that cannot be honoured.
    #[error("{0}")]
    Unsupported(String),
    /// A value that means nothing.
    #[error("{origin}: {value:?} {reason}")]
    Value {
        /// The flag or environment variable.
        origin: &'static str,
        /// What it says.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate files, and the wish for another certificate, or the other way round.
    #[error("--kubelet-serving-certificate={choice} and {files}")]
    Certificate {
        /// What was chosen.
        choice: &'static str,
        /// How it stands with the files.
        files: &'static str,
    },
    /// Half a certificate.
    #[error("{given} is set and {missing} is not: the kubelet API needs certificate and key")]
    HalfCertificate {
        /// What is there.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
}

/// What surrounds the process. Tests give their own.
pub struct Surroundings<'a> {
    /// Looks an environment variable up.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Whether there is a file.
    pub exists: &'a dyn Fn(&Path) -> bool,
}

impl Surroundings<'_> {
    /// Those of this process.
    pub const PROCESS: Surroundings<'static> =
        Surroundings { env: &|name| std::env::var(name).ok(), exists: &|path| path.is_file() };

    /// A variable that is set to something. Empty means unset, as manifests blank what they do not need.
    fn var(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from)
    }

    fn parsed<T: FromStr<Err: Display>>(&self, name: &'static str) -> Result<Option<T>, SettingsError> {
        let parse = |value: String| match value.parse() {
            Ok(parsed) => Ok(parsed),
            Err(error) => Err(invalid(name, value, format!("cannot be used: {error}"))),
        };
        self.var(name).map(parse).transpose()
    }
}

impl Settings {
    /// What `args` mean in these surroundings.
    ///
    /// # Errors
    ///
    /// One sentence that names the flag or the variable at fault.
    pub fn resolve(args: Args, around: &Surroundings<'_>) -> Result<Self, SettingsError> {
        if let Some(refused) = args.accepted.refused.first() {
            return Err(SettingsError::Unsupported(refused.clone()));
        }
        if let Some(provider) = args.provider.as_ref().filter(|provider| *provider != PROVIDER) {
            return Err(invalid("--provider", provider, format!("is not known; this program is provider {PROVIDER}")));
        }
        let (volumes, services) = objects::controllers(args.enable_controllers.as_deref())?;
        let kubelet = kubelet::kubelet_api(&args, around)?;
        let traces = traces(&args, around)?;
        let (identity, warning) = IdentitySettings::resolve(&args)?;
        let networking = Networking {
            network: args.pod_network.unwrap_or_default(),
            path: args.service_path.unwrap_or_default(),
            legacy_endpoints: args.legacy_endpoints.unwrap_or_default(),
        };
        Ok(Self {
            identity,
            missing_token: args.missing_token.unwrap_or_default(),
            tenants: TenantSettings::resolve(&args),
            upper: upper(&args, around),
            lower: lower(&args)?,
            node: node(&args, around, kubelet.port)?,
            kubelet,
            ignored_labels: listed(args.ignore_labels, names::DEFAULT_IGNORED_LABELS),
            kept_keys: KeptKeys::of_flags(args.ignore_selector_keys, args.cluster_topology_keys)?,
            volumes,
            storage: Storage { classes: objects::classes(args.storage_classes.as_deref().unwrap_or_default())? },
            services,
            networking,
            show_pod_ips: args.show_pod_ips.unwrap_or(networking.network == Network::Joined),
            allow_host_namespaces: args.allow_host_namespaces.unwrap_or(false),
            refuse_host_path: args.refuse_host_path.unwrap_or(false),
            keep_runtime_class: args.keep_runtime_class.unwrap_or(false),
            on_conflict: args.on_conflict.unwrap_or_default(),
            event_qps: args.event_qps.unwrap_or(DEFAULT_EVENT_QPS),
            workers: args.pod_sync_workers.unwrap_or(DEFAULT_WORKERS).max(1),
            metrics: args.metrics_addr.map_or(Some(ListenAddr::AllOn(DEFAULT_METRICS_PORT)), |given| given.0),
            drain: args.drain_timeout.unwrap_or(DEFAULT_DRAIN),
            traces,
            warnings: args.accepted.without_effect.into_iter().chain(warning).collect(),
        })
    }
}

/// A kubeconfig that somebody named must be there; the one in the home directory may be.
fn upper(args: &Args, around: &Surroundings<'_>) -> ClientSource {
    let at_home = || {
        let path = around.path("HOME")?.join(".kube/config");
        (around.exists)(&path).then_some(path)
    };
    let kubeconfig = args.kubeconfig.clone().or_else(|| around.path("KUBECONFIG")).or_else(at_home);
    ClientSource::new(COMPONENT, kubeconfig)
        .context(args.context.clone())
        .limit(args.kube_api_qps.unwrap_or(DEFAULT_QPS), args.kube_api_burst.unwrap_or(DEFAULT_BURST))
}

fn lower(args: &Args) -> Result<ClientSource, SettingsError> {
    let kubeconfig = args.client_kubeconfig.clone().ok_or(SettingsError::NoLowerCluster)?;
    Ok(ClientSource::new(COMPONENT, Some(kubeconfig))
        .context(args.client_context.clone())
        .limit(args.client_qps.unwrap_or(DEFAULT_QPS), args.client_burst.unwrap_or(DEFAULT_BURST)))
}

fn node(args: &Args, around: &Surroundings<'_>, port: u16) -> Result<NodeSettings, SettingsError> {
    // tensile-kube's library reads the second spelling, its manifests and guides use the first.
    let named = ["DEFAULT_NODE_NAME", "DEFAULTNODE_NAME"].into_iter().find_map(|name| around.var(name));
    let name = args.nodename.clone().or(named).unwrap_or_else(|| DEFAULT_NODE_NAME.to_owned());
    if !is_subdomain(&name) {
        let reason = "is not a node name: lower-case letters, digits, '-' and '.', at most 253".to_owned();
        return Err(invalid("--nodename", name, reason));
    }
    let cluster_id = args.cluster_id.clone().unwrap_or_else(|| names::label_value(&name));
    if !is_label_value(&cluster_id) {
        return Err(invalid("--cluster-id", cluster_id, "is not a label value".to_owned()));
    }
    let labels = match &args.node_labels {
        Some(text) => labels("--node-labels", text)?,
        None => around
            .var("VKUBELET_NODE_LABEL")
            .map_or(Ok(BTreeMap::new()), |text| labels("VKUBELET_NODE_LABEL", &text))?,
    };
    let address = |kind: &str, flag: &Option<String>, variable: &str| {
        let address = flag.clone().or_else(|| around.var(variable))?;
        Some(Address { kind: kind.to_owned(), address })
    };
    Ok(NodeSettings {
        name,
        cluster_id: Some(cluster_id),
        labels,
        annotations: BTreeMap::new(),
        taint: taint(args, around)?,
        addresses: [
            address("InternalIP", &args.node_ip, "VKUBELET_POD_IP"),
            address("ExternalIP", &args.node_external_ip, "VKUBELET_EXTERNAL_POD_IP"),
        ]
        .into_iter()
        .flatten()
        .collect(),
        port: Some(port),
        version: String::new(),
    })
}

fn taint(args: &Args, around: &Surroundings<'_>) -> Result<Option<Taint>, SettingsError> {
    if args.disable_taint == Some(true) {
        return Ok(None);
    }
    let text = |flag: &Option<String>, variable: &str, default: &str| {
        flag.clone().or_else(|| around.var(variable)).unwrap_or_else(|| default.to_owned())
    };
    let effect = match args.taint_effect {
        Some(effect) => effect,
        None => around.parsed("VKUBELET_TAINT_EFFECT")?.unwrap_or(TaintEffect::NoSchedule),
    };
    Ok(Some(Taint {
        key: text(&args.taint_key, "VKUBELET_TAINT_KEY", names::PROVIDER_TAINT),
        value: text(&args.taint_value, "VKUBELET_TAINT_VALUE", PROVIDER),
        effect,
    }))
}

/// `KEY=VALUE,...`; tensile-kube's `KEY:VALUE` is taken too, neither sign can be in a key.
fn labels(origin: &'static str, text: &str) -> Result<BTreeMap<String, String>, SettingsError> {
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.split_once(['=', ':']) {
            Some((key, value)) if is_label_key(key) && is_label_value(value) => Ok((key.to_owned(), value.to_owned())),
            _ => Err(invalid(origin, pair, "is not a label as KEY=VALUE".to_owned())),
        })
        .collect()
}

fn listed(given: Option<Vec<String>>, default: &[&str]) -> Vec<String> {
    let given = given.unwrap_or_else(|| default.iter().map(ToString::to_string).collect());
    given.into_iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

fn invalid(origin: &'static str, value: impl Into<String>, reason: String) -> SettingsError {
    SettingsError::Value { origin, value: value.into(), reason }
}

/// An address; what it says is not repeated, for it may hold a password.
fn url(origin: &'static str, text: &str) -> Result<Uri, SettingsError> {
    let refused = |reason: &str| invalid(origin, "(the value)", reason.to_owned());
    let url: Uri = text.trim_end_matches('/').parse().map_err(|_| refused("is not a URL"))?;
    match (url.scheme_str(), url.authority()) {
        (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => Ok(url),
        (Some("http" | "https"), Some(_)) => Err(refused("names a user: that is not supported")),
        _ => Err(refused("is not an http or https URL with a host")),
    }
}

/// Where traces go, if anywhere: the flag, or the variable that OpenTelemetry's own exporters read.
fn traces(args: &Args, around: &Surroundings<'_>) -> Result<Option<Uri>, SettingsError> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    match (&args.otlp_endpoint, around.var(VARIABLE)) {
        (Some(text), _) if text.is_empty() => Ok(None),
        (Some(text), _) => url("--otlp-endpoint", text).map(Some),
        (None, Some(text)) => url(VARIABLE, &text).map(Some),
        (None, None) => Ok(None),
    }
}

/// A DNS-1123 subdomain, as names of nodes and prefixes of label keys are.
fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    text.is_empty()
        || text.len() <= 63
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests;
