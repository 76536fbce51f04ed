// SPDX-License-Identifier: Apache-2.0
//! Messages as tables, and any bytes at all.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn of(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[test]
fn a_message_means_what_its_channel_says() {
    use Protocol::{V4, V5};
    let size = |width, height| Said::Resized(TerminalSize { width, height });
    for (protocol, given, expected) in [
        (V4, &b"\x00hello"[..], Said::Stdin(of(b"hello"))),
        (V5, b"\x00hello", Said::Stdin(of(b"hello"))),
        (V5, b"\x00\x00\xff", Said::Stdin(of(b"\x00\xff"))),
        // Nothing on a channel is nothing, and no end.
        (V5, b"\x00", Said::Nothing),
        (V5, b"", Said::Nothing),
        // Half-close is v5's.
        (V5, b"\xff\x00", Said::StdinEnds),
        (V4, b"\xff\x00", Said::Nothing),
        (V5, b"\xff\x01", Said::Nothing),
        (V5, b"\xff", Said::Nothing),
        (V5, b"\xff\x00\x00", Said::Nothing),
        // kubectl ends it with a line feed.
        (V4, b"\x04{\"Width\":80,\"Height\":24}\n", size(80, 24)),
        (V5, b"\x04{\"width\":1,\"height\":65535,\"more\":0}", size(1, 65535)),
        (V5, b"\x04{\"Width\":80}", Said::Nothing),
        (V5, b"\x04{\"Width\":-1,\"Height\":24}", Said::Nothing),
        (V5, b"\x04", Said::Nothing),
        // Channels that are written to clients, and none at all.
        (V5, b"\x01x", Said::Nothing),
        (V5, b"\x02x", Said::Nothing),
        (V5, b"\x03x", Said::Nothing),
        (V5, b"\x05x", Said::Nothing),
        (V5, b"0aGVsbG8=", Said::Nothing),
    ] {
        assert_eq!(said(protocol, &of(given)), expected, "{protocol:?} {given:?}");
    }
}

#[test]
fn data_of_ports_have_the_even_channels() {
    for (given, expected) in [
        (&b"\x00a"[..], Some((0, of(b"a")))),
        (b"\x02b", Some((1, of(b"b")))),
        (b"\xfec", Some((127, of(b"c")))),
        (b"\x01a", None),
        (b"\xffa", None),
        (b"\x00", None),
        (b"", None),
    ] {
        assert_eq!(for_port(&of(given)), expected, "{given:?}");
    }
}

/// The texts are those of Kubernetes 1.36 (`apimachinery/pkg/api/errors`, `pkg/streaming/remotecommand/status.go`).
#[test]
fn the_end_of_a_process_is_a_status_on_the_error_channel() {
    let status = |exit: Result<i32, &str>| {
        let message = ended(exit);
        assert_eq!(message[0], 3);
        serde_json::from_slice::<Value>(&message[1..]).unwrap()
    };
    assert_eq!(status(Ok(0)), json!({"metadata": {}, "status": "Success"}));
    assert_eq!(
        status(Ok(137)),
        json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: exit code 137",
            "details": {"causes": [{"reason": "ExitCode", "message": "137"}]},
        })
    );
    assert_eq!(
        status(Err("no \"such\" command")),
        json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": "Internal error occurred: no \"such\" command",
            "details": {"causes": [{"message": "no \"such\" command"}]},
        })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes_mean_something_or_nothing(bytes: Vec<u8>, v5: bool) {
        let (given, protocol) = (of(&bytes), if v5 { Protocol::V5 } else { Protocol::V4 });
        match said(protocol, &given) {
            Said::Stdin(content) => prop_assert_eq!([&[0][..], &content].concat(), bytes.clone()),
            Said::StdinEnds => prop_assert!(v5 && bytes == [255, 0]),
            Said::Resized(_) => prop_assert_eq!(bytes[0], 4),
            Said::Nothing => prop_assert!(bytes.len() < 2 || bytes[0] != 0),
        }
        if let Some((index, content)) = for_port(&given) {
            prop_assert_eq!(usize::from(bytes[0]), 2 * index);
            prop_assert_eq!(&content[..], &bytes[1..]);
        }
    }

    #[test]
    fn any_size_of_a_terminal_is_read(width: u16, height: u16, space in "[ \n]{0,3}") {
        let text = format!("\u{4}{space}{{\"Height\":{height},{space}\"Width\":{width}}}{space}");
        prop_assert_eq!(said(Protocol::V4, &of(text.as_bytes())), Said::Resized(TerminalSize { width, height }));
    }

    #[test]
    fn a_message_is_its_channel_and_its_content(channel: u8, content: Vec<u8>) {
        let built = message(channel, &content);
        prop_assert_eq!((built[0], &built[1..]), (channel, &content[..]));
    }
}
