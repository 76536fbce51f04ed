// SPDX-License-Identifier: Apache-2.0
//! Wiring: from settings to running tasks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use prometheus::Registry;
use tensile_core::deschedule::{Buckets, Guard, Permit};
use tensile_runtime::admin;
use tensile_runtime::clients::{self, Permission, wait_for_upper};
use tensile_runtime::lease::campaign;
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::service::{self, Service};
use tensile_runtime::shutdown::{self, Tasks};
use tensile_runtime::telemetry::LogArgs;
use tensile_runtime::threads::Threads;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::{Args, Settings};
use crate::canary::Canaries;
use crate::cycle::Cycle;
use crate::metrics::Metrics;
use crate::places::MultiScheduler;
use crate::record::Maps;
use crate::recreate::Recreation;
use crate::seen::{Seen, Shared};
use crate::{explain, permissions, tell, watch as watches};

/// The program: parses `argv`, runs until a signal, and says how it went.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
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
    match shutdown::unless(&mut signals, wait_for_upper(&client, &needed(&settings))).await {
        None => return Ok(()),
        Some(checked) => checked.context("upper cluster")?,
    }
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::new()?))?;
    let metrics = Metrics::new(&registry)?;
    let readiness = admin::Readiness::new();
    let mut tasks = Tasks::new();

    let address = settings.metrics;
    let seen = nothing_yet(&settings);
    let listener = address.bind().await.with_context(|| format!("cannot listen on --metrics-addr {address}"))?;
    let router = admin::router(registry, readiness.clone());
    let router = router.merge(explain::router(seen.clone(), settings.policy.clone()));
    tasks.spawn("admin server", admin::serve(listener, router, tasks.stop()));

    let (namespace, stop) = (settings.namespace, tasks.stop());
    let bare = settings.policy.protections.recreate;
    watch_all(&mut tasks, &client, &namespace, &seen, bare);
    readiness.check("watches", {
        let seen = seen.clone();
        move || if seen.look().is_complete() { Ok(()) } else { Err("not everything has been listed yet".to_owned()) }
    });

    let (leads, leading) = watch::channel(settings.election.is_none());
    readiness.check("exclusions", {
        let (seen, leading) = (seen.clone(), leading.clone());
        move || enforced(&seen, *leading.borrow())
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let owner = settings.election.as_ref().map(|terms| (leases.clone(), terms.name.clone()));
    if let Some(terms) = settings.election {
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
    let places = match &settings.places {
        None => None,
        Some(address) => {
            let places = MultiScheduler::new(address, client.clone(), seen.clone()).await;
            Some(places.with_context(|| format!("--multi-scheduler-url {}", address.url))?)
        }
    };
    let (tell, write) = tell::teller(client.clone(), &settings.identity, stop.clone());
    spawn(&mut tasks, "events", write);
    let cycle = Cycle {
        maps: Maps { maps: Api::namespaced(client.clone(), &namespace), owner },
        canaries: Canaries::new(client.clone(), &settings.canaries, seen.clone()),
        recreation: Recreation::new(client.clone(), Api::namespaced(client.clone(), &namespace), seen.clone()),
        client,
        seen,
        policy: settings.policy,
        places,
        dry_run: settings.dry_run,
        metrics,
        tell,
        told: BTreeMap::new(),
        under_way: JoinSet::new(),
    };
    spawn(&mut tasks, "descheduling", cycle.run(leading, stop));
    Ok(tasks.run(signals, settings.drain).await?)
}

/// The rights that these settings need.
fn needed(settings: &Settings) -> Vec<Permission<'_>> {
    let mut needed = permissions::all(&settings.namespace, &settings.canaries);
    if settings.policy.protections.recreate {
        needed.extend(permissions::bare(&settings.namespace));
    }
    if settings.policy.surges() {
        needed.extend(permissions::surge());
    }
    if settings.places.is_some() {
        needed.extend(permissions::places());
    }
    needed
}

fn nothing_yet(settings: &Settings) -> Shared {
    let guard = if settings.dry_run { Guard::off() } else { Guard::default() };
    let seen = Seen::new(guard, Buckets::new(settings.limits), settings.policy.protections.recreate);
    Shared::new(match &settings.places {
        Some(places) => seen.with_scheduler(&places.scheduler),
        None => seen,
    })
}

fn watch_all(tasks: &mut Tasks, client: &Client, namespace: &str, seen: &Shared, bare: bool) {
    let stop = tasks.stop();
    spawn(tasks, "pods", watches::pods(client.clone(), seen.clone(), stop.clone()));
    spawn(tasks, "nodes", watches::nodes(client.clone(), seen.clone(), stop.clone()));
    let own = || (client.clone(), namespace.to_owned(), seen.clone(), stop.clone());
    spawn(tasks, "exclusions", {
        let (client, namespace, seen, stop) = own();
        async move { watches::exclusions(client, &namespace, seen, stop).await }
    });
    if bare {
        let (client, namespace, seen, stop) = own();
        spawn(tasks, "moves", async move { watches::moves(client, &namespace, seen, stop).await });
    }
}

/// Whether a leader may move pods; others do not ask.
fn enforced(seen: &Shared, leads: bool) -> Result<(), String> {
    let seen = seen.look();
    match seen.permit(Timestamp::now()) {
        _ if !leads || seen.scheduler_enforces() => Ok(()),
        Permit::Yes => Ok(()),
        Permit::NotYet => Err("it is not known yet whether they are enforced".to_owned()),
        Permit::No(missing) => Err(format!("they are not enforced: {missing}")),
    }
}

fn spawn(tasks: &mut Tasks, name: &str, task: impl Future<Output = ()> + Send + 'static) {
    tasks.spawn(name, async move {
        task.await;
        Ok::<_, Infallible>(())
    });
}
