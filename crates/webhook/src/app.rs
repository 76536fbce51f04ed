//! Wiring: from settings to running tasks.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use prometheus::Registry;
use tensile_runtime::admin;
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::service::{self, Service};
use tensile_runtime::shutdown::{self, Tasks};
use tensile_runtime::telemetry::LogArgs;
use tensile_runtime::tls::{RELOAD_EVERY, ServedCertificate};
use tokio::net::TcpListener;

use crate::args::{Args, Settings};
use crate::metrics::Metrics;
use crate::router::{Admission, router};
use crate::tls::{TlsListener, server_config};

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
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::new()?))?;
    let metrics = Metrics::new(&registry)?;
    let readiness = admin::Readiness::new();
    let mut tasks = Tasks::new();

    let address = settings.metrics;
    let listener = address.bind().await.with_context(|| format!("cannot listen on --metrics-addr {address}"))?;
    tasks.spawn("admin server", admin::serve(listener, admin::router(registry, readiness.clone()), tasks.stop()));

    // Ready once it listens with a certificate that fits its key; both fail the start otherwise.
    let serving = readiness.condition("webhook");
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on --address and --port {}", settings.listen))?;
    let exclusions = Arc::default();
    let router =
        router(Arc::new(Admission { policy: settings.policy, exclusions, deadline: settings.deadline, metrics }));
    let stop = tasks.stop();
    let stopped = async move { stop.cancelled().await };
    tracing::info!(address = %listener.local_addr()?, tls = settings.tls.is_some(), "serving");
    match settings.tls {
        None => {
            tasks
                .spawn("webhook server", async { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
        }
        Some(files) => {
            let certificate = ServedCertificate::load(&files.cert, &files.key)?;
            let listener = TlsListener::new(listener, server_config(&certificate, files.client_ca.as_deref())?)?;
            tasks
                .spawn("webhook server", async { axum::serve(listener, router).with_graceful_shutdown(stopped).await });
            let stop = tasks.stop();
            tasks.spawn("certificate", async move {
                certificate.follow(RELOAD_EVERY, stop).await;
                Ok::<_, std::convert::Infallible>(())
            });
        }
    }
    serving.ready();
    Ok(tasks.run(shutdown::signals()?, settings.drain).await?)
}
