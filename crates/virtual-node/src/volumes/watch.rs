// SPDX-License-Identifier: Apache-2.0
//! What is heard of claims and volumes: metadata only, and only of ours. Everything means "look again".

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, ResourceExt, runtime::watcher::Config};
use tensile_core::{
    names,
    volume::{Claim, claim_of, shown_claim},
};

use super::{Volumes, lock};
use crate::{
    heard::{Heard, within},
    objects::marked,
};

impl Volumes {
    /// Follows claims of both clusters, and the volumes upstairs that show those below. Does not end.
    pub(super) async fn watch(&self) {
        let copies = Config::default().labels(&marked(&self.link));
        let label = format!("{}={}", names::VIRTUAL_NODE, names::label_value(&self.link.virtual_node));
        let heard = Heard { queue: &self.queue, copies: &self.copies };
        tokio::join!(
            heard.follow::<PersistentVolumeClaim>(
                "upper",
                Api::all(self.upper.clone()),
                Config::default(),
                |object, _| {
                    let claim = Claim { namespace: object.namespace()?, name: object.name_any(), uid: object.uid()? };
                    let chosen = object.annotations().get(names::SELECTED_NODE) == Some(&self.link.virtual_node);
                    let waited_for =
                        || lock(&self.waiting).contains_key(&(claim.namespace.as_str().into(), claim.name.clone()));
                    let concerns_us = chosen || lock(&self.copies).contains(&claim) || waited_for();
                    concerns_us.then_some(claim)
                }
            ),
            heard.follow::<PersistentVolumeClaim>("lower", within(&self.lower, &self.link), copies, |object, _| {
                let annotations = object.annotations();
                let claim = claim_of(annotations.get(names::UPPER_NAME)?, annotations.get(names::UPPER_UID)?)?;
                self.note(&claim, true);
                Some(claim)
            }),
            heard.follow::<PersistentVolume>(
                "upper",
                Api::all(self.upper.clone()),
                Config::default().labels(&label),
                |object, _| { shown_claim(&object.name_any(), object.annotations().get(names::CLAIM)?) }
            ),
        );
    }
}
