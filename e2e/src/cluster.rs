// SPDX-License-Identifier: Apache-2.0
//! A real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

mod audit;
mod builder;
mod components;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tensile_testkit::fault_proxy::{FaultProxy, Upstream};

use crate::binaries::Kubernetes;
use crate::folder::Folder;
use crate::kubeconfig::{self, User, kubeconfig};
use crate::pki::{Authority, Identity};
use crate::port::Port;
use crate::process::{Launch, Process, Signal};
use crate::usage::Usage;
use crate::wait;

pub use audit::{Account, Audit, Object, Request, Status};
pub use builder::Builder;
pub use components::Component;

/// Within this time a started control plane has to answer, also while others start on the same two cores.
const START: Duration = Duration::from_secs(120);

/// One running cluster. Everything of it ends on drop.
pub struct Cluster {
    name: String,
    kubernetes: Kubernetes,
    client: Client,
    server: Port,
    authority: Authority,
    admin: Identity,
    processes: Mutex<BTreeMap<Component, Process>>,
    // Held so that nobody else gets them; and last, the folder goes after the processes.
    _ports: Vec<Port>,
    folder: Folder,
}

impl Cluster {
    /// How a cluster called `name` shall be.
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its Kubernetes version, such as `1.36.3`.
    pub fn version(&self) -> &str {
        &self.kubernetes.version
    }

    /// A client of the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The address of the API server.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.server.number())
    }

    /// The kubeconfig file of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// The folder with its logs and files; tests may put theirs here.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The authority that the API server trusts for clients, and that signed its certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The administrator's certificate and key.
    pub fn admin(&self) -> &Identity {
        &self.admin
    }

    /// Writes a kubeconfig `NAME.kubeconfig` for another user, and maybe another address (of a proxy) than the API
    /// server's own: `http://` ones get no authority.
    pub fn kubeconfig_for(&self, name: &str, server: Option<&str>, user: &User<'_>) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let server = server.map_or_else(|| self.server(), str::to_owned);
        let ca = self.authority.identity().certificate;
        let ca = server.starts_with("https:").then_some(ca.as_str());
        kubeconfig::write(&path, &kubeconfig(&self.name, &server, ca, user))?;
        Ok(path)
    }

    /// A proxy in front of the API server that has the administrator's rights and misbehaves on command.
    pub async fn fault_proxy(&self) -> anyhow::Result<FaultProxy> {
        let upstream = Upstream {
            port: self.server.number(),
            ca: self.authority.identity().certificate,
            certificate: self.admin.certificate.clone(),
            key: self.admin.key.clone(),
        };
        FaultProxy::start(&upstream).await.context("cannot start a fault proxy")
    }

    /// Runs kubectl as the administrator; an error shows what it wrote to standard error.
    pub async fn kubectl(&self, args: &[&str]) -> anyhow::Result<Output> {
        let mut kubectl = tokio::process::Command::new(&self.kubernetes.kubectl);
        kubectl.arg("--kubeconfig").arg(self.kubeconfig()).args(args).kill_on_drop(true);
        let output = kubectl.output().await.context("cannot run kubectl")?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {} in {}: {}: {}", args.join(" "), self.name, output.status, told.trim());
        }
        Ok(output)
    }

    /// Applies objects as the administrator; an unknown field in one is an error.
    pub async fn apply<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        more: &[&str],
    ) -> anyhow::Result<Output> {
        let items: Vec<&Value> = objects.into_iter().collect();
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())?;
        let path = file.path().to_string_lossy();
        let mut args = vec!["apply", "--validate=strict", "--filename", &path];
        args.extend(more);
        self.kubectl(&args).await
    }

    /// One more scheduler with a configuration of its own, as [`Builder::scheduler_config`] has it, logging to `NAME.log`; it
    /// serves on `port`.
    pub fn scheduler(&self, name: &str, config: &str, port: &Port) -> anyhow::Result<Launch> {
        let file = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let (kubeconfig, path) = (file("scheduler.kubeconfig"), self.folder.join(format!("{name}.yaml")));
        std::fs::write(&path, config.replace("SCHEDULER_KUBECONFIG", &kubeconfig))?;
        let launch = Launch::new(name, &self.kubernetes.scheduler, self.folder.join(format!("{name}.log")));
        Ok(launch.args([
            format!("--config={}", path.display()),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--cert-dir={}", file(name)),
            format!("--secure-port={}", port.number()),
            "--bind-address=127.0.0.1".to_owned(),
        ]))
    }

    /// The kubectl of this cluster's version.
    pub fn kubectl_path(&self) -> &Path {
        &self.kubernetes.kubectl
    }

    /// The kube-scheduler of this cluster's version.
    pub fn scheduler_path(&self) -> &Path {
        &self.kubernetes.scheduler
    }

    /// Everything the audit log holds so far. Needs [`Builder::audit`].
    pub fn audit(&self) -> anyhow::Result<Audit> {
        Audit::read(&self.folder.join(components::AUDIT_LOG))
            .with_context(|| format!("cannot read the audit log of {} (started with audit(true)?)", self.name))
    }

    /// CPU time and memory of a component.
    pub fn usage(&self, component: Component) -> anyhow::Result<Usage> {
        self.process(component, |process| process.usage())
    }

    /// Sends a signal to a component: `STOP` freezes it and `CONT` goes on, `KILL` is a crash.
    pub fn signal(&self, component: Component, signal: Signal) -> anyhow::Result<()> {
        self.process(component, |process| process.signal(signal))
    }

    /// Kills a component with SIGKILL and waits for its end. Its data stays; see [`Cluster::restart`].
    pub fn kill(&self, component: Component) -> anyhow::Result<()> {
        self.process(component, |process| Ok(process.kill()))?;
        Ok(())
    }

    /// Starts a component again (killing it if it runs), with the same arguments, port and data.
    pub async fn restart(&self, component: Component) -> anyhow::Result<()> {
        self.process(component, Process::restart)?;
        self.ready().await
    }

    /// Whether it was started with, or was given, this component.
    pub(crate) fn has(&self, component: Component) -> bool {
        self.processes().contains_key(&component)
    }

    /// Adds a component.
    pub(crate) fn start_component(&self, component: Component, launch: Launch) -> anyhow::Result<()> {
        self.processes().insert(component, launch.start()?);
        Ok(())
    }

    fn process<T>(
        &self,
        component: Component,
        act: impl FnOnce(&mut Process) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut processes = self.processes();
        act(processes.get_mut(&component).with_context(|| format!("{} has no {component:?}", self.name))?)
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the API server says that it is ready. A component that ended fails it at once, with its log.
    pub async fn ready(&self) -> anyhow::Result<()> {
        self.eventually(START, "its API server is ready", async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = self.client.request_text(request).await?;
            ensure!(answer == "ok", "/readyz says {answer}");
            Ok(())
        })
        .await
    }

    /// Waits until pods can be made in the default namespace: the controller manager made its service account.
    async fn usable(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        self.eventually(START, "the default service account exists", async || {
            accounts.get("default").await?;
            Ok(())
        })
        .await
    }

    /// Waits for a condition like [`wait::eventually`], but fails at once, showing its log, when a process of the cluster
    /// has ended.
    pub async fn eventually<T>(
        &self,
        deadline: Duration,
        what: &str,
        mut look: impl AsyncFnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        wait::eventually(deadline, &format!("cluster {}: {what}", self.name), async || {
            let ended = self.processes().values_mut().find_map(|process| process.ensure_running().err());
            match ended {
                Some(error) => Ok(Err(error)),
                None => look().await.map(Ok),
            }
        })
        .await?
    }
}

/// A client for a kubeconfig file; the API servers know it as `tensile-e2e`.
pub async fn client_of(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static("tensile-e2e")));
    Ok(Client::try_from(config)?)
}
