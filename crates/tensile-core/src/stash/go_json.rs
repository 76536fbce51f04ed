// SPDX-License-Identifier: Apache-2.0
//! JSON as Go's `encoding/json` writes the core API's types: members in the order of their struct.
//!
//! What an API server sends has no empty members, so that there are none to omit here: values are written as they are.

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

/// A member of a Go struct, and how its value is written.
type Member = (&'static str, Shape);

const REQUIREMENT: Shape =
    Shape::Struct(&[("key", Shape::Plain), ("operator", Shape::Plain), ("values", Shape::Plain)]);
const TERM: Shape =
    Shape::Struct(&[("matchExpressions", Shape::List(&REQUIREMENT)), ("matchFields", Shape::List(&REQUIREMENT))]);
const PREFERRED_TERM: Shape = Shape::Struct(&[("weight", Shape::Plain), ("preference", TERM)]);
const NODE_AFFINITY: Shape = Shape::Struct(&[
    ("requiredDuringSchedulingIgnoredDuringExecution", Shape::Struct(&[("nodeSelectorTerms", Shape::List(&TERM))])),
    ("preferredDuringSchedulingIgnoredDuringExecution", Shape::List(&PREFERRED_TERM)),
]);
const LABEL_SELECTOR: Shape =
    Shape::Struct(&[("matchLabels", Shape::Plain), ("matchExpressions", Shape::List(&REQUIREMENT))]);
const POD_TERM: Shape = Shape::Struct(&[
    ("labelSelector", LABEL_SELECTOR),
    ("namespaces", Shape::Plain),
    ("topologyKey", Shape::Plain),
    ("namespaceSelector", LABEL_SELECTOR),
    ("matchLabelKeys", Shape::Plain),
    ("mismatchLabelKeys", Shape::Plain),
]);
const WEIGHTED_POD_TERM: Shape = Shape::Struct(&[("weight", Shape::Plain), ("podAffinityTerm", POD_TERM)]);
const POD_AFFINITY: Shape = Shape::Struct(&[
    ("requiredDuringSchedulingIgnoredDuringExecution", Shape::List(&POD_TERM)),
    ("preferredDuringSchedulingIgnoredDuringExecution", Shape::List(&WEIGHTED_POD_TERM)),
]);
const AFFINITY: Shape =
    Shape::Struct(&[("nodeAffinity", NODE_AFFINITY), ("podAffinity", POD_AFFINITY), ("podAntiAffinity", POD_AFFINITY)]);
const TOLERATION: Shape = Shape::Struct(&[
    ("key", Shape::Plain),
    ("operator", Shape::Plain),
    ("value", Shape::Plain),
    ("effect", Shape::Plain),
    ("tolerationSeconds", Shape::Plain),
]);
const SPREAD_CONSTRAINT: Shape = Shape::Struct(&[
    ("maxSkew", Shape::Plain),
    ("topologyKey", Shape::Plain),
    ("whenUnsatisfiable", Shape::Plain),
    ("labelSelector", LABEL_SELECTOR),
    ("minDomains", Shape::Plain),
    ("nodeAffinityPolicy", Shape::Plain),
    ("nodeTaintsPolicy", Shape::Plain),
    ("matchLabelKeys", Shape::Plain),
]);
const STASH: &[Member] = &[
    ("nodeSelector", Shape::Plain),
    ("affinity", AFFINITY),
    ("tolerations", Shape::List(&TOLERATION)),
    ("requiredTerms", Shape::List(&TERM)),
    ("preferredTerms", Shape::List(&PREFERRED_TERM)),
    ("topologySpreadConstraints", Shape::List(&SPREAD_CONSTRAINT)),
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
    let mut others: Vec<_> = object.iter().filter(|(name, _)| members.iter().all(|(known, _)| known != name)).collect();
    others.sort_unstable_by_key(|(name, _)| *name);
    let known = members.iter().filter_map(|(name, shape)| object.get(*name).map(|value| (*name, value, shape)));
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
