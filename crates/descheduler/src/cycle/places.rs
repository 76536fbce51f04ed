// SPDX-License-Identifier: Apache-2.0
//! The part of a cycle that is about the multi-scheduler.

use futures::{StreamExt, stream};
use jiff::Timestamp;
use tensile_core::deschedule::{Inquiry, Plan, Pod, Why};

use super::{AT_ONCE, Cycle};

impl Cycle {
    /// Asks where the plan's pods would fit. `Some(true)` if there was something to ask: what was answered is in the next plan.
    pub(super) async fn fit(&mut self, plan: &Plan) -> Option<bool> {
        let places = self.places.clone()?;
        if self.seen.look().is_probe_due(Timestamp::now()) {
            places.probe();
        }
        let pods: Vec<(Pod, Vec<String>)> = {
            let seen = self.seen.look();
            let known = |inquiry: &Inquiry| Some((seen.pod(&inquiry.pod)?.clone(), inquiry.borne.clone()));
            plan.fit.iter().filter_map(known).collect()
        };
        let asked = stream::iter(pods).map(move |(pod, borne)| {
            let places = places.clone();
            async move {
                let fit = places.fit(&pod, &borne).await;
                (pod, fit)
            }
        });
        let answers: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
        let well = (!answers.is_empty()).then_some(true);
        let mut seen = self.seen.look();
        for (pod, fit) in answers {
            seen.fits(&pod.uid, fit, Timestamp::now());
        }
        well
    }

    /// Shows on pods whether they have a place to go.
    pub(super) async fn show_placeable(&self, plan: &Plan) {
        let Some(places) = self.places.clone() else { return };
        let pods: Vec<Pod> = {
            let seen = self.seen.look();
            plan.placeable.iter().filter_map(|(uid, _)| seen.pod(uid).cloned()).collect()
        };
        let shown = stream::iter(pods).map(move |pod| {
            let places = places.clone();
            async move {
                let why = (!pod.unplaceable).then(|| Why::NowhereFits.to_string());
                let shown = places.show(&pod, why.as_deref()).await;
                (pod, shown)
            }
        });
        let mut shown = std::pin::pin!(shown.buffer_unordered(AT_ONCE));
        while let Some((pod, shown)) = shown.next().await {
            if let Err(error) = shown {
                tracing::warn!(pod = pod.full_name(), %error, "not shown on a pod whether it has a place to go");
            }
        }
    }
}
