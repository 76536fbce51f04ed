// SPDX-License-Identifier: Apache-2.0
//! What can be typed, and what the flags mean together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tensile_core::names;
use tensile_core::placement::{KeptKeys, NoKeptKey};
use tensile_core::scheduling::{Unknown, Weights};
use tensile_runtime::args::ConfigArgs;
use tensile_runtime::args::value::{boolean, duration, rate, timeout};
use tensile_runtime::clients::ClientSource;
use tensile_runtime::listen::ListenAddr;
use tensile_runtime::telemetry::LogArgs;

use crate::profile::{self, Profiles, ProfilesError};

/// The multi-scheduler: tells a kube-scheduler, as its extender, which virtual nodes have a node below that a pod fits on.
///
/// It follows the nodes, pods and volumes of every lower cluster it has a kubeconfig of, and answers from what it knows.
/// What is typed wins over the settings file, the file over the default.
///
/// Exit codes: 0 ended by a signal and drained, 1 could not start or failed while running, 2 a flag or setting is wrong.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "multi-scheduler", version, max_term_width = 100)]
#[allow(clippy::doc_markdown, reason = "these texts are the help page, which knows no markdown")]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub config: ConfigArgs,

    /// Kubeconfig of the upper cluster [default: the service account of this pod]
    #[arg(long, value_name = "FILE", help_heading = UPPER)]
    pub kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig [default: its current-context]
    #[arg(long, value_name = "NAME", help_heading = UPPER)]
    pub context: Option<String>,

    /// Namespace whose ConfigMaps labelled tensile.io/exclusions=true say which virtual nodes an owner's pods keep off; the
    /// descheduler writes them [default: none is looked for]
    #[arg(long, value_name = "NAMESPACE", help_heading = UPPER)]
    pub exclusions_namespace: Option<String>,

    /// Folder whose files are kubeconfigs, one of each lower cluster; looked at every few seconds
    #[arg(long, value_name = "FOLDER", help_heading = LOWER)]
    pub clusters_dir: Option<PathBuf>,

    /// Namespace whose Secrets labelled tensile.io/kubeconfig=true hold kubeconfigs, one of each lower cluster, under the key
    /// `kubeconfig`
    #[arg(long, value_name = "NAMESPACE", help_heading = LOWER)]
    pub clusters_namespace: Option<String>,

    /// Requests per second to each lower API server, 0 for no limit [default: 50]
    #[arg(long, value_name = "QPS", value_parser = rate, help_heading = LOWER)]
    pub client_qps: Option<f32>,

    /// Requests at once to each lower API server [default: 100]
    #[arg(long, value_name = "N", help_heading = LOWER)]
    pub client_burst: Option<u32>,

    /// What is said of a virtual node whose lower cluster is not known well enough: open lets pods go there, closed refuses
    /// them [default: closed]
    #[arg(long, value_name = "POLICY", help_heading = LOWER)]
    pub stale: Option<Stale>,

    /// How long a lower cluster may not answer until what is known of it counts as stale [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = LOWER)]
    pub stale_after: Option<Duration>,

    /// Address to serve on [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = SERVING)]
    pub address: Option<IpAddr>,

    /// Port to serve on [default: 8443]
    #[arg(long, value_name = "PORT", help_heading = SERVING)]
    pub port: Option<u16>,

    /// Certificate (PEM), read anew when it changes [default: none, plain HTTP]
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub tls_private_key_file: Option<PathBuf>,

    /// CA of the schedulers (PEM): who has no certificate of it is not served, or needs a token where one is taken
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub client_ca: Option<PathBuf>,

    /// How long the body of a request may take to arrive, such as 5s [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = SERVING)]
    pub request_timeout: Option<Duration>,

    /// Address of /metrics, /healthz and /readyz, as IP:PORT or :PORT [default: :10260]
    #[arg(long, value_name = "ADDRESS", help_heading = SERVING)]
    pub metrics_addr: Option<ListenAddr>,

    /// How long to finish what is in hand after a signal, such as 20s or 1m [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = SERVING)]
    pub drain_timeout: Option<Duration>,

    /// Which plugins judge a pod below, as a KubeSchedulerConfiguration: its profile default-scheduler, and one named after
    /// each lower cluster that differs [default: what an unconfigured kube-scheduler does]
    #[arg(long, value_name = "FILE", help_heading = PODS)]
    pub scheduler_profile: Option<PathBuf>,

    /// What makes one virtual node better than another (YAML: mode spread, binpack or balanced; headroom, tightness,
    /// stranding, preferred from 0 to 100) [default: mode spread, headroom 4, the others 2]
    #[arg(long, value_name = "FILE", help_heading = PODS)]
    pub score_weights: Option<PathBuf>,

    /// What is said of a pod that asks for something which is not modelled, such as resource claims: allow leaves it to the
    /// lower scheduler, deny refuses it [default: deny]
    #[arg(long, value_name = "POLICY", help_heading = PODS)]
    pub unknown: Option<Unmodelled>,

    /// How long room is kept for a pod that a scheduler was told of and has not been seen to bind [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = PODS)]
    pub reservation_time: Option<Duration>,

    /// Node label keys that the upper scheduler decides on, as KEY,...; the same as the virtual nodes' [default: clusterID]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub ignore_selector_keys: Option<Vec<String>>,

    /// Topology keys of the cluster level, as KEY,...; the same as the virtual nodes' [default: those of
    /// --ignore-selector-keys]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub cluster_topology_keys: Option<Vec<String>>,

    /// The virtual nodes take pods that use the network, process ids or IPC of their node, as their flag of this name says
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub allow_host_namespaces: Option<bool>,

    /// The virtual nodes refuse pods that mount a path of their node, as their flag of this name says [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub refuse_host_path: Option<bool>,

    /// Labels that virtual nodes do not copy below, as KEY,...; the same as theirs [default:
    /// group.batch.scheduler.tencent.com,pod-group.scheduling.sigs.k8s.io]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub ignore_labels: Option<Vec<String>>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub log: LogArgs,
}

/// What is said of a virtual node whose lower cluster is not known well enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stale {
    /// Pods may go there.
    Open,
    /// They may not.
    Closed,
}

/// What is said of a pod that asks for what is not modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unmodelled {
    /// The rest of it decides.
    Allow,
    /// It fits nowhere.
    Deny,
}

/// How the program names itself to API servers.
const COMPONENT: &str = "multi-scheduler";

const UPPER: &str = "Upper cluster";
const LOWER: &str = "Lower clusters";
const SERVING: &str = "Serving";
const PODS: &str = "Pods";

const DEFAULT_STALE: Duration = Duration::from_secs(30);
const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);
const DEFAULT_RESERVATION: Duration = Duration::from_secs(30);
const DEFAULT_DRAIN: Duration = Duration::from_secs(20);

/// What the flags mean together.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The upper API server.
    pub upper: ClientSource,
    /// Where exclusions are looked for.
    pub exclusions: Option<String>,
    /// Where kubeconfigs of lower clusters are.
    pub sources: Sources,
    /// How lower API servers are asked; without a kubeconfig.
    pub lower: ClientSource,
    /// When what is known of a lower cluster is stale.
    pub stale_after: Duration,
    /// Where to serve.
    pub listen: SocketAddr,
    /// With which certificate, and for which clients; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// How long a body may take to arrive.
    pub deadline: Duration,
    /// Where metrics and probes are.
    pub metrics: ListenAddr,
    /// How long to drain.
    pub drain: Duration,
    /// How it is decided.
    pub policy: Policy,
    /// What the operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Where kubeconfigs of lower clusters come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// A folder.
    pub folder: Option<PathBuf>,
    /// A namespace with Secrets.
    pub namespace: Option<String>,
}

/// Files of TLS, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// CA of the clients, if they are verified.
    pub client_ca: Option<PathBuf>,
}

/// How it is decided.
#[derive(Debug, Clone)]
pub struct Policy {
    /// What the upper scheduler decides on.
    pub kept: KeptKeys,
    /// Labels that do not go down.
    pub ignored_labels: Vec<String>,
    /// Whether what is not modelled is allowed.
    pub unknown: Unknown,
    /// What is said of clusters that are not known well enough.
    pub stale: Stale,
    /// How long room is kept for a pod that may have been bound.
    pub reservation: Duration,
    /// The plugins.
    pub profiles: Profiles,
    /// How virtual nodes are scored.
    pub weights: Weights,
    /// Virtual nodes take pods with namespaces of their node.
    pub allow_host_namespaces: bool,
    /// Virtual nodes refuse pods that mount a path of their node.
    pub refuse_host_path: bool,
}

/// Why the flags do not add up.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// There would be nothing to look into.
    #[error("no lower clusters: give --clusters-dir, --clusters-namespace, or both")]
    NoClusters,
    /// One file of the pair is missing.
    #[error("--tls-cert-file and --tls-private-key-file belong together: {missing} is missing")]
    HalfACertificate {
        /// The flag.
        missing: &'static str,
    },
    /// Clients cannot be verified over plain HTTP.
    #[error("--client-ca needs a certificate: clients cannot be verified over plain HTTP")]
    ClientCaWithoutTls,
    /// There is no kept key.
    #[error(transparent)]
    NoKeptKey(#[from] NoKeptKey),
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfilesError),
}

impl Settings {
    /// What the flags mean together. Reads the file with the profile.
    pub fn resolve(args: Args) -> Result<Self, SettingsError> {
        let path = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        let name = |name: Option<String>| name.filter(|name| !name.is_empty());
        let sources = Sources { folder: path(args.clusters_dir), namespace: name(args.clusters_namespace) };
        if sources.folder.is_none() && sources.namespace.is_none() {
            return Err(SettingsError::NoClusters);
        }
        let client_ca = path(args.client_ca);
        let tls = match (path(args.tls_cert_file), path(args.tls_private_key_file)) {
            (Some(cert), Some(key)) => Some(Tls { cert, key, client_ca }),
            (None, None) if client_ca.is_some() => return Err(SettingsError::ClientCaWithoutTls),
            (None, None) => None,
            (None, Some(_)) => return Err(SettingsError::HalfACertificate { missing: "--tls-cert-file" }),
            (Some(_), None) => return Err(SettingsError::HalfACertificate { missing: "--tls-private-key-file" }),
        };
        let mut warnings = Vec::new();
        if tls.as_ref().is_none_or(|tls| tls.client_ca.is_none()) {
            warnings.push(
                "schedulers are not authenticated: whoever reaches the port may ask, give --client-ca".to_owned(),
            );
        }
        let ignored = names::DEFAULT_IGNORED_LABELS.iter().map(|&label| label.to_owned());
        let profiles = match path(args.scheduler_profile) {
            Some(path) => Profiles::read(&path)?,
            None => Profiles::default(),
        };
        let weights = path(args.score_weights).map(|path| profile::weights(&path)).transpose()?.unwrap_or_default();
        Ok(Self {
            upper: ClientSource::new(COMPONENT, path(args.kubeconfig)).context(args.context),
            exclusions: name(args.exclusions_namespace),
            sources,
            lower: ClientSource::new(COMPONENT, None)
                .limit(args.client_qps.unwrap_or(50.0), args.client_burst.unwrap_or(100)),
            stale_after: args.stale_after.unwrap_or(DEFAULT_STALE),
            listen: SocketAddr::new(args.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), args.port.unwrap_or(8443)),
            tls,
            deadline: args.request_timeout.unwrap_or(DEFAULT_DEADLINE),
            metrics: args.metrics_addr.unwrap_or(ListenAddr::AllOn(10260)),
            drain: args.drain_timeout.unwrap_or(DEFAULT_DRAIN),
            policy: Policy {
                kept: KeptKeys::of_flags(args.ignore_selector_keys, args.cluster_topology_keys)?,
                ignored_labels: args.ignore_labels.unwrap_or_else(|| ignored.collect()),
                unknown: match args.unknown {
                    Some(Unmodelled::Allow) => Unknown::Allow,
                    Some(Unmodelled::Deny) | None => Unknown::Deny,
                },
                stale: args.stale.unwrap_or(Stale::Closed),
                reservation: args.reservation_time.unwrap_or(DEFAULT_RESERVATION),
                profiles,
                weights,
                allow_host_namespaces: args.allow_host_namespaces.unwrap_or_default(),
                refuse_host_path: args.refuse_host_path.unwrap_or_default(),
            },
            warnings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(typed: &[&str]) -> Result<Settings, SettingsError> {
        Settings::resolve(Args::parse_from([&["multi-scheduler"], typed].concat()))
    }

    #[test]
    fn lower_clusters_must_come_from_somewhere() {
        assert_eq!(resolve(&[]).unwrap_err().to_string(), SettingsError::NoClusters.to_string());
        assert!(resolve(&["--clusters-namespace=tensile"]).is_ok());
    }

    #[test]
    fn defaults_refuse_what_is_not_known() {
        let settings = resolve(&["--clusters-dir=/c"]).unwrap();
        assert_eq!(settings.policy.stale, Stale::Closed);
        assert_eq!((settings.stale_after, settings.policy.reservation), (DEFAULT_STALE, DEFAULT_RESERVATION));
        assert!(matches!(settings.policy.unknown, Unknown::Deny));
        assert_eq!(settings.policy.ignored_labels.len(), 2);
    }

    #[test]
    fn half_a_certificate_and_a_ca_without_one_are_refused_by_name() {
        for (typed, word) in [
            (&["--tls-cert-file=c"][..], "--tls-private-key-file is missing"),
            (&["--tls-private-key-file=k"], "--tls-cert-file is missing"),
            (&["--client-ca=ca"], "--client-ca needs a certificate"),
        ] {
            let told = resolve(&[typed, &["--clusters-dir=/c"]].concat()).unwrap_err().to_string();
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn who_serves_anybody_is_warned() {
        let files = ["--clusters-dir=/c", "--tls-cert-file=c", "--tls-private-key-file=k"];
        assert_eq!(resolve(&files).unwrap().warnings.len(), 1);
        assert!(resolve(&[&files[..], &["--client-ca=ca"]].concat()).unwrap().warnings.is_empty());
    }
}
