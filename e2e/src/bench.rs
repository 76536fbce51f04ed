// SPDX-License-Identifier: Apache-2.0
//! The benchmark: pods through one virtual node, against the same pods created directly in both clusters; and streams to
//! containers, against the same streams made directly in the lower cluster.
//!
//! Nothing here is a test: machines differ, so it prints figures beside their targets and always succeeds when it could
//! measure.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the figures are printed, progress is told")]

mod burst;
mod deschedule;
mod extender;
mod lab;
mod load;
mod machine;
mod objects;
mod rate;
mod restart;
mod statistics;
mod streams;
mod table;
mod tokens;
pub(crate) mod webhook;

use crate::{binaries, cargo};
use lab::Lab;
use table::{Row, table};

/// What is measured how often.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Settings {
    /// Pods in a burst.
    #[arg(long, default_value_t = 2_000)]
    pods: usize,
    /// Bursts through the virtual node, and directly, alternately; medians are taken.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Pods a second, at which latencies are measured.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 50])]
    rates: Vec<u32>,
    /// Seconds that each rate is kept up.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Pods at once for peak memory and restart; 0 leaves these out.
    #[arg(long, default_value_t = 10_000)]
    many: usize,
    #[command(subcommand)]
    other: Option<Other>,
}

/// What else is measured.
#[derive(Clone, Debug, clap::Subcommand)]
enum Other {
    /// Measures exec, cp, port-forward and followers of logs instead, on real containers; needs root.
    Streams(streams::Settings),
    /// Measures the multi-scheduler instead: its answers over HTTPS, and pods through a scheduler with and without it.
    Extender(extender::Settings),
    /// Measures what pods bring along instead: requests and memory for copies of ConfigMaps, requests for tokens.
    Objects(objects::Settings),
    /// Measures the descheduler instead: latency, writes and memory; or kills it very many times.
    Deschedule(deschedule::Settings),
}

pub(crate) async fn run(settings: Settings) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build, its figures mean nothing; use `cargo bench-e2e`");
    }
    match &settings.other {
        None => pods(&settings).await,
        Some(Other::Streams(settings)) => streams::run(settings).await,
        Some(Other::Extender(settings)) => extender::run(settings).await,
        Some(Other::Objects(settings)) => objects::run(settings).await,
        Some(Other::Deschedule(settings)) => Box::pin(deschedule::run(settings)).await,
    }
}

async fn pods(settings: &Settings) -> anyhow::Result<()> {
    let newest = &binaries::SUPPORTED[..1];
    tokio::try_join!(cargo::build_services(), binaries::everything(newest))?;
    let largest = settings.many.max(settings.pods);
    eprintln!("starting two clusters with room for {largest} pods each");
    let lab = Lab::start(newest[0], largest).await?;

    let mut rows = bursts(&lab, settings).await?;
    for per_second in &settings.rates {
        rows.extend(rate::measure(&lab, *per_second, settings.seconds).await?.rows());
    }
    if settings.many > 0 {
        rows.extend(restart::measure(&lab, settings.many).await?.rows());
    }
    println!("{}", table(&rows));
    Ok(())
}

async fn bursts(lab: &Lab, settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds.max(1) {
        let one = burst::through(lab, settings.pods, &format!("through-{round}")).await?;
        eprintln!("round {round}: through the virtual node {one}");
        through.push(one);
        let one = burst::direct(lab, settings.pods, &format!("direct-{round}")).await?;
        eprintln!("round {round}: directly in both clusters {:.1} s", one.as_secs_f64());
        direct.push(one);
    }
    Ok(burst::rows(&through, &direct, settings.pods))
}
