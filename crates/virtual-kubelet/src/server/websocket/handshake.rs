// SPDX-License-Identifier: Apache-2.0
//! Whether an upgrade is one that is spoken here, and the answer to it (RFC 6455, section 4.2).

use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{
    super::{IoError, UpgradeRequest, UpgradeTarget},
    channels::Protocol,
};

/// The protocol and the headers of the 101.
///
/// Of the protocols that the client offers, the first that is spoken. What is not spoken gets no 101, so that a client
/// that knows other ways tries them, and its user reads which are left.
pub(super) fn accept(request: &UpgradeRequest) -> Result<(Protocol, HeaderMap), IoError> {
    let refused = |message: String| IoError::Refused { status: StatusCode::BAD_REQUEST, message };
    let name = request.target.name();
    let header = |name| request.headers.get(&name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !header(UPGRADE).eq_ignore_ascii_case("websocket") {
        return Err(IoError::Unsupported(
            "SPDY, only WebSocket: the API server has to be Kubernetes 1.36 or newer, or the client has to offer \
             v4.channel.k8s.io",
        ));
    }
    if request.method != Method::GET || header(SEC_WEBSOCKET_VERSION) != "13" {
        return Err(refused(format!("{name}: a WebSocket is opened with GET and version 13")));
    }
    let key = header(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Err(refused(format!("{name}: the WebSocket key is missing")));
    }
    let spoken: &[Protocol] = match request.target {
        UpgradeTarget::PortForward { .. } => &[Protocol::V4],
        UpgradeTarget::Exec { .. } | UpgradeTarget::Attach { .. } => &[Protocol::V5, Protocol::V4],
    };
    let offers = request.headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let mut offers = offers.flat_map(|list| list.split(',')).map(str::trim);
    let protocol = offers.find_map(|offer| spoken.iter().copied().find(|protocol| protocol.name() == offer));
    let protocol = protocol.ok_or_else(|| {
        let spoken: Vec<&str> = spoken.iter().map(|protocol| protocol.name()).collect();
        refused(format!("{name}: the client offers none of the protocols that this node speaks: {}", spoken.join(", ")))
    })?;
    let answer = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    let answer = answer.map_err(|error| refused(error.to_string()))?;
    let headers = [
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, answer),
        (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol.name())),
    ];
    Ok((protocol, headers.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pod::PodId, server::options::Streams};

    fn exec() -> UpgradeTarget {
        UpgradeTarget::Exec { container: "main".to_owned(), command: vec![], streams: Streams::default() }
    }

    fn request(target: UpgradeTarget, method: Method, headers: &[(&'static str, &'static str)]) -> UpgradeRequest {
        let header = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        // Repeated names are kept: an iterator of pairs appends.
        UpgradeRequest {
            pod: PodId::new("ns", "web", "uid"),
            target,
            method,
            headers: headers.iter().map(header).collect(),
        }
    }

    /// The key and its answer are the example of RFC 6455, section 1.3.
    const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    const UPGRADES: (&str, &str) = ("upgrade", "WebSocket");
    const VERSION: (&str, &str) = ("sec-websocket-version", "13");

    #[test]
    fn the_first_offer_that_is_spoken_is_taken() {
        for (target, offers, expected) in [
            (exec(), "v5.channel.k8s.io", Some("v5.channel.k8s.io")),
            (exec(), "v4.channel.k8s.io,v5.channel.k8s.io", Some("v4.channel.k8s.io")),
            (exec(), "v9.channel.k8s.io,  v5.channel.k8s.io, v4.channel.k8s.io", Some("v5.channel.k8s.io")),
            (exec(), "channel.k8s.io,base64.channel.k8s.io,v4.base64.channel.k8s.io", None),
            (exec(), "", None),
            (UpgradeTarget::PortForward { ports: vec![80] }, "v4.channel.k8s.io", Some("v4.channel.k8s.io")),
            (UpgradeTarget::PortForward { ports: vec![] }, "SPDY/3.1+portforward.k8s.io", None),
            (UpgradeTarget::PortForward { ports: vec![80] }, "v5.channel.k8s.io", None),
        ] {
            let given = request(target, Method::GET, &[UPGRADES, VERSION, KEY, ("sec-websocket-protocol", offers)]);
            match (accept(&given), expected) {
                (Ok((protocol, headers)), Some(expected)) => {
                    assert_eq!(protocol.name(), expected);
                    assert_eq!(headers["sec-websocket-protocol"], expected);
                    assert_eq!(headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
                    assert_eq!(
                        (&headers["upgrade"], &headers["connection"]),
                        (&"websocket".parse().unwrap(), &"Upgrade".parse().unwrap())
                    );
                }
                (Err(error), None) => {
                    assert_eq!(error.status(), 400);
                    assert!(error.to_string().contains("this node speaks: v"), "{error}");
                }
                (outcome, expected) => panic!("{offers}: {outcome:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn spdy_is_refused_with_what_helps() {
        let given = request(
            exec(),
            Method::POST,
            &[("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v4.channel.k8s.io")],
        );
        let error = accept(&given).unwrap_err();
        assert_eq!(error.status(), 501);
        assert!(error.to_string().starts_with("this node does not support SPDY, only WebSocket: "), "{error}");
    }

    #[test]
    fn half_a_handshake_is_refused() {
        let offer = ("sec-websocket-protocol", "v4.channel.k8s.io");
        for (method, headers) in [
            (Method::POST, vec![UPGRADES, VERSION, KEY, offer]),
            (Method::GET, vec![UPGRADES, KEY, offer]),
            (Method::GET, vec![UPGRADES, ("sec-websocket-version", "8"), KEY, offer]),
            (Method::GET, vec![UPGRADES, VERSION, offer]),
        ] {
            let error = accept(&request(exec(), method, &headers)).unwrap_err();
            assert_eq!(error.status(), 400, "{headers:?}");
        }
    }
}
