// SPDX-License-Identifier: Apache-2.0
//! How a cluster shall be, and its start.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;

use anyhow::Context as _;

use super::components::{self, Component, Settings};
use super::{Cluster, client_of};
use crate::binaries;
use crate::folder::Folder;
use crate::kubeconfig::{self, User, kubeconfig};
use crate::pki::{Authority, Identity};
use crate::port::Port;

/// Settings of a cluster that is not started yet.
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    version: Option<String>,
    audit: bool,
    scheduler: bool,
    scheduler_config: Option<String>,
    known_as: Vec<String>,
    apiserver_args: Vec<String>,
    controller_manager_args: Vec<String>,
}

impl Builder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: None,
            audit: false,
            scheduler: true,
            scheduler_config: None,
            known_as: Vec::new(),
            apiserver_args: Vec::new(),
            controller_manager_args: Vec::new(),
        }
    }

    /// The Kubernetes version, such as `1.36.3` or `1.36`; any, if it does not matter.
    #[must_use]
    pub fn version(self, version: &str) -> Self {
        Self { version: Some(version.to_owned()), ..self }
    }

    /// Whether every request is logged ([`Cluster::audit`]).
    #[must_use]
    pub fn audit(self, audit: bool) -> Self {
        Self { audit, ..self }
    }

    /// Whether a scheduler runs.
    #[must_use]
    pub fn scheduler(self, scheduler: bool) -> Self {
        Self { scheduler, ..self }
    }

    /// A `KubeSchedulerConfiguration` of the test's own; `SCHEDULER_KUBECONFIG` in it stands for the path of the
    /// scheduler's kubeconfig.
    #[must_use]
    pub fn scheduler_config(self, yaml: &str) -> Self {
        Self { scheduler_config: Some(yaml.to_owned()), ..self }
    }

    /// One more name or address in the API server's certificate.
    #[must_use]
    pub fn known_as(mut self, name: &str) -> Self {
        self.known_as.push(name.to_owned());
        self
    }

    /// More arguments for the API server.
    #[must_use]
    pub fn apiserver_args(mut self, args: &[&str]) -> Self {
        self.apiserver_args.extend(args.iter().copied().map(str::to_owned));
        self
    }

    /// More arguments for the controller manager, such as `--node-monitor-grace-period=10s`.
    #[must_use]
    pub fn controller_manager_args(mut self, args: &[&str]) -> Self {
        self.controller_manager_args.extend(args.iter().copied().map(str::to_owned));
        self
    }

    /// Starts it and waits until pods can be made in it.
    pub async fn start(self) -> anyhow::Result<Cluster> {
        let name = self.name.clone();
        self.started().await.with_context(|| format!("cannot start cluster {name}"))
    }

    async fn started(self) -> anyhow::Result<Cluster> {
        let (kubernetes, etcd) = tokio::try_join!(binaries::kubernetes(self.version.as_deref()), binaries::etcd())?;
        let folder = Folder::new(&self.name)?;
        let server = Port::reserve()?;
        let ports = (0..4).map(|_| Port::reserve()).collect::<anyhow::Result<Vec<_>>>()?;
        let settings = Settings {
            cluster: &self.name,
            folder: folder.path(),
            kubernetes: &kubernetes,
            etcd: &etcd,
            etcd_port: ports[0].number(),
            etcd_peer_port: ports[1].number(),
            server_port: server.number(),
            controller_manager_port: ports[2].number(),
            scheduler_port: ports[3].number(),
            audit: self.audit,
        };
        let (authority, admin) = self.write_files(&settings)?;

        // The API server waits for etcd by itself.
        let processes = BTreeMap::from([
            (Component::Etcd, settings.etcd().start()?),
            (Component::ApiServer, settings.apiserver(&self.apiserver_args).start()?),
        ]);
        let controller_manager = settings.controller_manager(&self.controller_manager_args);
        let scheduler = self.scheduler.then(|| settings.scheduler());
        let cluster = Cluster {
            client: client_of(&folder.join("admin.kubeconfig")).await?,
            name: self.name,
            kubernetes,
            server,
            authority,
            admin,
            processes: Mutex::new(processes),
            _ports: ports,
            folder,
        };
        cluster.ready().await?;
        // Earlier they would only fail and, some of them, give up.
        cluster.start_component(Component::ControllerManager, controller_manager)?;
        if let Some(scheduler) = scheduler {
            cluster.start_component(Component::Scheduler, scheduler)?;
        }
        cluster.usable().await?;
        Ok(cluster)
    }

    /// Certificates, kubeconfigs and configuration files; returns the authority and the administrator.
    fn write_files(&self, settings: &Settings<'_>) -> anyhow::Result<(Authority, Identity)> {
        let pki = settings.folder.join(components::PKI);
        fs::create_dir(&pki)?;
        let authority = Authority::new(&format!("{}-ca", self.name))?;
        let front_proxy = Authority::new(&format!("{}-front-proxy-ca", self.name))?;
        authority.identity().write(&pki, "ca")?;
        front_proxy.identity().write(&pki, "front-proxy-ca")?;
        front_proxy.client("front-proxy", &[])?.write(&pki, "front-proxy")?;
        Identity::bare_key()?.write(&pki, "service-account")?;
        let first_service = components::FIRST_SERVICE.to_string();
        let usual =
            ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", &first_service];
        let known_as: Vec<&str> = usual.into_iter().chain(self.known_as.iter().map(String::as_str)).collect();
        authority.server("kube-apiserver", &known_as)?.write(&pki, "apiserver")?;
        authority.client("kube-apiserver-kubelet-client", &["system:masters"])?.write(&pki, "kubelet-client")?;

        let admin = authority.client("admin", &["system:masters"])?;
        let server = format!("https://127.0.0.1:{}", settings.server_port);
        let ca = authority.identity().certificate;
        let write = |file: &str, identity: &Identity| {
            let config = kubeconfig(&self.name, &server, Some(&ca), &User::Certificate(identity));
            kubeconfig::write(&settings.folder.join(format!("{file}.kubeconfig")), &config)
        };
        write("admin", &admin)?;
        write("controller-manager", &authority.client("system:kube-controller-manager", &[])?)?;
        write("scheduler", &authority.client("system:kube-scheduler", &[])?)?;

        fs::write(settings.folder.join(components::AUDIT_POLICY), components::AUDIT_POLICY_TEXT)?;
        let scheduler_config = match &self.scheduler_config {
            Some(yaml) => {
                let path = settings.folder.join("scheduler.kubeconfig");
                yaml.replace("SCHEDULER_KUBECONFIG", &path.to_string_lossy())
            }
            None => settings.scheduler_config(),
        };
        fs::write(settings.folder.join(components::SCHEDULER_CONFIG), scheduler_config)?;
        Ok((authority, admin))
    }
}
