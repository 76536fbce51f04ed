// SPDX-License-Identifier: Apache-2.0
//! The webhook alone: admissions per CPU second, how long one takes at half that load, and memory.

mod review;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use tokio::time::Instant;

use super::load::{Target, rate};
use super::statistics::{milliseconds, percentile};
use super::table::{Row, table};
use crate::folder::Folder;
use crate::pki::Authority;
use crate::port::Port;
use crate::process::Process;
use crate::{cargo, service, wait};

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

    lab.target.saturate(settings.connections, WARM_UP).await?;
    let before = lab.webhook.usage()?.cpu;
    let begin = Instant::now();
    let admissions = lab.target.saturate(settings.connections, seconds).await?;
    let (cpu, wall) = (lab.webhook.usage()?.cpu.saturating_sub(before), begin.elapsed());
    ensure!(cpu > Duration::ZERO, "the webhook used no time");
    let per_cpu_second = rate(admissions, cpu);
    eprintln!("saturated: {admissions} admissions in {:.1} s, {:.1} s of CPU", wall.as_secs_f64(), cpu.as_secs_f64());

    let latencies = lab.target.paced(settings.connections, per_cpu_second / 2.0, seconds).await?;
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
        let target = Target::new(
            address,
            &authority.identity().certificate,
            None,
            "/mutate?timeout=10s",
            &review::body(settings.pod)?,
        )?;
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
}
