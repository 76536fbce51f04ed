// SPDX-License-Identifier: Apache-2.0
//! Streams through a virtual node, against the same made directly in the lower cluster, on real containers.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the figures are printed, progress is told")]

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::{AsyncReadExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, LogParams};
use kube::{Api, Client};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::machine::{Instances, Ticks};
use super::statistics::{median, milliseconds, percentile};
use super::table::{Row, table};
use crate::cluster::Cluster;
use crate::fixture::RealPair;
use crate::pods::{PATIENCE, Pods};
use crate::{binaries, cargo, real_node, wait};

/// What is measured how often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Commands through the virtual node, and directly, alternately.
    #[arg(long, default_value_t = 200)]
    commands: usize,
    /// Megabytes that are copied at once.
    #[arg(long, default_value_t = 200)]
    megabytes: u32,
    /// Copies of each kind, alternately; medians are taken.
    #[arg(long, default_value_t = 5)]
    copies: usize,
    /// Followers of logs at once.
    #[arg(long, default_value_t = 1_000)]
    followers: usize,
}

const NAMESPACE: &str = "default";
/// Sends zeros to whoever connects to port 7000, and has a file of them.
const POD: &str = "box";

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<()> {
    let newest = binaries::SUPPORTED[0];
    ensure!(real_node::is_possible(), "containers need root");
    cargo::build_services().await?;
    eprintln!("starting two clusters, one with a real node");
    let _instances = Instances::at_least(settings.followers + 1_000)?;
    let cluster = |name| Cluster::builder(name).version(newest);
    let pair = RealPair::start(cluster("upper"), cluster("lower"), &[]).await?;
    let bytes = settings.megabytes;
    let script = format!(
        "dd if=/dev/zero of=/tmp/zeros bs=1000000 count={bytes}; echo begun; exec nc -ll -p 7000 -e cat /tmp/zeros"
    );
    let above = Pods::of(&pair.upper, NAMESPACE);
    above.create(&pair.pod(POD, &script)).await?;
    above.until_ready(POD).await?;
    let logs = pods(&pair.upper.client());
    wait::eventually(PATIENCE, "the file is written", async || {
        ensure!(logs.logs(POD, &LogParams::default()).await?.contains("begun"));
        Ok(())
    })
    .await?;

    // Followers first: what copies leave in buffers is none of theirs.
    eprintln!("following logs");
    let followers = followers(&pair, settings.followers).await?;
    eprintln!("running commands");
    let mut rows = starts(&pair, settings.commands).await?;
    for kind in [Kind::Exec, Kind::Copy, Kind::PortForward] {
        eprintln!("{}", kind.name());
        rows.extend(copies(&pair, kind, settings).await?);
    }
    rows.extend(followers);
    drop(pair);
    println!("{}", table(&rows));
    cargo::run_example("virtual-node", "scrape_cost").await
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// From the request until the first byte of a command's output.
async fn starts(pair: &RealPair, commands: usize) -> anyhow::Result<Vec<Row>> {
    let first_byte = async |pods: &Api<Pod>| {
        let begin = Instant::now();
        let streams = AttachParams::default().stdout(true).stderr(false);
        let mut process = pods.exec(POD, ["echo", "x"], &streams).await?;
        // Kept: kube fails when nobody waits for the status that comes at the end.
        let status = process.take_status().context("no status")?;
        let mut output = process.stdout().context("no output")?;
        output.read_u8().await?;
        let took = begin.elapsed();
        status.await;
        process.join().await?;
        anyhow::Ok(took)
    };
    let (above, below) = (pods(&pair.upper.client()), pods(&pair.lower.client()));
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for number in 0..commands {
        // Whoever goes first alternates too: what one leaves to be done is done during the other.
        if number % 2 == 0 {
            through.push(first_byte(&above).await?);
            direct.push(first_byte(&below).await?);
        } else {
            direct.push(first_byte(&below).await?);
            through.push(first_byte(&above).await?);
        }
    }
    let [p50_through, p50_direct] = [&through, &direct].map(|values| milliseconds(percentile(values, 50)));
    let [p99_through, p99_direct] = [&through, &direct].map(|values| milliseconds(percentile(values, 99)));
    Ok(vec![
        Row::new("exec: start to first byte, p50 added", format!("{:.1} ms", p50_through - p50_direct))
            .target("<= 3 ms"),
        Row::new("the same through the virtual node", format!("p50 {p50_through:.1} ms, p99 {p99_through:.1} ms")),
        Row::new("the same directly", format!("p50 {p50_direct:.1} ms, p99 {p99_direct:.1} ms")),
    ])
}

/// What carries many bytes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The output of a command.
    Exec,
    /// `kubectl cp` to the pod.
    Copy,
    /// One connection through `kubectl port-forward`.
    PortForward,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Exec => "kubectl exec, output",
            Self::Copy => "kubectl cp to the pod",
            Self::PortForward => "kubectl port-forward",
        }
    }

    async fn carry(self, cluster: &Cluster, file: &str, bytes: usize) -> anyhow::Result<Duration> {
        let kubectl = |args: &[&str]| {
            let mut kubectl = Command::new(cluster.kubectl_path());
            kubectl.arg("--kubeconfig").arg(cluster.kubeconfig()).args(args).kill_on_drop(true);
            kubectl.stdout(std::process::Stdio::piped());
            kubectl
        };
        let begin = Instant::now();
        let seen = match self {
            Self::Exec => {
                let mut child = kubectl(&["exec", POD, "--", "cat", "/tmp/zeros"]).spawn()?;
                let output = child.stdout.take().context("no output")?;
                count(output).await?
            }
            Self::Copy => {
                let status = kubectl(&["cp", file, &format!("{POD}:/tmp/copied")]).status().await?;
                ensure!(status.success(), "kubectl cp: {status}");
                bytes
            }
            Self::PortForward => {
                let mut child = kubectl(&["port-forward", POD, ":7000", "--address=127.0.0.1"]).spawn()?;
                let mut line = String::new();
                // Kept open: kubectl goes on writing to it.
                let mut output = BufReader::new(child.stdout.take().context("no output")?);
                output.read_line(&mut line).await?;
                let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
                let port: u16 = port.with_context(|| line.clone())?.parse()?;
                let begin = Instant::now();
                let seen = count(TcpStream::connect(("127.0.0.1", port)).await?).await?;
                ensure!(seen == bytes, "{seen} of {bytes} bytes");
                return Ok(begin.elapsed());
            }
        };
        ensure!(seen == bytes, "{seen} of {bytes} bytes");
        Ok(begin.elapsed())
    }
}

async fn count(mut reader: impl tokio::io::AsyncRead + Unpin) -> anyhow::Result<usize> {
    let (mut buffer, mut seen) = (vec![0; 256 * 1024], 0);
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(seen),
            count => seen += count,
        }
    }
}

/// How one way of carrying went: the time of each, and how busy the machine was.
#[derive(Default)]
struct Carried {
    times: Vec<Duration>,
    ticks: Ticks,
}

impl Carried {
    async fn add(&mut self, kind: Kind, cluster: &Cluster, file: &str, bytes: usize) -> anyhow::Result<()> {
        let before = Ticks::now()?;
        let carry = timeout(PATIENCE, kind.carry(cluster, file, bytes));
        self.times.push(carry.await.with_context(|| format!("{} does not end", kind.name()))??);
        self.ticks = self.ticks.and(Ticks::now()?.since(before));
        Ok(())
    }
}

/// Many bytes at once.
async fn copies(pair: &RealPair, kind: Kind, settings: &Settings) -> anyhow::Result<Vec<Row>> {
    let file = pair.upper.folder().join("zeros");
    let bytes = usize::try_from(settings.megabytes)? * 1_000_000;
    std::fs::write(&file, vec![0; bytes])?;
    let file = file.to_string_lossy();
    let (mut through, mut direct) = (Carried::default(), Carried::default());
    let before = pair.link.process().usage()?;
    for _ in 0..settings.copies.max(1) {
        through.add(kind, &pair.upper, &file, bytes).await?;
        direct.add(kind, &pair.lower, &file, bytes).await?;
    }
    let cpu = pair.link.process().usage()?.cpu.saturating_sub(before.cpu).as_secs_f64();
    let rate = |times: &[Duration]| f64::from(settings.megabytes) / median(times.iter().map(Duration::as_secs_f64));
    let (rate_through, rate_direct) = (rate(&through.times), rate(&direct.times));
    let ratio = rate_through / rate_direct * 100.0;
    let measured = format!("{ratio:.0} % ({rate_through:.0} of {rate_direct:.0} MB/s)");
    #[allow(clippy::cast_precision_loss, reason = "a count of copies")]
    let gigabytes = through.times.len() as f64 * f64::from(settings.megabytes) / 1e3;
    let cpu = format!(
        "{:.2} s a GB in the virtual node; machine idle {} %, directly {} %",
        cpu / gigabytes,
        through.ticks.idle_percent(),
        direct.ticks.idle_percent()
    );
    Ok(vec![Row::new(format!("{}, of direct", kind.name()), measured).target(">= 90 %"), Row::new("CPU for it", cpu)])
}

/// Many followers of a log that is silent.
async fn followers(pair: &RealPair, count: usize) -> anyhow::Result<Vec<Row>> {
    let before = pair.link.process().usage()?;
    let above = pods(&pair.upper.client());
    let follow = LogParams { follow: true, ..LogParams::default() };
    let open = |_| {
        let (above, follow) = (above.clone(), follow.clone());
        async move {
            let mut log = above.log_stream(POD, &follow).await?;
            let mut first = [0; 6];
            // It stays open until it is dropped.
            timeout(PATIENCE, log.read_exact(&mut first)).await.context("a log says nothing")??;
            anyhow::Ok(log)
        }
    };
    let begin = Instant::now();
    let streams: Vec<_> = stream::iter(0..count).map(open).buffer_unordered(50).collect().await;
    let _streams = streams.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let (took, usage) = (begin.elapsed(), pair.link.process().usage()?);
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    Ok(vec![
        Row::new(format!("resident with {count} followers of logs"), megabytes(usage.rss)).target("<= 60 MB"),
        Row::new("resident before", megabytes(before.rss)),
        Row::new(format!("{count} followers until each had its first line"), format!("{:.1} s", took.as_secs_f64())),
    ])
}
