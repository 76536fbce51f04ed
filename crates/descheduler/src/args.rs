// SPDX-License-Identifier: Apache-2.0
//! What can be typed: every flag of tensile-kube's descheduler, and ours; and what the flags mean together.

mod accepted;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tensile_core::deschedule::{Limits, Policy};
use tensile_runtime::args::value::{boolean, duration, rate, timeout};
use tensile_runtime::args::{Accepted, ConfigArgs};
use tensile_runtime::clients::ClientSource;
use tensile_runtime::lease::Terms;
use tensile_runtime::listen::ListenAddr;
use tensile_runtime::telemetry::LogArgs;

use crate::places::Address;
use crate::policy::{self, PolicyError};

pub use accepted::TensileKube;

/// The descheduler: evicts pods that a lower cluster cannot run, so that they run in another.
///
/// Before it evicts a pod it writes down that the pod's owner is excluded from the virtual node; the webhook keeps the
/// next pod off it. What is typed wins over the settings file, the file over the default.
///
/// Exit codes: 0 ended by a signal and drained, 1 could not start or failed while running, 2 a flag or setting is wrong.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "descheduler", version, max_term_width = 100)]
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

    /// Requests per second to the API server, 0 for no limit [default: 1000]
    #[arg(long, value_name = "QPS", value_parser = rate, help_heading = CLUSTER)]
    pub kube_api_qps: Option<f32>,

    /// Requests at once to the API server [default: 2000]
    #[arg(long, value_name = "N", help_heading = CLUSTER)]
    pub kube_api_burst: Option<u32>,

    /// Namespace of the exclusions (ConfigMaps) and of the lease; the webhook must look there too [default: kube-system]
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub namespace: Option<String>,

    /// Namespace whose pods the webhook is asked about, for pods that are never created: their dry run shows whether
    /// exclusions are enforced [default: default]
    #[arg(long, value_name = "NAME", help_heading = CLUSTER)]
    pub canary_namespace: Option<String>,

    /// The multi-scheduler, as https://HOST:PORT: pods move only where it says that they fit [default: there is none]
    #[arg(long, value_name = "URL", help_heading = PLACES)]
    pub multi_scheduler_url: Option<String>,

    /// Authority of its certificate (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = PLACES)]
    pub multi_scheduler_ca: Option<PathBuf>,

    /// Token of the upper cluster by which it knows who asks [default: the service account of this pod]
    #[arg(long, value_name = "FILE", help_heading = PLACES)]
    pub multi_scheduler_token_file: Option<PathBuf>,

    /// The scheduler (spec.schedulerName) whose pods it keeps off nodes that they are excluded from [default: multi-scheduler]
    #[arg(long, value_name = "NAME", help_heading = PLACES)]
    pub multi_scheduler_name: Option<String>,

    /// Policy file (YAML, descheduler/v1alpha2) [default: pods without room below for 10 s are moved]
    #[arg(long, value_name = "FILE", help_heading = PODS)]
    pub policy_config_file: Option<PathBuf>,

    /// Write nothing; log what would be done and why
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub dry_run: Option<bool>,

    /// Move pods only off virtual nodes with these labels, as KEY=VALUE,... [default: off all]
    #[arg(long, value_name = "LABELS", value_delimiter = ',', help_heading = PODS)]
    pub node_selector: Option<Vec<String>>,

    /// Pods moved off a virtual node within --descheduling-interval; wins over the policy [default: any number]
    #[arg(long, value_name = "N", help_heading = PODS)]
    pub max_pods_to_evict_per_node: Option<u32>,

    /// Move also pods that have started and hold local data (emptyDir, hostPath)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = PODS)]
    pub evict_local_storage_pods: Option<bool>,

    /// The time that limits on the number of moves are about, such as 1m; moves do not wait for it [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = PODS)]
    pub descheduling_interval: Option<Duration>,

    /// How many times the pods of an owner are excluded from a virtual node before they stay for an hour [default: 6]
    #[arg(long, value_name = "N", help_heading = PODS)]
    pub max_moves_per_owner: Option<u32>,

    /// How long the first exclusion from a virtual node lasts; each further one twice as long, up to 1h [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = PODS)]
    pub exclusion_time: Option<Duration>,

    /// Let one of several replicas work, the one that holds the lease [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = boolean, help_heading = REPLICAS)]
    pub leader_elect: Option<bool>,

    /// Name of this replica in the lease, different for each [default: the name of its host]
    #[arg(long, value_name = "NAME", help_heading = REPLICAS)]
    pub identity: Option<String>,

    /// How long another replica waits for a leader that is silent [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = REPLICAS)]
    pub leader_elect_lease_duration: Option<Duration>,

    /// How long a leader works without having renewed the lease [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = REPLICAS)]
    pub leader_elect_renew_deadline: Option<Duration>,

    /// Time between two tries to get or renew the lease [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = timeout, help_heading = REPLICAS)]
    pub leader_elect_retry_period: Option<Duration>,

    /// Address of /metrics, /healthz and /readyz, as IP:PORT or :PORT [default: :10258]
    #[arg(long, value_name = "ADDRESS", help_heading = PROCESS)]
    pub metrics_addr: Option<ListenAddr>,

    /// How long to finish what is in hand after a signal, such as 20s or 1m [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = PROCESS)]
    pub drain_timeout: Option<Duration>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub log: LogArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type; a text here would replace the program's in the help")]
    pub accepted: Accepted<TensileKube>,
}

const CLUSTER: &str = "Cluster";
const PLACES: &str = "Multi-scheduler";
const PODS: &str = "Pods";
const REPLICAS: &str = "Replicas";
const PROCESS: &str = "Process";

/// What this service is called: by API servers, and in its lease.
pub(crate) const COMPONENT: &str = "descheduler";
const DEFAULT_CANARIES: &str = "default";
const DEFAULT_NAMESPACE: &str = "kube-system";
const DEFAULT_SCHEDULER: &str = "multi-scheduler";
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_DRAIN: Duration = Duration::from_secs(20);

/// What the flags mean together.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The upper cluster.
    pub upper: ClientSource,
    /// Where exclusions and lease are.
    pub namespace: String,
    /// Where canaries are sent.
    pub canaries: String,
    /// The multi-scheduler, if there is one.
    pub places: Option<Address>,
    /// What is moved.
    pub policy: Policy,
    /// How much of it in a time.
    pub limits: Limits,
    /// Nothing is written.
    pub dry_run: bool,
    /// Name of this replica, in its lease and its events.
    pub identity: String,
    /// The election; `None`: this is the only replica.
    pub election: Option<Terms>,
    /// Where metrics and probes are.
    pub metrics: ListenAddr,
    /// How long to drain.
    pub drain: Duration,
    /// What the operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Why the flags do not add up.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The policy cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A selector that is more than equalities.
    #[error("--node-selector {given:?} is not KEY=VALUE")]
    NodeSelector {
        /// The requirement.
        given: String,
    },
    /// The flag allows more than the policy does in all.
    #[error(
        "--max-pods-to-evict-per-node {given} contradicts maxNoOfPodsToEvictTotal {total} of the policy, which is less"
    )]
    Limits {
        /// By the flag.
        given: u32,
        /// By the policy.
        total: u32,
    },
    /// A leader would not know in time that it has lost.
    #[error(
        "--leader-elect-retry-period must be shorter than --leader-elect-renew-deadline, and that shorter than \
         --leader-elect-lease-duration"
    )]
    ElectionTimes,
    /// Nobody could tell replicas, and who wrote an event.
    #[error("--identity is missing, and the name of this host cannot be read: {0}")]
    NoIdentity(std::io::Error),
}

impl Settings {
    /// What the flags mean together. Reads the policy file, and the name of the host.
    pub fn resolve(args: Args) -> Result<Self, SettingsError> {
        let policy::PolicyFile { mut policy, mut limits, warnings: told } = match &args.policy_config_file {
            Some(path) => policy::read(path)?,
            None => policy::PolicyFile::default(),
        };
        limits.interval = args.descheduling_interval.unwrap_or(DEFAULT_INTERVAL);
        if let (Some(given), Some(total)) = (args.max_pods_to_evict_per_node, limits.total)
            && given > total
        {
            return Err(SettingsError::Limits { given, total });
        }
        limits.per_node = args.max_pods_to_evict_per_node.or(limits.per_node);
        if let Some(also) = args.evict_local_storage_pods {
            policy.protections.local_storage = !also;
        }
        if let Some(moves) = args.max_moves_per_owner {
            policy.moves = moves;
        }
        if let Some(first) = args.exclusion_time {
            policy.back_off.first = first.min(policy.back_off.most);
        }
        for given in args.node_selector.iter().flatten().filter(|given| !given.trim().is_empty()) {
            policy.nodes.push(equality(given)?);
        }
        let namespace = args.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let canaries = args.canary_namespace.clone().unwrap_or_else(|| DEFAULT_CANARIES.to_owned());
        let (ca, token) = (args.multi_scheduler_ca.clone(), args.multi_scheduler_token_file.clone());
        let scheduler = args.multi_scheduler_name.clone().unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned());
        let url = args.multi_scheduler_url.clone().filter(|url| !url.is_empty());
        let places = url.map(|url| Address { url, ca, token, scheduler });
        let identity = match &args.identity {
            Some(identity) => identity.clone(),
            None => host_name().map_err(SettingsError::NoIdentity)?,
        };
        let elects = args.leader_elect.unwrap_or(true);
        let election = elects.then(|| election(&args, &identity)).transpose()?;
        let upper = ClientSource::new(COMPONENT, args.kubeconfig)
            .context(args.context)
            .limit(args.kube_api_qps.unwrap_or(1000.0), args.kube_api_burst.unwrap_or(2000));
        Ok(Self {
            upper,
            namespace,
            canaries,
            places,
            policy,
            limits,
            dry_run: args.dry_run.unwrap_or_default(),
            identity,
            election,
            metrics: args.metrics_addr.unwrap_or(ListenAddr::AllOn(10258)),
            drain: args.drain_timeout.unwrap_or(DEFAULT_DRAIN),
            warnings: args.accepted.without_effect.into_iter().chain(told).collect(),
        })
    }
}

fn election(args: &Args, identity: &str) -> Result<Terms, SettingsError> {
    let usual = Terms::new(COMPONENT, identity);
    let terms = Terms {
        duration: args.leader_elect_lease_duration.unwrap_or(usual.duration),
        renew_deadline: args.leader_elect_renew_deadline.unwrap_or(usual.renew_deadline),
        retry: args.leader_elect_retry_period.unwrap_or(usual.retry),
        ..usual
    };
    let in_order = terms.retry < terms.renew_deadline && terms.renew_deadline < terms.duration;
    in_order.then_some(terms).ok_or(SettingsError::ElectionTimes)
}

/// In a container: the name of its pod.
fn host_name() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned())
}

/// `KEY=VALUE` or `KEY==VALUE`.
fn equality(given: &str) -> Result<(String, String), SettingsError> {
    let (key, value) = given.split_once('=').unwrap_or_default();
    let (key, value) = (key.trim(), value.trim_start_matches('=').trim());
    if key.is_empty() || key.ends_with('!') {
        return Err(SettingsError::NodeSelector { given: given.to_owned() });
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests;
