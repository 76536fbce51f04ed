// SPDX-License-Identifier: Apache-2.0
//! One answer for many: made by the first who asks, kept for a moment.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use tokio::{sync::Mutex, time::Instant};

use super::Failure;

/// How long an answer is good. Shorter than any sensible interval between two questions of one reader, so that each gets
/// news; kubelets themselves measure every ten seconds or so.
const AGE: Duration = Duration::from_secs(3);

/// An answer, and when it came. Failures are answers too: nobody is asked more often because he fails.
#[derive(Debug, Default)]
pub(super) struct Shared {
    last: Mutex<Option<(Instant, Result<Bytes, Failure>)>>,
}

impl Shared {
    /// The last answer if it is fresh, else what `make` gives. Whoever asks meanwhile waits for the same. A reader who goes
    /// away while making leaves it to the next who waits.
    pub(super) async fn get(&self, make: impl Future<Output = Result<Bytes, Failure>>) -> Result<Bytes, Failure> {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < AGE
        {
            return answer.clone();
        }
        // What was said is let go before more is held.
        *last = None;
        let answer = make.await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Lets go of an answer that is fresh no more.
    pub(super) fn forget(&self) {
        if let Ok(mut last) = self.last.try_lock()
            && last.as_ref().is_some_and(|(at, _)| at.elapsed() >= AGE)
        {
            *last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;

    use super::*;

    async fn slow(made: &AtomicUsize) -> Result<Bytes, Failure> {
        let number = made.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if number == 0 { Err(Failure::away("asleep")) } else { Ok(Bytes::from(number.to_string())) }
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_ask_one_is_made_until_it_is_old() {
        let (shared, made) = (Shared::default(), AtomicUsize::new(0));
        let answers = join_all((0..100).map(|_| shared.get(slow(&made)))).await;
        assert!(answers.iter().all(|answer| *answer == Err(Failure::away("asleep"))), "a failure is an answer");
        assert_eq!(made.load(Ordering::Relaxed), 1);
        tokio::time::advance(AGE).await;
        let answers = join_all((0..100).map(|_| shared.get(slow(&made)))).await;
        assert!(answers.iter().all(|answer| *answer == Ok(Bytes::from("1"))), "{answers:?}");
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_goes_away_leaves_it_to_the_next() {
        let (shared, made) = (Shared::default(), AtomicUsize::new(1));
        let impatient = tokio::time::timeout(Duration::from_millis(500), shared.get(slow(&made)));
        let (impatient, patient) = tokio::join!(impatient, shared.get(slow(&made)));
        assert!(impatient.is_err());
        assert_eq!(patient, Ok(Bytes::from("2")));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_old_is_let_go() {
        let (shared, made) = (Shared::default(), AtomicUsize::new(1));
        shared.get(slow(&made)).await.unwrap();
        shared.forget();
        assert!(shared.last.lock().await.is_some());
        tokio::time::advance(AGE).await;
        shared.forget();
        assert!(shared.last.lock().await.is_none());
    }
}
