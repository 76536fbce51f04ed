// SPDX-License-Identifier: Apache-2.0
//! What people and other services ask: why a pod may go where, and how many like it would fit.

use std::time::Instant;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensile_core::exclusion::Subject;
use tensile_core::scheduling::Answer;

use crate::decide::Identity;
use crate::fleet::{Fleet, VirtualNode};
use crate::inquiry::Inquiry;

/// Replicas that are counted up to, unless the question says otherwise.
const MOST: u64 = 10_000;

/// The body of `POST /fit`.
#[derive(Debug, Deserialize)]
pub struct FitQuestion {
    /// The pod; a template of one is enough.
    pub pod: Value,
    /// Where counting ends, for each virtual node.
    #[serde(default = "most")]
    pub most: u64,
}

fn most() -> u64 {
    MOST
}

/// What is said of one virtual node.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The virtual node.
    pub node: String,
    /// What the lower cluster is called here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Whether a pod may go there.
    pub fits: bool,
    /// A node below that it fits on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_node: Option<String>,
    /// From 0 to 10, more is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<u8>,
    /// How many such pods fit.
    pub replicas: u64,
    /// Why none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Fleet {
    /// What is said of each virtual node about the pod, and how many like it would fit, counted up to `most`. Nothing is kept
    /// for it.
    pub fn explain(&self, pod: &Value, most: u64, now: Instant, time: Timestamp) -> Vec<Report> {
        let (who, exclusions) = (Identity::of(pod), self.exclusions.load());
        let excluded = exclusions.of(&Subject::of_pod(who.owner, who.index, who.namespace, who.name), time);
        let nodes = self.nodes();
        let mut inquiry = self.inquiry(pod);
        let reports = nodes.iter().map(|(name, node)| {
            let mut report = self.report(&mut inquiry, name, node, most, now);
            if excluded.contains(name.as_str()) {
                report.fits = false;
                report.reason = Some("pods of its owner keep off this node for a while".to_owned());
            }
            report
        });
        reports.collect()
    }

    fn report(&self, inquiry: &mut Inquiry<'_>, name: &str, node: &VirtualNode, most: u64, now: Instant) -> Report {
        let refused = |cluster: Option<String>, reason: String| Report {
            node: name.to_owned(),
            cluster,
            fits: false,
            lower_node: None,
            score: None,
            replicas: 0,
            reason: Some(reason),
        };
        let lower = match self.lower_of(node, now) {
            Ok(lower) => lower,
            Err(reason) => return refused(None, reason),
        };
        let called = Some(lower.name.clone());
        let question = match inquiry.question(node) {
            Ok(question) => question,
            Err(reason) => return refused(called, reason),
        };
        let mut cluster = lower.write();
        let answer = cluster.look(&question);
        match &answer {
            Answer::Refused { why, .. } => refused(called, why.to_string()),
            Answer::Fits { node: witness } => Report {
                node: name.to_owned(),
                cluster: called,
                fits: true,
                lower_node: Some(witness.to_string()),
                score: Some(cluster.score(&question, &answer, &self.policy.weights)),
                replicas: cluster.capacity(&question, most),
                reason: None,
            },
        }
    }
}
