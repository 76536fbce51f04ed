// SPDX-License-Identifier: Apache-2.0
//! The multi-scheduler under test: its process, and a real kube-scheduler beside it that asks it over HTTPS.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use http::Request;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::cluster::{Cluster, client_of};
use crate::folder::Folder;
use crate::kubeconfig::{self, User, kubeconfig};
use crate::pki::{Authority, Identity};
use crate::pods::PATIENCE;
use crate::port::Port;
use crate::process::Process;
use crate::{helm, service, wait};

/// Name of the scheduler that pods ask for.
pub const SCHEDULER: &str = "multi-scheduler";

/// A multi-scheduler, and the kube-scheduler that it extends. They end on drop.
pub struct MultiScheduler {
    extender: Mutex<Process>,
    scheduler: Mutex<Process>,
    port: Port,
    admin: Port,
    _secure: Port,
    authority: Authority,
    client: Identity,
    folder: Folder,
}

/// One that is not started yet.
pub struct Builder<'a> {
    upper: &'a Cluster,
    name: String,
    args: Vec<String>,
    whole_nodes: bool,
    unasked: bool,
}

impl Builder<'_> {
    /// More arguments of the multi-scheduler.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().copied().map(str::to_owned));
        self
    }

    /// Pods ask for the scheduler by this name instead: one of several side by side.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The scheduler sends nodes whole instead of by name.
    #[must_use]
    pub fn whole_nodes(self) -> Self {
        Self { whole_nodes: true, ..self }
    }

    /// The scheduler does not ask the multi-scheduler at all.
    #[must_use]
    pub fn unasked(self) -> Self {
        Self { unasked: true, ..self }
    }

    /// Starts both, with the kubeconfigs of `lowers`, and waits until the multi-scheduler is ready.
    pub async fn start(self, lowers: &[&Cluster]) -> anyhow::Result<MultiScheduler> {
        let folder = Folder::new("multi-scheduler")?;
        std::fs::create_dir(folder.join("clusters"))?;
        let (port, admin, secure) = (Port::reserve()?, Port::reserve()?, Port::reserve()?);
        let authority = Authority::new("multi-scheduler-ca")?;
        authority.identity().write(folder.path(), "ca")?;
        authority.server("multi-scheduler", &["127.0.0.1"])?.write(folder.path(), "server")?;
        let client = authority.client("scheduler", &[])?;
        client.write(folder.path(), "client")?;
        let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let extender = service::launch("multi-scheduler", &self.name, self.upper.folder())?
            .arg("--kubeconfig")
            .arg(self.upper.kubeconfig())
            .args([
                format!("--clusters-dir={}", file("clusters")),
                format!("--port={}", port.number()),
                format!("--metrics-addr=127.0.0.1:{}", admin.number()),
                format!("--tls-cert-file={}", file("server.crt")),
                format!("--tls-private-key-file={}", file("server.key")),
                format!("--client-ca={}", file("ca.crt")),
            ])
            .args(["--address=127.0.0.1", "--log-level=info,multi_scheduler=debug"])
            .args(&self.args);
        let config = self.scheduler_config(&port, &file).await?;
        let scheduler = self.upper.scheduler(&format!("scheduler-of-{}", self.name), &config, &secure)?;
        for lower in lowers {
            add(&folder.join("clusters"), lower)?;
        }
        let this = MultiScheduler {
            extender: Mutex::new(extender.start()?),
            scheduler: Mutex::new(scheduler.start()?),
            port,
            admin,
            _secure: secure,
            authority,
            client,
            folder,
        };
        this.until_ready().await?;
        Ok(this)
    }

    /// The configuration that the chart renders, with addresses and files of this machine.
    async fn scheduler_config(&self, port: &Port, file: &impl Fn(&str) -> String) -> anyhow::Result<String> {
        let values =
            json!({ "scheduler": { "image": { "repository": "kube-scheduler" }, "qps": 5000, "burst": 10000 } });
        let objects = helm::template("multi-scheduler", "multi-scheduler", "tensile", &values).await?;
        let mut maps = helm::of_kind(&objects, "ConfigMap");
        let text =
            maps.find_map(|map| map["data"]["scheduler.yaml"].as_str()).context("the chart has no configuration")?;
        let mut config: Value = serde_saphyr::from_str(text)?;
        config["profiles"][0]["schedulerName"] = json!(self.name);
        config["leaderElection"] = json!({ "leaderElect": false });
        config["clientConnection"]["kubeconfig"] = json!("SCHEDULER_KUBECONFIG");
        let extender = &mut config["extenders"][0];
        extender["urlPrefix"] = json!(format!("https://127.0.0.1:{}/v1", port.number()));
        extender["tlsConfig"] =
            json!({ "caFile": file("ca.crt"), "certFile": file("client.crt"), "keyFile": file("client.key") });
        if self.whole_nodes {
            extender["nodeCacheCapable"] = json!(false);
        }
        if self.unasked {
            config["extenders"] = json!([]);
        }
        Ok(config.to_string())
    }
}

impl MultiScheduler {
    /// How one for pods of `upper` shall be.
    pub fn builder(upper: &Cluster) -> Builder<'_> {
        Builder { upper, name: SCHEDULER.to_owned(), args: Vec::new(), whole_nodes: false, unasked: false }
    }

    /// Gives it the kubeconfig of one more lower cluster, called as that.
    pub fn add(&self, lower: &Cluster) -> anyhow::Result<()> {
        add(&self.folder.join("clusters"), lower)
    }

    /// Takes the kubeconfig of a lower cluster away.
    pub fn remove(&self, lower: &Cluster) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(file_of(&self.folder.join("clusters"), lower))?)
    }

    /// The folder of its kubeconfigs.
    pub fn clusters(&self) -> PathBuf {
        self.folder.join("clusters")
    }

    /// Its process.
    pub fn process(&self) -> MutexGuard<'_, Process> {
        self.extender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of the kube-scheduler.
    pub fn scheduler(&self) -> MutexGuard<'_, Process> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address that it serves on.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port.number())
    }

    /// The authority of its certificate and of its clients.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The certificate of a scheduler.
    pub fn identity(&self) -> &Identity {
        &self.client
    }

    /// A client with the certificate of a scheduler.
    pub async fn as_scheduler(&self) -> anyhow::Result<Client> {
        self.client("scheduler", &User::Certificate(&self.client)).await
    }

    /// A client of another user.
    pub async fn client(&self, name: &str, user: &User<'_>) -> anyhow::Result<Client> {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        let ca = self.authority.identity().certificate;
        kubeconfig::write(&path, &kubeconfig(name, &self.server(), Some(&ca), user))?;
        client_of(&path).await
    }

    /// Status and body of what the admin server says to `path`.
    pub async fn admin(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let server = format!("http://127.0.0.1:{}", self.admin.number());
        send(&Client::try_from(Config::new(server.parse()?))?, Request::get(path).body(Body::empty())?).await
    }

    /// Waits until it is ready. Fails at once when a process has ended.
    pub async fn until_ready(&self) -> anyhow::Result<()> {
        self.until("is ready", async || {
            let (status, told) = self.admin("/readyz").await?;
            ensure!(status == 200, "{status}: {told}");
            Ok(())
        })
        .await
    }

    /// Waits until its metrics have this line.
    pub async fn until_metric(&self, line: &str) -> anyhow::Result<()> {
        self.until(&format!("shows {line}"), async || {
            let (_, told) = self.admin("/metrics").await?;
            let name = line.split([' ', '{']).next().unwrap_or_default();
            let alike: Vec<&str> = told.lines().filter(|other| other.starts_with(name)).collect();
            ensure!(alike.contains(&line), "{}", alike.join("\n"));
            Ok(())
        })
        .await
    }

    /// The sum of a metric over all its labels.
    pub async fn metric(&self, name: &str) -> anyhow::Result<usize> {
        let (_, told) = self.admin("/metrics").await?;
        let of = told.lines().filter(|line| line.split([' ', '{']).next() == Some(name));
        let values: Vec<&str> = of.filter_map(|line| line.rsplit(' ').next()).collect();
        ensure!(!values.is_empty(), "there is no metric {name}");
        Ok(values.into_iter().map(str::parse::<usize>).sum::<Result<_, _>>()?)
    }

    async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let about = format!("the multi-scheduler {what}");
        let seen = wait::eventually(PATIENCE, &about, async || {
            let running = self.process().ensure_running().and_then(|()| self.scheduler().ensure_running());
            match running {
                Ok(()) => look().await.map(Ok),
                Err(ended) => Ok(Err(ended)),
            }
        });
        seen.await?
    }
}

/// Status and body of the answer to a request.
pub async fn send(client: &Client, request: Request<Body>) -> anyhow::Result<(u16, String)> {
    let answer = client.send(request).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.context("the body of the answer")?;
    Ok((status, String::from_utf8(body.to_vec())?))
}

fn add(clusters: &Path, lower: &Cluster) -> anyhow::Result<()> {
    // Renamed into place, so that no half file is read.
    let (path, hidden) = (file_of(clusters, lower), clusters.join(format!(".{}", lower.name())));
    std::fs::copy(lower.kubeconfig(), &hidden)?;
    Ok(std::fs::rename(hidden, path)?)
}

fn file_of(clusters: &Path, lower: &Cluster) -> PathBuf {
    clusters.join(format!("{}.kubeconfig", lower.name()))
}
