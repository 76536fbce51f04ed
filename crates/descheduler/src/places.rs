// SPDX-License-Identifier: Apache-2.0
//! The multi-scheduler, asked where pods would fit.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::api::{ApiResource, Patch, PatchParams};
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use kube::core::DynamicObject;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tensile_core::deschedule::{Fit, Pod, canary};
use tensile_core::exclusion::lift_pod;
use tensile_core::names;
use tokio::task::JoinSet;

use crate::seen::Shared;

/// It answers within this time, or counts as gone: it knows everything and asks nobody.
const PATIENCE: Duration = Duration::from_secs(3);
/// Replicas that are counted up to: so many moves at once may rely on one answer.
const MOST: u64 = 100;
/// Where a pod of this program has its token.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Where it is, and how it is talked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Such as `https://multi-scheduler.tensile.svc:8443`.
    pub url: String,
    /// The authority of its certificate [the system's].
    pub ca: Option<PathBuf>,
    /// A file with a token of the upper cluster.
    pub token: Option<PathBuf>,
    /// The scheduler whose pods it keeps off excluded nodes.
    pub scheduler: String,
}

/// Asks it.
#[derive(Clone)]
pub struct MultiScheduler {
    there: Client,
    upper: Client,
    seen: Shared,
    away: Arc<Mutex<JoinSet<()>>>,
}

/// Why it cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum PlacesError {
    /// The address, or a file, cannot be used.
    #[error(transparent)]
    Settings(#[from] KubeconfigError),
    /// No client can be made of it.
    #[error(transparent)]
    Client(#[from] kube::Error),
}

impl MultiScheduler {
    /// A client for it. Reads the files, connects to nothing.
    pub async fn new(address: &Address, upper: Client, seen: Shared) -> Result<Self, PlacesError> {
        let token = address.token.clone().or_else(|| Some(PathBuf::from(TOKEN)).filter(|path| path.is_file()));
        let text = |path: &PathBuf| path.display().to_string();
        let only = || "multi-scheduler".to_owned();
        let cluster = Cluster {
            server: Some(address.url.clone()),
            certificate_authority: address.ca.as_ref().map(text),
            ..Cluster::default()
        };
        let user = AuthInfo { token_file: token.as_ref().map(text), ..AuthInfo::default() };
        let context = Context { cluster: only(), user: Some(only()), ..Context::default() };
        let config = Kubeconfig {
            clusters: vec![NamedCluster { name: only(), cluster: Some(cluster), ..NamedCluster::default() }],
            auth_infos: vec![NamedAuthInfo { name: only(), auth_info: Some(user), ..NamedAuthInfo::default() }],
            contexts: vec![NamedContext { name: only(), context: Some(context), ..NamedContext::default() }],
            current_context: Some(only()),
            ..Kubeconfig::default()
        };
        let mut config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        (config.connect_timeout, config.read_timeout) = (Some(PATIENCE), Some(PATIENCE));
        Ok(Self { there: Client::try_from(config)?, upper, seen, away: Arc::default() })
    }

    /// Asks whether it answers at all. Nothing waits for it.
    pub fn probe(&self) {
        self.seen.look().probed(Timestamp::now());
        let (there, seen) = (self.there.clone(), self.seen.clone());
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        while away.try_join_next().is_some() {}
        away.spawn(async move {
            let answer = ask(&there, &canary()).await;
            seen.change(|seen| seen.scheduler_answered(answer.map(drop), Timestamp::now()));
        });
    }

    /// Where the pod would fit if we did not keep it off `borne`; `None`: nobody says. What it asks for is not kept of it: it is
    /// looked up.
    pub async fn fit(&self, pod: &Pod, borne: &[String]) -> Option<Fit> {
        let live = self.pods(&pod.namespace).get_opt(&pod.name).await;
        let live = match live {
            Ok(live) => live.filter(|live| live.metadata.uid.as_deref() == Some(&*pod.uid))?,
            Err(error) => {
                tracing::warn!(pod = pod.full_name(), %error, "cannot look at a pod");
                return None;
            }
        };
        let mut live = serde_json::to_value(live).ok()?;
        lift_pod(&mut live, &borne.iter().map(String::as_str).collect::<Vec<_>>());
        let answer = ask(&self.there, &live).await;
        let heard = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        self.seen.look().scheduler_answered(heard, Timestamp::now());
        answer.ok()
    }

    /// Shows on the pod that it fits nowhere (`why`), or no longer does.
    pub async fn show(&self, pod: &Pod, why: Option<&str>) -> Result<(), kube::Error> {
        let condition = match why {
            Some(why) => json!({
                "type": names::PLACEABLE, "status": "False", "reason": "NowhereFits", "message": why,
                "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }),
            None => json!({ "type": names::PLACEABLE, "$patch": "delete" }),
        };
        let change = json!({ "metadata": { "uid": &*pod.uid }, "status": { "conditions": [condition] } });
        let shown = self.pods(&pod.namespace);
        match shown.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(change)).await {
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            other => other.map(drop),
        }
    }

    fn pods(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.upper.clone(), namespace, &ApiResource::erase::<ApiPod>(&()))
    }
}

/// Why there is no answer, in words without secrets.
async fn ask(there: &Client, pod: &Value) -> Result<Fit, String> {
    let body = json!({ "pod": pod, "most": MOST }).to_string().into_bytes();
    let request = Request::post("/fit").header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(body).map_err(|error| error.to_string())?;
    let answer: Value = there.request(request).await.map_err(|error| error.to_string())?;
    Fit::read(&answer).map_err(|error| error.to_string())
}
