//! Wiring: from settings to running tasks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use kube::Api;
use prometheus::Registry;
use tensile_core::deschedule::Buckets;
use tensile_runtime::admin;
use tensile_runtime::clients::{self, wait_for_upper};
use tensile_runtime::lease::campaign;
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::service::{self, Service};
use tensile_runtime::shutdown::{self, Tasks};
use tensile_runtime::telemetry::LogArgs;
use tokio::sync::watch;

use crate::args::{Args, Settings};
use crate::cycle::Cycle;
use crate::metrics::Metrics;
use crate::seen::Shared;
use crate::{permissions, tell, watch as watches};

/// How often it is looked whether everything has been listed.
const LISTED: Duration = Duration::from_millis(50);

/// The program: parses `argv`, runs until a signal, and says how it went.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    service::main::<Settings>(argv)
}

impl Service for Settings {
    type Args = Args;
    type Error = anyhow::Error;

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
    let needed = permissions::all(&settings.namespace);
    match shutdown::unless(&mut signals, wait_for_upper(&client, &needed)).await {
        None => return Ok(()),
        Some(checked) => checked.context("upper cluster")?,
    }
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::new()?))?;
    let metrics = Metrics::new(&registry)?;
    let readiness = admin::Readiness::new();
    let mut tasks = Tasks::new();

    let address = settings.metrics;
    let listener = address.bind().await.with_context(|| format!("cannot listen on --metrics-addr {address}"))?;
    tasks.spawn("admin server", admin::serve(listener, admin::router(registry, readiness.clone()), tasks.stop()));

    let seen = Shared::default();
    let (namespace, stop) = (settings.namespace, tasks.stop());
    spawn(&mut tasks, "pods", watches::pods(client.clone(), seen.clone(), stop.clone()));
    spawn(&mut tasks, "nodes", watches::nodes(client.clone(), seen.clone(), stop.clone()));
    spawn(&mut tasks, "exclusions", {
        let (client, namespace, seen, stop) = (client.clone(), namespace.clone(), seen.clone(), stop.clone());
        async move { watches::exclusions(client, &namespace, seen, stop).await }
    });
    let listed = readiness.condition("watches");
    spawn(&mut tasks, "readiness", {
        let (seen, stop) = (seen.clone(), stop.clone());
        async move {
            let complete = async {
                while !seen.look().is_complete() {
                    tokio::time::sleep(LISTED).await;
                }
            };
            if stop.run_until_cancelled(complete).await.is_some() {
                tracing::info!("everything is listed");
                listed.ready();
                stop.cancelled().await;
            }
        }
    });

    let (leads, leading) = watch::channel(settings.election.is_none());
    let identity = settings.election.as_ref().map_or_else(String::new, |terms| terms.identity.clone());
    if let Some(terms) = settings.election {
        let leases = Api::namespaced(client.clone(), &namespace);
        spawn(&mut tasks, "election", campaign(leases, terms, leads, stop.clone()));
    } else {
        // Kept, so that it stays true.
        spawn(&mut tasks, "election", {
            let stop = stop.clone();
            async move {
                stop.cancelled().await;
                drop(leads);
            }
        });
    }
    let (tell, write) = tell::teller(client.clone(), &identity, stop.clone());
    spawn(&mut tasks, "events", write);
    let cycle = Cycle {
        maps: Api::namespaced(client.clone(), &namespace),
        client,
        seen,
        policy: settings.policy,
        buckets: Buckets::new(settings.limits),
        dry_run: settings.dry_run,
        metrics,
        tell,
        told: BTreeMap::new(),
    };
    spawn(&mut tasks, "descheduling", cycle.run(leading, stop));
    Ok(tasks.run(signals, settings.drain).await?)
}

fn spawn(tasks: &mut Tasks, name: &str, task: impl Future<Output = ()> + Send + 'static) {
    tasks.spawn(name, async move {
        task.await;
        Ok::<_, Infallible>(())
    });
}
