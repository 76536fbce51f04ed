//! One pod that is asked about at many virtual nodes: what it would be below is worked out as seldom as possible.

use std::sync::Arc;

use serde_json::Value;
use tensile_core::names;
use tensile_core::placement::KeptKeys;
use tensile_core::scheduling::{Question, Unknown};

use crate::fleet::VirtualNode;

/// A pod, and what it would be below.
#[derive(Debug)]
pub struct Inquiry<'a> {
    pod: &'a Value,
    unknown: Unknown,
    /// It would be the same below every virtual node, but for the label with that node's name.
    is_alike: bool,
    known: Option<Result<Arc<Question>, String>>,
}

impl<'a> Inquiry<'a> {
    /// About `pod`, where `kept` label keys were decided upstairs.
    pub fn new(pod: &'a Value, kept: &KeptKeys, unknown: Unknown) -> Self {
        Self { pod, unknown, is_alike: is_alike(pod, kept), known: None }
    }

    /// What is to be asked in the lower cluster behind `node`.
    ///
    /// # Errors
    /// When the pod cannot run there at all, a sentence for people.
    pub fn question(&mut self, node: &VirtualNode) -> Result<Arc<Question>, String> {
        if let Some(known) = self.known.as_ref().filter(|_| self.is_alike) {
            return known.clone();
        }
        let question = Question::of(self.pod, &node.link, self.unknown);
        let question = question.map(Arc::new).map_err(|refused| refused.to_string());
        self.known.insert(question).clone()
    }
}

/// Whether nothing of the pod's placement depends on a virtual node: its constraints speak of none of the kept keys, nor of
/// nodes by name.
fn is_alike(pod: &Value, kept: &KeptKeys) -> bool {
    let (spec, stash) = (&pod["spec"], &pod["metadata"]["annotations"][names::CLUSTER_SELECTOR]);
    let speaks = |part: &Value| {
        let text = part.to_string();
        kept.may_be_in(&text) || text.contains("matchFields")
    };
    ![&spec["nodeSelector"], &spec["affinity"]["nodeAffinity"], stash].into_iter().any(speaks)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_the_same_everywhere_unless_it_speaks_of_clusters_or_nodes() {
        let alike = |pod: &Value| is_alike(pod, &KeptKeys::default());
        let stashed = |stash: &str| json!({"metadata": {"annotations": {"clusterSelector": stash}}});
        assert!(alike(&json!({})) && alike(&json!({"spec": {"nodeSelector": {"disk": "ssd"}}})));
        assert!(alike(&stashed(r#"{"nodeSelector":{"disk":"ssd"}}"#)));
        for pod in [
            json!({"spec": {"nodeSelector": {"clusterID": "east"}}}),
            json!({"spec": {"affinity": {"nodeAffinity": {"x": [{"matchFields": []}]}}}}),
            stashed(r#"{"requiredTerms":[{"matchExpressions":[{"key":"clusterID","operator":"Exists"}]}]}"#),
        ] {
            assert!(!alike(&pod), "{pod}");
        }
    }
}
