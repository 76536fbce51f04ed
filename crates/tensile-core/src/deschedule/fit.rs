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
    /// Reads the answer to `POST /fit`: a list with `node` and `replicas` of each virtual node.
    pub fn read(answer: &Value) -> Result<Self, Malformed> {
        let at = Path::Root("the answer");
        let list = answer.as_array().ok_or_else(|| at.must_be("a list"))?;
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
        let fit = Fit::read(&json!([
            {"node": "east", "cluster": "e", "fits": false, "replicas": 0, "reason": "0 of 3 nodes have 4 CPUs free"},
            {"node": "west", "fits": true, "lowerNode": "w-1", "score": 7, "replicas": 12},
        ]))
        .unwrap();
        assert_eq!((fit.on("east"), fit.on("west"), fit.on("north")), (0, 12, 0));
    }

    #[test]
    fn what_is_no_answer_is_refused_by_its_place() {
        for (answer, words) in [
            (json!({}), "the answer must be a list"),
            (json!([1]), "the answer[0] must be an object"),
            (json!([{"node": 1}]), "the answer[0].node must be a string"),
            (json!([{"node": "a", "replicas": -1}]), "the answer[0].replicas must be a number"),
        ] {
            assert_eq!(Fit::read(&answer).unwrap_err().to_string(), words);
        }
    }
}
