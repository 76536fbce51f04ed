// SPDX-License-Identifier: Apache-2.0
//! What can be typed: every flag of tensile-kube's webhook, and ours; and what the flags mean together.

mod accepted;
mod certificate;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tensile_core::placement::{KeptKeys, NoKeptKey};
use tensile_runtime::args::value::{boolean, duration, timeout};
use tensile_runtime::args::{Accepted, ConfigArgs};
use tensile_runtime::clients::ClientSource;
use tensile_runtime::listen::ListenAddr;
use tensile_runtime::telemetry::LogArgs;

use crate::mutate::Policy;
use crate::pod::Taken;

pub use accepted::TensileKube;
pub use certificate::{CertificateArgs, SelfManaged};

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

    /// Kubeconfig of the upper cluster [default: the service account of this pod]
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig [default: its current-context]
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub context: Option<String>,

    /// Address to serve on [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = SERVING)]
    pub address: Option<IpAddr>,

    /// Port to serve on [default: 8080]
    #[arg(long, value_name = "PORT", help_heading = SERVING)]
    pub port: Option<u16>,

    /// Certificate (PEM), read anew when it changes; instead of one of its own
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub tlscert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = SERVING)]
    pub tlskey: Option<PathBuf>,

    /// CA of the clients (PEM): who has no certificate of it is not served
    #[arg(long = "CA", value_name = "FILE", help_heading = SERVING)]
    pub ca: Option<PathBuf>,

    /// How long the body of a request may take to arrive, such as 10s [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = SERVING)]
    pub request_timeout: Option<Duration>,

    /// Address of /metrics, /healthz and /readyz, as IP:PORT or :PORT [default: :8081]
    #[arg(long, value_name = "ADDRESS", help_heading = SERVING)]
    pub metrics_addr: Option<ListenAddr>,

    /// How long to finish what is in hand after a signal, such as 20s or 1m [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = SERVING)]
    pub drain_timeout: Option<Duration>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub certificate: CertificateArgs,

    /// Node label keys that the upper scheduler decides on, as KEY,...; the same as the virtual nodes' [default:
    /// clusterID]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub ignore_selector_keys: Option<Vec<String>>,

    /// Topology keys of the cluster level, as KEY,...; the same as the virtual nodes', and the first must be on each of
    /// them. Pod affinity and spread over other keys are decided below; empty to leave them all upstairs [default: those
    /// of --ignore-selector-keys]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', help_heading = PODS)]
    pub cluster_topology_keys: Option<Vec<String>>,

    /// Namespace whose ConfigMaps labelled tensile.io/exclusions=true say which virtual nodes an owner's new pods keep off;
    /// the descheduler writes them [default: none is looked for]
    #[arg(long, value_name = "NAMESPACE", help_heading = PODS)]
    pub exclusions_namespace: Option<String>,

    /// Scheduler of pods that name none, or default-scheduler, which is the same to an API server; such as multi-scheduler
    /// [default: pods keep theirs]
    #[arg(long, value_name = "NAME", help_heading = PODS)]
    pub scheduler_name: Option<String>,

    /// How long pods stay bound to a virtual node that is lost, in seconds [default: for ever]
    #[arg(long, value_name = "SECONDS", help_heading = PODS)]
    pub node_lost_toleration_seconds: Option<u32>,

    /// The virtual nodes take pods that use the network, process ids or IPC of their node, as their flag of this name
    /// says: nobody is warned of it [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub allow_host_namespaces: Option<bool>,

    /// The virtual nodes refuse pods that mount a path of their node, as their flag of this name says [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub refuse_host_path: Option<bool>,

    /// Deny pods that virtual nodes refuse (of a DaemonSet, with host namespaces, hostPath or resource claims) instead of
    /// warning their author [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub deny_unsupported: Option<bool>,

    /// Send pods to the virtual node that one of their claims was given to before; reads claims and nodes [default: true,
    /// where that is allowed]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub follow_selected_node: Option<bool>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub log: LogArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub accepted: Accepted<TensileKube>,
}

const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);
const DEFAULT_DRAIN: Duration = Duration::from_secs(20);

/// How the program names itself to API servers.
const COMPONENT: &str = "webhook";

const CLUSTER: &str = "Cluster";
const SERVING: &str = "Serving";
const PODS: &str = "Pods";

/// What the flags mean together.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to serve.
    pub listen: SocketAddr,
    /// The upper API server.
    pub api: ClientSource,
    /// With which certificate.
    pub certificate: Certificate,
    /// CA of the clients (PEM), if they are verified.
    pub client_ca: Option<PathBuf>,
    /// How long a body may take to arrive.
    pub deadline: Duration,
    /// Where metrics and probes are.
    pub metrics: ListenAddr,
    /// How long to drain.
    pub drain: Duration,
    /// Where exclusions are looked for.
    pub exclusions: Option<String>,
    /// What is done to pods.
    pub policy: Policy,
    /// Whether pods go to the virtual nodes of their claims.
    pub follow_claims: FollowClaims,
    /// What the operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Whether pods go to the virtual nodes that their claims were given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowClaims {
    /// They are left to the scheduler.
    No,
    /// If claims and nodes can be read; else it is told.
    IfAllowed,
    /// Without that, the service ends.
    Required,
}

/// Where the serving certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// There is none: plain HTTP.
    None,
    /// From files.
    Files {
        /// Certificate chain, PEM.
        cert: PathBuf,
        /// Its private key, PEM.
        key: PathBuf,
    },
    /// The webhook makes it.
    SelfManaged(SelfManaged),
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
    #[error("--CA needs a certificate: clients cannot be verified over plain HTTP")]
    ClientCaWithoutTls,
    /// There is no kept key.
    #[error(transparent)]
    NoKeptKey(#[from] NoKeptKey),
    /// Somebody else's certificate and one of its own.
    #[error("--self-managed-certificate and --tlscert exclude each other")]
    TwoCertificates,
    /// What a certificate of its own cannot do without.
    #[error("{flag} is missing: {meaning}; or give --tlscert and --tlskey")]
    Missing {
        /// The flag.
        flag: &'static str,
        /// What it would say.
        meaning: &'static str,
    },
    /// A name that no certificate can be for.
    #[error("--serving-names: {0}")]
    ServingNames(String),
    /// A CA would end before what it signs.
    #[error("--certificate-lifetime is at most a third of --ca-lifetime")]
    Lifetimes,
}

impl Settings {
    /// What the flags mean together.
    pub fn resolve(args: Args) -> Result<Self, SettingsError> {
        let given = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
        let files = match (given(args.tlscert), given(args.tlskey)) {
            (Some(cert), Some(key)) => Some(Certificate::Files { cert, key }),
            (None, None) => None,
            (None, Some(_)) => return Err(SettingsError::HalfACertificate { missing: "--tlscert" }),
            (Some(_), None) => return Err(SettingsError::HalfACertificate { missing: "--tlskey" }),
        };
        let own = args.certificate.resolve(files.is_some())?.map(Certificate::SelfManaged);
        let certificate = files.or(own).unwrap_or(Certificate::None);
        let client_ca = given(args.ca);
        if certificate == Certificate::None && client_ca.is_some() {
            return Err(SettingsError::ClientCaWithoutTls);
        }
        let kept = KeptKeys::of_flags(args.ignore_selector_keys, args.cluster_topology_keys)?;
        let mut warnings = args.accepted.without_effect;
        if certificate == Certificate::None {
            warnings.push(
                "plain HTTP is served: an API server asks over HTTPS only, give --tlscert and --tlskey".to_owned(),
            );
        }
        Ok(Self {
            listen: SocketAddr::new(args.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), args.port.unwrap_or(8080)),
            api: ClientSource::new(COMPONENT, given(args.kubeconfig)).context(args.context),
            certificate,
            client_ca,
            deadline: args.request_timeout.unwrap_or(DEFAULT_DEADLINE),
            metrics: args.metrics_addr.unwrap_or(ListenAddr::AllOn(8081)),
            drain: args.drain_timeout.unwrap_or(DEFAULT_DRAIN),
            exclusions: args.exclusions_namespace.filter(|namespace| !namespace.is_empty()),
            policy: Policy {
                kept,
                node_lost_seconds: args.node_lost_toleration_seconds,
                taken: Taken {
                    host_namespaces: args.allow_host_namespaces.unwrap_or_default(),
                    no_host_path: args.refuse_host_path.unwrap_or_default(),
                },
                deny_unsupported: args.deny_unsupported.unwrap_or_default(),
                scheduler: args.scheduler_name.filter(|name| !name.is_empty()),
            },
            follow_claims: match args.follow_selected_node {
                None => FollowClaims::IfAllowed,
                Some(true) => FollowClaims::Required,
                Some(false) => FollowClaims::No,
            },
            warnings,
        })
    }
}

#[cfg(test)]
mod tests;
