// SPDX-License-Identifier: Apache-2.0
//! Traces for OpenTelemetry: spans that are over when they are told, sent in batches as OTLP/HTTP with JSON.
//!
//! The shape is that of the OTLP specification 1.x, `ExportTraceServiceRequest` in its JSON mapping: identifiers in
//! hexadecimal, times as decimal strings. There is no span in the code: what a trace tells is known from what was watched,
//! so the libraries that carry spans through calls would add nothing here but their weight.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Request, Uri, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clients;

/// As much may wait for the collector: what is told beyond is lost.
pub const WAITING: usize = 2048;
/// Traces in one request.
const BATCH: usize = 256;
/// Time between requests.
const PACE: Duration = Duration::from_secs(1);
/// How long the collector may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A name and its value.
pub type Attribute = (&'static str, String);

/// A piece of time that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it is the time of.
    pub name: &'static str,
    /// When it began.
    pub begin: SystemTime,
    /// When it was over.
    pub end: SystemTime,
}

/// One span and the spans in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Identifies it among all traces: the UID of what it is about.
    pub id: [u8; 16],
    /// The whole.
    pub whole: Span,
    /// What it is about.
    pub attributes: Vec<Attribute>,
    /// Its parts.
    pub parts: Vec<Span>,
}

/// Sends a trace of what is `told` to the collector at `endpoint`, its OTLP/HTTP address without `/v1/traces`, in the name of
/// `service` (such as `virtual-node`), until `stop` is cancelled. What was told by then is still sent; what `trace` makes
/// nothing of is passed over.
///
/// # Errors
///
/// When there is no way to speak TLS to it.
pub async fn export<T>(
    service: &str,
    endpoint: Uri,
    mut told: mpsc::Receiver<T>,
    trace: impl Fn(&T) -> Option<Trace>,
    stop: CancellationToken,
) -> Result<(), kube::Error> {
    let client = clients::connect_url(&endpoint)?;
    let mut pace = tokio::time::interval(PACE);
    let mut batch = Vec::new();
    loop {
        let more = stop.run_until_cancelled(async {
            pace.tick().await;
            told.recv_many(&mut batch, BATCH).await
        });
        match more.await {
            Some(0) => return Ok(()),
            Some(_) => send(&client, service, batch.drain(..).filter_map(|one| trace(&one)).collect()).await,
            None => break,
        }
    }
    told.close();
    while told.recv_many(&mut batch, BATCH).await > 0 {
        send(&client, service, batch.drain(..).filter_map(|one| trace(&one)).collect()).await;
    }
    Ok(())
}

async fn send(client: &Client, service: &str, batch: Vec<Trace>) {
    let traces = batch.len();
    if traces == 0 {
        return;
    }
    let body = request(service, &batch).to_string().into_bytes();
    let outcome = tokio::time::timeout(PATIENCE, async {
        let request = Request::post("/v1/traces").header(CONTENT_TYPE, "application/json").body(Body::from(body));
        let answer = client.send(request.map_err(kube::Error::HttpError)?).await?;
        Ok::<_, kube::Error>(answer.status())
    });
    match outcome.await {
        Ok(Ok(status)) if status.is_success() => {}
        Ok(Ok(status)) => tracing::warn!(%status, traces, "the collector refused traces; they are lost"),
        Ok(Err(error)) => tracing::warn!(%error, traces, "traces could not be sent; they are lost"),
        Err(_) => tracing::warn!(traces, "the collector did not answer in time; traces are lost"),
    }
}

/// The body of a request: an `ExportTraceServiceRequest`.
fn request(service: &str, traces: &[Trace]) -> Value {
    let spans: Vec<Value> = traces.iter().flat_map(spans).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            attribute("service.name", service),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
        ] },
        "scopeSpans": [{ "scope": { "name": "tensile" }, "spans": spans }],
    }] })
}

fn spans(trace: &Trace) -> impl Iterator<Item = Value> {
    // A span's identifier has to differ from those of its trace only: its place does.
    let root = span_id(0);
    let whole = span(trace, &trace.whole, &root, "", &trace.attributes);
    let parts = trace.parts.iter().zip(1..).map(move |(part, place)| span(trace, part, &span_id(place), &root, &[]));
    std::iter::once(whole).chain(parts)
}

fn span_id(place: u64) -> String {
    // Zero is no identifier.
    format!("{:016x}", place + 1)
}

fn span(trace: &Trace, span: &Span, id: &str, parent: &str, attributes: &[Attribute]) -> Value {
    json!({
        "traceId": format!("{:032x}", u128::from_be_bytes(trace.id)),
        "spanId": id,
        "parentSpanId": parent,
        "name": span.name,
        // SPAN_KIND_INTERNAL
        "kind": 1,
        "startTimeUnixNano": nanoseconds(span.begin),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": attributes.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
    })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &'static str, begin: u64, end: u64) -> Span {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        Span { name, begin: at(begin), end: at(end) }
    }

    fn trace() -> Trace {
        Trace {
            id: *b"0123456789abcdef",
            whole: span("pod start", 10, 13),
            attributes: vec![("k8s.pod.name", "web".to_owned())],
            parts: vec![span("create", 10, 11), span("start", 11, 13)],
        }
    }

    #[test]
    fn a_trace_is_written_as_the_specification_of_otlp_says() {
        let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        let id = "30313233343536373839616263646566";
        let span = |span, parent, name, begin, end, attributes| {
            json!({
                "traceId": id, "spanId": span, "parentSpanId": parent, "name": name, "kind": 1,
                "startTimeUnixNano": begin, "endTimeUnixNano": end, "attributes": attributes,
            })
        };
        let (ten, eleven, thirteen) = ("10000000000", "11000000000", "13000000000");
        let root = "0000000000000001";
        assert_eq!(
            request("virtual-node", &[trace()]),
            json!({ "resourceSpans": [{
                "resource": { "attributes": [
                    text("service.name", "virtual-node"), text("service.version", env!("CARGO_PKG_VERSION")),
                ] },
                "scopeSpans": [{ "scope": { "name": "tensile" }, "spans": [
                    span(root, "", "pod start", ten, thirteen, json!([text("k8s.pod.name", "web")])),
                    span("0000000000000002", root, "create", ten, eleven, json!([])),
                    span("0000000000000003", root, "start", eleven, thirteen, json!([])),
                ] }],
            }] })
        );
    }

    #[tokio::test]
    async fn what_was_told_before_the_end_is_sent_and_a_full_queue_blocks_nobody() {
        let (asked, mut requests) = mpsc::unbounded_channel();
        let router = axum::Router::new().route(
            "/v1/traces",
            axum::routing::post(async move |axum::Json(body): axum::Json<Value>| {
                asked.send(body).unwrap();
            }),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });

        let (tell, told) = mpsc::channel(WAITING);
        let refused = (0..WAITING + 5).filter(|_| tell.try_send(trace()).is_err()).count();
        assert_eq!(refused, 5);
        let stop = CancellationToken::new();
        stop.cancel();
        export("virtual-node", endpoint, told, |trace| Some(trace.clone()), stop).await.unwrap();
        let mut spans = 0;
        while let Ok(request) = requests.try_recv() {
            spans += request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
        }
        assert_eq!(spans, 3 * WAITING);
    }
}
