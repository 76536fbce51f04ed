// SPDX-License-Identifier: Apache-2.0
//! Moves of pods without a controller: each step is decided by [`tensile_core::deschedule::bare`] from the journal and the
//! pod as the API server has them at that moment, and performed on exactly those versions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod as ApiPod};
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tensile_core::deschedule::Pod;
use tensile_core::deschedule::bare::{End, Journal, Sight, State, Step, checked, placed, sanitized, step};
use tensile_core::names;

use crate::evict::{Outcome, evict};
use crate::record::{self, JOURNAL};
use crate::seen::Shared;

/// Steps of one move that are tried one after another; what is left then comes with the next look.
const STEPS: usize = 32;

/// Performs moves.
#[derive(Clone)]
pub struct Recreation {
    client: Client,
    journals: Api<ConfigMap>,
    seen: Shared,
}

/// Why a move did not go on. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum RecreateError {
    /// The API server would not take the pod again; in its words.
    #[error("it could not be made again: {0}")]
    Refused(String),
    /// A disruption budget keeps it; in the API server's words.
    #[error("{0}")]
    Blocked(String),
    /// A request failed, or came too late.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The eviction failed; in the words of who failed.
    #[error("not evicted: {0}")]
    Evict(String),
    /// The journal and the cluster contradict each other.
    #[error("the journal does not make a pod: {0}")]
    Journal(String),
}

impl Recreation {
    /// One that keeps its journals in `journals`.
    pub fn new(client: Client, journals: Api<ConfigMap>, seen: Shared) -> Self {
        Self { client, journals, seen }
    }

    /// Writes down that the pod is moved, if the API server would take it again. Nothing is done to it yet. `false`: it is
    /// not there any more.
    pub async fn begin(&self, pod: &Pod) -> Result<bool, RecreateError> {
        let pods = self.pods(&pod.namespace);
        let Some((live, value)) = look(&pods, &pod.name).await?.filter(|(live, _)| live.uid == pod.uid) else {
            return Ok(false);
        };
        let [now, then] = self.kept_off(&live);
        let then: Vec<&str> = then.iter().map(String::as_str).collect();
        let manifest = sanitized(&value, &then);
        let now: Vec<&str> = now.iter().map(String::as_str).collect();
        let next = placed(&manifest, &live.uid, &now).map_err(|error| RecreateError::Journal(error.to_string()))?;
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match pods.create(&params, &object(checked(next))?).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                return Err(RecreateError::Refused(status.message));
            }
            Err(error) => return Err(error.into()),
        }
        let journal = Journal {
            namespace: live.namespace.clone(),
            name: live.name.clone(),
            uid: live.uid.clone(),
            state: State::Prepared,
            manifest,
        };
        let map = json!({
            "metadata": { "name": record::journal_of(&live.uid), "labels": { names::JOURNAL: names::TRUE } },
            "data": { JOURNAL: journal.encode() },
        });
        let map: ConfigMap = serde_json::from_value(map).map_err(kube::Error::SerdeError)?;
        match self.journals.create(&PostParams::default(), &map).await {
            Ok(_) => Ok(true),
            // Begun already.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on with the move in the ConfigMap `name` until something has to be waited for. Returns its journal and how it
    /// ended, if it did; nothing of it is left then but the finalizer on the successor.
    pub async fn advance(&self, name: &str) -> Result<Option<(Journal, End)>, RecreateError> {
        for _ in 0..STEPS {
            let Some(map) = self.journals.get_opt(name).await? else { return Ok(None) };
            let text = map.data.as_ref().and_then(|data| data.get(JOURNAL)).map_or("", String::as_str);
            let journal = Journal::decode(text).map_err(|error| RecreateError::Journal(error.to_string()))?;
            let pods = self.pods(&journal.namespace);
            let found = look(&pods, &journal.name).await?;
            let ours = |pod: &Pod| self.kept_off(pod)[1].clone();
            let is_same = |(pod, value): &(Pod, Value)| {
                let ours = ours(pod);
                sanitized(value, &ours.iter().map(String::as_str).collect::<Vec<_>>()) == journal.manifest
            };
            let sight = found.as_ref().map(|found| Sight { pod: &found.0, same: is_same(found) });
            let next = step(&journal, sight);
            tracing::debug!(pod = format!("{}/{}", journal.namespace, journal.name), step = ?next, "moving");
            let done = match (&next, &found) {
                (Step::Close(end), _) => {
                    self.close(&map).await?;
                    return Ok(Some((journal, *end)));
                }
                (Step::Create, _) => match self.create(&pods, &journal).await? {
                    Some(end) => {
                        self.close(&map).await?;
                        return Ok(Some((journal, end)));
                    }
                    None => Ok(()),
                },
                (Step::Keep | Step::Release, Some((pod, value))) => {
                    set_kept(&pods, pod, value, next == Step::Keep).await
                }
                (Step::Rewrite, Some((pod, value))) => {
                    let ours = ours(pod);
                    let manifest = sanitized(value, &ours.iter().map(String::as_str).collect::<Vec<_>>());
                    self.write(&map, &Journal { manifest, ..journal }).await
                }
                (Step::Commit, Some((pod, _))) => {
                    let state = State::Deleting { version: pod.resource_version.to_string().into() };
                    self.write(&map, &Journal { state, ..journal }).await
                }
                (Step::Reconsider, _) => self.write(&map, &Journal { state: State::Prepared, ..journal }).await,
                (Step::Evict, Some((pod, _))) => match evict(&self.client, pod).await {
                    Outcome::Evicted | Outcome::Gone | Outcome::Changed => Ok(()),
                    Outcome::Blocked(message) => return Err(RecreateError::Blocked(message)),
                    Outcome::Failed(error) => return Err(RecreateError::Evict(error)),
                },
                // Steps that need a pod come of one.
                (Step::Wait, _) | (_, None) => return Ok(None),
            };
            match done {
                // Somebody was faster: look again.
                Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
                other => other?,
            }
        }
        Ok(None)
    }

    /// Takes the finalizer off a pod that no journal is about any more.
    pub async fn release(&self, pod: &Pod) -> Result<(), RecreateError> {
        let pods = self.pods(&pod.namespace);
        let Some((live, value)) = look(&pods, &pod.name).await?.filter(|(live, _)| live.uid == pod.uid) else {
            return Ok(());
        };
        match set_kept(&pods, &live, &value, false).await {
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(()),
            other => Ok(other?),
        }
    }

    /// Makes the successor. `Some`: the move has ended otherwise, because the namespace goes away.
    async fn create(&self, pods: &Api<DynamicObject>, journal: &Journal) -> Result<Option<End>, RecreateError> {
        let [now, _] = self.seen.look().kept_off(&journal.namespace, &journal.name, Timestamp::MIN, Timestamp::now());
        let now: Vec<&str> = now.iter().map(String::as_str).collect();
        let next = placed(&journal.manifest, &journal.uid, &now);
        let next = next.map_err(|error| RecreateError::Journal(error.to_string()))?;
        match pods.create(&PostParams::default(), &object(next)?).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(End::Withdrawn)),
            Err(kube::Error::Api(status)) => {
                let mut causes = status.details.iter().flat_map(|details| &details.causes);
                if causes.any(|cause| cause.reason == "NamespaceTerminating") {
                    return Ok(Some(End::Withdrawn));
                }
                Err(RecreateError::Refused(status.message))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn kept_off(&self, pod: &Pod) -> [Vec<String>; 2] {
        self.seen.look().kept_off(&pod.namespace, &pod.name, pod.created, Timestamp::now())
    }

    fn pods(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &ApiResource::erase::<ApiPod>(&()))
    }

    async fn write(&self, map: &ConfigMap, journal: &Journal) -> Result<(), kube::Error> {
        let change = json!({
            "metadata": { "uid": map.metadata.uid, "resourceVersion": map.metadata.resource_version },
            "data": { JOURNAL: journal.encode() },
        });
        self.journals.patch(&map.name_any(), &PatchParams::default(), &Patch::Merge(change)).await.map(drop)
    }

    /// Removes the journal in the version that was looked at.
    async fn close(&self, map: &ConfigMap) -> Result<(), kube::Error> {
        let preconditions =
            Preconditions { uid: map.metadata.uid.clone(), resource_version: map.metadata.resource_version.clone() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.journals.delete(&map.name_any(), &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop),
        }
    }
}

async fn look(pods: &Api<DynamicObject>, name: &str) -> Result<Option<(Pod, Value)>, kube::Error> {
    let Some(pod) = pods.get_opt(name).await? else { return Ok(None) };
    let value = serde_json::to_value(pod).map_err(kube::Error::SerdeError)?;
    Ok(Pod::read(&value).map(|pod| (pod, value)))
}

/// Puts the finalizer on the pod, or takes it off, in the version that was looked at.
async fn set_kept(pods: &Api<DynamicObject>, pod: &Pod, value: &Value, kept: bool) -> Result<(), kube::Error> {
    let mut finalizers = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|name| name != names::MOVE);
    if kept {
        finalizers.push(names::MOVE.into());
    }
    let change = json!({ "metadata": {
        "uid": &*pod.uid, "resourceVersion": pod.resource_version.to_string(), "finalizers": finalizers,
    } });
    pods.patch(&pod.name, &PatchParams::default(), &Patch::Merge(change)).await.map(drop)
}

fn object(pod: Value) -> Result<DynamicObject, kube::Error> {
    serde_json::from_value(pod).map_err(kube::Error::SerdeError)
}
