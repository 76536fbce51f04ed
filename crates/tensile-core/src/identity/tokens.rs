// SPDX-License-Identifier: Apache-2.0
//! The tokens that a pod projects, and the Secret that takes their place below.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{names, pod::LinkView, sync};

/// What the API server gives a token that does not say how long it is to live, in seconds.
const DEFAULT_SECONDS: u64 = 3600;

/// The tokens of one pod. Noted on the lower pod, in annotation [`names::TOKENS`], so that they are renewed also by a
/// process that did not make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Name of the Secret below that holds them.
    pub secret: String,
    /// Name of the upper service account.
    pub account: String,
    /// Each of them once; its place says its [`key`].
    pub tokens: Vec<Token>,
}

/// A token, as a pod asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Who is to accept it; empty for the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub audience: String,
    /// How long it is to live.
    pub seconds: u64,
}

impl Tokens {
    /// Those noted on a lower pod; none when there are none that can be read.
    #[must_use]
    pub fn noted(annotation: Option<&str>) -> Option<Self> {
        serde_json::from_str(annotation?).ok()
    }

    /// As they are noted.
    #[must_use]
    pub fn to_text(&self) -> String {
        json!(self).to_string()
    }
}

/// The key of a token in the Secret, by its place.
#[must_use]
pub fn key(place: usize) -> String {
    format!("token-{place}")
}

/// The `TokenRequest` for `token`, bound to exactly this upper pod.
#[must_use]
pub fn request(token: &Token, pod: &str, uid: &str) -> Value {
    let mut spec = json!({
        "expirationSeconds": token.seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid},
    });
    if !token.audience.is_empty() {
        spec["audiences"] = json!([token.audience]);
    }
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
}

/// Takes the tokens out of what `pod` projects: each source becomes one of the same path that reads the Secret. The mode
/// is the volume's, as before. `None` when it projects none.
pub(crate) fn take(pod: &mut Value, name: &str, uid: &str, account: &str, link: &LinkView) -> Option<Tokens> {
    let secret = sync::lower_name(uid, &format!("{name}-tokens"), link);
    let mut tokens: Vec<Token> = Vec::new();
    let volumes = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten();
    let sources =
        volumes.filter_map(|volume| volume.get_mut("projected")?.get_mut("sources")?.as_array_mut()).flatten();
    for source in sources {
        let Some(projected) = source.get("serviceAccountToken") else { continue };
        let token = Token {
            audience: projected.get("audience").and_then(Value::as_str).unwrap_or_default().to_owned(),
            seconds: projected.get("expirationSeconds").and_then(Value::as_u64).unwrap_or(DEFAULT_SECONDS),
        };
        let path = projected.get("path").and_then(Value::as_str).unwrap_or("token").to_owned();
        let place = tokens.iter().position(|known| *known == token).unwrap_or_else(|| {
            tokens.push(token);
            tokens.len() - 1
        });
        *source = json!({"secret": {"name": secret, "items": [{"key": key(place), "path": path}]}});
    }
    if tokens.is_empty() {
        return None;
    }
    let tokens = Tokens { secret, account: account.to_owned(), tokens };
    if let Some(Value::Object(annotations)) = pod.pointer_mut("/metadata/annotations") {
        note(annotations, &tokens);
    }
    Some(tokens)
}

/// Makes `pod` project what it projects but for the tokens in this Secret.
pub(crate) fn omit(pod: &mut Value, secret: &str) {
    let volumes = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten();
    for volume in volumes {
        let sources = volume.get_mut("projected").and_then(|projected| projected.get_mut("sources")?.as_array_mut());
        if let Some(sources) = sources {
            sources.retain(|source| source.pointer("/secret/name").and_then(Value::as_str) != Some(secret));
        }
    }
    if let Some(Value::Object(annotations)) = pod.pointer_mut("/metadata/annotations") {
        annotations.remove(names::TOKENS);
    }
}

fn note(annotations: &mut Map<String, Value>, tokens: &Tokens) {
    annotations.insert(names::TOKENS.to_owned(), Value::String(tokens.to_text()));
}
