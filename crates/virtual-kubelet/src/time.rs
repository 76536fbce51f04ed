// SPDX-License-Identifier: Apache-2.0
//! Times as the API writes them.

use jiff::Timestamp;

/// In whole seconds, as `metav1.Time`.
pub(crate) fn in_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// In microseconds, as `metav1.MicroTime`.
pub(crate) fn in_micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
