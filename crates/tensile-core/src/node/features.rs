// SPDX-License-Identifier: Apache-2.0
//! What the node declares that it can do (`status.declaredFeatures`, read by API servers from 1.36 on).

/// WebSocket requests for exec, attach and port-forward may come to the node as clients sent them, in the newest
/// protocols; otherwise the upper API server translates them to SPDY first.
pub(super) const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

/// From this minor version on, an API server serves all of these protocols itself: `v5.channel.k8s.io` since 1.30
/// (feature gate `TranslateStreamCloseWebsocketRequests`), the tunnel of port-forward since 1.31
/// (`PortForwardWebsockets`).
const SERVED_SINCE: u32 = 31;

/// Whether a lower API server of this version (`v1.36.3`) serves what [`WEBSOCKETS`] promises, so that relaying is enough.
///
/// One that has the gates switched off refuses the upgrade; kubectl then falls back to SPDY.
pub(super) fn serves_websockets(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next(), parts.next().map(|minor| minor.trim_end_matches('+')));
    major == Some("1") && minor.and_then(|minor| minor.parse().ok()).is_some_and(|minor: u32| minor >= SERVED_SINCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_clusters_that_serve_the_newest_protocols_are_promised_to() {
        for version in ["v1.36.3", "v1.31.0", "1.33.5-gke.1080000", "v1.35+", "v1.100.0"] {
            assert!(serves_websockets(version), "{version}");
        }
        for version in ["", "v1", "v1.30.14", "v1.9.3", "v2.31.0", "unknown", "v1.x.3"] {
            assert!(!serves_websockets(version), "{version}");
        }
    }
}
