// SPDX-License-Identifier: Apache-2.0
//! `/explain?namespace=NAMESPACE&pod=NAME` on the admin server: what the plan has for a pod, and why.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tensile_core::deschedule::{Permit, Policy};

use crate::seen::{Explained, Shared};

#[derive(Debug, Deserialize)]
struct About {
    namespace: String,
    pod: String,
}

type Known = Arc<(Shared, Policy)>;

/// The route. Any replica answers, of what it has seen.
pub fn router(seen: Shared, policy: Policy) -> Router {
    Router::new().route("/explain", get(explain).with_state(Arc::new((seen, policy))))
}

async fn explain(State(known): State<Known>, Query(about): Query<About>) -> Response {
    let (seen, policy) = &*known;
    let explained = {
        let mut seen = seen.look();
        if !seen.is_complete() {
            return (StatusCode::SERVICE_UNAVAILABLE, "not everything is listed yet\n").into_response();
        }
        seen.explain(policy, &about.namespace, &about.pod, Timestamp::now())
    };
    match explained {
        Some(explained) => Json(answer(&explained)).into_response(),
        None => (StatusCode::NOT_FOUND, "no such pod with the label virtual-pod=true\n").into_response(),
    }
}

fn answer(explained: &Explained) -> Value {
    let Explained { pod, explanation, exclusions, permit } = explained;
    let found = explanation.found.iter().map(|finding| {
        json!({
            "profile": finding.profile, "plugin": finding.plugin,
            "from": finding.from.to_string(), "reason": finding.reason,
        })
    });
    let exclusions = exclusions.iter().map(|exclusion| {
        json!({ "node": exclusion.node, "until": exclusion.until.to_string(), "attempts": exclusion.attempts })
    });
    json!({
        "namespace": &*pod.namespace,
        "pod": &*pod.name,
        "uid": &*pod.uid,
        "node": pod.node.as_deref(),
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "why": explanation.why,
        "found": found.collect::<Vec<_>>(),
        "exclusions": exclusions.collect::<Vec<_>>(),
        "enforced": match permit {
            Permit::Yes => json!(true),
            Permit::NotYet => Value::Null,
            Permit::No(missing) => json!({ "missing": &**missing }),
        },
    })
}
