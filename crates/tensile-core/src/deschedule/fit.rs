// SPDX-License-Identifier: Apache-2.0
//! Where a pod would fit, as the multi-scheduler says: it knows every lower node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::placement::Malformed;
use crate::placement::raw::{self, Path};

/// How many pods like this one fit on each virtual node. A node that it says nothing of has no room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fit {
    replicas: BTreeMap<Arc<str>, u64>,
}

impl Fit {
    /// Reads the answer to `POST /fit`: `nodes` is a list with `node` and `replicas` of each virtual node. Without it the answer
    /// does not say that there is no room: it is none.
    pub fn read(answer: &Value) -> Result<Self, Malformed> {
        let answer_at = Path::Root("the answer");
        let at = answer_at.member("nodes");
        let list = raw::object(answer, answer_at)?.get("nodes").and_then(Value::as_array);
        let list = list.ok_or_else(|| at.must_be("a list"))?;
        let mut replicas = BTreeMap::new();
        for (index, item) in list.iter().enumerate() {
            let at = at.item(index);
            let members = raw::object(item, at)?;
            let node = raw::text(members, "node", at)?;
            let count = members.get("replicas").and_then(Value::as_u64);
            replicas.insert(node.into(), count.ok_or_else(|| at.member("replicas").must_be("a number"))?);
        }
        Ok(Self { replicas })
    }

    /// How many fit on the node.
    pub fn on(&self, node: &str) -> u64 {
        self.replicas.get(node).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_multi_schedulers_answer_is_read() {
        let fit = Fit::read(&json!({"namespace": "default", "pod": "web", "nodes": [
            {"node": "east", "cluster": "e", "fits": false, "replicas": 0, "reason": "0 of 3 nodes have 4 CPUs free"},
            {"node": "west", "fits": true, "lowerNode": "w-1", "score": 7, "replicas": 12},
        ]}))
        .unwrap();
        assert_eq!((fit.on("east"), fit.on("west"), fit.on("north")), (0, 12, 0));
    }

    #[test]
    fn what_is_no_answer_is_refused_by_its_place() {
        for (answer, words) in [
            (json!([]), "the answer must be an object"),
            (json!({}), "the answer.nodes must be a list"),
            (json!({"nodes": [1]}), "the answer.nodes[0] must be an object"),
            (json!({"nodes": [{"node": 1}]}), "the answer.nodes[0].node must be a string"),
            (json!({"nodes": [{"node": "a", "replicas": -1}]}), "the answer.nodes[0].replicas must be a number"),
        ] {
            assert_eq!(Fit::read(&answer).unwrap_err().to_string(), words);
        }
    }
}
