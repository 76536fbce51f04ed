// SPDX-License-Identifier: Apache-2.0
//! The command line.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a command prints is its result")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use futures::future;
use tracing_subscriber::EnvFilter;

use crate::cluster::Cluster;
use crate::kwok::NodeShape;
use crate::real_node::RealNode;
use crate::{accept, bench, binaries, demo};

/// Real Kubernetes clusters on this machine, from a few binaries that are built once with Go.
#[derive(Debug, Parser)]
#[command(name = "e2e", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows pods of an upper cluster run in two lower ones, and stays until Ctrl-C.
    Demo {
        /// Ends when everything was seen; fails when something was not.
        #[arg(long)]
        once: bool,
    },
    /// Runs all tests; the last line says how many passed, failed and were skipped.
    Accept,
    /// Measures pods through a virtual node against pods created directly; build in release.
    Bench(bench::Settings),
    /// Measures the webhook alone; build in release.
    BenchWebhook(bench::webhook::Settings),
    /// Finds or builds the real binaries that everything else needs.
    Binaries {
        /// Kubernetes versions, such as 1.36.3 or 1.36 [default: all supported].
        versions: Vec<String>,
    },
    /// Clusters to play with.
    #[command(subcommand)]
    Clusters(Clusters),
}

#[derive(Debug, Subcommand)]
enum Clusters {
    /// Starts clusters, prints the paths of their kubeconfigs and stays until Ctrl-C.
    Up {
        /// Their names.
        #[arg(default_value = "alone")]
        names: Vec<String>,
        /// Their Kubernetes version.
        #[arg(long)]
        version: Option<String>,
        /// Simulated nodes in each.
        #[arg(long, default_value_t = 0)]
        nodes: usize,
        /// Real nodes in each: a kubelet and containers. Needs root.
        #[arg(long, default_value_t = 0)]
        real_nodes: usize,
    },
}

/// Parses the command line and does what it says; the exit code says whether it worked.
pub fn run() -> ExitCode {
    // An API server that is still starting answers 500; whoever waits for it says so better than the client.
    let quiet = "warn,kube_client::client::builder=off";
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match crate::run(act(Arguments::parse().command)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn act(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo { once } => demo::run(once).await?,
        Command::Bench(settings) => bench::run(settings).await?,
        Command::BenchWebhook(settings) => bench::webhook::run(settings).await?,
        Command::Accept => return accept::run().await,
        Command::Binaries { versions } => {
            let asked: Vec<&str> = versions.iter().map(String::as_str).collect();
            let versions: &[&str] = if asked.is_empty() { binaries::SUPPORTED } else { &asked };
            binaries::everything(versions).await?;
            binaries::for_tests(versions).await?;
        }
        Command::Clusters(Clusters::Up { names, version, nodes, real_nodes }) => {
            up(&names, version.as_deref(), nodes, real_nodes).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn up(names: &[String], version: Option<&str>, nodes: usize, real_nodes: usize) -> anyhow::Result<()> {
    let start = async |name: &String| {
        let builder = Cluster::builder(name);
        let cluster = version.map_or(builder.clone(), |version| builder.version(version)).start().await?;
        if nodes > 0 {
            cluster.kwok_nodes(NodeShape { count: nodes, ..NodeShape::default() }).await?;
        }
        let real_nodes: Vec<String> = (1..=real_nodes).map(|number| format!("{name}-real-{number}")).collect();
        let real_nodes = real_nodes.iter().map(|node| RealNode::start(&cluster, node));
        let real_nodes = future::try_join_all(real_nodes).await?;
        anyhow::Ok((cluster, real_nodes))
    };
    let clusters = future::try_join_all(names.iter().map(start)).await?;
    for (cluster, _) in &clusters {
        println!("{} {} {}", cluster.name(), cluster.version(), cluster.kubeconfig().display());
    }
    println!("up; Ctrl-C ends");
    tokio::signal::ctrl_c().await?;
    Ok(())
}
