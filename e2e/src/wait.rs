// SPDX-License-Identifier: Apache-2.0
//! Waiting for a condition with a deadline, and a message that says what was last seen.

use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep, timeout_at};

/// The first pause between two looks; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Looks again and again until `look` succeeds; after `deadline` an error says `what` did not happen and why the last
/// look failed. A look that hangs is cut at the deadline too.
pub async fn eventually<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    let mut last = anyhow::anyhow!("the first look took longer than that");
    loop {
        match timeout_at(end, look()).await {
            Ok(Ok(seen)) => return Ok(seen),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
        if Instant::now() + pause >= end {
            return Err(last).with_context(|| format!("waited {deadline:?} in vain: {what}"));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_comes_true_is_seen() {
        let mut looks = 0;
        let seen = eventually(Duration::from_secs(60), "counts to three", async || {
            looks += 1;
            anyhow::ensure!(looks == 3, "only {looks}");
            Ok(looks)
        });
        assert_eq!(seen.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_condition_that_stays_false_is_told_with_what_was_last_seen() {
        let never = eventually(Duration::from_millis(20), "the pod runs", async || {
            anyhow::bail!("phase is Pending");
            #[allow(unreachable_code, reason = "tells the type")]
            Ok(())
        });
        let told = format!("{:#}", never.await.unwrap_err());
        assert_eq!(told, "waited 20ms in vain: the pod runs: phase is Pending");
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_cut_at_the_deadline() {
        let hangs = eventually(Duration::from_millis(20), "an answer", async || {
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(hangs.await.is_err());
    }
}
