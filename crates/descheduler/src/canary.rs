// SPDX-License-Identifier: Apache-2.0
//! The canary: a pod that is never created, whose dry run shows whether exclusions are enforced.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use tensile_core::deschedule::{canary, shown};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::seen::Shared;

/// An API server waits for a webhook 10 s at most unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(15);
/// No other is sent meanwhile.
const MEANWHILE: SignedDuration = SignedDuration::from_secs(16);

/// Sends canaries. What is under way ends with it.
pub struct Canaries {
    pods: Api<DynamicObject>,
    seen: Shared,
    away: JoinSet<()>,
}

impl Canaries {
    /// Those for `namespace`.
    pub fn new(client: Client, namespace: &str, seen: Shared) -> Self {
        let pods = Api::namespaced_with(client, namespace, &ApiResource::erase::<Pod>(&()));
        Self { pods, seen, away: JoinSet::new() }
    }

    /// Sends one; its answer is seen like anything else. Nothing waits for it: it takes as long as the webhook does.
    pub fn send(&mut self) {
        while self.away.try_join_next().is_some() {}
        self.seen.look().canary_sent(Timestamp::now() + MEANWHILE);
        let (pods, seen) = (self.pods.clone(), self.seen.clone());
        self.away.spawn(async move {
            let answer = match timeout(PATIENCE, ask(&pods)).await {
                Ok(answer) => answer,
                Err(_) => Err("no answer about a canary in time: the webhook is slow, or not reached".to_owned()),
            };
            seen.change(|seen| seen.canary_back(answer, Timestamp::now()));
        });
    }
}

async fn ask(pods: &Api<DynamicObject>) -> Result<(), String> {
    let pod = serde_json::from_value(canary()).map_err(|error| error.to_string())?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let stored = pods.create(&params, &pod).await.map_err(|error| match error {
        kube::Error::Api(status) => format!("a canary is refused: {}", status.message),
        error => format!("no answer about a canary: {error}"),
    })?;
    shown(&serde_json::to_value(stored).map_err(|error| error.to_string())?)
}
