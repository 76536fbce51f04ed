// SPDX-License-Identifier: Apache-2.0
//! What goes through when both ends behave.

use super::{
    super::{ContainerIo, OverWebSocket, PodId, TerminalSize},
    scene::{Backend, connect, exec, hear, rest, say},
};

const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

fn text(parts: &[(u8, &str)]) -> Vec<(u8, String)> {
    parts.iter().map(|(channel, text)| (*channel, (*text).to_owned())).collect()
}

#[tokio::test]
async fn what_is_said_comes_back_and_half_a_close_ends_the_process() {
    let mut client = connect(&Backend::default().into(), "v5.channel.k8s.io", exec("cat", "io")).await.unwrap();
    assert_eq!(hear(&mut client).await, [1], "connected, on the lowest channel");
    say(&mut client, b"\x00one ").await;
    assert_eq!(hear(&mut client).await, b"\x01one ");
    say(&mut client, b"\x00two").await;
    say(&mut client, b"\xff\x00").await;
    assert_eq!(rest(&mut client).await, (text(&[(1, "two"), (3, SUCCESS)]), Some(1000)));
}

#[tokio::test]
async fn a_process_ends_with_its_code_after_all_of_its_output() {
    let mut client = connect(&Backend::default().into(), "v4.channel.k8s.io", exec("exit 3", "oe")).await.unwrap();
    let (channels, code) = rest(&mut client).await;
    assert_eq!(channels[..2], text(&[(1, "out\n"), (2, "err\n")]));
    assert!(channels[2].1.contains(r#"{"message":"3","reason":"ExitCode"}"#), "{channels:?}");
    assert_eq!((channels[2].0, code), (3, Some(1000)));
}

#[tokio::test]
async fn the_first_message_is_on_the_lowest_channel_that_is_heard() {
    for (streams, channel) in [("oe", 1), ("e", 2), ("i", 3)] {
        let client = connect(&Backend::default().into(), "v4.channel.k8s.io", exec("exit 0", streams)).await;
        assert_eq!(hear(&mut client.unwrap()).await, [channel], "{streams}");
    }
}

#[tokio::test]
async fn why_a_process_has_no_code_is_told_in_the_stream() {
    let mut client = connect(&Backend::default().into(), "v5.channel.k8s.io", exec("nonsense", "o")).await.unwrap();
    let (channels, code) = rest(&mut client).await;
    assert!(channels[1].1.contains("Internal error occurred: no such command"), "{channels:?}");
    assert_eq!(code, Some(1000));
}

#[tokio::test]
async fn what_is_known_before_is_the_answer_to_the_request() {
    let mut target = exec("cat", "io");
    if let super::super::UpgradeTarget::Exec { container, .. } = &mut target {
        *container = "absent".to_owned();
    }
    let error = connect(&Backend::default().into(), "v5.channel.k8s.io", target).await.err().unwrap();
    assert_eq!(
        (error.status().as_u16(), error.to_string().as_str()),
        (404, r#"container "absent" not found in pod "web""#)
    );
}

#[tokio::test]
async fn the_size_of_the_terminal_goes_to_the_process() {
    let backend = std::sync::Arc::new(Backend::default());
    let mut client = connect(&backend, "v5.channel.k8s.io", exec("stty", "iot")).await.unwrap();
    say(&mut client, b"\x04{\"Width\":132,\"Height\":43}\n").await;
    assert_eq!(rest(&mut client).await.0[1].1, SUCCESS);
    assert_eq!(*backend.size.lock().unwrap(), Some(TerminalSize { width: 132, height: 43 }));
}

#[tokio::test]
async fn a_process_without_a_session_gives_its_output_or_the_reason_why_not() {
    let (provider, pod) = (OverWebSocket::new(std::sync::Arc::new(Backend::default())), PodId::new("ns", "web", "uid"));
    let run = async |container: &str, words: &[&str]| {
        let words: Vec<String> = words.iter().copied().map(str::to_owned).collect();
        let ran = provider.run(&pod, container, &words).await;
        ran.map_err(|error| (error.status().as_u16(), error.to_string()))
    };
    let output = run("main", &["exit", "0"]).await.unwrap();
    assert!(matches!(&output[..], b"out\nerr\n" | b"err\nout\n"), "{output:?}");
    let failed = |words: &str| Err((500, words.to_owned()));
    assert_eq!(run("main", &["exit", "3"]).await, failed("command terminated with exit code 3"));
    assert_eq!(run("main", &["nonsense"]).await, failed("no such command"));
    assert_eq!(run("main", &["yes"]).await, failed("the output is longer than 1 MiB"));
    assert_eq!(run("absent", &["exit", "0"]).await.unwrap_err().0, 404);
}

#[tokio::test]
async fn each_port_has_its_channels_and_its_own_error() {
    let target = super::super::UpgradeTarget::PortForward { ports: vec![80, 81, 443] };
    let mut client = connect(&Backend::default().into(), "v4.channel.k8s.io", target).await.unwrap();
    let mut numbers = Vec::new();
    while numbers.len() < 7 {
        numbers.push(hear(&mut client).await);
    }
    let error = [b"\x03", "error forwarding port 81 to pod web: connection refused".as_bytes()].concat();
    assert_eq!(
        numbers,
        [vec![0, 80, 0], vec![1, 80, 0], vec![2, 81, 0], vec![3, 81, 0], error, vec![4, 0xbb, 1], vec![5, 0xbb, 1]]
    );
    say(&mut client, b"\x00a.").await;
    say(&mut client, b"\x02nobody hears this").await;
    say(&mut client, b"\x04b.").await;
    assert_eq!(rest(&mut client).await, (text(&[(0, "80A"), (4, "443B")]), Some(1000)));
}

#[tokio::test]
async fn ports_that_are_none_or_too_many_are_refused() {
    for (ports, words) in [(vec![], "names no port"), (vec![80; 17], "17 ports are more than 16")] {
        let target = super::super::UpgradeTarget::PortForward { ports };
        let error = connect(&Backend::default().into(), "v4.channel.k8s.io", target).await.err().unwrap();
        assert!(error.status() == 400 && error.to_string().contains(words), "{error}");
    }
}
