// SPDX-License-Identifier: Apache-2.0
//! `leave`: a virtual node is drained, and it is said what is left to remove.

#![allow(clippy::print_stderr, reason = "the next steps are told beside the result")]

use crate::args::Wait;
use crate::cluster::Upper;
use crate::drain;
use crate::output::Output;

/// Drains the node and tells the next steps. Says whether nothing is left on it.
pub async fn run(upper: &Upper, node: &str, wait: &Wait, output: Output) -> anyhow::Result<bool> {
    let kept = upper.kept(node).await;
    let drained = drain::run(upper, node, wait, output).await?;
    eprintln!("{}, in this order:", if wait.dry_run { "then would be left" } else { "what is left" });
    match kept {
        Ok(kept) => {
            eprintln!("  helm uninstall RELEASE --namespace {}   # the release that runs {node}", kept.namespace);
            eprintln!("  kubectl delete node {node}");
            eprintln!("  kubectl --namespace {} delete secret {}", kept.namespace, kept.name);
        }
        Err(_) => eprintln!("  end the process of {node}, then: kubectl delete node {node}"),
    }
    eprintln!("  kubectl --context LOWER delete -f charts/virtual-node/files/lower-rbac.yaml   # if no other uses it");
    Ok(drained)
}
