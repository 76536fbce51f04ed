// SPDX-License-Identifier: Apache-2.0
//! Logs and upgrades: what goes through, when it ends, and what is refused.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::mpsc,
};

use super::scene::{Scene, read};

const LOGS: &str = "/containerLogs/ns/web/main";

#[tokio::test]
async fn each_chunk_of_a_log_is_seen_before_the_next_is_written() {
    let scene = Scene::start().await;
    let (writer, log) = mpsc::channel(1);
    *scene.backend.log.lock().unwrap() = Some(log);
    let mut answer = scene.send(Some("full"), "GET", &format!("{LOGS}?follow=true&tailLines=0")).await;
    assert_eq!(answer.status(), 200);
    for line in ["one\n", "two\n"] {
        writer.send(Bytes::from_static(line.as_bytes())).await.unwrap();
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), line.as_bytes());
    }
    drop(writer);
    assert!(answer.frame().await.is_none(), "its end is seen as an end");
    assert!(scene.backend.asked.lock().unwrap()[0].contains("follow: true"), "options are passed on");
    assert!(scene.backend.asked.lock().unwrap()[0].contains("tail_lines: Some(0)"));
}

#[tokio::test]
async fn a_followed_log_may_be_silent_for_hours() {
    let scene = Scene::start().await;
    let (writer, log) = mpsc::channel(1);
    *scene.backend.log.lock().unwrap() = Some(log);
    let mut answer = scene.send(Some("full"), "GET", &format!("{LOGS}?follow=true")).await;
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(5 * 3600)).await;
    tokio::time::resume();
    writer.send(Bytes::from_static(b"at last\n")).await.unwrap();
    assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "at last\n");
}

#[tokio::test]
async fn a_log_ends_below_when_its_reader_is_gone() {
    let scene = Scene::start().await;
    let (writer, log) = mpsc::channel(1);
    *scene.backend.log.lock().unwrap() = Some(log);
    let answer = scene.send(Some("full"), "GET", &format!("{LOGS}?follow=1")).await;
    drop(answer);
    writer.closed().await;
}

#[tokio::test]
async fn what_a_log_cannot_be_asked_is_told_as_the_kubelet_does() {
    let scene = Scene::start().await;
    for (path, expected) in [
        (&format!("{LOGS}?tailLines=x"), 400),
        (&format!("{LOGS}?limitBytes=0"), 422),
        (&"/containerLogs/ns/absent/main".to_owned(), 404),
        (&"/containerLogs/other/web/main".to_owned(), 404),
        (&"/containerLogs/ns/web/absent".to_owned(), 404),
    ] {
        assert_eq!(scene.full("GET", path).await.0, expected, "{path}");
    }
    let (_, words) = scene.full("GET", "/containerLogs/ns/absent/main").await;
    assert_eq!(words, r#"pod "absent" does not exist"#);
}

#[tokio::test]
async fn a_command_that_is_run_is_answered_with_what_it_wrote() {
    let scene = Scene::start().await;
    let (status, body) = scene.full("POST", "/run/ns/web/uid-1/main?cmd=ls%20-l+%20/").await;
    assert_eq!((status, body.as_str()), (200, "what it wrote"));
    assert_eq!(scene.backend.asked.lock().unwrap()[0], r#"run ns/web (uid-1) main ["ls", "-l", "", "/"]"#);
}

/// The far end of the next stream.
fn far(scene: &Scene) -> DuplexStream {
    let (near, far) = tokio::io::duplex(1024);
    *scene.backend.far.lock().unwrap() = Some(near);
    far
}

#[tokio::test]
async fn an_upgrade_carries_bytes_both_ways_until_both_have_ended() {
    let scene = Scene::start().await;
    let mut far = far(&scene);
    let answer = scene.upgrade("POST", "/exec/ns/web/uid-1/main?command=sh&command=-c&input=1&output=1").await;
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["upgrade"], "SPDY/3.1");
    assert_eq!(answer.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
    assert_eq!(
        scene.backend.asked.lock().unwrap()[0],
        "POST ns/web (uid-1) Exec { container: \"main\", command: [\"sh\", \"-c\"], streams: Streams { stdin: true, stdout: true, stderr: false, tty: false } }"
    );
    assert!(!scene.backend.headers.lock().unwrap().contains_key("authorization"), "who asks stays here");

    let mut near = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    // A conversation may pause for longer than a connection may wait for a request.
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(5 * 3600)).await;
    tokio::time::resume();
    near.write_all(b"down").await.unwrap();
    near.flush().await.unwrap();
    let mut four = [0; 4];
    far.read_exact(&mut four).await.unwrap();
    assert_eq!(&four, b"down");
    near.shutdown().await.unwrap();
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty(), "half of it has ended");
    far.write_all(b"the last words").await.unwrap();
    drop(far);
    near.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"the last words");
}

#[tokio::test]
async fn a_stream_ends_below_when_its_client_is_gone() {
    let scene = Scene::start().await;
    let mut far = far(&scene);
    let answer = scene.upgrade("GET", "/portForward/ns/web?port=80").await;
    assert!(scene.backend.asked.lock().unwrap()[0].ends_with("PortForward { ports: [80] }"));
    drop(hyper::upgrade::on(answer).await.unwrap());
    assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn what_nobody_reads_is_not_fetched() {
    let scene = Scene::start().await;
    let chunk = Bytes::from(vec![7; 64 * 1024]);
    let fetched = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);

    let (writer, log) = mpsc::channel(1);
    *scene.backend.log.lock().unwrap() = Some(log);
    let _log = scene.send(Some("full"), "GET", &format!("{LOGS}?follow=1")).await;
    let (counts, lines) = (fetched.clone(), chunk.clone());
    tokio::spawn(async move {
        while writer.send(lines.clone()).await.is_ok() {
            counts[0].fetch_add(lines.len(), Ordering::Relaxed);
        }
    });
    let mut far = far(&scene);
    let answer = scene.upgrade("POST", "/exec/ns/web/main?output=1").await;
    let _stream = hyper::upgrade::on(answer).await.unwrap();
    let counts = fetched.clone();
    tokio::spawn(async move {
        while far.write_all(&chunk).await.is_ok() {
            counts[1].fetch_add(chunk.len(), Ordering::Relaxed);
        }
    });

    // What fits into the kernel's own buffers goes; then both writers wait, while others are served.
    let now = || fetched.each_ref().map(|count| count.load(Ordering::Relaxed));
    let (mut seen, mut unchanged) = (now(), 0);
    while unchanged < 50 {
        assert_eq!(scene.full("GET", "/healthz").await.0, 200);
        unchanged = if now() == seen && seen[0] > 0 { unchanged + 1 } else { 0 };
        seen = now();
        assert!(seen.iter().all(|bytes| *bytes < 64 * 1024 * 1024), "{seen:?} bytes for a client that reads none");
    }
}

#[tokio::test]
async fn what_cannot_be_a_stream_is_told_as_the_kubelet_does() {
    let scene = Scene::start().await;
    for (path, expected) in [
        ("/exec/ns/web/main?command=id", 400),
        ("/attach/ns/web/main", 400),
        ("/portForward/ns/web?port=0", 400),
        ("/exec/ns/absent/main?output=1", 404),
        ("/exec/ns/web/uid-2/main?output=1", 404),
        ("/portForward/ns/web/uid-2", 404),
    ] {
        assert_eq!(read(scene.upgrade("POST", path).await).await.0, expected, "{path}");
    }
    let refusal = read(scene.upgrade("POST", "/exec/ns/web/main?output=1").await).await;
    assert_eq!(refusal, (409, "container not started".to_owned()), "the backend's own words");
    let plain = scene.full("POST", "/exec/ns/web/main?output=1").await;
    assert_eq!(plain, (400, "unable to upgrade: missing upgrade headers in request".to_owned()));
}

#[tokio::test]
async fn streams_are_cut_and_the_server_ends_when_it_is_told_to() {
    let scene = Scene::start().await;
    let mut far = far(&scene);
    let answer = scene.upgrade("POST", "/exec/ns/web/main?output=1").await;
    let _near = hyper::upgrade::on(answer).await.unwrap();
    scene.stop.cancel();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), scene.served).await;
    ended.expect("the stream holds the server up").unwrap();
    assert_eq!(far.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(tokio::net::TcpStream::connect(scene.address).await.is_err(), "nobody listens");
}
