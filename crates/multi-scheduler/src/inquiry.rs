// SPDX-License-Identifier: Apache-2.0
//! One pod that is asked about at many virtual nodes: what it would be below is worked out as seldom as possible.

use std::sync::Arc;

use serde_json::Value;
use tensile_core::names;
use tensile_core::placement::KeptKeys;
use tensile_core::scheduling::{Question, Unknown};
use tensile_core::tenant::Mapping;

use crate::fleet::VirtualNode;

/// A pod, and what it would be below.
#[derive(Debug)]
pub struct Inquiry<'a> {
    pod: &'a Value,
    unknown: Unknown,
    /// It would be the same below every virtual node that calls namespaces alike, but for the label with that node's name.
    is_alike: bool,
    known: Option<Known>,
}

/// What was worked out last.
#[derive(Debug)]
struct Known {
    /// How the virtual node it was worked out for calls namespaces below.
    namespaces: Mapping,
    question: Result<Arc<Question>, String>,
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
        let namespaces = &node.link.namespaces;
        if let Some(known) = self.known.as_ref().filter(|known| self.is_alike && known.namespaces == *namespaces) {
            return known.question.clone();
        }
        let question = Question::of(self.pod, &node.link, self.unknown);
        let question = question.map(Arc::new).map_err(|refused| refused.to_string());
        self.known.insert(Known { namespaces: namespaces.clone(), question }).question.clone()
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
    use tensile_core::pod::LinkView;

    use super::*;

    #[test]
    fn a_pod_is_asked_about_in_the_namespace_that_each_virtual_node_puts_it_in() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": []}});
        let mut inquiry = Inquiry::new(&pod, &KeptKeys::default(), Unknown::Deny);
        let mut namespace = |namespaces| {
            let link = LinkView { namespaces, ..LinkView::default() };
            inquiry.question(&VirtualNode { lower: None, link }).unwrap().namespace().to_owned()
        };
        assert_eq!(namespace(Mapping::default()), "n");
        assert_eq!(namespace(Mapping::Prefix("east".to_owned())), "east-n");
        assert_eq!(namespace(Mapping::default()), "n");
    }

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
