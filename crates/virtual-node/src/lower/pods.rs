// SPDX-License-Identifier: Apache-2.0
//! Pods of the upper cluster, made, changed and ended in the lower one.

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, value::RawValue};
use tensile_core::{
    identity::Tokens,
    pod::{self, LowerPatch, LowerPod, Names, Refusal, Reported, StatusView},
};
use tokio_util::sync::CancellationToken;
use virtual_kubelet::{
    pod::{Grace, PodError, PodFeed, PodId, PodObject, PodProvider, ProviderPod, Refused},
    watched::Watched,
};

use super::{LowerCluster, Ours, Place, Placed, answer, view::LowerPodView};
use crate::identity::{Delivery, MissingToken};

type Pod = Watched<LowerPodView>;

impl PodProvider for LowerCluster {
    async fn create_pod(&self, upper: &PodObject) -> Result<ProviderPod, PodError> {
        let lower = pod::lower_pod(&upper.json, &self.link, upper.revision);
        let mut lower = lower.map_err(|refusal| refused(&refusal))?;
        self.namespaces.enter(&upper.id.namespace).await?;
        lower.rename(&self.objects.ensure(&upper.id, &lower.references).await?);
        // Before the pod is there: a pod whose tokens are refused waits upstairs and says why.
        let (tokens, omitted) = self.tokens(upper, &mut lower).await?;
        if let Some(volumes) = &self.volumes {
            let claims = volumes.ensure(upper, &lower.pod).await?;
            pod::rename_claims(&mut lower.pod, &claims);
        }
        let body = serde_json::to_vec(&lower.pod).map_err(|error| PodError::Unavailable(error.to_string()))?;
        let mut result = self.post(&upper.id, body.clone()).await;
        if let Err(error) = &result
            && (answer::lacks_namespace(error) || answer::lacks_service_account(error))
        {
            self.namespaces.create(&upper.id.namespace).await?;
            result = self.post(&upper.id, body).await;
        }
        match result {
            Ok(object) => {
                let mut pod = self.take(&object)?;
                pod.warning = omitted.or_else(|| dropped(&lower.dropped));
                if let (Some(tokens), Some(uid)) = (tokens, object.uid()) {
                    pod.warning = tokens.deliver(&uid).await.or(pod.warning);
                }
                Ok(pod)
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => self.already_there(&upper.id).await,
            Err(error) => Err(answer::pod_error(&error)),
        }
    }

    async fn update_pod(&self, upper: &PodObject) -> Result<ProviderPod, PodError> {
        let id = &upper.id;
        let Some(object) = self.find(id).await? else { return Err(PodError::Gone) };
        let lower: Value = serde_json::from_str(object.raw.get()).map_err(|error| unreadable(&error))?;
        let update =
            pod::update(&upper.json, &lower, &self.link, upper.revision).map_err(|refusal| refused(&refusal))?;
        let mut pod = self.take(&object)?;
        for patch in update.patches {
            let (subresource, patch) = match &patch {
                LowerPatch::Pod(patch) => (None, patch),
                LowerPatch::Resize(patch) => (Some("resize"), patch),
                LowerPatch::EphemeralContainers(patch) => (Some("ephemeralcontainers"), patch),
            };
            let (place, params, patch) = (self.place(id), PatchParams::default(), Patch::Strategic(patch));
            let api = self.api(&place);
            let answer = match subresource {
                None => api.patch(&place.name, &params, &patch).await,
                Some(subresource) => api.patch_subresource(subresource, &place.name, &params, &patch).await,
            };
            pod = self.take(&answer.map_err(|error| answer::pod_error(&error))?)?;
        }
        pod.warning = dropped(&update.dropped);
        Ok(pod)
    }

    async fn delete_pod(&self, id: &PodId, grace: Grace) -> Result<(), PodError> {
        let known = self.ours().get(&id.uid).map(|ours| ours.uid.to_string());
        let uid = match known {
            Some(uid) => uid,
            None => self.find(id).await?.and_then(|object| object.uid()).ok_or(PodError::Gone)?,
        };
        let params = DeleteParams {
            grace_period_seconds: match grace {
                Grace::OfPod => None,
                Grace::Seconds(seconds) => Some(u32::try_from(seconds).unwrap_or_default()),
            },
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let place = self.place(id);
        match self.api(&place).delete(&place.name, &params).await {
            Ok(_) => Ok(()),
            // Not there, or another pod of the name is.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                self.forget(id);
                Err(PodError::Gone)
            }
            Err(error) => Err(answer::pod_error(&error)),
        }
    }

    async fn get_pod(&self, id: &PodId) -> Result<Option<ProviderPod>, PodError> {
        let found = self.find(id).await?;
        if found.is_none() {
            self.forget(id);
            self.objects.pod_gone(&id.uid);
            self.identity.pod_gone(&id.uid);
        }
        found.map(|object| self.take(&object)).transpose()
    }

    async fn list_pods(&self) -> Result<Vec<ProviderPod>, PodError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let list = pods.list(&ListParams::default().labels(&self.selector())).await;
        list.map_err(|error| answer::pod_error(&error))?.items.iter().map(|object| self.take(object)).collect()
    }

    async fn notify_pods(&self, feed: PodFeed, token: CancellationToken) {
        let objects = self.objects.run(feed.clone(), token.clone());
        let identity = self.identity.run(feed.clone(), token.clone());
        let volumes = async {
            if let Some(volumes) = &self.volumes {
                Box::pin(volumes.run(feed.clone(), token.clone())).await;
            }
        };
        let services = async {
            if let Some(services) = &self.services {
                Box::pin(services.run(self.listed.subscribe(), token.clone())).await;
            }
        };
        let pods = token.run_until_cancelled(self.watch_pods(feed.clone()));
        tokio::join!(pods, objects, identity, volumes, services);
    }
}

impl LowerCluster {
    fn api(&self, place: &Place<'_>) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &place.namespace)
    }

    /// The tokens of a pod that is to be made, or the warning that it will have none.
    async fn tokens(
        &self,
        upper: &PodObject,
        lower: &mut LowerPod,
    ) -> Result<(Option<Delivery>, Option<Refused>), PodError> {
        let Some(tokens) = lower.tokens.take() else { return Ok((None, None)) };
        let secret = tokens.secret.clone();
        match self.identity.issue(&upper.id, tokens).await {
            Ok(delivery) => Ok((Some(delivery), None)),
            Err(PodError::Refused(refused))
                if self.missing_token == MissingToken::Omit
                    && lower.needs_no_token
                    && refused.reason == answer::FORBIDDEN =>
            {
                lower.omit_tokens(&secret);
                let message = format!(
                    "the pod runs without the token that every pod has, because it cannot be kept in the lower cluster \
                     ({}). If the pod needs it, say so (automountServiceAccountToken: true) and it waits until that is \
                     allowed",
                    refused.message
                );
                Ok((None, Some(Refused { reason: "TokenOmitted", message })))
            }
            Err(error) => Err(error),
        }
    }

    async fn post(&self, id: &PodId, body: Vec<u8>) -> Result<Pod, kube::Error> {
        let path = format!("/api/v1/namespaces/{}/pods", self.place(id).namespace);
        let request = kube::core::Request::new(path).create(&PostParams::default(), body);
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Whether there is a lower pod made for exactly this upper pod. Asks only about one that the watch has not shown.
    pub(crate) async fn runs(&self, id: &PodId) -> Result<bool, PodError> {
        let known = self.ours().contains_key(&id.uid);
        Ok(known || self.find(id).await?.is_some())
    }

    /// The lower pod made for exactly this upper pod; `None` when there is none.
    async fn find(&self, id: &PodId) -> Result<Option<Pod>, PodError> {
        let found = self.at(&self.place(id)).await?;
        Ok(found.filter(|object| self.id_of(object).is_some_and(|found| found.uid == id.uid)))
    }

    /// The lower pod in this place, whosever it is.
    async fn at(&self, place: &Place<'_>) -> Result<Option<Pod>, PodError> {
        self.api(place).get_opt(&place.name).await.map_err(|error| answer::pod_error(&error))
    }

    /// A pod of the name exists: it is this one (an answer was lost, or we were restarted), one that is to go first, or
    /// none of our business.
    async fn already_there(&self, id: &PodId) -> Result<ProviderPod, PodError> {
        let place = self.place(id);
        let Place { namespace, name } = &place;
        let Some(object) = self.at(&place).await? else {
            return Err(PodError::Unavailable(format!("lower pod {namespace}/{name} has just gone")));
        };
        match self.id_of(&object) {
            Some(found) if found.uid == id.uid => self.take(&object),
            Some(found) if (&found.namespace, &found.name) != (&id.namespace, &id.name) => {
                Err(PodError::Refused(Refused {
                    reason: "LowerNameConflict",
                    message: format!(
                        "pod {}/{} of this virtual node has the same name in the lower cluster, {namespace}/{name}. Rename \
                         one of them",
                        found.namespace, found.name
                    ),
                }))
            }
            Some(found) => Err(PodError::NameTaken(format!(
                "waiting for the end of the lower pod that runs an earlier pod of this name (UID {})",
                found.uid
            ))),
            None => Err(PodError::Refused(Refused {
                reason: "LowerNameConflict",
                message: format!(
                    "the lower cluster has a pod {namespace}/{name} that node {} did not make; it is left alone. Rename one of \
                     them",
                    self.link.virtual_node
                ),
            })),
        }
    }

    /// Which upper pod a lower pod of ours was made for.
    pub(super) fn id_of(&self, object: &Pod) -> Option<PodId> {
        let view = object.view.as_ref().ok().filter(|view| self.owns(view))?;
        view.owner.as_ref()?.id.clone()
    }

    /// Remembers a lower pod of ours and translates it for the way up.
    fn take(&self, object: &Pod) -> Result<ProviderPod, PodError> {
        let unreadable = || PodError::Unavailable("the lower API server sent a pod that cannot be read".to_owned());
        let id = self.id_of(object).ok_or_else(unreadable)?;
        let view = object.view.as_ref().map_err(|_| unreadable())?;
        self.translate(id, view, &object.raw)
    }

    /// The provider's account of a lower pod.
    pub(super) fn translate(&self, id: PodId, view: &LowerPodView, raw: &RawValue) -> Result<ProviderPod, PodError> {
        let lower = Reported::parse(raw.get()).map_err(|error| unreadable(&error))?;
        let foreign = lower.foreign_containers();
        let shown =
            StatusView { host_ip: &self.host_ip, show_pod_ips: self.show_pod_ips, foreign_containers: &foreign };
        self.objects.pod_seen(&id, || Names::noted(lower.references()));
        if lower.has_ended() {
            // Nobody reads its tokens any more.
            self.identity.pod_gone(&id.uid);
        } else {
            self.identity.pod_seen(&id, &view.uid, || Tokens::noted(lower.tokens()));
        }
        let ours = Ours { uid: view.uid.clone(), reported: view.reported, placed: Placed::of(&lower) };
        self.remember(&id, ours);
        Ok(ProviderPod {
            id,
            version: view.version,
            applied: view.owner.as_ref().and_then(|owner| owner.applied),
            ending_by: view.ending_by,
            status: pod::upper_status(lower.status, &shown),
            warning: None,
        })
    }
}

fn unreadable(error: &serde_json::Error) -> PodError {
    PodError::Unavailable(format!("lower pod cannot be read: {error}"))
}

fn refused(refusal: &Refusal) -> PodError {
    PodError::Refused(Refused { reason: refusal.reason(), message: refusal.to_string() })
}

fn dropped(fields: &[String]) -> Option<Refused> {
    (!fields.is_empty()).then(|| Refused {
        reason: "FieldsDropped",
        message: format!("these fields have no meaning in the lower cluster and were dropped: {}", fields.join(", ")),
    })
}
