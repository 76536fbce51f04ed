// SPDX-License-Identifier: Apache-2.0
//! Traces of pods' starts, at a collector.

use anyhow::{Context as _, ensure};
use axum::routing::post;
use axum::{Json, Router};
use e2e::link::Link;
use e2e::pods::{PATIENCE, Pods, uid};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::pair;

/// What takes OTLP over HTTP with JSON: its address, and the spans it was sent. The collectors of others cannot be built here.
async fn collector() -> anyhow::Result<(String, mpsc::UnboundedReceiver<Value>)> {
    let (sent, spans) = mpsc::unbounded_channel();
    let traces = post(async move |Json(request): Json<Value>| {
        let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default();
        for span in spans {
            // Nobody listens any more once the test has what it wants.
            sent.send(span).ok();
        }
    });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/traces", traces)).await });
    Ok((address, spans))
}

#[test]
fn a_pod_start_is_one_trace_under_its_uid_from_bound_to_shown_as_running() -> anyhow::Result<()> {
    e2e::run(async {
        let pair = pair().await?;
        let (address, mut spans) = collector().await?;
        let flag = format!("--otlp-endpoint={address}");
        let link = Link::builder(&pair.upper, &pair.lower, "traced").args(&[&flag]).start().await?;
        e2e::namespace::make("traced", &pair.upper).await?;
        let above = Pods::of(&pair.upper, "traced");
        above.create(&link.pod("one")).await?;
        let pod = above.until_ready("one").await?;

        let mut trace = Vec::new();
        while trace.len() < 4 {
            trace.push(timeout(PATIENCE, spans.recv()).await.context("spans are missing")?.context("no collector")?);
        }
        ensure!(trace.iter().all(|span| span["traceId"] == uid(&pod).replace('-', "")), "{trace:?}");
        let names: Vec<&str> = trace.iter().filter_map(|span| span["name"].as_str()).collect();
        ensure!(names == ["pod start", "create", "start", "show"], "{names:?}");
        let at = |span: &Value, member: &str| span[member].as_str().and_then(|time| time.parse::<u64>().ok());
        let (begin, end) = ("startTimeUnixNano", "endTimeUnixNano");
        let followed = trace[1..].windows(2).all(|pair| at(&pair[0], end) == at(&pair[1], begin));
        ensure!(followed && at(&trace[0], begin) == at(&trace[1], begin), "{trace:?}");
        ensure!(at(&trace[0], end).is_some() && at(&trace[0], end) == at(&trace[3], end), "{trace:?}");
        ensure!(trace[1..].iter().all(|span| span["parentSpanId"] == trace[0]["spanId"]), "{trace:?}");
        Ok(())
    })
}
