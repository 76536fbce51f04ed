// SPDX-License-Identifier: Apache-2.0
//! Wiring: from settings to running tasks.

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, RwLock};

use anyhow::Context;
use arc_swap::ArcSwap;
use jiff::Timestamp;
use kube::Client;
use prometheus::Registry;
use tensile_core::exclusion::Exclusions;
use tensile_runtime::admin::{self, Readiness};
use tensile_runtime::clients::{self, ClientSource, wait_for_upper};
use tensile_runtime::exclusions;
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::service::{self, Service};
use tensile_runtime::shutdown::{self, Tasks};
use tensile_runtime::telemetry::LogArgs;
use tensile_runtime::threads::Threads;
use tensile_runtime::tls::{CertificateFiles, Clients, RELOAD_EVERY, ServedCertificate, TlsListener, server_config};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;

use crate::args::{Args, Certificate, FollowClaims, SelfManaged, Settings};
use crate::certificates::keeper::{Keeper, Place};
use crate::claims;
use crate::metrics::{Expiration, Metrics};
use crate::permissions;
use crate::router::{Admission, router};
use crate::selected_node::SelectedNodes;

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
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::new()?))?;
    let metrics = Metrics::new(&registry)?;
    let readiness = Readiness::new();
    let serving = readiness.condition("webhook");
    let mut signals = shutdown::signals()?;
    let mut tasks = Tasks::new();
    let upper = Upper { source: settings.api.clone(), client: OnceCell::new() };

    // Before anything that may have to wait: whoever waits is alive.
    let address = settings.metrics;
    let listener = address.bind().await.with_context(|| format!("cannot listen on --metrics-addr {address}"))?;
    let router_of_admin = admin::router(registry.clone(), readiness.clone());
    tasks.spawn("admin server", admin::serve(listener, router_of_admin, tasks.stop()));

    let certificate = match shutdown::unless(&mut signals, certificate(&settings, &upper, &readiness, &mut tasks)).await
    {
        None => return Ok(()),
        Some(certificate) => certificate?,
    };
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on --address and --port {}", settings.listen))?;
    tracing::info!(address = %listener.local_addr()?, tls = certificate.is_some(), "serving");
    let selected = Arc::<RwLock<SelectedNodes>>::default();
    let exclusions = exclusions(settings.exclusions, &upper, &mut tasks).await?;
    let router = router(Arc::new(Admission {
        policy: settings.policy,
        exclusions,
        selected: selected.clone(),
        deadline: settings.deadline,
        metrics,
    }));
    let stop = tasks.stop();
    let stopped = async move { stop.cancelled().await };
    match certificate {
        None => {
            tasks
                .spawn("webhook server", async { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
        }
        Some(served) => {
            registry.register(Box::new(Expiration::of(served.clone())?))?;
            let clients = settings.client_ca.as_deref().map_or(Clients::Any, Clients::Of);
            let listener = TlsListener::new(listener, server_config(&served, clients)?)?;
            readiness.check("certificate", move || served.check(Timestamp::now()));
            tasks
                .spawn("webhook server", async { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
        }
    }
    follow_claims(settings.follow_claims, &upper, selected, &readiness, &mut tasks).await?;
    serving.ready();
    Ok(tasks.run(signals, settings.drain).await?)
}

/// The upper API server. Who needs nothing of it needs no kubeconfig either, so a client is made when it is asked for.
struct Upper {
    source: ClientSource,
    client: OnceCell<Client>,
}

impl Upper {
    async fn client(&self) -> anyhow::Result<Client> {
        let client = self.client.get_or_try_init(|| clients::connect(&self.source)).await;
        client.cloned().context("upper cluster")
    }
}

/// What is heard of exclusions, and the task that hears it. Nobody waits for it: admission comes first.
async fn exclusions(
    namespace: Option<String>,
    upper: &Upper,
    tasks: &mut Tasks,
) -> anyhow::Result<Arc<ArcSwap<Exclusions>>> {
    let heard = Arc::new(ArcSwap::default());
    if let Some(namespace) = namespace {
        let client = upper.client().await?;
        let (heard, stop) = (heard.clone(), tasks.stop());
        tasks.spawn("exclusions", async move {
            exclusions::follow(client, &namespace, heard, stop).await;
            Ok::<_, Infallible>(())
        });
    }
    Ok(heard)
}

/// What is served, and the task that keeps it; `None` for plain HTTP.
async fn certificate(
    settings: &Settings,
    upper: &Upper,
    readiness: &Readiness,
    tasks: &mut Tasks,
) -> anyhow::Result<Option<Arc<ServedCertificate>>> {
    match &settings.certificate {
        Certificate::None => Ok(None),
        Certificate::Files { cert, key } => {
            let files = CertificateFiles::load(cert, key)?;
            let (served, stop) = (files.served(), tasks.stop());
            tasks.spawn("certificate", async move {
                files.follow(RELOAD_EVERY, stop).await;
                Ok::<_, Infallible>(())
            });
            Ok(Some(served))
        }
        Certificate::SelfManaged(own) => {
            let client = upper.client().await?;
            let place = place(own, &client);
            wait_for_upper(&client, &permissions::certificates(&place)).await.context("upper cluster")?;
            let (served, stop) = (ServedCertificate::none(), tasks.stop());
            let told = readiness.condition("caBundle");
            let keeper = Keeper::new(client, place, own.lives, served.clone(), told);
            tasks.spawn("certificate", async move {
                keeper.run(stop).await;
                Ok::<_, Infallible>(())
            });
            Ok(Some(served))
        }
    }
}

fn place(own: &SelfManaged, client: &Client) -> Place {
    Place {
        namespace: own.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned()),
        secret: own.secret.clone(),
        configuration: own.configuration.clone(),
        names: own.names.clone(),
    }
}

/// The task that keeps `selected` up to date.
async fn follow_claims(
    wanted: FollowClaims,
    upper: &Upper,
    selected: Arc<RwLock<SelectedNodes>>,
    readiness: &Readiness,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let required = match wanted {
        FollowClaims::No => return Ok(()),
        FollowClaims::IfAllowed => false,
        FollowClaims::Required => true,
    };
    let client = match upper.client().await {
        Ok(client) => client,
        Err(error) if required => return Err(error),
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "pods are not sent to the virtual nodes of their claims");
            return Ok(());
        }
    };
    let (heard, stop) = (readiness.condition("claims"), tasks.stop());
    tasks.spawn("claims", claims::follow(client, required, selected, heard, stop));
    Ok(())
}
