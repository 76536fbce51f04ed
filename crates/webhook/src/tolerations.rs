// SPDX-License-Identifier: Apache-2.0
//! The tolerations of an upper pod for the loss of its virtual node.
//!
//! A virtual node that is not ready or not heard of says that the way to a cluster is cut, not that the pods there died:
//! unless told otherwise they are waited for without end. Below, the pod keeps the tolerations its author wrote.

use serde_json::{Map, Value};
use tensile_core::names;

const NO_EXECUTE: &str = "NoExecute";

/// The tolerations with those for a lost node put in, in place of what the pod said about it.
///
/// `seconds`: how long a lost node is tolerated, `None` for ever. Tolerations of other effects stay: they only say where
/// the pod may be scheduled.
pub fn tolerate_node_loss(tolerations: &[Value], seconds: Option<u32>) -> Vec<Value> {
    let mut missing = vec![names::NODE_NOT_READY, names::NODE_UNREACHABLE];
    let mut result = Vec::with_capacity(tolerations.len() + missing.len());
    for toleration in tolerations {
        let text = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_loss = [names::NODE_NOT_READY, names::NODE_UNREACHABLE].contains(&text("key"));
        if !is_loss || text("effect") != NO_EXECUTE {
            result.push(toleration.clone());
        } else if let Some(index) = missing.iter().position(|key| *key == text("key")) {
            result.push(of_loss(missing.remove(index), seconds));
        }
    }
    result.extend(missing.into_iter().map(|key| of_loss(key, seconds)));
    result
}

fn of_loss(key: &str, seconds: Option<u32>) -> Value {
    let mut toleration = Map::new();
    for (field, value) in [("key", key), ("operator", "Exists"), ("effect", NO_EXECUTE)] {
        toleration.insert(field.to_owned(), value.into());
    }
    if let Some(seconds) = seconds {
        toleration.insert("tolerationSeconds".to_owned(), seconds.into());
    }
    Value::Object(toleration)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn not_ready() -> Value {
        json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"})
    }

    fn unreachable() -> Value {
        json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"})
    }

    fn within(mut toleration: Value, seconds: u32) -> Value {
        toleration["tolerationSeconds"] = json!(seconds);
        toleration
    }

    #[test]
    fn both_are_added_to_a_pod_that_has_neither() {
        assert_eq!(tolerate_node_loss(&[], None), [not_ready(), unreachable()]);
    }

    #[test]
    fn the_defaults_of_the_api_server_lose_their_limit_in_place() {
        let other = json!({"key": "team", "operator": "Exists"});
        let given = [within(unreachable(), 300), other.clone(), within(not_ready(), 300)];
        assert_eq!(tolerate_node_loss(&given, None), [unreachable(), other, not_ready()]);
    }

    #[test]
    fn several_for_one_taint_become_one() {
        let given = [within(not_ready(), 300), within(not_ready(), 10), unreachable()];
        assert_eq!(tolerate_node_loss(&given, None), [not_ready(), unreachable()]);
    }

    #[test]
    fn a_limit_of_the_operators_replaces_the_pods() {
        assert_eq!(
            tolerate_node_loss(&[within(not_ready(), 300)], Some(60)),
            [within(not_ready(), 60), within(unreachable(), 60)]
        );
    }

    #[test]
    fn tolerations_that_let_a_pod_be_scheduled_stay() {
        let schedule = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"});
        let any_effect = json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists"});
        assert_eq!(
            tolerate_node_loss(&[schedule.clone(), any_effect.clone()], None),
            [schedule, any_effect, not_ready(), unreachable()]
        );
    }

    #[test]
    fn doing_it_twice_changes_nothing() {
        let once = tolerate_node_loss(&[within(not_ready(), 300), json!({"operator": "Exists"})], Some(5));
        assert_eq!(tolerate_node_loss(&once, Some(5)), once);
    }
}
