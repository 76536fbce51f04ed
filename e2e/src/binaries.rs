// SPDX-License-Identifier: Apache-2.0
//! Where the real programs come from: `KUBEBUILDER_ASSETS`, else `PATH`, else the user's cache, else built with Go.

mod build;
mod recipe;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

pub(crate) use build::into_place;
use recipe::Recipe;
pub use recipe::{KWOK, SUPPORTED};

/// The programs of one Kubernetes version.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// Such as `1.36.3`.
    pub version: String,
    /// kube-apiserver.
    pub apiserver: PathBuf,
    /// kube-controller-manager.
    pub controller_manager: PathBuf,
    /// kube-scheduler.
    pub scheduler: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
}

/// The programs of Kubernetes `version` (`1.36.3`, or a minor as `1.36`); without one, the version that lies in
/// `KUBEBUILDER_ASSETS`, else the newest supported.
pub async fn kubernetes(version: Option<&str>) -> anyhow::Result<Kubernetes> {
    let version = match version {
        Some(version) => recipe::supported(version)?,
        None => assets_version().unwrap_or(SUPPORTED[0]),
    };
    let find = |program| provide(Recipe::kubernetes(program, version));
    // One after another: they share nearly all of their packages, and Go uses every core for one.
    Ok(Kubernetes {
        version: version.to_owned(),
        apiserver: find("kube-apiserver").await?,
        controller_manager: find("kube-controller-manager").await?,
        scheduler: find("kube-scheduler").await?,
        kubectl: find("kubectl").await?,
    })
}

/// The kubectl of Kubernetes `version` (`1.36.3`, or a minor as `1.36`) alone.
pub async fn kubectl(version: &str) -> anyhow::Result<PathBuf> {
    provide(Recipe::kubernetes("kubectl", recipe::supported(version)?)).await
}

/// What a node runs, and what its containers do.
#[derive(Clone, Debug)]
pub(crate) struct NodePrograms {
    pub(crate) kubelet: PathBuf,
    pub(crate) containerd: PathBuf,
    /// containerd-shim-runc-v2, which containerd starts once per pod.
    pub(crate) shim: PathBuf,
    pub(crate) ctr: PathBuf,
    pub(crate) agnhost: PathBuf,
}

/// The programs of a node of Kubernetes `version`.
pub(crate) async fn node(version: &str) -> anyhow::Result<NodePrograms> {
    let version = recipe::supported(version)?;
    // One after another, for the same reason as above. Every version of agnhost does the same here.
    Ok(NodePrograms {
        kubelet: provide(Recipe::kubernetes("kubelet", version)).await?,
        containerd: provide(Recipe::containerd("containerd")).await?,
        shim: provide(Recipe::containerd("containerd-shim-runc-v2")).await?,
        ctr: provide(Recipe::containerd("ctr")).await?,
        agnhost: provide(Recipe::agnhost(SUPPORTED[0])).await?,
    })
}

/// etcd.
pub async fn etcd() -> anyhow::Result<PathBuf> {
    provide(Recipe::etcd()).await
}

/// kwok, which simulates nodes and the pods on them.
pub async fn kwok() -> anyhow::Result<PathBuf> {
    provide(Recipe::kwok()).await
}

/// The folder of kwok's source, where its stages are.
pub async fn kwok_source() -> anyhow::Result<PathBuf> {
    tokio::task::spawn_blocking(|| build::source(&Recipe::kwok(), &cache()?)).await?
}

/// metrics-server.
pub async fn metrics_server() -> anyhow::Result<PathBuf> {
    provide(Recipe::metrics_server()).await
}

/// Prometheus.
pub async fn prometheus() -> anyhow::Result<PathBuf> {
    provide(Recipe::prometheus()).await
}

/// helm.
pub async fn helm() -> anyhow::Result<PathBuf> {
    provide(Recipe::helm()).await
}

/// The folder of this project in the user's cache: `$XDG_CACHE_HOME/tensile`, else `~/.cache/tensile`.
pub fn cache() -> anyhow::Result<PathBuf> {
    let base = env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()).map(PathBuf::from);
    let base = base.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    Ok(base.context("neither XDG_CACHE_HOME nor HOME names a folder")?.join("tensile"))
}

async fn provide(recipe: Recipe) -> anyhow::Result<PathBuf> {
    tokio::task::spawn_blocking(move || {
        let found = assets().into_iter().chain(path()).map(|folder| folder.join(recipe.program));
        match found.into_iter().find(|path| is_of_version(path, &recipe)) {
            Some(path) => Ok(path),
            None => build::cached_or_built(&recipe, &cache()?),
        }
    })
    .await?
}

fn assets() -> Option<PathBuf> {
    env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from)
}

fn path() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

/// The supported version of the kube-apiserver in `KUBEBUILDER_ASSETS`, if any.
fn assets_version() -> Option<&'static str> {
    let apiserver = assets()?.join("kube-apiserver");
    SUPPORTED.iter().copied().find(|version| is_of_version(&apiserver, &Recipe::kubernetes("kube-apiserver", version)))
}

/// Whether `path` is a program that says it has the recipe's version.
fn is_of_version(path: &Path, recipe: &Recipe) -> bool {
    path.is_file()
        && Command::new(path)
            .args(recipe.version_args)
            .output()
            .is_ok_and(|output| recipe::says_version(&String::from_utf8_lossy(&output.stdout), &recipe.version))
}

/// Builds or finds what only tests use: kubectl of every supported version, nodes of `versions`, readers of metrics.
pub async fn for_tests(versions: &[&str]) -> anyhow::Result<()> {
    for version in SUPPORTED {
        kubectl(version).await?;
    }
    if crate::real_node::is_possible() {
        for version in versions {
            node(version).await?;
        }
        metrics_server().await?;
        prometheus().await?;
    }
    Ok(())
}

/// Builds or finds everything that demo, tests and benchmarks use, versions side by side.
pub async fn everything(versions: &[&str]) -> anyhow::Result<()> {
    let tools = async { tokio::try_join!(etcd(), kwok(), kwok_source(), helm()) };
    let control_planes = async {
        for version in versions {
            kubernetes(Some(version)).await?;
        }
        if crate::real_node::is_possible() {
            node(SUPPORTED[0]).await?;
        }
        anyhow::Ok(())
    };
    if let Err(error) = tokio::try_join!(tools, control_planes) {
        bail!("the real binaries are not there: {error:#}");
    }
    Ok(())
}
