// SPDX-License-Identifier: Apache-2.0
//! Wiring: from settings to running tasks.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use anyhow::Context;
use kube::Client;
use prometheus::Registry;
use serde_json::Value;
use tensile_core::{
    identity::ApiServer,
    names,
    node::{Readiness as NodeReadiness, Totals, build},
    pod::LinkView,
};
use tensile_runtime::{
    admin,
    clients::{self, ClientSource, ProbeError, probe, require, wait_for_upper},
    process::ProcessCollector,
    service::{self, Service},
    shutdown::{self, Tasks},
    telemetry::LogArgs,
    threads::{Beside, Threads},
    upper_id,
};
use virtual_kubelet::{
    node::{NodeController, NodeControllerConfig, NodeState},
    pod::{PodController, PodControllerConfig},
};

use crate::{
    args::Args,
    cleanup::Cleanup,
    config::{Settings, Surroundings},
    identity::Identity,
    kubelet,
    lower::{LowerCluster, namespaces::Namespaces},
    node::VirtualNode,
    objects::Objects,
    permissions,
    services::Services,
    tenants, traces,
    volumes::Volumes,
};

/// The program: parses its arguments, runs until a signal, and says how it went. With the word `cleanup` after the program's
/// name it cleans up instead, and ends.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    if argv.get(1).is_some_and(|word| word == "cleanup") {
        argv.remove(1);
        return service::main::<Cleanup>(argv);
    }
    service::main::<Settings>(argv)
}

impl Service for Settings {
    type Args = Args;
    type Error = anyhow::Error;
    const THREADS: Threads = Threads::One;

    fn log(args: &Args) -> &LogArgs {
        &args.log
    }

    fn resolve(args: Args) -> anyhow::Result<Self> {
        Ok(Self::resolve(args, &Surroundings::PROCESS)?)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    async fn run(self) -> anyhow::Result<()> {
        run(self).await
    }
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    clients::install_crypto();
    let (upper, lower) = (client("upper", &settings.upper).await?, client("lower", &settings.lower).await?);
    let mut signals = shutdown::signals()?;
    // At the same time: each asks some sixty questions, and a restart is waited for.
    let checked = async {
        let upper = async { wait_for_upper(&upper, permissions::UPPER).await.context("upper cluster") };
        tokio::try_join!(upper, check_lower(&lower))
    };
    match shutdown::unless(&mut signals, checked).await {
        None => return Ok(()),
        Some(checked) => {
            checked?;
        }
    }

    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::new()?))?;
    let readiness = admin::Readiness::new();
    let mut tasks = Tasks::new();
    if let Some(address) = settings.metrics {
        let listener = address.bind().await.with_context(|| format!("cannot listen on --metrics-addr {address:?}"))?;
        let router = admin::router(registry.clone(), readiness.clone());
        tasks.spawn("admin server", admin::serve(listener, router, tasks.stop()));
    }
    // Streams and metrics of containers may keep a thread busy, which the link's would feel.
    let beside = Beside::start("kubelet-api").context("cannot start threads for the kubelet API")?;
    link(&settings, upper, lower, &registry, &readiness, &mut tasks, &beside).await?;
    Ok(tasks.run(signals, settings.drain).await?)
}

/// Starts the tasks of one link: one lower cluster behind one virtual node.
async fn link(
    settings: &Settings,
    upper: Client,
    lower: Client,
    registry: &Registry,
    readiness: &admin::Readiness,
    tasks: &mut Tasks,
    beside: &Beside,
) -> anyhow::Result<()> {
    let name = settings.node.name.clone();
    let upper_cluster = upper_id::cluster_id(&upper).await.context("upper cluster")?;
    let view = LinkView {
        namespaces: settings.tenants.mapping.clone().of_link(&upper_cluster, &name),
        upper_cluster,
        virtual_node: name.clone(),
        node_labels: labels(settings),
        kept_keys: settings.kept_keys.clone(),
        ignored_labels: settings.ignored_labels.clone(),
        provider_taint_key: settings.node.taint.as_ref().map(|taint| taint.key.clone()).unwrap_or_default(),
        allow_host_namespaces: settings.allow_host_namespaces,
        refuse_host_path: settings.refuse_host_path,
        keep_runtime_class: settings.keep_runtime_class,
        identity: api_server(settings).await?,
        dns: settings.identity.dns.clone(),
        brings_claims: settings.volumes,
    };
    tracing::info!(node = name, upper_cluster = view.upper_cluster, namespaces = %view.namespaces, "starting");
    tenants::ensure_unchanged(&upper, &lower, &view).await?;
    let mapping = view.namespaces.to_string();
    let policy = tenants::policy(&settings.tenants)?;
    if let Some(key) = view.kept_keys.cluster_key().filter(|key| !view.node_labels.contains_key(*key)) {
        tracing::warn!(key, "the node lacks the first cluster topology key: pods with pod affinity cannot come here");
    }
    let host_ip = settings.node.addresses.first().map(|address| address.address.clone()).unwrap_or_default();
    let namespaces = Namespaces::new(lower.clone(), view.clone(), policy);
    let both = || (upper.clone(), lower.clone(), view.clone(), namespaces.clone());
    let objects = {
        let (upper, lower, view, namespaces) = both();
        Objects::new(upper, lower, view, namespaces, settings.on_conflict)
    };
    let identity = Identity::new(upper.clone(), lower.clone(), view.clone(), registry)?;
    let volumes = settings.volumes.then(|| {
        let (upper, lower, view, namespaces) = both();
        Volumes::new(upper, lower, view, namespaces, settings.storage.clone(), settings.on_conflict, objects.clone())
    });
    let services = settings.services.then(|| {
        let (upper, lower, view, namespaces) = both();
        Services::new(upper, lower, view, namespaces, settings.networking)
    });
    let shown = settings.show_pod_ips;
    let cluster = LowerCluster::new(lower.clone(), view.clone(), host_ip, shown, namespaces.clone(), objects, identity);
    let cluster = cluster.missing_token(settings.missing_token).followed_over(settings.lower.clone());
    let cluster = Arc::new(cluster.with(volumes, services));

    let config = PodControllerConfig { node: name.clone(), workers: usize::from(settings.workers) };
    let pods = PodController::new(upper.clone(), cluster.clone(), &config, registry)?;
    if let Some(endpoint) = settings.traces.clone() {
        traces::start(&pods, &name, endpoint, tasks);
    }
    let handle = pods.pods();

    // Before the node is registered: nobody is sent to a port where nobody answers.
    let (api, reached) = (&settings.kubelet, handle.clone());
    let place = kubelet::Place { registry, tasks, threads: beside.handle() };
    let port = kubelet::start(api, &settings.node, upper.clone(), cluster.clone(), reached, place).await?;
    let mut node = tensile_core::node::NodeSettings { port: Some(port), ..settings.node.clone() };
    node.annotations.insert(names::NAMESPACE_MAPPING.to_owned(), mapping);
    let node = Arc::new(VirtualNode::new(lower, cluster.clone(), node));
    let node = NodeController::new(upper.clone(), node, NodeControllerConfig::new(&name));
    let mut state = node.state();
    let condition = readiness.condition(format!("node {name}"));

    let stop = tasks.stop();
    tasks.spawn("pod controller", {
        let stop = stop.clone();
        async move {
            pods.run(stop).await;
            Ok::<_, std::convert::Infallible>(())
        }
    });
    if settings.event_qps > 0.0 {
        let (stop, cluster, upper, qps) = (stop.clone(), cluster.clone(), upper.clone(), settings.event_qps);
        tasks.spawn("lower events", async move {
            Box::pin(stop.run_until_cancelled(cluster.show_events(upper, qps))).await;
            Ok::<_, std::convert::Infallible>(())
        });
    }
    tasks.spawn("lower nodes", {
        let stop = stop.clone();
        async move {
            stop.run_until_cancelled(cluster.watch_nodes()).await;
            Ok::<_, std::convert::Infallible>(())
        }
    });
    tasks.spawn("node readiness", {
        let stop = stop.clone();
        async move {
            while let Some(Ok(())) = stop.run_until_cancelled(state.changed()).await {
                let state = state.borrow_and_update().clone();
                if let Some(reason) = not_ready(&state) {
                    condition.not_ready(reason);
                } else {
                    condition.ready();
                    handle.retry_all();
                }
            }
            Ok::<_, std::convert::Infallible>(())
        }
    });
    tasks.spawn("node controller", async move { Box::pin(node.run(stop)).await });
    Ok(())
}

/// Where pods find the upper API server, if they keep their service accounts. Says so in the log when they cannot reach it
/// there.
async fn api_server(settings: &Settings) -> anyhow::Result<Option<ApiServer>> {
    if !settings.identity.service_accounts {
        return Ok(None);
    }
    let chosen = settings.identity.upper_apiserver.clone();
    // The service account of a pod finds a Service, whose address is known inside its cluster only.
    let inside = chosen.is_none() && settings.upper.kubeconfig.is_none();
    let address = match chosen {
        Some(address) => address,
        None => settings.upper.server().await.context("upper cluster")?,
    };
    let server = ApiServer::parse(&address).with_context(|| format!("address of the upper API server: {address:?}"))?;
    if let Some(reason) = server.unreachable(&address) {
        tracing::warn!(address, %reason, "lower pods cannot reach the upper API server: set --upper-apiserver");
    } else if inside {
        let reason = "the address is that of a Service, which leads nowhere unless the networks are joined";
        tracing::warn!(address, reason, "lower pods may not reach the upper API server: set --upper-apiserver");
    }
    Ok(Some(server))
}

/// Why this process cannot do its work for the node.
fn not_ready(state: &NodeState) -> Option<String> {
    match (&state.failure, &state.uid) {
        (Some(failure), _) => Some(failure.clone()),
        (None, None) => Some("the node is not registered yet".to_owned()),
        // A lower cluster that is away is the node's condition, not this process': a restart would not help.
        (None, Some(_)) => None,
    }
}

/// The labels of the virtual node that do not depend on the lower nodes: what constraints upstairs are matched with.
fn labels(settings: &Settings) -> std::collections::BTreeMap<String, String> {
    let node = build(&settings.node, &Totals::default(), &NodeReadiness::Ready);
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), Value::as_str(value)?.to_owned()))).collect()
}

pub(crate) async fn client(which: &str, source: &ClientSource) -> anyhow::Result<Client> {
    clients::connect(source).await.with_context(|| format!("{which} cluster"))
}

/// A lower cluster that is away is not fatal: the node registers as not ready and recovers.
async fn check_lower(lower: &Client) -> anyhow::Result<()> {
    let outcome = async {
        probe(lower).await?;
        require(lower, permissions::LOWER).await?;
        match require(lower, permissions::LOWER_SIGN).await {
            Err(error @ ProbeError::Forbidden { .. }) => {
                tracing::warn!(%error, "pods can run only in the lower namespaces in which this is allowed");
                return Ok(());
            }
            outcome => outcome?,
        }
        require(lower, permissions::LOWER_PODS).await?;
        match require(lower, permissions::LOWER_STREAMS).await {
            Err(error @ ProbeError::Forbidden { .. }) => {
                tracing::warn!(%error, "the kubelet API has less to give than it could");
                Ok(())
            }
            outcome => outcome,
        }
    };
    match outcome.await {
        Ok(()) => Ok(()),
        Err(error) if ProbeError::is_away(&error) => {
            tracing::warn!(%error, "lower cluster is away; the node is not ready until it is back");
            Ok(())
        }
        Err(error) => Err(error).context("lower cluster"),
    }
}
