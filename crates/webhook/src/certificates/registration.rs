// SPDX-License-Identifier: Apache-2.0
//! What API servers are told: the `caBundle` of our webhooks in a `MutatingWebhookConfiguration`.
//!
//! Ours are those that are called at one of the names that the certificate is for. Nothing else in the configuration
//! is touched, and of ours nothing but the bundle.

use std::collections::BTreeSet;

use axum::http::Uri;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig};
use serde_json::{Value, json};

/// One of our webhooks, and what API servers trust when they call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ours {
    /// Its name in the configuration.
    pub name: String,
    /// Its `caBundle`, PEM; empty if there is none.
    pub bundle: Vec<u8>,
}

/// Those webhooks of the configuration that are called at one of `names`.
pub fn ours(configuration: &MutatingWebhookConfiguration, names: &BTreeSet<String>) -> Vec<Ours> {
    let webhooks = configuration.webhooks.iter().flatten();
    let called = webhooks.filter(|webhook| host(&webhook.client_config).is_some_and(|host| names.contains(&host)));
    let ours = called.map(|webhook| Ours {
        name: webhook.name.clone(),
        bundle: webhook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.clone()).unwrap_or_default(),
    });
    ours.collect()
}

/// The name that an API server expects in the certificate, as it makes it of a Service or finds it in a URL.
fn host(config: &WebhookClientConfig) -> Option<String> {
    if let Some(service) = &config.service {
        return Some(format!("{}.{}.svc", service.name, service.namespace));
    }
    let url: Uri = config.url.as_ref()?.parse().ok()?;
    Some(url.host()?.trim_matches(['[', ']']).to_owned())
}

/// The strategic merge patch that makes `bundle` the bundle of all of `ours`; `None` if it is that already.
pub fn patch(ours: &[Ours], bundle: &str, resource_version: Option<&str>) -> Option<Value> {
    let wrong: Vec<&Ours> = ours.iter().filter(|webhook| webhook.bundle != bundle.as_bytes()).collect();
    if wrong.is_empty() {
        return None;
    }
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let webhook = |ours: &&Ours| json!({ "name": ours.name, "clientConfig": { "caBundle": bundle } });
    Some(json!({
        // Who changed it in the meantime wins, and is looked at again.
        "metadata": { "resourceVersion": resource_version },
        "webhooks": wrong.iter().map(webhook).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> MutatingWebhookConfiguration {
        let webhook = |name: &str, client_config: Value| {
            json!({
                "name": name, "clientConfig": client_config, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            })
        };
        let at_service = |name: &str| json!({ "service": { "name": name, "namespace": "tensile", "path": "/mutate" } });
        serde_json::from_value(json!({
            "metadata": { "name": "tensile-webhook", "resourceVersion": "7" },
            "webhooks": [
                webhook("service.example", at_service("webhook")),
                webhook("other-service.example", at_service("other")),
                webhook("url.example", json!({ "url": "https://[::1]:8443/mutate", "caBundle": "QQ==" })),
                webhook("other-url.example", json!({ "url": "https://127.0.0.2:8443/mutate" })),
                webhook("nowhere.example", json!({})),
            ],
        }))
        .unwrap()
    }

    fn names() -> BTreeSet<String> {
        ["webhook.tensile.svc", "::1"].map(str::to_owned).into()
    }

    #[test]
    fn ours_are_the_webhooks_that_are_called_at_our_names() {
        let expected = [
            Ours { name: "service.example".to_owned(), bundle: Vec::new() },
            Ours { name: "url.example".to_owned(), bundle: b"A".to_vec() },
        ];
        assert_eq!(ours(&configuration(), &names()), expected);
        assert!(ours(&MutatingWebhookConfiguration::default(), &names()).is_empty());
    }

    #[test]
    fn only_the_bundle_of_those_that_lack_it_is_changed() {
        let ours = ours(&configuration(), &names());
        let expected = json!({
            "metadata": { "resourceVersion": "7" },
            "webhooks": [{ "name": "service.example", "clientConfig": { "caBundle": "QQ==" } }],
        });
        assert_eq!(patch(&ours, "A", Some("7")), Some(expected));
        assert_eq!(patch(&ours[1..], "A", Some("7")), None);
        assert_eq!(patch(&[], "A", None), None);
    }
}
