// SPDX-License-Identifier: Apache-2.0
//! HTTP/2, as API servers speak it for all but upgrades: many requests over one connection.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{sync::mpsc, task::JoinHandle};

use super::scene::{Scene, read};

const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];

/// A connection that its test drops or waits for, and what asks over it.
async fn connect(scene: &Scene) -> (http2::SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = scene.dial_to_speak(BOTH, None).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

async fn ask(sender: &mut http2::SendRequest<Empty<Bytes>>, method: &str, path: &str) -> Response<Incoming> {
    let request = Request::builder().method(method).uri(format!("https://v{path}"));
    let request = request.header("authorization", "Bearer full").body(Empty::new()).unwrap();
    sender.send_request(request).await.unwrap()
}

#[tokio::test]
async fn logs_share_a_connection_and_each_ends_by_itself() {
    let scene = Scene::start().await;
    let (mut sender, _connection) = connect(&scene).await;
    let (mut writers, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (writer, log) = mpsc::channel(1);
        *scene.backend.log.lock().unwrap() = Some(log);
        answers.push(ask(&mut sender, "GET", "/containerLogs/ns/web/main?follow=true").await);
        writers.push(writer);
    }
    drop(answers.remove(0));
    writers[0].closed().await;
    // For much longer than a connection may be idle.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5 * 3600)).await;
    tokio::time::resume();
    writers[1].send(Bytes::from_static(b"still here\n")).await.unwrap();
    assert_eq!(answers[0].frame().await.unwrap().unwrap().into_data().unwrap(), "still here\n");
    assert_eq!(read(ask(&mut sender, "GET", "/healthz").await).await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_connection_over_which_nothing_is_asked_ends() {
    let scene = Scene::start().await;
    let (mut sender, connection) = connect(&scene).await;
    assert_eq!(read(ask(&mut sender, "GET", "/healthz").await).await.0, 200);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(91)).await;
    tokio::time::resume();
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_upgrade_is_refused_for_it_needs_a_connection_of_its_own() {
    let scene = Scene::start().await;
    let (mut sender, _connection) = connect(&scene).await;
    let (status, words) = read(ask(&mut sender, "POST", "/exec/ns/web/uid-1/main?command=sh&output=1").await).await;
    assert_eq!((status, words.contains("pgrade")), (400, true), "{words}");
}

#[tokio::test]
async fn a_head_that_is_too_big_is_refused_and_others_go_on() {
    let scene = Scene::start().await;
    let (mut sender, _connection) = connect(&scene).await;
    let long = "a".repeat(60 * 1024);
    let mut request = Request::get("https://v/pods").header("authorization", "Bearer full");
    for name in ["a", "b", "c"] {
        request = request.header(name, &long);
    }
    let refused = sender.send_request(request.body(Empty::new()).unwrap()).await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status() == 431));
    assert_eq!(read(ask(&mut sender, "GET", "/healthz").await).await.0, 200);
}
