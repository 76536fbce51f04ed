// SPDX-License-Identifier: Apache-2.0
//! What a kube-scheduler and its extender say to each other, in version 1 (`k8s.io/kube-scheduler/extender/v1`).
//!
//! The structs of Go carry no JSON names, so the members are called as there, and what is absent is `null`. The pod and
//! the nodes are ordinary objects of the API.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The question of `filter` and `prioritize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Arguments<'a> {
    /// The pod to place.
    #[serde(default)]
    pod: Option<Value>,
    /// The nodes to choose from, if the extender keeps none itself.
    #[serde(borrow, default)]
    nodes: Option<NodeList<'a>>,
    /// Their names, if it does (`nodeCacheCapable`).
    #[serde(borrow, default)]
    node_names: Option<Vec<Cow<'a, str>>>,
}

#[derive(Debug, Deserialize)]
struct NodeList<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// It is not of the wire format.
    #[error("the body is no ExtenderArgs: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is about no pod.
    #[error("ExtenderArgs has no Pod")]
    NoPod,
    /// It is about no nodes.
    #[error("ExtenderArgs has neither NodeNames nor Nodes")]
    NoNodes,
}

/// Pod and nodes of a question.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The pod.
    pub pod: Value,
    /// Where it could go.
    pub candidates: Candidates<'a>,
}

/// The nodes to choose from, in the form that the answer has to have too.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// By name.
    Names(Vec<Cow<'a, str>>),
    /// Whole, each with its name.
    Nodes(Vec<(String, &'a RawValue)>),
}

impl Candidates<'_> {
    /// The names.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Names(names) => names.iter().map(AsRef::as_ref).collect(),
            Self::Nodes(nodes) => nodes.iter().map(|(name, _)| name.as_str()).collect(),
        }
    }
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Name<'a>,
}

#[derive(Deserialize)]
struct Name<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl<'a> Asked<'a> {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// When it is not of the wire format, or lacks what every question has.
    pub fn read(body: &'a [u8]) -> Result<Self, ArgumentsError> {
        let arguments: Arguments<'a> = serde_json::from_slice(body)?;
        let pod = arguments.pod.filter(Value::is_object).ok_or(ArgumentsError::NoPod)?;
        let candidates = match (arguments.node_names, arguments.nodes) {
            (Some(names), _) => Candidates::Names(names),
            (None, Some(list)) => {
                let named = |node: &'a RawValue| {
                    let Named { metadata } = serde_json::from_str(node.get())?;
                    Ok((metadata.name.into_owned(), node))
                };
                let nodes = list.items.unwrap_or_default().into_iter().map(named);
                Candidates::Nodes(nodes.collect::<Result<_, serde_json::Error>>()?)
            }
            (None, None) => return Err(ArgumentsError::NoNodes),
        };
        Ok(Self { pod, candidates })
    }
}

/// The answer of `filter`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult<'a> {
    nodes: Option<Items<'a>>,
    node_names: Option<Vec<&'a str>>,
    failed_nodes: BTreeMap<&'a str, String>,
    failed_and_unresolvable_nodes: BTreeMap<&'a str, String>,
    error: String,
}

/// An empty object.
#[derive(Debug, Serialize)]
struct Empty {}

/// A `NodeList`.
#[derive(Debug, Serialize)]
struct Items<'a> {
    metadata: Empty,
    items: Vec<&'a RawValue>,
}

impl<'a> FilterResult<'a> {
    /// The candidates without those that are `refused`, each for its reason. All of these count as unresolvable: for
    /// others kube-scheduler would look for pods to preempt upstairs, which frees nothing below.
    pub fn new(candidates: &'a Candidates<'_>, refused: BTreeMap<&'a str, String>) -> Self {
        let (mut nodes, mut node_names) = (None, None);
        match candidates {
            Candidates::Names(names) => {
                let passed = names.iter().map(AsRef::as_ref).filter(|name| !refused.contains_key(name));
                node_names = Some(passed.collect());
            }
            Candidates::Nodes(all) => {
                let passed = all.iter().filter(|(name, _)| !refused.contains_key(name.as_str()));
                nodes = Some(Items { metadata: Empty {}, items: passed.map(|(_, node)| *node).collect() });
            }
        }
        Self { nodes, node_names, failed_and_unresolvable_nodes: refused, ..Self::default() }
    }

    /// No answer: the scheduler tries the pod again later.
    pub fn error(error: impl Into<String>) -> Self {
        Self { error: error.into(), ..Self::default() }
    }
}

/// How good a node is: one entry of the answer of `prioritize`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority<'a> {
    /// The node.
    pub host: &'a str,
    /// From 0 to 10, more is better.
    pub score: u8,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(result: &FilterResult<'_>) -> String {
        serde_json::to_string(result).unwrap()
    }

    #[test]
    fn names_are_answered_with_names_in_the_members_of_go() {
        let asked = Asked::read(br#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}"#).unwrap();
        assert_eq!(asked.candidates.names(), ["a", "b"]);
        let refused = BTreeMap::from([("b", "full".to_owned())]);
        assert_eq!(
            text(&FilterResult::new(&asked.candidates, refused)),
            r#"{"Nodes":null,"NodeNames":["a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"full"},"Error":""}"#
        );
    }

    #[test]
    fn nodes_are_answered_with_the_same_nodes_whatever_they_hold() {
        let node = |name: &str| json!({"metadata": {"name": name}, "spec": {"later": [1.50]}}).to_string();
        let body = format!(r#"{{"Pod":{{}},"Nodes":{{"items":[{},{}]}},"NodeNames":null}}"#, node("a"), node("b"));
        let asked = Asked::read(body.as_bytes()).unwrap();
        let refused = BTreeMap::from([("a", "no".to_owned())]);
        let answer = text(&FilterResult::new(&asked.candidates, refused));
        let expected = format!(r#"{{"Nodes":{{"metadata":{{}},"items":[{}]}},"NodeNames":null,"#, node("b"));
        assert!(answer.starts_with(&expected), "{answer}");
    }

    #[test]
    fn all_may_be_refused_and_the_list_of_names_is_still_a_list() {
        let asked = Asked::read(br#"{"Pod":{},"NodeNames":[]}"#).unwrap();
        assert!(text(&FilterResult::new(&asked.candidates, BTreeMap::new())).contains(r#""NodeNames":[]"#));
    }

    #[test]
    fn an_error_has_no_nodes() {
        assert_eq!(
            text(&FilterResult::error("not yet")),
            r#"{"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":"not yet"}"#
        );
    }

    #[test]
    fn priorities_are_a_bare_list() {
        let all = [HostPriority { host: "a", score: 7 }];
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"[{"Host":"a","Score":7}]"#);
    }

    #[test]
    fn what_is_no_question_says_why() {
        for (body, why) in [
            (&b""[..], "EOF"),
            (br#"{"Pod":{},"NodeNames":["a""#, "EOF"),
            (br#"{"NodeNames":["a"]}"#, "has no Pod"),
            (br#"{"Pod":null,"NodeNames":["a"]}"#, "has no Pod"),
            (br#"{"Pod":[],"NodeNames":["a"]}"#, "has no Pod"),
            (br#"{"Pod":{}}"#, "neither NodeNames nor Nodes"),
            (br#"{"Pod":{},"NodeNames":[1]}"#, "invalid type"),
            (br#"{"Pod":{},"Nodes":{"items":[{"metadata":{}}]}}"#, "missing field"),
        ] {
            let told = Asked::read(body).unwrap_err().to_string();
            assert!(told.contains(why), "{told}");
        }
    }
}
