// SPDX-License-Identifier: Apache-2.0
//! Pods at a steady rate: how long each waits for its copy below, and its state for being shown above.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::lab::{DEADLINE, Lab, Target};
use super::statistics::{milliseconds, percentile};
use super::table::Row;

/// Latencies at one rate.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    per_second: u32,
    /// From the binding, as seen above, to the lower pod, as seen below.
    created: Vec<Duration>,
    /// From Running below to Running above.
    shown: Vec<Duration>,
}

/// Creates `per_second` pods a second for `seconds`. The moments are those at which watches bring them to this process.
pub(super) async fn measure(lab: &Lab, per_second: u32, seconds: u32) -> anyhow::Result<Latencies> {
    let namespace = format!("rate-{per_second}");
    let pods = usize::try_from(per_second * seconds)?;
    let _link = lab.link().await?;
    let (above, below) = lab.watch(&namespace).await?;

    let mut ticks = interval(Duration::from_secs(1) / per_second);
    // A machine that is late must not be made later by a burst.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut creations = JoinSet::new();
    for number in 0..pods {
        ticks.tick().await;
        creations.spawn(lab.create_one(&namespace, number, Target::VirtualNode)?);
    }
    while let Some(created) = creations.join_next().await {
        created??;
    }
    above.reached(|life| life.running, pods, "Running", DEADLINE).await?;
    below.reached(|life| life.running, pods, "Running", DEADLINE).await?;

    let (above_lives, below_lives) = (above.lives(), below.lives());
    let both = above_lives.iter().filter_map(|(name, upper)| Some((upper, below_lives.get(name)?)));
    let mut latencies = Latencies { per_second, created: Vec::new(), shown: Vec::new() };
    for (upper, lower) in both {
        // The two watches are two connections: the later news may arrive first, which counts as no delay.
        if let (Some(bound), Some(created)) = (upper.bound, lower.created) {
            latencies.created.push(created.saturating_duration_since(bound));
        }
        if let (Some(running), Some(shown)) = (lower.running, upper.running) {
            latencies.shown.push(shown.saturating_duration_since(running));
        }
    }
    lab.clear(&namespace, Target::VirtualNode, &above, &below).await?;
    Ok(latencies)
}

impl Latencies {
    pub(super) fn rows(&self) -> [Row; 2] {
        // At more than 20 pods a second, twice as long is allowed.
        let slow = self.per_second > 20;
        let row = |what: &str, values: &[Duration]| {
            let (middle, most) = (percentile(values, 50), percentile(values, 99));
            let measured = format!("p50 {:.1} ms, p99 {:.1} ms", milliseconds(middle), milliseconds(most));
            Row::new(format!("{what} at {} pods/s", self.per_second), measured).target(if slow {
                "p50 <= 16, p99 <= 60 ms"
            } else {
                "p50 <= 8, p99 <= 30 ms"
            })
        };
        [
            row("bound -> created", &self.created).tensile_kube(if slow {
                "p50 117, p99 277 ms"
            } else {
                "p50 13, p99 64 ms"
            }),
            row("running -> shown", &self.shown).tensile_kube(if slow {
                "p50 2464, p99 2701 ms"
            } else {
                "p50 17, p99 118 ms"
            }),
        ]
    }
}
