//! What can be typed: every flag of tensile-kube's webhook, and ours; and what the flags mean together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser};
use tensile_core::placement::KeptKeys;
use tensile_runtime::args::ConfigArgs;
use tensile_runtime::listen::ListenAddr;
use tensile_runtime::telemetry::LogArgs;

use crate::mutate::Policy;

/// The admission webhook: moves what only lower nodes can satisfy into an annotation.
///
/// Pods labelled virtual-pod=true are changed when they are created; everything else is left alone. What is typed wins
/// over the settings file, the file over the default.
///
/// Exit codes: 0 ended by a signal and drained, 1 could not start or failed while running, 2 a flag or setting is wrong.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "webhook", version, max_term_width = 100)]
#[allow(clippy::doc_markdown, reason = "these texts are the help page, which knows no markdown")]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub config: ConfigArgs,

    /// Address to serve on [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = SERVING)]
    pub address: Option<IpAddr>,

    /// Port to serve on [default: 8080]
    #[arg(long, value_name = "PORT", help_heading = SERVING)]
    pub port: Option<u16>,

    /// Certificate (PEM); read again when it changes. Without certificate and key, plain HTTP is served
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub tlscert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub tlskey: Option<PathBuf>,

    /// CA of the clients (PEM): who has no certificate of it is not served
    #[arg(long = "CA", value_name = "FILE", help_heading = SERVING)]
    pub ca: Option<PathBuf>,

    /// How long the body of a request may take to arrive, in seconds [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = SERVING)]
    pub request_timeout: Option<u32>,

    /// Address of /metrics, /healthz and /readyz, as IP:PORT or :PORT [default: :8081]
    #[arg(long, value_name = "ADDRESS", help_heading = SERVING)]
    pub metrics_addr: Option<ListenAddr>,

    /// How long to finish what is in hand after a signal, in seconds [default: 20]
    #[arg(long, value_name = "SECONDS", help_heading = SERVING)]
    pub drain_timeout: Option<u32>,

    /// Node label keys that the upper scheduler decides on, as KEY,...; the same as the virtual nodes' [default:
    /// clusterID]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub ignore_selector_keys: Option<Vec<String>>,

    /// Topology keys of the cluster level, as KEY,...; the first must be on every virtual node. Pod affinity and spread
    /// over other keys are decided below; empty to leave them all upstairs [default: those of --ignore-selector-keys]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub cluster_topology_keys: Option<Vec<String>>,

    /// How long pods stay bound to a virtual node that is lost, in seconds [default: for ever]
    #[arg(long, value_name = "SECONDS", help_heading = PODS)]
    pub node_lost_toleration_seconds: Option<u32>,

    /// Deny pods that cannot work on a virtual node (DaemonSet, host namespaces, hostPath) instead of warning
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          help_heading = PODS)]
    pub deny_unsupported: Option<bool>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub log: LogArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub accepted: Accepted,
}

/// Flags of tensile-kube's webhook that have no effect here, taken so that its manifests start.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Accepted from tensile-kube, without effect")]
pub struct Accepted {
    /// The webhook asks nothing of an API server
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub kubeconfig: Option<String>,
    /// The webhook asks nothing of an API server
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub master: Option<String>,
    /// The webhook asks nothing of an API server
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          hide_short_help = true)]
    pub incluster: Option<String>,
    /// Use --log-level
    #[arg(long = "v", value_name = "LEVEL", hide_short_help = true)]
    pub klog_level: Option<String>,
    /// Use --log-level
    #[arg(long = "vmodule", value_name = "PATTERN", hide_short_help = true)]
    pub klog_modules: Option<String>,
    /// The log goes to standard error
    #[arg(long = "logtostderr", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_short_help = true)]
    pub klog_to_stderr: Option<String>,
    /// The log goes to standard error
    #[arg(long = "alsologtostderr", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_short_help = true)]
    pub klog_also_to_stderr: Option<String>,
    /// The log goes to standard error
    #[arg(long = "stderrthreshold", value_name = "LEVEL", hide_short_help = true)]
    pub klog_threshold: Option<String>,
}

const SERVING: &str = "Serving";
const PODS: &str = "Pods";

/// What the flags mean together.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to serve.
    pub listen: SocketAddr,
    /// With which certificate; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How long a body may take to arrive.
    pub deadline: Duration,
    /// Where metrics and probes are.
    pub metrics: ListenAddr,
    /// How long to drain.
    pub drain: Duration,
    /// What is done to pods.
    pub policy: Policy,
    /// What the operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// The files of TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// CA of the clients, if they are verified.
    pub client_ca: Option<PathBuf>,
}

/// Why the flags do not add up.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// One file of the pair is missing.
    #[error("--tlscert and --tlskey belong together: {missing} is missing")]
    HalfACertificate {
        /// The flag.
        missing: &'static str,
    },
    /// Clients cannot be verified over plain HTTP.
    #[error("--CA needs --tlscert and --tlskey")]
    ClientCaWithoutTls,
    /// Nothing would choose a cluster, and pods that must be together could not be kept so.
    #[error("--ignore-selector-keys names no key: the upper scheduler needs one that tells clusters apart")]
    NoKeptKey,
}

impl Settings {
    /// What the flags mean together.
    pub fn resolve(args: Args) -> Result<Self, SettingsError> {
        let given = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        let client_ca = given(args.ca);
        let tls = match (given(args.tlscert), given(args.tlskey)) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key, client_ca }),
            (None, None) if client_ca.is_some() => return Err(SettingsError::ClientCaWithoutTls),
            (None, None) => None,
            (None, Some(_)) => return Err(SettingsError::HalfACertificate { missing: "--tlscert" }),
            (Some(_), None) => return Err(SettingsError::HalfACertificate { missing: "--tlskey" }),
        };
        let keys = args.ignore_selector_keys;
        if keys.as_ref().is_some_and(|keys| keys.iter().all(|key| key.trim().is_empty())) {
            return Err(SettingsError::NoKeptKey);
        }
        let mut kept = keys.map_or_else(KeptKeys::default, KeptKeys::new);
        if let Some(keys) = args.cluster_topology_keys {
            kept = kept.with_topology(keys);
        }
        let mut warnings = args.accepted.without_effect();
        if tls.is_none() {
            warnings.push(
                "plain HTTP is served: an API server asks over HTTPS only, give --tlscert and --tlskey".to_owned(),
            );
        }
        let seconds = |given: Option<u32>, default| Duration::from_secs(given.unwrap_or(default).into());
        Ok(Self {
            listen: SocketAddr::new(args.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), args.port.unwrap_or(8080)),
            tls,
            deadline: seconds(args.request_timeout, 10),
            metrics: args.metrics_addr.unwrap_or(ListenAddr::AllOn(8081)),
            drain: seconds(args.drain_timeout, 20),
            policy: Policy {
                kept,
                node_lost_seconds: args.node_lost_toleration_seconds,
                deny_unsupported: args.deny_unsupported.unwrap_or_default(),
            },
            warnings,
        })
    }
}

impl Accepted {
    /// A sentence for each flag that was given.
    fn without_effect(&self) -> Vec<String> {
        let flags = [
            ("kubeconfig", &self.kubeconfig, "the webhook asks nothing of an API server"),
            ("master", &self.master, "the webhook asks nothing of an API server"),
            ("incluster", &self.incluster, "the webhook asks nothing of an API server"),
            ("v", &self.klog_level, "use --log-level"),
            ("vmodule", &self.klog_modules, "use --log-level"),
            ("logtostderr", &self.klog_to_stderr, "the log goes to standard error"),
            ("alsologtostderr", &self.klog_also_to_stderr, "the log goes to standard error"),
            ("stderrthreshold", &self.klog_threshold, "the log goes to standard error"),
        ];
        let given = flags.into_iter().filter(|(_, value, _)| value.is_some());
        given.map(|(name, _, instead)| format!("--{name} has no effect: {instead}")).collect()
    }
}

#[cfg(test)]
mod tests;
