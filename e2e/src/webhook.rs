// SPDX-License-Identifier: Apache-2.0
//! The webhook under test: its chart as helm renders it, with processes on this machine in place of the pods.
//!
//! They have the rights of the chart's service account and the arguments of its Deployment; only addresses are others.
//! Each process is a webhook of its own in the registration, so that every pod passes through all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use http::Request;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::client::Body;
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::helm;
use crate::kubeconfig::User;
use crate::namespace;
use crate::pods::PATIENCE;
use crate::port::Port;
use crate::process::Process;
use crate::{service, wait};

/// Name of the release, and of what the chart names after it.
const RELEASE: &str = "webhook";
/// What the chart is applied for here; the rest would need nodes.
const APPLIED: [&str; 5] = ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];

/// An installed chart whose pods are processes.
pub struct Installation {
    /// Where the release is.
    pub namespace: String,
    /// The registration as it was applied: without a bundle.
    pub registration: Value,
    /// The processes.
    pub replicas: Vec<Replica>,
    configurations: Api<MutatingWebhookConfiguration>,
}

/// One process. It ends on drop.
pub struct Replica {
    port: Port,
    admin: Port,
    process: Mutex<Process>,
}

impl Installation {
    /// Installs the chart with these values in a namespace of this name, and starts so many processes with more
    /// arguments. Waits until all are ready.
    pub async fn start(upper: &Cluster, namespace: &str, replicas: usize, values: &Value) -> anyhow::Result<Self> {
        namespace::make(namespace, upper).await?;
        let objects = helm::template("webhook", RELEASE, namespace, values).await?;
        let replicas = (0..replicas).map(|_| Ok((Port::reserve()?, Port::reserve()?)));
        let replicas = replicas.collect::<anyhow::Result<Vec<_>>>()?;

        let registration = helm::of_kind(&objects, "MutatingWebhookConfiguration").next();
        let mut registration = registration.context("the chart registers nothing")?.clone();
        let rendered = registration["webhooks"][0].take();
        let called_at = |number: usize, port: &Port| {
            let mut webhook = rendered.clone();
            webhook["name"] = json!(format!("replica-{number}.{}", rendered["name"].as_str().unwrap_or_default()));
            webhook["clientConfig"] = json!({ "url": format!("https://127.0.0.1:{}/mutate", port.number()) });
            webhook
        };
        let webhooks = replicas.iter().enumerate().map(|(number, (port, _))| called_at(number, port));
        registration["webhooks"] = webhooks.collect();
        let applied = objects.iter().filter(|object| APPLIED.iter().any(|kind| object["kind"] == *kind));
        upper.apply(applied.chain([&registration]), &[]).await?;

        let kubeconfig = service_account(upper, namespace).await?;
        let deployment = helm::of_kind(&objects, "Deployment").next().context("the chart has no Deployment")?;
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
        let args: Vec<&str> = args.into_iter().flatten().filter_map(Value::as_str).collect();
        // The file is in the pod.
        let args: Vec<&str> = args.into_iter().filter(|arg| !arg.starts_with("--config=")).collect();
        let start = |number: usize, (port, admin): (Port, Port)| {
            let name = format!("{namespace}-{number}");
            let launch = service::launch("webhook", &name, upper.folder())?.args(&args);
            let process = launch
                .args(["--address=127.0.0.1", "--serving-names=127.0.0.1"])
                .args([format!("--port={}", port.number()), format!("--metrics-addr=127.0.0.1:{}", admin.number())])
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .start()?;
            Ok(Replica { port, admin, process: Mutex::new(process) })
        };
        let replicas = replicas.into_iter().enumerate().map(|(number, ports)| start(number, ports));
        let replicas = replicas.collect::<anyhow::Result<Vec<_>>>()?;
        let configurations = Api::all(upper.client());
        let installation = Self { namespace: namespace.to_owned(), registration, replicas, configurations };
        installation.until_ready().await?;
        Ok(installation)
    }

    /// Waits until all processes are ready.
    pub async fn until_ready(&self) -> anyhow::Result<()> {
        for replica in &self.replicas {
            replica.until_ready().await?;
        }
        Ok(())
    }

    /// What API servers are told now: the bundle of each webhook.
    pub async fn bundles(&self) -> anyhow::Result<Vec<String>> {
        let name = self.registration["metadata"]["name"].as_str().unwrap_or_default();
        let told = self.configurations.get(name).await?.webhooks.unwrap_or_default();
        let bundle = |bundle: Option<k8s_openapi::ByteString>| String::from_utf8(bundle.unwrap_or_default().0);
        Ok(told.into_iter().map(|webhook| bundle(webhook.client_config.ca_bundle)).collect::<Result<_, _>>()?)
    }
}

impl Replica {
    /// Its process.
    pub fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address API servers call.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port.number())
    }

    /// Status and body of what the admin server says to `path`.
    pub async fn admin(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let server = format!("http://127.0.0.1:{}", self.admin.number());
        let client = Client::try_from(Config::new(server.parse()?))?;
        let answer = client.send(Request::get(path).body(Body::empty())?).await?;
        let status = answer.status().as_u16();
        Ok((status, String::from_utf8(answer.into_body().collect_bytes().await?.to_vec())?))
    }

    /// Waits until it is ready. Fails at once when the process has ended.
    pub async fn until_ready(&self) -> anyhow::Result<()> {
        let ready = wait::eventually(PATIENCE, "the webhook is ready", async || {
            if let Err(ended) = self.process().ensure_running() {
                return Ok(Err(ended));
            }
            let (status, told) = self.admin("/readyz").await?;
            ensure!(status == 200, "{status}: {told}");
            Ok(Ok(()))
        });
        ready.await?
    }
}

/// A kubeconfig of the chart's service account, once its rights count.
async fn service_account(upper: &Cluster, namespace: &str) -> anyhow::Result<std::path::PathBuf> {
    let token = upper.kubectl(&["create", "token", RELEASE, "--namespace", namespace]).await?;
    let token = String::from_utf8(token.stdout)?;
    let user = format!("--as=system:serviceaccount:{namespace}:{RELEASE}");
    let can = ["auth", "can-i", "create", "secrets", "--namespace", namespace, &user];
    wait::eventually(PATIENCE, "the rights of the service account count", async || upper.kubectl(&can).await).await?;
    upper.kubeconfig_for(namespace, None, &User::Token(token.trim()))
}
