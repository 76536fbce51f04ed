// SPDX-License-Identifier: Apache-2.0
//! One upper and two lower clusters with a virtual node each, and the webhook in front of the upper API server.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use e2e::cluster::Cluster;
use e2e::kwok::NodeShape;
use e2e::link::Link;
use e2e::namespace;
use e2e::pki::Authority;
use e2e::pods::Pods;
use e2e::port::Port;
use e2e::process::Process;
use e2e::service;
use e2e::wait::eventually;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Label by which a namespace keeps the webhook out.
pub(crate) const WITHOUT: (&str, &str) = ("placement", "untouched");

/// Namespace whose ConfigMaps hold exclusions.
pub(crate) const EXCLUSIONS: &str = "default";

/// What all tests here share.
pub(crate) struct Lab {
    /// Where users create pods.
    pub(crate) upper: Cluster,
    /// Each has one large machine and two small ones, so that a scheduler with a free choice takes the large one.
    pub(crate) lowers: [Cluster; 2],
    /// The virtual nodes, called as the lower clusters.
    _links: [Link; 2],
    webhook: Mutex<Process>,
    _port: Port,
}

/// The machines of each lower cluster.
pub(crate) const MACHINES: usize = 3;

impl Lab {
    /// The one of this test binary.
    pub(crate) async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Lab> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> anyhow::Result<Self> {
        let (upper, one, two) = tokio::try_join!(Cluster::builder("upper").start(), lower("east"), lower("west"))?;
        let links = tokio::try_join!(Link::start(&upper, &one, "east"), Link::start(&upper, &two, "west"))?;
        let (port, webhook) = start_webhook(&upper).await?;
        Ok(Self { upper, lowers: [one, two], _links: links.into(), webhook: Mutex::new(webhook), _port: port })
    }

    /// Runs `test` in a fresh namespace upstairs.
    pub(crate) async fn within<T>(
        &self,
        name: &str,
        test: impl AsyncFnOnce(&Pods) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        namespace::within(name, &self.upper, &self.lowers.each_ref(), async |namespace| {
            self.webhook.lock().unwrap_or_else(PoisonError::into_inner).ensure_running()?;
            test(&Pods::of(&self.upper, namespace)).await
        })
        .await
    }

    /// The pods below, of both clusters, of the namespace of `above`.
    pub(crate) fn below(&self, above: &Pods) -> [Pods; 2] {
        self.lowers.each_ref().map(|lower| Pods::of(lower, above.namespace()))
    }

    /// Creates a Deployment whose pods opt in, with `more` in their spec.
    pub(crate) async fn deploy(&self, above: &Pods, name: &str, replicas: usize, more: Value) -> anyhow::Result<()> {
        let labels = json!({ "app": name, "virtual-pod": "true" });
        let spec = json!({
            "tolerations": [{ "key": "virtual-kubelet.io/provider", "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "example.org/app:1",
                "resources": { "requests": { "cpu": "100m" } } }],
        });
        let deployment = json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": labels }, "spec": e2e::pods::with(spec, more) },
            },
        });
        let deployments: Api<Deployment> = Api::namespaced(self.upper.client(), above.namespace());
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
        Ok(())
    }

    /// How many pods run on which machine, named with its cluster.
    pub(crate) async fn machines(&self, above: &Pods) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut machines = BTreeMap::new();
        for below in self.below(above) {
            for pod in below.list().await? {
                let node = pod["spec"]["nodeName"].as_str().unwrap_or("none").to_owned();
                *machines.entry(node).or_default() += 1;
            }
        }
        Ok(machines)
    }
}

async fn lower(name: &str) -> anyhow::Result<Cluster> {
    let cluster = Cluster::builder(name).start().await?;
    let shape = |name: &str, count, cpu: &str| NodeShape {
        name: name.to_owned(),
        count,
        cpu: cpu.to_owned(),
        ..NodeShape::default()
    };
    cluster.kwok_nodes(shape("large", 1, "64")).await?;
    cluster.kwok_nodes(shape("small", MACHINES - 1, "4")).await?;
    Ok(cluster)
}

/// Starts the webhook with a certificate from files, and has the API server ask it.
async fn start_webhook(upper: &Cluster) -> anyhow::Result<(Port, Process)> {
    let authority = Authority::new("webhook-ca")?;
    authority.server("webhook", &["127.0.0.1"])?.write(upper.folder(), "webhook")?;
    let port = Port::reserve()?;
    let file = |name: &str| upper.folder().join(name).to_string_lossy().into_owned();
    let process = service::launch("webhook", "webhook", upper.folder())?
        .args(["--address=127.0.0.1", "--metrics-addr=127.0.0.1:0", "--log-level=info,webhook=debug"])
        .arg(format!("--exclusions-namespace={EXCLUSIONS}"))
        .arg("--kubeconfig")
        .arg(upper.kubeconfig())
        .arg(format!("--port={}", port.number()))
        .arg(format!("--tlscert={}", file("webhook.crt")))
        .arg(format!("--tlskey={}", file("webhook.key")))
        .start()?;

    let configurations: Api<MutatingWebhookConfiguration> = Api::all(upper.client());
    let mut configuration: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": { "name": "placement" },
        "webhooks": [{
            "name": "placement.tensile.test",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": format!("https://127.0.0.1:{}/mutate", port.number()) },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
            "objectSelector": { "matchLabels": { "virtual-pod": "true" } },
            "namespaceSelector": { "matchExpressions": [
                { "key": WITHOUT.0, "operator": "NotIn", "values": [WITHOUT.1] },
            ] },
            "sideEffects": "None",
            "reinvocationPolicy": "IfNeeded",
            "failurePolicy": "Fail",
        }],
    }))?;
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(ByteString(authority.identity().certificate.into_bytes()));
    }
    configurations.create(&PostParams::default(), &configuration).await?;
    is_asked(upper).await?;
    Ok((port, process))
}

/// Waits until the API server asks: it reads the configuration some time after it was made.
async fn is_asked(upper: &Cluster) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(upper.client(), "default");
    let pod = json!({
        "metadata": { "name": "probe", "labels": { "virtual-pod": "true" } },
        "spec": { "containers": [{ "name": "main", "image": "example.org/app:1" }] },
    });
    let (params, pod) = (PostParams { dry_run: true, ..PostParams::default() }, serde_json::from_value(pod)?);
    eventually(e2e::pods::PATIENCE, "the webhook is asked", async || {
        let seen: Pod = pods.create(&params, &pod).await?;
        seen.metadata.annotations.unwrap_or_default().remove("clusterSelector").context("the pod is as it was")
    })
    .await?;
    Ok(())
}
