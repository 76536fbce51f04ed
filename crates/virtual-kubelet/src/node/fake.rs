// SPDX-License-Identifier: Apache-2.0
//! A small API server for tests of the loops: one Node, its lease, a watch. Real ones are in the suites on clusters.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use futures::{StreamExt, channel::mpsc, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

/// What is in the cluster, and what was asked of it.
pub(super) struct Contents {
    pub(super) node: Option<Value>,
    pub(super) lease: Option<Value>,
    /// Every request so far: when, what (`PATCH node`), with which body.
    pub(super) requests: Vec<(Instant, String, Value)>,
    /// Answers that come instead of the proper ones: of which request, with which code. Code 0 is no answer ever.
    pub(super) faults: VecDeque<(&'static str, u16)>,
    watchers: Vec<mpsc::UnboundedSender<Bytes>>,
    made: u32,
}

/// The server; clones are the same one.
#[derive(Clone)]
pub(super) struct Fake {
    contents: Arc<Mutex<Contents>>,
    changed: Arc<watch::Sender<()>>,
}

impl Fake {
    pub(super) fn new() -> Self {
        let contents = Contents {
            node: None,
            lease: None,
            requests: Vec::new(),
            faults: VecDeque::new(),
            watchers: Vec::new(),
            made: 0,
        };
        Self { contents: Arc::new(Mutex::new(contents)), changed: Arc::default() }
    }

    pub(super) fn client(&self) -> kube::Client {
        let fake = self.clone();
        let serve = move |request| {
            let fake = fake.clone();
            async move { Ok::<_, Infallible>(fake.serve(request).await) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    pub(super) fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap()
    }

    /// Waits until the contents are so; with a paused clock time passes meanwhile, up to ten minutes.
    pub(super) async fn until(&self, what: &str, wanted: impl Fn(&Contents) -> bool) {
        let mut changed = self.changed.subscribe();
        let reached = async {
            while !wanted(&self.contents()) {
                changed.changed().await.unwrap();
            }
        };
        let reached = tokio::time::timeout(std::time::Duration::from_secs(600), reached).await;
        assert!(reached.is_ok(), "never: {what}; requests: {:#?}", self.asked());
    }

    /// What was asked so far, without bodies.
    pub(super) fn asked(&self) -> Vec<String> {
        self.contents().requests.iter().map(|(_, request, _)| request.clone()).collect()
    }

    /// When `request` was asked, each time.
    pub(super) fn times(&self, request: &str) -> Vec<Instant> {
        self.contents().requests.iter().filter(|(_, asked, _)| asked == request).map(|(at, ..)| *at).collect()
    }

    /// Somebody else creates the Node, changes it, or (`Null`) deletes it.
    pub(super) fn meddle(&self, change: impl FnOnce(&mut Value)) {
        let mut contents = self.contents();
        let mut node = contents.node.take().unwrap_or(Value::Null);
        let before = node.clone();
        change(&mut node);
        let event = match (before.is_null(), node.is_null()) {
            (true, _) => "ADDED",
            (false, true) => "DELETED",
            (false, false) => "MODIFIED",
        };
        let shown = if node.is_null() { &before } else { &node };
        contents.tell(event, shown);
        contents.node = (!node.is_null()).then_some(node);
        drop(contents);
        self.changed.send_replace(());
    }

    async fn serve(&self, request: Request<Body>) -> Response<BoxBody<Bytes, Infallible>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let kind = if parts.uri.path().contains("/leases") { "lease" } else { "node" };
        let collection = parts.method == Method::GET && parts.uri.path() == "/api/v1/nodes";
        let verb = match parts.method {
            _ if collection && query.contains("watch=true") => "WATCH",
            _ if collection => "LIST",
            ref method => method.as_str(),
        };
        let asked = format!("{verb} {kind}");
        let fault = {
            let mut contents = self.contents();
            contents.requests.push((Instant::now(), asked.clone(), body.clone()));
            let at = contents.faults.iter().position(|(request, _)| *request == asked);
            at.and_then(|at| contents.faults.remove(at))
        };
        self.changed.send_replace(());
        match fault {
            Some((_, 0)) => std::future::pending().await,
            Some((_, code)) => return refusal(code),
            None => {}
        }
        let answer = self.contents().answer(&asked, &body);
        self.changed.send_replace(());
        answer
    }
}

impl Contents {
    /// How often this was asked so far.
    pub(super) fn asked(&self, request: &str) -> usize {
        self.requests.iter().filter(|(_, asked, _)| asked == request).count()
    }

    fn answer(&mut self, asked: &str, body: &Value) -> Response<BoxBody<Bytes, Infallible>> {
        match (asked, &self.node, &self.lease) {
            ("LIST node", node, _) => {
                let items: Vec<_> = node.iter().collect();
                ok(
                    &json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}),
                )
            }
            ("WATCH node", ..) => {
                let (sender, receiver) = mpsc::unbounded();
                self.watchers.push(sender);
                respond(200, receiver.map(|line| Ok(Frame::data(line))))
            }
            ("GET node", Some(node), _) => ok(node),
            ("GET lease", _, Some(lease)) => ok(lease),
            ("POST node", None, _) | ("POST lease", _, None) => {
                self.made += 1;
                let mut made = body.clone();
                made["metadata"]["uid"] = format!("uid-{}", self.made).into();
                made["metadata"]["resourceVersion"] = "1".into();
                if asked == "POST node" {
                    self.tell("ADDED", &made);
                    self.node = Some(made.clone());
                } else {
                    self.lease = Some(made.clone());
                }
                ok(&made)
            }
            ("POST node" | "POST lease", ..) => refusal(409),
            ("PATCH node", Some(node), _) => {
                if body["metadata"]["uid"] != node["metadata"]["uid"] {
                    return refusal(409);
                }
                let mut node = node.clone();
                for part in ["metadata", "status"] {
                    apply(&mut node[part], &body[part]);
                }
                self.tell("MODIFIED", &node);
                self.node = Some(node.clone());
                ok(&node)
            }
            ("PUT lease", _, Some(lease)) => {
                if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
                    return refusal(409);
                }
                let version: u32 = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                let mut lease = body.clone();
                lease["metadata"]["resourceVersion"] = (version + 1).to_string().into();
                self.lease = Some(lease.clone());
                ok(&lease)
            }
            _ => refusal(404),
        }
    }

    fn tell(&mut self, event: &str, node: &Value) {
        let mut node = node.clone();
        node["metadata"]["resourceVersion"] = "2".into();
        // The type comes first, as API servers send it.
        let line = format!("{{\"type\":\"{event}\",\"object\":{node}}}\n");
        self.watchers.retain(|watcher| watcher.unbounded_send(line.clone().into()).is_ok());
    }
}

/// What an API server makes of a strategic merge patch of a Node, as far as such patches go.
pub(super) fn apply(target: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, change) in members {
        if change.is_null() {
            target.remove(key);
        } else if matches!(key.as_str(), "conditions" | "addresses") {
            apply_list(target.entry(key).or_insert_with(|| json!([])), change.as_array().unwrap());
        } else {
            apply(target.entry(key).or_insert(Value::Null), change);
        }
    }
}

/// Both lists are merged by type, unless an element says otherwise.
fn apply_list(target: &mut Value, changes: &[Value]) {
    let target = target.as_array_mut().unwrap();
    if changes.contains(&json!({"$patch": "replace"})) {
        *target = changes.iter().filter(|change| change.get("$patch").is_none()).cloned().collect();
        return;
    }
    for change in changes {
        let at = target.iter().position(|known| known["type"] == change["type"]);
        match (at, change.get("$patch")) {
            (Some(at), Some(_)) => drop(target.remove(at)),
            (None, Some(_)) => {}
            (Some(at), None) => apply(&mut target[at], change),
            (None, None) => target.push(change.clone()),
        }
    }
}

fn ok(object: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    respond(200, stream::once(std::future::ready(Ok(Frame::data(object.to_string().into())))))
}

fn refusal(code: u16) -> Response<BoxBody<Bytes, Infallible>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": format!("refused with {code}"), "reason": "Test"});
    respond(code, stream::once(std::future::ready(Ok(Frame::data(status.to_string().into())))))
}

fn respond(
    code: u16,
    body: impl stream::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync + 'static,
) -> Response<BoxBody<Bytes, Infallible>> {
    Response::builder().status(code).body(BodyExt::boxed(StreamBody::new(body))).unwrap()
}
