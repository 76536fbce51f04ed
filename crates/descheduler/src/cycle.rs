// SPDX-License-Identifier: Apache-2.0
//! One plan after another, each performed: first exclusions are written and seen, then evictions begin.

mod bare;
mod evictions;
mod owners;
mod places;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::Client;
use tensile_core::deschedule::{Exclude, Held, Plan, Policy};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::canary::Canaries;
use crate::metrics::Metrics;
use crate::places::MultiScheduler;
use crate::record::{self, Maps};
use crate::recreate::Recreation;
use crate::seen::Shared;
use crate::tell::Teller;

/// Writes of exclusions at the same time.
const AT_ONCE: usize = 16;
/// Changes that come within this time are taken together.
const PAUSE: Duration = Duration::from_millis(20);
/// After something failed, all is looked at again after this time.
const PATIENCE: Duration = Duration::from_secs(1);
/// A write is seen within this time, or looked for again.
const ECHO: Duration = Duration::from_secs(5);

/// Performs plans.
pub struct Cycle {
    /// The upper cluster.
    pub client: Client,
    /// What the watches said.
    pub seen: Shared,
    /// What is moved.
    pub policy: Policy,
    /// Shows whether exclusions are enforced.
    pub canaries: Canaries,
    /// Moves pods without a controller.
    pub recreation: Recreation,
    /// The multi-scheduler, if there is one.
    pub places: Option<MultiScheduler>,
    /// Where exclusions are.
    pub maps: Maps,
    /// Nothing is written.
    pub dry_run: bool,
    /// Counts.
    pub metrics: Metrics,
    /// Events.
    pub tell: Teller,
    /// What was told of pods last, by UID.
    pub told: BTreeMap<Arc<str>, String>,
    /// Evictions that were asked for.
    pub under_way: JoinSet<()>,
}

impl Cycle {
    /// Works while `leads`, until `stop`.
    pub async fn run(mut self, mut leads: watch::Receiver<bool>, stop: CancellationToken) {
        let work = async {
            loop {
                if leads.wait_for(|leads| *leads).await.is_err() {
                    return;
                }
                let again = self.once(&leads).await;
                let wake = async {
                    match again {
                        Some(when) => sleep_until(when).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = self.seen.changed() => sleep(PAUSE).await,
                    () = wake => {}
                }
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// Makes a plan and performs it. When to look again, if nothing changes.
    async fn once(&mut self, leads: &watch::Receiver<bool>) -> Option<Instant> {
        let now = Timestamp::now();
        let plan = {
            let mut seen = self.seen.look();
            if !seen.is_complete() {
                return None;
            }
            for took in seen.arrived(now) {
                self.metrics.moved.observe(took.as_secs_f64());
            }
            seen.plan(&self.policy, now)
        };
        if plan.canary {
            self.canaries.send();
        }
        self.tell_held(&plan);
        let asked = self.ask(&plan.ask).await;
        let fits = self.fit(&plan).await;
        if self.dry_run {
            self.tell_plan(&plan);
            return next([asked, fits], plan.again, now);
        }
        let written = self.exclude(&plan.exclude).await;
        let (mut restarted, mut recreated) = (None, None);
        if *leads.borrow() {
            self.evict(&plan.evict);
            restarted = self.restart(&plan.restart).await;
            recreated = self.recreate(&plan).await;
            self.show_placeable(&plan).await;
        }
        next([asked, fits, written, restarted, recreated], plan.again, now)
    }

    /// Writes exclusions and waits until they were seen. Whether all went well; `None` if there are none.
    async fn exclude(&mut self, excludes: &[Exclude]) -> Option<bool> {
        let mut well = (!excludes.is_empty()).then_some(true)?;
        let writes = {
            let seen = self.seen.look();
            record::writes(excludes, |name| seen.map(name), &self.policy.back_off, Timestamp::now())
        };
        let maps = self.maps.clone();
        let written = stream::iter(writes).map(move |write| {
            let (maps, name) = (maps.clone(), write.name.clone());
            async move {
                let written = maps.write(write).await;
                (name, written)
            }
        });
        let mut awaited = Vec::new();
        let mut written = std::pin::pin!(written.buffer_unordered(AT_ONCE));
        while let Some((name, written)) = written.next().await {
            match written {
                Ok(version) => awaited.push((name, version)),
                Err(error) => {
                    tracing::warn!(map = name, %error, "exclusions not written, trying again");
                    well = false;
                }
            }
        }
        if timeout(ECHO, seen_all(&self.seen, &awaited)).await.is_err() {
            tracing::warn!("exclusions were written but not seen, looking again");
            well = false;
        }
        let is_written = |exclude: &&Exclude| awaited.iter().any(|(name, _)| *name == record::map_of(&exclude.key));
        // That of the canary is about no pod.
        for exclude in excludes.iter().filter(is_written).filter(|exclude| !exclude.pod.is_empty()) {
            let nodes: Vec<&str> = exclude.record.nodes_at(Timestamp::now()).collect();
            self.metrics.excluded.inc();
            tracing::info!(entry = exclude.key, nodes = nodes.join(","), "excluded");
        }
        Some(well)
    }

    /// Tells of pods that are left where they are, once for each reason.
    fn tell_held(&mut self, plan: &Plan) {
        self.metrics.held.reset();
        let mut told = BTreeMap::new();
        for Held { pod: uid, why } in &plan.held {
            self.metrics.held.with_label_values(&[why.reason()]).inc();
            let sentence = why.to_string();
            if self.told.get(uid) != Some(&sentence)
                && let Some(pod) = self.seen.look().pod(uid)
            {
                tracing::info!(pod = pod.full_name(), why = sentence, "left where it is");
                if !self.dry_run {
                    self.tell.warn(pod, why.reason(), &format!("it is left where it is: {sentence}"));
                }
            }
            told.insert(uid.clone(), sentence);
        }
        self.told.retain(|uid, _| uid.starts_with(PLANNED));
        self.told.append(&mut told);
    }

    /// Tells what would be done, once for each pod.
    fn tell_plan(&mut self, plan: &Plan) {
        let exclude =
            plan.exclude.iter().map(|exclude| (&exclude.pod, "exclude its owner from its node, then evict it"));
        let evict = plan.evict.iter().map(|eviction| (&eviction.pod, "evict it"));
        let recreate = plan.recreate.iter().map(|eviction| (&eviction.pod, "evict it and make it again"));
        let restart = plan.restart.iter().map(|restart| (&restart.pod, "roll out its Deployment anew"));
        for (uid, what) in exclude.chain(evict).chain(recreate).chain(restart) {
            let key: Arc<str> = format!("{PLANNED}{uid}").into();
            if self.told.insert(key, what.to_owned()).as_deref() != Some(what)
                && let Some(pod) = self.seen.look().pod(uid)
            {
                let why = pod.unschedulable.as_ref().map(|trouble| &*trouble.message);
                tracing::info!(pod = pod.full_name(), node = pod.node.as_deref(), why, what, "dry run: would");
            }
        }
    }
}

/// Before the UIDs of pods of which it was told what would be done.
const PLANNED: &str = "planned ";

fn instant(when: Timestamp, now: Timestamp) -> Instant {
    Instant::now() + Duration::try_from(when.duration_since(now)).unwrap_or_default()
}

/// When to look again: at once after something that the plan was waiting for (`news`: whether each of what there was to do
/// went well).
fn next<const N: usize>(news: [Option<bool>; N], again: Option<Timestamp>, now: Timestamp) -> Option<Instant> {
    match news.into_iter().flatten().reduce(|one, other| one && other) {
        Some(true) => Some(Instant::now()),
        Some(false) => Some(Instant::now() + PATIENCE),
        None => again.map(|when| instant(when, now)),
    }
}

/// Waits until ConfigMaps have been seen in these versions, or later ones.
async fn seen_all(seen: &Shared, awaited: &[(String, u64)]) {
    let is_seen = |(name, version): &(String, u64)| seen.look().map(name).is_some_and(|map| map.version >= *version);
    while !awaited.iter().all(is_seen) {
        seen.changed().await;
    }
}
