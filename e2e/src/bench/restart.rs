// SPDX-License-Identifier: Apache-2.0
//! Very many pods: the memory they take, and how soon a restarted virtual node knows them all again.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::lab::{DEADLINE, Lab, Target};
use super::table::Row;
use crate::kwok;

const NAMESPACE: &str = "many";
/// One lower pod in this many ends while the virtual node is away.
const ENDING: usize = 100;

/// What very many pods took.
#[derive(Clone, Debug)]
pub(super) struct Many {
    pods: usize,
    until_running: Duration,
    /// Peak resident memory when all ran, in megabytes.
    peak: f64,
    /// From the start of the new process until it showed everything that had happened while none ran.
    in_sync: Duration,
    /// Peak resident memory of the new process by then, in megabytes.
    peak_after: f64,
}

/// Runs `pods` pods, kills the virtual node, lets some pods end below, and starts it again.
pub(super) async fn measure(lab: &Lab, pods: usize) -> anyhow::Result<Many> {
    let link = lab.link().await?;
    let (above, below) = lab.watch(NAMESPACE).await?;
    let begin = Instant::now();
    lab.create(NAMESPACE, pods, Target::VirtualNode).await?;
    let running = above.reached(|life| life.running, pods, "Running", DEADLINE).await?;
    let peak = link.process().usage()?.peak_megabytes();

    link.process().kill();
    let lower: Api<Pod> = Api::namespaced(lab.lower.client(), NAMESPACE);
    let ending: Vec<String> = below.lives().into_keys().step_by(ENDING).collect();
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { kwok::FINISH: "Succeeded" } } }));
    for name in &ending {
        lower.patch_metadata(name, &PatchParams::default(), &patch).await?;
    }
    below.reached(|life| life.finished, ending.len(), "Succeeded", DEADLINE).await?;

    let start = Instant::now();
    link.process().restart()?;
    let shown = above.reached(|life| life.finished, ending.len(), "Succeeded", DEADLINE).await?;
    let peak_after = link.process().usage()?.peak_megabytes();
    Ok(Many { pods, until_running: running - begin, peak, in_sync: shown - start, peak_after })
}

impl Many {
    pub(super) fn rows(&self) -> [Row; 4] {
        let pods = self.pods;
        [
            Row::new(
                format!("{pods} pods through the virtual node until Running"),
                format!("{:.0} s", self.until_running.as_secs_f64()),
            )
            .tensile_kube("3,163 of 10,000 after 660 s"),
            Row::new(format!("peak memory at {pods} pods"), format!("{:.1} MB", self.peak))
                .target("<= 60 MB")
                .tensile_kube("1,009 MB"),
            Row::new(format!("restart with {pods} pods until in sync"), format!("{:.2} s", self.in_sync.as_secs_f64()))
                .target("<= 3 s"),
            Row::new(format!("peak memory after a restart with {pods} pods"), format!("{:.1} MB", self.peak_after)),
        ]
    }
}
