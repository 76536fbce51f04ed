//! JSON as Go's `encoding/json` writes the core API's types: members in the order of the struct, empty ones omitted.

use serde_json::{Map, Value};

/// How a value is written.
enum Shape {
    /// As it is; a map's keys in byte order.
    Plain,
    /// Each element in this shape.
    List(&'static Shape),
    /// The named members first, in this order, then any others in byte order.
    Struct(&'static [Member]),
}

/// A member of a Go struct.
struct Member {
    name: &'static str,
    shape: Shape,
    /// Whether it is written even when empty (the Go tag lacks `omitempty`).
    always: bool,
}

const fn omit_empty(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, always: false }
}

const fn always(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, always: true }
}

const REQUIREMENT: Shape =
    Shape::Struct(&[always("key", Shape::Plain), always("operator", Shape::Plain), omit_empty("values", Shape::Plain)]);
const TERM: Shape = Shape::Struct(&[
    omit_empty("matchExpressions", Shape::List(&REQUIREMENT)),
    omit_empty("matchFields", Shape::List(&REQUIREMENT)),
]);
const PREFERRED_TERM: Shape = Shape::Struct(&[always("weight", Shape::Plain), always("preference", TERM)]);
const NODE_AFFINITY: Shape = Shape::Struct(&[
    omit_empty(
        "requiredDuringSchedulingIgnoredDuringExecution",
        Shape::Struct(&[always("nodeSelectorTerms", Shape::List(&TERM))]),
    ),
    omit_empty("preferredDuringSchedulingIgnoredDuringExecution", Shape::List(&PREFERRED_TERM)),
]);
const LABEL_SELECTOR: Shape = Shape::Struct(&[
    omit_empty("matchLabels", Shape::Plain),
    omit_empty("matchExpressions", Shape::List(&REQUIREMENT)),
]);
const POD_TERM: Shape = Shape::Struct(&[
    omit_empty("labelSelector", LABEL_SELECTOR),
    omit_empty("namespaces", Shape::Plain),
    always("topologyKey", Shape::Plain),
    omit_empty("namespaceSelector", LABEL_SELECTOR),
    omit_empty("matchLabelKeys", Shape::Plain),
    omit_empty("mismatchLabelKeys", Shape::Plain),
]);
const WEIGHTED_POD_TERM: Shape = Shape::Struct(&[always("weight", Shape::Plain), always("podAffinityTerm", POD_TERM)]);
const POD_AFFINITY: Shape = Shape::Struct(&[
    omit_empty("requiredDuringSchedulingIgnoredDuringExecution", Shape::List(&POD_TERM)),
    omit_empty("preferredDuringSchedulingIgnoredDuringExecution", Shape::List(&WEIGHTED_POD_TERM)),
]);
const AFFINITY: Shape = Shape::Struct(&[
    omit_empty("nodeAffinity", NODE_AFFINITY),
    omit_empty("podAffinity", POD_AFFINITY),
    omit_empty("podAntiAffinity", POD_AFFINITY),
]);
const TOLERATION: Shape = Shape::Struct(&[
    omit_empty("key", Shape::Plain),
    omit_empty("operator", Shape::Plain),
    omit_empty("value", Shape::Plain),
    omit_empty("effect", Shape::Plain),
    omit_empty("tolerationSeconds", Shape::Plain),
]);
const SPREAD_CONSTRAINT: Shape = Shape::Struct(&[
    always("maxSkew", Shape::Plain),
    always("topologyKey", Shape::Plain),
    always("whenUnsatisfiable", Shape::Plain),
    omit_empty("labelSelector", LABEL_SELECTOR),
    omit_empty("minDomains", Shape::Plain),
    omit_empty("nodeAffinityPolicy", Shape::Plain),
    omit_empty("nodeTaintsPolicy", Shape::Plain),
    omit_empty("matchLabelKeys", Shape::Plain),
]);
const STASH: &[Member] = &[
    omit_empty("nodeSelector", Shape::Plain),
    omit_empty("affinity", AFFINITY),
    omit_empty("tolerations", Shape::List(&TOLERATION)),
    omit_empty("requiredTerms", Shape::List(&TERM)),
    omit_empty("preferredTerms", Shape::List(&PREFERRED_TERM)),
    omit_empty("topologySpreadConstraints", Shape::List(&SPREAD_CONSTRAINT)),
];

/// The members of a stash as compact JSON.
pub(super) fn encode(stash: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_struct(&mut text, stash, STASH);
    // Go escapes these for HTML and JavaScript. In JSON text they occur only inside strings.
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn write(out: &mut String, value: &Value, shape: &Shape) {
    match (shape, value) {
        (Shape::Struct(members), Value::Object(object)) => write_struct(out, object, members),
        (Shape::List(shape), Value::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item, shape);
            }
            out.push(']');
        }
        (Shape::Plain, Value::Object(object)) => write_struct(out, object, &[]),
        // What has not the expected type is written as it is: a codec does not repair.
        _ => out.push_str(&value.to_string()),
    }
}

fn write_struct(out: &mut String, object: &Map<String, Value>, members: &[Member]) {
    let mut others: Vec<_> = object.iter().filter(|(name, _)| members.iter().all(|m| m.name != *name)).collect();
    others.sort_unstable_by_key(|(name, _)| *name);
    let known = members.iter().filter_map(|member| {
        let value = object.get(member.name)?;
        (member.always || !is_omitted(value, &member.shape)).then_some((member.name, value, &member.shape))
    });
    let others = others.into_iter().map(|(name, value)| (name.as_str(), value, &Shape::Plain));

    out.push('{');
    for (index, (name, value, shape)) in known.chain(others).enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&Value::from(name).to_string());
        out.push(':');
        write(out, value, shape);
    }
    out.push('}');
}

/// What `omitempty` leaves out: nil, `""`, empty slices and maps; not a pointer to an empty struct.
fn is_omitted(value: &Value, shape: &Shape) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && !matches!(shape, Shape::Struct(_)),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
