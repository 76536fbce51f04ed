// SPDX-License-Identifier: Apache-2.0
//! The part of a cycle that is about controllers: what they say, and Deployments that are rolled out anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{ApiResource, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tensile_core::deschedule::{JobFacts, Owner, Pod, Restart, Rollout};
use tensile_core::names;

use super::{AT_ONCE, Cycle};

/// What an owner says.
enum Facts {
    Job(JobFacts),
    Rollout(Rollout),
}

impl Cycle {
    /// Looks at the Jobs and Deployments of these pods. Whether all went well; `None` if there are none.
    pub(super) async fn ask(&self, pods: &[Arc<str>]) -> Option<bool> {
        let mut well = (!pods.is_empty()).then_some(true)?;
        let owners: BTreeMap<Arc<str>, (Arc<str>, Arc<Owner>)> = {
            let seen = self.seen.look();
            let owned = pods.iter().filter_map(|uid| seen.pod(uid));
            let owned = owned.filter_map(|pod| Some((pod.namespace.clone(), pod.owner.clone()?)));
            owned.map(|(namespace, owner)| (owner.uid.clone(), (namespace, owner))).collect()
        };
        let client = self.client.clone();
        let asked = stream::iter(owners.into_values()).map(move |(namespace, owner)| {
            let client = client.clone();
            async move {
                let facts = facts(&client, &namespace, &owner).await;
                (owner, facts)
            }
        });
        let mut answers = std::pin::pin!(asked.buffer_unordered(AT_ONCE));
        while let Some((owner, facts)) = answers.next().await {
            let now = Timestamp::now();
            match facts {
                Ok(Facts::Job(facts)) => self.seen.look().owners.job(&owner.uid, facts, now),
                Ok(Facts::Rollout(rollout)) => self.seen.look().owners.rollout(&owner.uid, rollout, now),
                Err(error) => {
                    tracing::warn!(kind = &*owner.kind, name = &*owner.name, %error, "cannot look at an owner, trying again");
                    well = false;
                }
            }
        }
        Some(well)
    }

    /// Rolls Deployments out anew, each in the version that was looked at. Whether all went well; `None` if there are none.
    pub(super) async fn restart(&self, restarts: &[Restart]) -> Option<bool> {
        let mut well = (!restarts.is_empty()).then_some(true)?;
        for Restart { pod, deployment, reason } in restarts {
            let Some(pod) = self.seen.look().pod(pod).cloned() else { continue };
            if let Some(owner) = &pod.owner {
                // Whatever comes of it, it has to be looked at again.
                self.seen.look().owners.forget(&owner.uid);
            }
            let change = json!({
                "metadata": { "uid": &*deployment.uid, "resourceVersion": &*deployment.resource_version },
                "spec": { "template": { "metadata": { "annotations": {
                    names::RESTARTED_AT: Timestamp::now().to_string(),
                } } } },
            });
            let deployments = api::<Deployment>(&self.client, &pod.namespace);
            match deployments.patch(&deployment.name, &PatchParams::default(), &Patch::Merge(change)).await {
                Ok(_) => self.tell_restarted(&pod, &deployment.name, reason),
                // Somebody was faster: look again.
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                Err(error) => {
                    tracing::warn!(deployment = &*deployment.name, %error, "not rolled out anew, trying again");
                    well = false;
                }
            }
        }
        Some(well)
    }

    fn tell_restarted(&self, pod: &Pod, deployment: &str, why: &str) {
        self.metrics.restarted.inc();
        tracing::info!(pod = pod.full_name(), deployment, why, "its Deployment is rolled out anew");
        self.tell.moved(pod, "RolledOut", &format!("Deployment {deployment} is rolled out anew: {why}"));
    }
}

async fn facts(client: &Client, namespace: &str, owner: &Owner) -> Result<Facts, kube::Error> {
    // One that is gone, or another of its name, says nothing: nobody makes its pods again.
    if &*owner.kind == "Job" {
        let job = look::<Job>(client, namespace, &owner.name, &owner.uid).await?;
        return Ok(Facts::Job(job.map_or_else(JobFacts::default, |job| JobFacts::read(&job))));
    }
    let Some(replica_set) = look::<ReplicaSet>(client, namespace, &owner.name, &owner.uid).await? else {
        return Ok(Facts::Rollout(Rollout::default()));
    };
    let mut owners = replica_set["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let above = owners.find(|owner| owner["controller"] == true && owner["kind"] == "Deployment");
    let deployment = match above.map(|above| (above["name"].as_str(), above["uid"].as_str())) {
        Some((Some(name), Some(uid))) => look::<Deployment>(client, namespace, name, uid).await?,
        _ => None,
    };
    Ok(Facts::Rollout(Rollout::read(&replica_set, deployment.as_ref())))
}

/// The object of this name, if it is still the one with this UID.
async fn look<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Option<Value>, kube::Error> {
    let found = api::<K>(client, namespace).get_opt(name).await?;
    let found = found.filter(|found| found.metadata.uid.as_deref() == Some(uid));
    found.map(serde_json::to_value).transpose().map_err(kube::Error::SerdeError)
}

fn api<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}
