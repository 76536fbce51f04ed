// SPDX-License-Identifier: Apache-2.0
//! What happens when an end does not behave: it leaves, it does not read, it says what is no message.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use super::scene::{Backend, connect, exec, hear, raw, rest, say};

#[tokio::test]
async fn a_process_is_dropped_when_its_client_leaves_with_or_without_farewell() {
    for farewell in [true, false] {
        let backend = Arc::new(Backend::default());
        let dropped = backend.until_dropped();
        let mut client = connect(&backend, "v5.channel.k8s.io", exec("sleep", "io")).await.unwrap();
        hear(&mut client).await;
        if farewell {
            client.close(None).await.unwrap();
        }
        drop(client);
        dropped.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_left_is_noticed_while_nobody_reads_what_it_said() {
    let backend = Arc::new(Backend::default());
    let dropped = backend.until_dropped();
    let mut client = connect(&backend, "v5.channel.k8s.io", exec("sleep", "io")).await.unwrap();
    // More than all pipes hold: from here on the session does not read.
    let full = async {
        loop {
            say(&mut client, &[0; 1000]).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), full).await.is_err(), "there is no end to what it takes");
    drop(client);
    dropped.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_waits_for_a_client_that_does_not_read() {
    let backend = Arc::new(Backend::default());
    let mut client = connect(&backend, "v4.channel.k8s.io", exec("yes", "o")).await.unwrap();
    // The clock is paused: it moves on when nobody can do anything else.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let written = backend.written.load(Ordering::Relaxed);
    assert!((1000..=128 * 1024).contains(&written), "{written} bytes are held");
    let mut read = 0;
    while read < 10 * written {
        read += hear(&mut client).await.len() - 1;
    }
    assert!(backend.written.load(Ordering::Relaxed) >= 9 * written, "it goes on");
}

#[tokio::test]
async fn a_ping_is_answered_and_a_text_is_a_message_too() {
    let mut client = connect(&Backend::default().into(), "v5.channel.k8s.io", exec("cat", "io")).await.unwrap();
    hear(&mut client).await;
    client.send(Message::Ping(Bytes::from_static(b"?"))).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"?")));
    client.send(Message::text("\0text")).await.unwrap();
    assert_eq!(hear(&mut client).await, b"\x01text");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_asked_whether_it_lives() {
    let mut client = connect(&Backend::default().into(), "v5.channel.k8s.io", exec("sleep", "io")).await.unwrap();
    hear(&mut client).await;
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Ping(Bytes::new()));
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_session_and_says_so() {
    let backend = Arc::new(Backend::default());
    let dropped = backend.until_dropped();
    let mut client = connect(&backend, "v5.channel.k8s.io", exec("sleep", "o")).await.unwrap();
    let long = vec![0; 1024 * 1024 + 1];
    // It may be refused before all of it is written.
    drop(client.send(Message::Binary(long.into())).await);
    assert_eq!(rest(&mut client).await.1, Some(1009));
    dropped.await.unwrap();
}

#[tokio::test]
async fn what_is_said_after_the_end_is_read_and_passed_over() {
    let mut client = connect(&Backend::default().into(), "v5.channel.k8s.io", exec("exit 0", "io")).await.unwrap();
    for _ in 0..1000 {
        if client.send(Message::Binary(Bytes::from_static(&[0; 1000]))).await.is_err() {
            break;
        }
    }
    let (channels, code) = rest(&mut client).await;
    assert_eq!((channels[0].1.as_str(), code), ("out\n", Some(1000)), "its output is not lost");
}

/// Bytes as they may come: at random, or frames of any kind that are masked as a client's have to be.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..126)).prop_map(|(first, payload)| {
        let length = 0x80 | u8::try_from(payload.len()).unwrap();
        [&[first, length, 0, 0, 0, 0], &payload[..]].concat()
    });
    let frames = proptest::collection::vec(frame, 0..8).prop_map(|frames| frames.concat());
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..512), frames]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_bytes_break_a_session(bytes in bytes(), forward: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let target = if forward {
                super::super::UpgradeTarget::PortForward { ports: vec![80, 443] }
            } else {
                exec("cat", "ioe")
            };
            let mut stream = raw(&Backend::default().into(), "v4.channel.k8s.io", target).await.unwrap();
            // It may be closed early: then the rest is not wanted.
            drop(stream.write_all(&bytes).await);
            drop(stream.shutdown().await);
            let mut heard = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut heard)).await;
            prop_assert!(ended.is_ok(), "the session goes on without its client");
            Ok(())
        })?;
    }
}
