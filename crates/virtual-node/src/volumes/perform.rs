// SPDX-License-Identifier: Apache-2.0
//! Performs what was planned for one claim. Everything may be performed twice.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tensile_core::{
    pod::References,
    sync::Kind,
    volume::{
        Action, Claim, Facts, SecretRef, carried_name, first_name, is_copy_of, is_ours, lower_name, named, secrets,
        with_secrets,
    },
};
use virtual_kubelet::pod::{PodError, PodId};

use super::{Volumes, facts::all, refused};
use crate::{lower::answer, objects::OnConflict};

impl Volumes {
    pub(super) async fn perform(&self, claim: &Claim, facts: &Facts, action: Action) -> Result<(), PodError> {
        let below = self.below_claims(claim);
        let volumes_above = all::<PersistentVolume>(&self.upper);
        let volumes_below = all::<PersistentVolume>(&self.lower);
        let about = (claim.namespace.as_str(), claim.name.as_str());
        let upper = |outcome: kube::Result<()>| outcome.map_err(|error| answer::upper_error(&error));
        let lower = |outcome: kube::Result<()>| outcome.map_err(|error| answer::pod_error(&error));
        match action {
            Action::CreateClaim { body, dropped } => {
                for member in &dropped {
                    tracing::warn!(
                        namespace = about.0,
                        claim = about.1,
                        member,
                        "a member of the claim is not known here and does not go down"
                    );
                }
                self.create_claim(claim, body).await
            }
            Action::CarryVolume(body) => {
                let body = self.with_free_claim(claim, body).await?;
                let body = self.bring_secrets(body).await?;
                tracing::info!(namespace = about.0, claim = about.1, "volume carried below");
                lower(create(&volumes_below, &body).await)
            }
            Action::AdoptClaim(patch) => {
                tracing::info!(namespace = about.0, claim = about.1, "a volume that was kept below has a new claim");
                lower(merge(&below, facts.lower.as_ref(), None, patch).await)
            }
            Action::GrowClaim(patch) => {
                tracing::info!(namespace = about.0, claim = about.1, "claim below asks for more");
                lower(merge(&below, facts.lower.as_ref(), None, patch).await)
            }
            Action::ShowVolume(body) => {
                tracing::info!(namespace = about.0, claim = about.1, "volume shown above");
                upper(create(&volumes_above, &body).await)
            }
            Action::GrowVolume(patch) => upper(merge(&volumes_above, facts.upper_volume.as_ref(), None, patch).await),
            Action::GrowStatus(patch) => {
                let claims = self.above_claims(&claim.namespace);
                upper(merge(&claims, facts.upper.as_ref(), Some("status"), patch).await)
            }
            Action::DeleteClaim => {
                tracing::info!(namespace = about.0, claim = about.1, "claim removed below");
                lower(delete(&below, facts.lower.as_ref()).await)
            }
            Action::DropVolume => {
                tracing::info!(namespace = about.0, claim = about.1, "carried volume let go below; its data stays");
                for id in facts.lower_volume.iter().flat_map(|volume| users(volume).into_keys()) {
                    self.objects.pod_gone(&id.uid);
                }
                lower(delete(&volumes_below, facts.lower_volume.as_ref()).await)
            }
            Action::HideVolume => upper(delete(&volumes_above, facts.upper_volume.as_ref()).await),
        }
    }

    async fn create_claim(&self, claim: &Claim, body: Value) -> Result<(), PodError> {
        self.namespaces.enter(&claim.namespace).await?;
        let claims = self.below_claims(claim);
        let mut made = post(&claims, &body).await;
        if let Err(error) = &made
            && answer::lacks_namespace(error)
        {
            self.namespaces.create(&claim.namespace).await?;
            made = post(&claims, &body).await;
        }
        if let Err(kube::Error::Api(status)) = &made
            && status.is_already_exists()
        {
            if !self.is_taken(claim).await? {
                return Ok(());
            }
            if self.on_conflict == OnConflict::Refuse {
                let message = format!(
                    "the lower cluster has a claim {}/{} that is not of this one; it is left alone. Rename one of them, or \
                     have the operator of the virtual node rename copies (--on-conflict=rename)",
                    self.link.lower_namespace(&claim.namespace),
                    claim.name
                );
                return Err(refused("LowerNameConflict", message));
            }
            made = post(&claims, &named(body, &lower_name(claim, &self.link))).await;
        }
        match made {
            Ok(()) => tracing::info!(namespace = claim.namespace, claim = claim.name, "claim copied below"),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(answer::pod_error(&error)),
        }
        Ok(())
    }

    /// Whether another claim has the name below.
    async fn is_taken(&self, claim: &Claim) -> Result<bool, PodError> {
        let found = self.below_claims(claim).get_opt(&first_name(claim, &self.link)).await;
        let found = found.map_err(|error| answer::pod_error(&error))?;
        let found = found.map(super::facts::object).transpose().map_err(|error| answer::pod_error(&error))?;
        Ok(found.is_some_and(|found| !is_copy_of(&found, claim, &self.link)))
    }

    /// A volume below waits for the claim by the name that this will get.
    async fn with_free_claim(&self, claim: &Claim, mut volume: Value) -> Result<Value, PodError> {
        if self.on_conflict == OnConflict::Rename && self.is_taken(claim).await? {
            volume["spec"]["claimRef"]["name"] = json!(lower_name(claim, &self.link));
        }
        Ok(volume)
    }

    /// Sees to it that the Secrets of a carried volume stay below: after a restart, nobody else needs them.
    pub(super) async fn keep_secrets(&self, facts: &Facts) -> Result<(), PodError> {
        if let (Some(upper), Some(lower)) = (&facts.upper_volume, &facts.lower_volume)
            && is_ours(lower, &self.link)
        {
            self.bring_secrets(named(upper.clone(), &carried_name(upper, &self.link))).await?;
        }
        Ok(())
    }

    /// Copies the Secrets that `volume` names, as for a pod, and makes it name the copies.
    async fn bring_secrets(&self, volume: Value) -> Result<Value, PodError> {
        let mut below = BTreeMap::new();
        for (id, references) in users(&volume) {
            let names = self.objects.ensure(&id, &references).await?;
            for (_, upper, lower) in names.iter() {
                let secret = SecretRef { namespace: id.namespace.to_string(), name: upper.to_owned() };
                let namespace = self.link.lower_namespace(&id.namespace).into_owned();
                below.insert(secret, SecretRef { namespace, name: lower.to_owned() });
            }
            self.objects.pod_seen(&id, || names);
        }
        Ok(with_secrets(volume, |secret| below.get(secret).cloned()))
    }
}

/// Who needs the Secrets of a volume: in each of their namespaces something like a pod, called after the volume.
fn users(volume: &Value) -> BTreeMap<PodId, References> {
    let name = volume.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut users: BTreeMap<PodId, Vec<(Kind, String)>> = BTreeMap::new();
    for SecretRef { namespace, name: secret } in secrets(volume) {
        let id = PodId::new(&namespace, name, &format!("{namespace}/{name}"));
        users.entry(id).or_default().push((Kind::Secret, secret));
    }
    users.into_iter().map(|(id, secrets)| (id, secrets.into_iter().collect())).collect()
}

async fn post(api: &Api<DynamicObject>, body: &Value) -> kube::Result<()> {
    let object = serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &object).await.map(drop)
}

/// Creates an object; one that is there already will be looked at.
async fn create(api: &Api<DynamicObject>, body: &Value) -> kube::Result<()> {
    match post(api, body).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        outcome => outcome,
    }
}

/// Changes exactly this incarnation of an object.
async fn merge(
    api: &Api<DynamicObject>,
    object: Option<&Value>,
    subresource: Option<&str>,
    mut patch: Value,
) -> kube::Result<()> {
    let Some((name, uid, _)) = identity(object) else { return Ok(()) };
    patch["metadata"]["uid"] = json!(uid);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    match subresource {
        None => api.patch(name, &params, &patch).await.map(drop),
        Some(subresource) => api.patch_subresource(subresource, name, &params, &patch).await.map(drop),
    }
}

/// Deletes exactly what was looked at. What has changed since, or is gone, will be looked at again.
async fn delete(api: &Api<DynamicObject>, object: Option<&Value>) -> kube::Result<()> {
    let Some((name, uid, revision)) = identity(object) else { return Ok(()) };
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: Some(revision.to_owned()) }),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome.map(drop),
    }
}

fn identity(object: Option<&Value>) -> Option<(&str, &str, &str)> {
    let metadata = object?.get("metadata")?;
    let text = |member: &str| metadata.get(member)?.as_str();
    Some((text("name")?, text("uid")?, text("resourceVersion")?))
}
