// SPDX-License-Identifier: Apache-2.0
//! Load on a service over HTTPS: as much as it takes, or at a fixed rate.

mod connection;

use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::connection::Connection;

pub(super) use self::connection::Target;

/// How often requests are handed out at a fixed rate.
const TICK: Duration = Duration::from_millis(1);

impl Target {
    /// As many requests as can be made, one after another on each connection. Returns how many.
    pub(super) async fn saturate(&self, connections: usize, time: Duration) -> anyhow::Result<usize> {
        let end = Instant::now() + time;
        let mut workers = JoinSet::new();
        for _ in 0..connections.max(1) {
            let mut connection = self.connect().await?;
            workers.spawn(async move {
                let mut count = 0;
                while Instant::now() < end {
                    connection.ask().await?;
                    count += 1;
                }
                anyhow::Ok(count)
            });
        }
        let mut total = 0;
        while let Some(count) = workers.join_next().await {
            total += count??;
        }
        Ok(total)
    }

    /// Requests at a fixed rate, in turn on each connection; one that finds its connection busy waits, and that counts.
    /// Returns how long after its moment each was answered.
    pub(super) async fn paced(
        &self,
        connections: usize,
        per_second: f64,
        time: Duration,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut workers = JoinSet::new();
        let mut queues = Vec::new();
        for _ in 0..connections.max(1) {
            let (queue, requests) = mpsc::unbounded_channel();
            queues.push(queue);
            workers.spawn(answer(self.connect().await?, requests));
        }
        let (begin, mut due, mut next) = (Instant::now(), 0.0, 0);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while begin.elapsed() < time {
            let now = ticks.tick().await;
            while due < per_second * (now - begin).as_secs_f64() {
                queues[next % queues.len()].send(Instant::now()).context("a connection ended")?;
                due += 1.0;
                next += 1;
            }
        }
        drop(queues);
        let mut latencies = Vec::new();
        while let Some(some) = workers.join_next().await {
            latencies.extend(some??);
        }
        Ok(latencies)
    }
}

/// Makes the requests of one connection; returns how long after its moment each was answered.
async fn answer(
    mut connection: Connection,
    mut requests: mpsc::UnboundedReceiver<Instant>,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while let Some(moment) = requests.recv().await {
        connection.ask().await?;
        latencies.push(moment.elapsed());
    }
    Ok(latencies)
}

/// How many a second.
pub(super) fn rate(count: usize, time: Duration) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let count = count as f64;
    count / time.as_secs_f64()
}
