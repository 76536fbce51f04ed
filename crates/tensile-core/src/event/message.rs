// SPDX-License-Identifier: Apache-2.0
//! Names in the text of an event.

/// `message` with each name of `names` (below, upstairs) that stands there by itself replaced by the one upstairs.
pub(super) fn renamed(message: &str, names: &[(String, String)]) -> String {
    let mut upper = String::with_capacity(message.len());
    let mut rest = message;
    while !rest.is_empty() {
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        // The full stop of a sentence belongs to no name.
        let name = run.trim_end_matches('.');
        let found = names.iter().find(|(below, _)| below == name).map(|(_, above)| above.as_str());
        upper.push_str(found.unwrap_or(name));
        upper.push_str(&run[name.len()..]);
        let between = after.find(in_name).unwrap_or(after.len());
        upper.push_str(&after[..between]);
        rest = &after[between..];
    }
    upper
}

/// What names of objects are made of, and what would make a longer word of one.
fn in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '.' | '_')
}
