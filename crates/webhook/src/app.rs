//! Wiring: from settings to running tasks.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use prometheus::Registry;
use tensile_runtime::process::ProcessCollector;
use tensile_runtime::shutdown::{self, EXIT_USAGE, Tasks};
use tensile_runtime::tls::{RELOAD_EVERY, ServedCertificate};
use tensile_runtime::{admin, args::parse, telemetry};
use tokio::net::TcpListener;

use crate::args::{Args, Settings};
use crate::metrics::Metrics;
use crate::router::{Service, router};
use crate::tls::{TlsListener, server_config};

/// The program: parses `argv`, runs until a signal, and says how it went.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let flags: Args = match parse(argv) {
        Ok(flags) => flags,
        Err(error) => {
            let usage = error.use_stderr();
            return match error.print() {
                Ok(()) if !usage => ExitCode::SUCCESS,
                _ => ExitCode::from(EXIT_USAGE),
            };
        }
    };
    let log = flags.log.clone();
    let settings = telemetry::init(&log)
        .map_err(anyhow::Error::from)
        .and_then(|()| Settings::resolve(flags).map_err(anyhow::Error::from));
    match settings {
        Ok(settings) => shutdown::run(run(settings)),
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the settings do not add up");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    for warning in &settings.warnings {
        tracing::warn!(warning, "about the settings");
    }
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
    let router = router(Arc::new(Service { policy: settings.policy, deadline: settings.deadline, metrics }));
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
