// SPDX-License-Identifier: Apache-2.0
//! Clients that misbehave before they have asked for anything.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::scene::Scene;

async fn raw(scene: &Scene, request: &[u8]) -> String {
    let mut connection = scene.dial(None).await;
    // The server may answer and close before it has read everything; what came until then counts.
    drop(connection.write_all(request).await);
    let mut answer = Vec::new();
    drop(connection.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_head_that_is_too_big_is_refused() {
    let scene = Scene::start().await;
    let many = "x: 1\r\n".repeat(200);
    let answer = raw(&scene, format!("GET /pods HTTP/1.1\r\nhost: v\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let long = "a".repeat(1024 * 1024);
    let answer = raw(&scene, format!("GET /pods HTTP/1.1\r\nhost: v\r\nx: {long}\r\n\r\n").as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let answer = raw(&scene, format!("GET /{} HTTP/1.1\r\nhost: v\r\n\r\n", &long[..70_000]).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 414 "), "{answer}");
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let scene = Scene::start().await;
    let answer = raw(&scene, b"\x00\x01garbage\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn who_does_not_finish_a_handshake_holds_up_nobody() {
    let scene = Scene::start().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(scene.address).await.unwrap());
    }
    let mut rude = TcpStream::connect(scene.address).await.unwrap();
    rude.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(scene.full("GET", "/healthz").await, (200, "ok".to_owned()));
}
