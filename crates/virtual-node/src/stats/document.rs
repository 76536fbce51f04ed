// SPDX-License-Identifier: Apache-2.0
//! What can be asked for, and how each is made from each source.

use bytes::Bytes;
use serde_json::Value;
use tensile_core::stats::{NodeUsage, PodUsage, Roster, Source, exposition, node_families, summary};
use tokio::time::timeout;

use super::{
    Failure, LowerStats,
    kubelets::{self, Exposed},
    metrics_api,
};

/// How long a source that is one server may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(8);

/// One answer of the kubelet's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    Resource,
    Cadvisor,
    Probes,
    Summary,
    BriefSummary,
}

/// An answer, and whether it is all that it should be.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) bytes: Bytes,
    pub(super) complete: bool,
}

impl Document {
    pub(super) const ALL: [Self; 5] = [Self::Resource, Self::Cadvisor, Self::Probes, Self::Summary, Self::BriefSummary];

    /// Its place among [`Document::ALL`].
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Cadvisor => "cadvisor",
            Self::Probes => "probes",
            Self::Summary => "summary",
            Self::BriefSummary => "summary_cpu_memory",
        }
    }

    /// Where kubelets have it.
    const fn path(self) -> &'static str {
        match self {
            Self::Resource => "metrics/resource",
            Self::Cadvisor => "metrics/cadvisor",
            Self::Probes => "metrics/probes",
            Self::Summary => "stats/summary",
            Self::BriefSummary => "stats/summary?only_cpu_and_memory=true",
        }
    }

    /// Asks the source of the day.
    pub(super) async fn make(self, stats: &LowerStats) -> Result<Made, Failure> {
        let choice = stats.sources.chosen().await?;
        let roster = (stats.below.roster)();
        let made = match choice.source {
            Source::Kubelet => self.of_kubelets(stats, &roster).await,
            source @ (Source::MetricsApi | Source::Prometheus) => {
                let made = timeout(PATIENCE, self.of_usage(stats, source, &roster)).await;
                made.unwrap_or_else(|_| Err(Failure::away(format!("{source}: no answer in time"))))
            }
            Source::None => Err(Failure::lacking(format!("there is no source of metrics ({})", choice.reason))),
        };
        if let Err(failure) = &made {
            tracing::debug!(document = self.name(), error = %failure, "usage of containers could not be told");
        }
        made
    }

    async fn of_kubelets(self, stats: &LowerStats, roster: &Roster) -> Result<Made, Failure> {
        match self {
            Self::Resource | Self::Cadvisor | Self::Probes => stats.exposed(self, roster).await,
            Self::Summary | Self::BriefSummary => stats.summaries(self, roster).await,
        }
    }

    /// From a source that knows CPU and memory only.
    async fn of_usage(self, stats: &LowerStats, source: Source, roster: &Roster) -> Result<Made, Failure> {
        match self {
            Self::Resource => stats.usage(source, roster, |node, pods| Ok(exposition(node, pods, true).into())).await,
            Self::Summary | Self::BriefSummary => {
                stats.usage(source, roster, |node, pods| json(&summary::of_usage(node, pods))).await
            }
            Self::Cadvisor | Self::Probes => {
                Err(Failure::lacking(format!("{source} has no such metrics; kubelets below have (--metrics-source)")))
            }
        }
    }
}

impl LowerStats {
    /// Prometheus text of kubelets, with the node's own metrics where they belong.
    async fn exposed(&self, document: Document, roster: &Roster) -> Result<Made, Failure> {
        let asked = kubelets::exposed(&self.below.client, roster, &self.node, document.path()).await;
        self.heard(document, &asked)?;
        let (Exposed { picked, readings, memory }, complete) = asked.merged();
        let mut families = picked.families;
        if document == Document::Resource {
            let mut counting = self.meter(Source::Kubelet);
            counting.meter.keep(roster);
            counting.meter.pods(&readings);
            families.merge(node_families(&counting.meter.node_with(&self.node, None, memory), complete));
        }
        Ok(Made { bytes: families.text().into(), complete })
    }

    async fn summaries(&self, document: Document, roster: &Roster) -> Result<Made, Failure> {
        let asked = kubelets::summaries(&self.below.client, roster, document.path()).await;
        self.heard(document, &asked)?;
        let (complete, mut all) = (asked.failed.is_empty(), summary::Picked::default());
        for picked in asked.answers {
            all.merge(picked);
        }
        let mut counting = self.meter(Source::Kubelet);
        counting.meter.keep(roster);
        counting.meter.pods(&all.readings);
        let node = counting.meter.node_with(&self.node, Some(all.nano_cores), all.memory);
        let bytes = summary::of_kubelets(&node, &all).map_err(|error| Failure::away(error.to_string()))?;
        Ok(Made { bytes: bytes.into(), complete })
    }

    /// Notes who did not answer. When nobody did, there is nothing to tell.
    fn heard<T>(&self, document: Document, asked: &kubelets::Asked<T>) -> Result<(), Failure> {
        self.note_silent(document, &asked.failed);
        if asked.forbidden {
            self.sources.decide_again();
        }
        match asked.failed.first() {
            Some((node, failure)) if asked.answers.is_empty() => {
                Err(Failure::away(format!("kubelet of lower node {node}: {failure}")))
            }
            _ => Ok(()),
        }
    }

    /// What pods use, from a source that counts by container.
    async fn usage(
        &self,
        source: Source,
        roster: &Roster,
        write: impl FnOnce(&NodeUsage<'_>, &[PodUsage<'_>]) -> Result<Bytes, Failure>,
    ) -> Result<Made, Failure> {
        let write = |counting: &mut super::Counting, pods: &[PodUsage<'_>]| {
            let bytes = write(&counting.meter.node(&self.node, pods), pods)?;
            Ok(Made { bytes, complete: true })
        };
        if source == Source::MetricsApi {
            let said = metrics_api::pods(&self.below.client, &self.below.selector).await;
            let said = said.inspect_err(|_| self.sources.decide_again()).map_err(not_ours)?;
            let mut counting = self.meter(source);
            counting.meter.keep(roster);
            let pods = counting.meter.rates(roster, said);
            return write(&mut counting, &pods);
        }
        let Some(store) = &self.store else { return Err(Failure::lacking("there is no --prometheus-url")) };
        let (cpu, memory) = store.containers(roster).await?;
        let mut counting = self.meter(source);
        counting.meter.keep(roster);
        let pods = counting.meter.values(roster, &cpu, &memory);
        write(&mut counting, &pods)
    }
}

/// A refusal below is not the asking one's fault.
fn not_ours(failure: Failure) -> Failure {
    Failure::away(failure.message)
}

fn json(value: &Value) -> Result<Bytes, Failure> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| Failure::away(error.to_string()))
}
