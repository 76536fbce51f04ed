// SPDX-License-Identifier: Apache-2.0
//! Wiring: from settings to running tasks.

use std::convert::Infallible;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use jiff::Timestamp;
use kube::Client;
use prometheus::Registry;
use tensile_runtime::admin::{self, Readiness};
use tensile_runtime::clients::{self, wait_for_upper};
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::service::{self, Service};
use tensile_runtime::shutdown::{self, Tasks};
use tensile_runtime::telemetry::LogArgs;
use tensile_runtime::threads::Threads;
use tensile_runtime::tls::{CertificateFiles, Clients, RELOAD_EVERY, TlsListener, server_config};
use tensile_runtime::upper_id::cluster_id;
use tensile_runtime::{exclusions, listen};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::access::{Gate, Peer};
use crate::args::{Args, Settings, Tls};
use crate::fleet::Fleet;
use crate::metrics::{Known, Metrics};
use crate::router::{Extender, router};
use crate::sources::{Supervisor, Told, Wanted, follow_secrets, look_at_folder};
use crate::{permissions, pod_groups, upper, wake};

/// How often room that was kept in vain is given back.
const EXPIRE: Duration = Duration::from_secs(1);

/// The program: parses `argv`, runs until a signal, and says how it went.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    service::main::<Settings>(argv)
}

impl Service for Settings {
    type Args = Args;
    type Error = anyhow::Error;
    const THREADS: Threads = Threads::PerCore;

    fn log(args: &Args) -> &LogArgs {
        &args.log
    }

    fn resolve(args: Args) -> anyhow::Result<Self> {
        Ok(Self::resolve(args)?)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    async fn run(self) -> anyhow::Result<()> {
        run(self).await
    }
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    let client = clients::connect(&settings.upper).await.context("upper cluster")?;
    let mut signals = shutdown::signals()?;
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::new()?))?;
    let metrics = Metrics::new(&registry)?;
    let (readiness, mut tasks) = (Readiness::new(), Tasks::new());

    // Before anything that may have to wait: whoever waits is alive.
    serve_admin(settings.metrics, &registry, &readiness, &mut tasks).await?;
    let starting = readiness.condition("upper cluster");
    let needed = needed(&settings);
    let checked = async {
        wait_for_upper(&client, &needed).await?;
        cluster_id(&client).await
    };
    let upper_cluster = match shutdown::unless(&mut signals, checked).await {
        None => return Ok(()),
        Some(checked) => checked.context("upper cluster")?,
    };

    let fleet = Arc::new(Fleet::new(settings.policy.clone(), settings.stale_after));
    let told = Arc::new(Told::default());
    registry.register(Box::new(Known::new(fleet.clone(), told.clone())?))?;
    let stop = tasks.stop();
    if let Some(namespace) = settings.exclusions.clone() {
        let (client, heard, stop) = (client.clone(), fleet.exclusions.clone(), stop.clone());
        spawn(&mut tasks, "exclusions", async move { exclusions::follow(client, &namespace, heard, stop).await });
    }
    spawn(
        &mut tasks,
        "upper cluster",
        upper::run(fleet.clone(), client.clone(), upper_cluster, starting, stop.clone()),
    );
    let groups = readiness.condition("pod groups");
    spawn(&mut tasks, "pod groups", pod_groups::run(fleet.clone(), client.clone(), groups, stop.clone()));
    spawn(&mut tasks, "wake-ups", {
        let (fleet, client, metrics, stop) = (fleet.clone(), client.clone(), metrics.clone(), stop.clone());
        async move { wake::run(&fleet, client, metrics, stop).await }
    });
    spawn(&mut tasks, "reservations", {
        let (fleet, stop) = (fleet.clone(), stop.clone());
        async move {
            let mut tick = tokio::time::interval(EXPIRE);
            while stop.run_until_cancelled(tick.tick()).await.is_some() {
                fleet.expire(Instant::now());
            }
        }
    });
    follow_clusters(&settings, &client, &fleet, &told, &mut tasks);
    clusters_are_ready(&readiness, &fleet, &told);

    let gate = Gate { certificates: settings.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()), client };
    let extender = Extender::new(fleet, gate, readiness.clone(), settings.deadline, metrics);
    serve(settings.listen, settings.tls.as_ref(), router(Arc::new(extender)), &readiness, &mut tasks).await?;
    Ok(tasks.run(signals, settings.drain).await?)
}

fn needed(settings: &Settings) -> Vec<clients::Permission<'_>> {
    let exclusions = settings.exclusions.as_deref().map(permissions::exclusions);
    let kubeconfigs = settings.sources.namespace.as_deref().map(permissions::kubeconfigs);
    [permissions::UPPER.to_vec(), exclusions.unwrap_or_default(), kubeconfigs.unwrap_or_default()].concat()
}

async fn serve_admin(
    address: listen::ListenAddr,
    registry: &Registry,
    readiness: &Readiness,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let listener = address.bind().await.with_context(|| format!("cannot listen on --metrics-addr {address}"))?;
    let router = admin::router(registry.clone(), readiness.clone());
    tasks.spawn("admin server", admin::serve(listener, router, tasks.stop()));
    Ok(())
}

/// The tasks that find kubeconfigs, and those that follow what they lead to.
fn follow_clusters(settings: &Settings, client: &Client, fleet: &Arc<Fleet>, told: &Arc<Told>, tasks: &mut Tasks) {
    let stop = tasks.stop();
    let supervisor = Supervisor { fleet: fleet.clone(), source: settings.lower.clone(), told: told.clone() };
    if let Some(folder) = settings.sources.folder.clone() {
        let (wanted, found) = watch::channel(Wanted::new());
        let stop = stop.clone();
        spawn(tasks, "clusters of the folder", supervisor.clone().run(found, stop.clone()));
        spawn(tasks, "folder of kubeconfigs", async move {
            stop.run_until_cancelled(look_at_folder(folder, wanted)).await;
        });
    }
    if let Some(namespace) = settings.sources.namespace.clone() {
        let (wanted, found) = watch::channel(Wanted::new());
        let client = client.clone();
        spawn(tasks, "clusters of Secrets", supervisor.run(found, stop.clone()));
        spawn(tasks, "Secrets with kubeconfigs", async move {
            stop.run_until_cancelled(follow_secrets(client, &namespace, wanted)).await;
        });
    }
}

/// At the start, it is waited for the clusters, but not for those that do not answer in time. Later, one that cannot be
/// followed is told and keeps nobody from asking about the others.
fn clusters_are_ready(readiness: &Readiness, fleet: &Arc<Fleet>, told: &Arc<Told>) {
    let started = Instant::now();
    let (fleet, told) = (fleet.clone(), told.clone());
    readiness.check("lower clusters", {
        let (fleet, told) = (fleet.clone(), told.clone());
        move || {
            let now = Instant::now();
            if now.duration_since(started) > fleet.patience {
                return Ok(());
            }
            let lowers = fleet.lowers();
            let known = lowers.values().filter(|lower| lower.state(now, fleet.patience).is_ok()).count();
            let wanted = told.wanted();
            if known > 0 && known >= wanted { Ok(()) } else { Err(format!("{known} of {wanted} are known")) }
        }
    });
    readiness.remark("lower clusters", move || {
        let now = Instant::now();
        let (lowers, troubles) = (fleet.lowers(), told.troubles());
        let unknown = lowers.values().filter_map(|lower| Some((&lower.name, lower.state(now, fleet.patience).err()?)));
        let unknown = unknown.map(|(name, reason)| format!("{name}: {reason}"));
        let unreached = troubles.into_iter().map(|(name, reason)| format!("{name}: {reason}"));
        let unmatched = fleet.unmatched().into_iter().map(|name| format!("{name}: no virtual node stands for it"));
        unknown.chain(unreached).chain(unmatched).collect()
    });
}

async fn serve(
    address: SocketAddr,
    tls: Option<&Tls>,
    router: Router,
    readiness: &Readiness,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on --address and --port {address}"))?;
    tracing::info!(address = %listener.local_addr()?, tls = tls.is_some(), "serving");
    let service = router.into_make_service_with_connect_info::<Peer>();
    let stop = tasks.stop();
    let stopped = async move { stop.cancelled().await };
    match tls {
        None => {
            tasks.spawn("extender", async { axum::serve(listener, service).with_graceful_shutdown(stopped).await });
        }
        Some(Tls { cert, key, client_ca }) => {
            let files = CertificateFiles::load(cert, key)?;
            let served = files.served();
            let clients = client_ca.as_deref().map_or(Clients::Any, Clients::OfOrWithout);
            let mut config = server_config(&served, clients)?;
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let listener = TlsListener::new(listener, config)?;
            tasks.spawn("extender", async { axum::serve(listener, service).with_graceful_shutdown(stopped).await });
            readiness.check("certificate", move || served.check(Timestamp::now()));
            let stop = tasks.stop();
            spawn(tasks, "certificate", files.follow(RELOAD_EVERY, stop));
        }
    }
    Ok(())
}

fn spawn(tasks: &mut Tasks, name: &str, task: impl Future<Output = ()> + Send + 'static) {
    tasks.spawn(name, async move {
        task.await;
        Ok::<_, Infallible>(())
    });
}
