// SPDX-License-Identifier: Apache-2.0
//! Answers that are remembered for a while, without remembering the questions.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A bounded cache. Questions are kept as keyed hashes of 128 bits: a token is not kept in memory, and nobody without
/// the keys can make two questions that share an answer.
#[derive(Debug)]
pub(super) struct Expiring<V> {
    keys: (RandomState, RandomState),
    capacity: usize,
    entries: Mutex<HashMap<(u64, u64), (V, Instant)>>,
}

impl<V: Clone> Expiring<V> {
    /// Empty, for up to `capacity` answers.
    pub(super) fn new(capacity: usize) -> Self {
        Self { keys: (RandomState::new(), RandomState::new()), capacity, entries: Mutex::default() }
    }

    /// The answer to `question`, if it has not expired.
    pub(super) fn get(&self, question: &impl Hash) -> Option<V> {
        let (answer, until) = self.lock().get(&self.key(question)).cloned()?;
        (Instant::now() < until).then_some(answer)
    }

    /// Remembers an answer for `time`. When there is no room, what has expired goes, and if that is nothing, everything:
    /// under a flood of questions, forgetting costs a review each and keeps the bound.
    pub(super) fn put(&self, question: &impl Hash, answer: V, time: Duration) {
        let (key, now) = (self.key(question), Instant::now());
        let mut entries = self.lock();
        if entries.len() >= self.capacity {
            entries.retain(|_, (_, until)| now < *until);
            if entries.len() >= self.capacity {
                entries.clear();
            }
        }
        entries.insert(key, (answer, now + time));
    }

    fn key(&self, question: &impl Hash) -> (u64, u64) {
        (self.keys.0.hash_one(question), self.keys.1.hash_one(question))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, u64), (V, Instant)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_forgotten_when_its_time_is_over() {
        let cache = Expiring::new(8);
        cache.put(&"a", 1, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_holds_no_more_than_its_capacity_and_drops_the_expired_first() {
        let cache = Expiring::new(2);
        cache.put(&1, 1, Duration::from_secs(1));
        cache.put(&2, 2, Duration::from_secs(9));
        tokio::time::advance(Duration::from_secs(2)).await;
        cache.put(&3, 3, Duration::from_secs(9));
        assert_eq!((cache.get(&2), cache.get(&3)), (Some(2), Some(3)));
        for question in 4..100 {
            cache.put(&question, question, Duration::from_secs(9));
            assert!(cache.lock().len() <= 2);
        }
    }
}
