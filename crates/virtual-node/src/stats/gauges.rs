// SPDX-License-Identifier: Apache-2.0
//! What this service says of its own asking, for Prometheus.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use tensile_core::stats::Source;

use super::{
    Failure,
    document::{Document, Made},
};

/// Which source is asked, and how that goes.
#[derive(Clone, Debug)]
pub(super) struct Gauges {
    source: IntGaugeVec,
    scrapes: IntCounterVec,
    silent: IntGaugeVec,
}

impl Gauges {
    /// Those of virtual node `node`, as part of `registry`.
    pub(super) fn register(registry: &Registry, node: &str) -> prometheus::Result<Self> {
        let opts = |name: &str, help: &str| Opts::new(name, help).const_label("node", node);
        let source = opts("tensile_stats_source", "1 for the source that is asked what containers below use.");
        let scrapes =
            opts("tensile_stats_scrapes_total", "Answers about usage that were made, by document and result.");
        let silent = opts(
            "tensile_stats_silent_nodes",
            "Lower nodes that did not answer when they were last asked, by document.",
        );
        let gauges = Self {
            source: IntGaugeVec::new(source, &["source"])?,
            scrapes: IntCounterVec::new(scrapes, &["document", "result"])?,
            silent: IntGaugeVec::new(silent, &["document"])?,
        };
        registry.register(Box::new(gauges.source.clone()))?;
        registry.register(Box::new(gauges.scrapes.clone()))?;
        registry.register(Box::new(gauges.silent.clone()))?;
        Ok(gauges)
    }

    pub(super) fn source(&self, asked: Source) {
        for source in Source::ALL {
            self.source.with_label_values(&[source.name()]).set(i64::from(source == asked));
        }
    }

    pub(super) fn scraped(&self, document: Document, made: &Result<Made, Failure>) {
        let result = match made {
            Ok(made) if made.complete => "complete",
            Ok(_) => "partial",
            Err(_) => "failed",
        };
        self.scrapes.with_label_values(&[document.name(), result]).inc();
    }

    pub(super) fn silent(&self, document: Document, nodes: usize) {
        self.silent.with_label_values(&[document.name()]).set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }
}
