// SPDX-License-Identifier: Apache-2.0
//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tensile_runtime::clients::ClientSource;

/// Lower clusters as seen from the upper one: join, look, drain, leave.
///
/// The upper cluster is the one that kubectl talks to. Commands that look into a lower cluster use the kubeconfig that its
/// virtual node uses, which they read from the Secret of its Deployment, or the one given with --lower-kubeconfig.
///
/// Exit codes: 0 done and well, 1 failed or something is wrong, 2 a flag is wrong.
#[derive(Debug, Clone, Parser)]
#[command(name = "kubectl-tensile", bin_name = "kubectl tensile", version, max_term_width = 100)]
#[allow(clippy::doc_markdown, reason = "these texts are the help page, which knows no markdown")]
pub struct Args {
    /// Kubeconfig of the upper cluster [default: as kubectl: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,

    /// Context in the kubeconfig [default: its current-context]
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,

    /// How to print
    #[arg(long, short, value_enum, default_value_t = Format::Table, global = true)]
    pub output: Format,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
#[allow(clippy::doc_markdown, reason = "these texts are the help page, which knows no markdown")]
pub enum Command {
    /// Show the virtual nodes: readiness, version, heartbeat, pods, room
    Status,
    /// Show what pods use on the virtual nodes
    Top {
        /// The virtual node [default: all]
        node: Option<String>,
        /// Show each pod, the busiest first
        #[arg(long)]
        pods: bool,
    },
    /// Show the path of one pod, stage by stage, and what it waits for
    Why {
        /// Its name
        pod: String,
        /// Its namespace [default: the context's]
        #[arg(long, short)]
        namespace: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs, reason = "documented at its type; a text here would replace the command's in the help")]
        lower: Lower,
    },
    /// Check what a virtual node needs, and say how to mend what is missing
    Doctor {
        /// The virtual node [default: all]
        node: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs, reason = "documented at its type; a text here would replace the command's in the help")]
        lower: Lower,
    },
    /// Make an identity in a lower cluster, store its kubeconfig in the upper one, and print how to install the chart
    Join(Join),
    /// Cordon a virtual node and evict its pods, within their disruption budgets
    Drain {
        /// The virtual node
        node: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "documented at its type; a text here would replace the command's in the help")]
        wait: Wait,
    },
    /// Drain a virtual node, and say what is left to remove
    Leave {
        /// The virtual node
        node: String,
        #[command(flatten)]
        #[allow(missing_docs, reason = "documented at its type; a text here would replace the command's in the help")]
        wait: Wait,
    },
    /// Print a completion script for a shell
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// Another way into the lower cluster.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Lower {
    /// Kubeconfig of the lower cluster [default: the one that the virtual node uses]
    #[arg(long, value_name = "FILE")]
    pub lower_kubeconfig: Option<PathBuf>,
}

/// How a lower cluster joins.
#[derive(Debug, Clone, clap::Args)]
pub struct Join {
    /// Name of the virtual node
    pub node: String,
    /// Kubeconfig of an administrator of the lower cluster
    #[arg(long, value_name = "FILE")]
    pub lower_kubeconfig: PathBuf,
    /// Context in it [default: its current-context]
    #[arg(long, value_name = "NAME")]
    pub lower_context: Option<String>,
    /// Address by which the virtual node reaches the lower API server [default: the one in the kubeconfig]
    #[arg(long, value_name = "URL")]
    pub lower_server: Option<String>,
    /// Namespace of the virtual node in the upper cluster
    #[arg(long, short, default_value = "tensile")]
    pub namespace: String,
    /// Write nothing; print the manifests
    #[arg(long)]
    pub dry_run: bool,
}

/// How long pods are waited for.
#[derive(Debug, Clone, clap::Args)]
pub struct Wait {
    /// Give up after this many seconds; 0 waits for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub timeout: u64,
    /// Change nothing; list what would be evicted
    #[arg(long)]
    pub dry_run: bool,
}

impl Args {
    /// Where the upper cluster is, by kubectl's rules.
    pub fn upper(&self) -> ClientSource {
        let default = || {
            let named = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
            named.or_else(|| Some(std::env::home_dir()?.join(".kube/config")))
        };
        let source = ClientSource::new("kubectl-plugin", self.kubeconfig.clone().or_else(default));
        source.context(self.context.clone())
    }
}
