// SPDX-License-Identifier: Apache-2.0
//! The Secret below that holds the tokens of one pod.

use std::fmt;

use serde_json::{Map, Value, json};

use super::{Life, Lives, Tokens, key};
use crate::{names, pod::LinkView};

/// A token that was issued.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// Its place among the pod's tokens.
    pub place: usize,
    /// The token itself.
    pub token: String,
    /// How long it lives.
    pub life: Life,
}

impl fmt::Debug for Issued {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("place", &self.place).field("life", &self.life).finish_non_exhaustive()
    }
}

/// The pod whose tokens they are.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its namespace upstairs.
    pub namespace: &'a str,
    /// Its name upstairs.
    pub name: &'a str,
    /// UID of the upper pod.
    pub upper_uid: &'a str,
    /// UID of the lower pod.
    pub lower_uid: &'a str,
}

/// The Secret with all tokens of a pod. It belongs to the lower pod: the lower cluster removes it with that, also when
/// there is no virtual node any more.
#[must_use]
pub fn create(tokens: &Tokens, owner: &Owner<'_>, issued: &[Issued], link: &LinkView) -> Value {
    let mut labels = link.marks(owner.namespace);
    labels[names::TOKENS] = json!(names::TRUE);
    let pod = link.lower_pod(owner.namespace, owner.name);
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": tokens.secret,
            "namespace": link.lower_namespace(owner.namespace),
            "labels": labels,
            "annotations": {
                names::UPPER_NAME: format!("{}/{}", owner.namespace, owner.name),
                names::UPPER_UID: owner.upper_uid,
                names::TOKENS: lives(None, issued).to_text(),
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": owner.lower_uid}],
        },
        "stringData": data(issued),
    })
}

/// The merge patch that puts these tokens into the Secret with this UID, which holds `held`; the others stay.
#[must_use]
pub fn renew(uid: &str, held: &Lives, issued: &[Issued]) -> Value {
    json!({
        "metadata": {"uid": uid, "annotations": {names::TOKENS: lives(Some(held), issued).to_text()}},
        "stringData": data(issued),
    })
}

fn lives(held: Option<&Lives>, issued: &[Issued]) -> Lives {
    let mut lives = held.cloned().unwrap_or_default();
    for one in issued {
        lives.insert(key(one.place), one.life);
    }
    lives
}

fn data(issued: &[Issued]) -> Map<String, Value> {
    issued.iter().map(|one| (key(one.place), json!(one.token))).collect()
}
