// SPDX-License-Identifier: Apache-2.0
//! Performs what was planned: calls to the provider and to the upper API server, and what their answers teach.

use std::sync::Arc;

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Map, Value};

use super::{
    Grace, PodError, PodId, PodObject, PodProvider, Refused, failure,
    lost::lost,
    metrics::Metrics,
    pairs::{Pairs, Step},
    plan::{Action, Sent},
    status,
    upper::{UpperPod, digest},
};
use crate::{events::Events, time, watched::Watched};

/// Performs steps.
pub(crate) struct Executor<P> {
    pub(crate) client: Client,
    pub(crate) provider: Arc<P>,
    pub(crate) pairs: Arc<Pairs>,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) node: Arc<str>,
}

/// Why a step was not completed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    /// An answer of the upper API server.
    #[error("upper API server: {0}")]
    Upper(#[from] kube::Error),
    /// An answer of the provider.
    #[error("provider: {0}")]
    Provider(#[from] PodError),
    /// The upper API server sent an object that cannot be used.
    #[error("upper pod: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl<P: PodProvider> Executor<P> {
    /// Performs one step. What was learnt is in the pairs afterwards, also after an error.
    pub(crate) async fn perform(&self, step: Step) -> Result<(), StepError> {
        let id = step.id.clone();
        match (step.action, step.upper) {
            (Action::AskUpper, _) => self.get_upper(&id).await.map(drop),
            (Action::AskProvider, _) => self.ask_provider(&id).await,
            (Action::End(grace), _) => self.end(&id, grace).await,
            (Action::Create | Action::Update, Some(upper)) => {
                self.hand_over(step.action, &upper, step.text, step.attempts).await
            }
            (Action::Report, Some(upper)) => self.report(&upper, step.status).await,
            (Action::ReportLost, Some(upper)) => self.report_lost(&upper).await,
            (Action::Finalize { report }, Some(upper)) => self.finalize(&upper, report).await,
            _ => Ok(()),
        }
    }

    fn api(&self, id: &PodId) -> Api<Watched<UpperPod>> {
        Api::namespaced(self.client.clone(), &id.namespace)
    }

    /// The upper pod as it is now, if it is still this one and ours.
    async fn get_upper(&self, id: &PodId) -> Result<Option<Watched<UpperPod>>, StepError> {
        match self.api(id).get_opt(&id.name).await? {
            Some(object) if object.uid().as_deref() == Some(&*id.uid) => {
                if let Some((pod, text)) = digest(object.clone()) {
                    if pod.node.as_deref() == Some(&*self.node) {
                        self.pairs.upper_seen(pod, text);
                    } else {
                        self.pairs.upper_gone(id);
                        return Ok(None);
                    }
                }
                Ok(Some(object))
            }
            _ => {
                self.pairs.upper_gone(id);
                Ok(None)
            }
        }
    }

    async fn ask_provider(&self, id: &PodId) -> Result<(), StepError> {
        match self.provider.get_pod(id).await? {
            Some(pod) => self.pairs.lower_present(&pod, false),
            None => self.pairs.lower_gone(id, 0),
        }
        Ok(())
    }

    async fn end(&self, id: &PodId, grace: Grace) -> Result<(), StepError> {
        match self.provider.delete_pod(id, grace).await {
            Ok(()) => self.pairs.remember(id, |memory| memory.asked_to_end = Some(grace)),
            Err(PodError::Gone) => self.pairs.lower_gone(id, 0),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Gives the provider the pod, to create or to update.
    async fn hand_over(
        &self,
        action: Action,
        upper: &UpperPod,
        text: Option<Box<serde_json::value::RawValue>>,
        attempts: u32,
    ) -> Result<(), StepError> {
        let id = &upper.id;
        let text = match text {
            Some(text) => text,
            None => match self.get_upper(id).await? {
                Some(object) => object.raw,
                None => return Ok(()),
            },
        };
        let pod = PodObject::parse(id.clone(), upper.revision, &text)?;
        drop(text);
        let result = match action {
            Action::Create => self.provider.create_pod(&pod).await,
            _ => self.provider.update_pod(&pod).await,
        };
        match result {
            Ok(lower) => {
                self.pairs.remember(id, |memory| memory.refusal = None);
                self.pairs.lower_present(&lower, false);
                if let Some(warning) = &lower.warning {
                    self.events.warn(id, warning).await;
                }
                Ok(())
            }
            Err(PodError::Gone) => {
                self.pairs.lower_gone(id, 0);
                Ok(())
            }
            Err(error) => {
                if let PodError::NameTaken(_) = error {
                    self.pairs.waits_for_name(id);
                }
                // A short absence of the backend is not worth a word on each of its pods.
                if attempts > 0 || !matches!(error, PodError::Unavailable(_)) {
                    self.show_refusal(upper, &pod.json, action, &refusal(&error)).await?;
                }
                Err(error.into())
            }
        }
    }

    /// Shows on the upper pod why the provider does not take it.
    async fn show_refusal(
        &self,
        upper: &UpperPod,
        pod: &Value,
        action: Action,
        refused: &Refused,
    ) -> Result<(), StepError> {
        self.events.warn(&upper.id, refused).await;
        let now = now();
        let status = match action {
            Action::Create => failure::refused(pod, refused, &now),
            _ => failure::change_refused(pod, refused, &now),
        };
        let hash = fnv_of(&[refused.reason, &refused.message]);
        let shown = self.pairs.refusal_of(&upper.id);
        if shown != Some(hash) {
            self.patch(upper, &status, true).await?;
            self.pairs.remember(&upper.id, |memory| memory.refusal = Some(hash));
        }
        Ok(())
    }

    /// Shows the provider's status upstairs.
    async fn report(&self, upper: &UpperPod, status: Option<Map<String, Value>>) -> Result<(), StepError> {
        let status = if let Some(status) = status {
            status
        } else if let Some(pod) = self.provider.get_pod(&upper.id).await? {
            self.pairs.lower_present(&pod, false);
            pod.status.as_object().cloned().unwrap_or_default()
        } else {
            self.pairs.lower_gone(&upper.id, 0);
            return Ok(());
        };
        let desired = status::desired(&status, upper);
        let status::Shown { hash, disrupted, .. } = status::Shown::of(&desired);
        if let Some(echo) = self.patch(upper, &desired, self.pairs.refusal_of(&upper.id).is_some()).await? {
            let sent = Sent { hash, disrupted, generation: upper.generation, echo: echo.shown.hash };
            self.pairs.sent(&upper.id, sent);
        }
        Ok(())
    }

    /// Shows upstairs that the pod is lost.
    async fn report_lost(&self, upper: &UpperPod) -> Result<(), StepError> {
        let Some(object) = self.get_upper(&upper.id).await? else { return Ok(()) };
        let pod: Value = serde_json::from_str(object.raw.get())?;
        let refused = Refused {
            reason: "PodLost",
            message: format!("the pod was removed from the backend of node {} behind the node's back", self.node),
        };
        self.events.warn(&upper.id, &refused).await;
        self.patch(upper, &lost(&pod, refused.reason, &refused.message, &now()), false).await.map(drop)
    }

    /// Removes the upper object.
    async fn finalize(&self, upper: &UpperPod, report: bool) -> Result<(), StepError> {
        let id = &upper.id;
        if report {
            let Some(object) = self.get_upper(id).await? else { return Ok(()) };
            let pod: Value = serde_json::from_str(object.raw.get())?;
            let last = lost(&pod, "PodDeleted", "the pod was deleted before its end was seen", &now());
            if self.patch(upper, &last, false).await?.is_none() {
                return Ok(());
            }
        }
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(id.uid.to_string()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api(id).delete(&id.name, &params).await {
            Ok(_) => self.pairs.remember(id, |memory| memory.finalized = true),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => self.pairs.upper_unknown(id),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Patches the status of the upper pod; `None` when it is not there any more.
    async fn patch(
        &self,
        upper: &UpperPod,
        desired: &Map<String, Value>,
        refused: bool,
    ) -> Result<Option<UpperPod>, StepError> {
        let id = &upper.id;
        let patch = Patch::Strategic(status::patch(desired, upper, refused));
        match self.api(id).patch_status(&id.name, &PatchParams::default(), &patch).await {
            Ok(object) => Ok(digest(object).map(|(pod, text)| {
                self.pairs.upper_seen(pod.clone(), text);
                pod
            })),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {
                self.pairs.upper_unknown(id);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn refusal(error: &PodError) -> Refused {
    match error {
        PodError::Refused(refused) => refused.clone(),
        PodError::NameTaken(message) => Refused { reason: "NameTaken", message: message.clone() },
        PodError::Unavailable(message) => Refused { reason: "BackendUnavailable", message: message.clone() },
        PodError::Gone => Refused { reason: "PodGone", message: error.to_string() },
    }
}

fn fnv_of(parts: &[&str]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = fnv::FnvHasher::default();
    for part in parts {
        hasher.write(part.as_bytes());
    }
    hasher.finish()
}

fn now() -> String {
    time::in_seconds(jiff::Timestamp::now())
}
