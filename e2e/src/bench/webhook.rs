//! The webhook alone: admissions per CPU second, how long one takes at half that load, and memory.

mod connection;
mod review;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::connection::{Connection, Target};
use super::statistics::{milliseconds, percentile};
use super::table::{Row, table};
use crate::folder::Folder;
use crate::pki::Authority;
use crate::port::Port;
use crate::process::Process;
use crate::{cargo, service, wait};

/// How often requests are handed out at a fixed rate.
const TICK: Duration = Duration::from_millis(1);
/// What caches, allocators and the processor need before it counts.
const WARM_UP: Duration = Duration::from_secs(2);
/// The webhook listens within this time.
const START: Duration = Duration::from_secs(30);

/// What is measured how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Connections that are kept alive; API servers keep a few.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Seconds of each of the two measurements.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Bytes of the pod.
    #[arg(long, default_value_t = 6 << 10)]
    pod: usize,
}

/// A webhook that runs, with what it needs.
struct Lab {
    webhook: Process,
    target: Target,
    _port: Port,
    _folder: Folder,
}

pub(crate) async fn run(settings: Settings) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("warning: this is a debug build, its figures mean nothing; use `cargo bench-webhook`");
    }
    cargo::build_service("webhook").await?;
    let lab = Lab::start(&settings).await?;
    let seconds = Duration::from_secs(settings.seconds);

    lab.saturate(settings.connections, WARM_UP).await?;
    let before = lab.webhook.usage()?.cpu;
    let begin = Instant::now();
    let admissions = lab.saturate(settings.connections, seconds).await?;
    let (cpu, wall) = (lab.webhook.usage()?.cpu.saturating_sub(before), begin.elapsed());
    ensure!(cpu > Duration::ZERO, "the webhook used no time");
    let per_cpu_second = rate(admissions, cpu);
    eprintln!("saturated: {admissions} admissions in {:.1} s, {:.1} s of CPU", wall.as_secs_f64(), cpu.as_secs_f64());

    let latencies = lab.paced(settings.connections, per_cpu_second / 2.0, seconds).await?;
    let achieved = rate(latencies.len(), seconds);
    let peak = lab.webhook.usage()?.peak_megabytes();
    let quantiles = |percent| milliseconds(percentile(&latencies, percent));
    let rows = [
        Row::new("admissions per CPU second", format!("{per_cpu_second:.0}")).target(">= 10,000").tensile_kube("1,387"),
        Row::new("admissions a second, saturated", format!("{:.0}", rate(admissions, wall))),
        Row::new(
            format!("one admission at {achieved:.0} a second, half the load of a core"),
            format!("p50 {:.2} ms, p99 {:.2} ms", quantiles(50), quantiles(99)),
        )
        .target("p99 < 2 ms")
        .tensile_kube("p99 13 ms, saturated"),
        Row::new("peak memory", format!("{peak:.1} MB")).target("<= 20 MB").tensile_kube("34 MB"),
    ];
    println!("{}", table(&rows));
    Ok(())
}

impl Lab {
    async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let folder = Folder::new("bench-webhook")?;
        let authority = Authority::new("webhook-ca")?;
        authority.server("webhook", &["127.0.0.1"])?.write(folder.path(), "webhook")?;
        let port = Port::reserve()?;
        let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let webhook = service::launch("webhook", "webhook", folder.path())?
            .args(["--address=127.0.0.1", "--metrics-addr=127.0.0.1:0"])
            .arg(format!("--port={}", port.number()))
            .arg(format!("--tlscert={}", file("webhook.crt")))
            .arg(format!("--tlskey={}", file("webhook.key")))
            .start()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let target = Target::new(address, &authority.identity().certificate, &review::body(settings.pod)?)?;
        let mut lab = Self { webhook, target, _port: port, _folder: folder };
        lab.until_it_answers().await?;
        Ok(lab)
    }

    async fn until_it_answers(&mut self) -> anyhow::Result<()> {
        let (target, webhook) = (&self.target, &mut self.webhook);
        let answer = wait::eventually(START, "the webhook answers", async || {
            if let Err(ended) = webhook.ensure_running() {
                return Ok(Err(ended));
            }
            Ok(target.connect().await?.ask().await)
        });
        review::check(&answer.await??)
    }

    /// As many requests as can be made, one after another on each connection. Returns how many.
    async fn saturate(&self, connections: usize, time: Duration) -> anyhow::Result<usize> {
        let end = Instant::now() + time;
        let mut workers = JoinSet::new();
        for _ in 0..connections.max(1) {
            let mut connection = self.target.connect().await?;
            workers.spawn(async move {
                let mut count = 0;
                while Instant::now() < end {
                    connection.ask().await?;
                    count += 1;
                }
                anyhow::Ok(count)
            });
        }
        let mut total = 0;
        while let Some(count) = workers.join_next().await {
            total += count??;
        }
        Ok(total)
    }

    /// Requests at a fixed rate, in turn on each connection; one that finds its connection busy waits, and that counts.
    async fn paced(&self, connections: usize, per_second: f64, time: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut workers = JoinSet::new();
        let mut queues = Vec::new();
        for _ in 0..connections.max(1) {
            let (queue, requests) = mpsc::unbounded_channel();
            queues.push(queue);
            workers.spawn(answer(self.target.connect().await?, requests));
        }
        let (begin, mut due, mut next) = (Instant::now(), 0.0, 0);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while begin.elapsed() < time {
            let now = ticks.tick().await;
            while due < per_second * (now - begin).as_secs_f64() {
                queues[next % queues.len()].send(Instant::now()).context("a connection ended")?;
                due += 1.0;
                next += 1;
            }
        }
        drop(queues);
        let mut latencies = Vec::new();
        while let Some(some) = workers.join_next().await {
            latencies.extend(some??);
        }
        Ok(latencies)
    }
}

/// Makes the requests of one connection; returns how long after its moment each was answered.
async fn answer(
    mut connection: Connection,
    mut requests: mpsc::UnboundedReceiver<Instant>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while let Some(moment) = requests.recv().await {
        connection.ask().await?;
        latencies.push(moment.elapsed());
    }
    Ok(latencies)
}

fn rate(count: usize, time: Duration) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let count = count as f64;
    count / time.as_secs_f64()
}
