// SPDX-License-Identifier: Apache-2.0
//! A work queue of keys: each key is worked on by one worker at a time, and a key that is added while it is worked on
//! comes again afterwards. Ordered as keys became due; any number of additions of a waiting key count as one.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The queue. Shared by reference.
#[derive(Debug)]
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    /// Signalled when a key became due or an earlier deadline was set.
    changed: Notify,
}

#[derive(Debug)]
struct Inner<K> {
    due: VecDeque<K>,
    states: HashMap<K, State>,
    later: BTreeSet<(Instant, K)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Working,
    WorkingAndAgain,
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// An empty one.
    pub fn new() -> Self {
        let inner = Inner { due: VecDeque::new(), states: HashMap::new(), later: BTreeSet::new() };
        Self { inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// Makes `key` due now.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Makes `key` due at `when`.
    pub fn add_at(&self, key: K, when: Instant) {
        self.lock().later.insert((when, key));
        self.changed.notify_one();
    }

    /// Waits for the next key that is due. The caller owes a [`Queue::done`]. Only one caller may wait.
    pub async fn next(&self) -> K {
        loop {
            let deadline = {
                let mut inner = self.lock();
                inner.promote(Instant::now());
                if let Some(key) = inner.due.pop_front() {
                    inner.states.insert(key.clone(), State::Working);
                    return key;
                }
                inner.later.first().map(|(when, _)| *when)
            };
            match deadline {
                Some(when) => tokio::select! {
                    () = sleep_until(when) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// The work on `key` is over.
    pub fn done(&self, key: &K) {
        let again = self.lock().done(key);
        if again {
            self.changed.notify_one();
        }
    }

    /// How many keys are due.
    pub fn depth(&self) -> usize {
        self.lock().due.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner<K>> {
        // The state is consistent after every statement, so a panic elsewhere does not spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> Inner<K> {
    fn add(&mut self, key: K) {
        match self.states.get_mut(&key) {
            None => {
                self.states.insert(key.clone(), State::Waiting);
                self.due.push_back(key);
            }
            Some(state @ State::Working) => *state = State::WorkingAndAgain,
            Some(State::Waiting | State::WorkingAndAgain) => {}
        }
    }

    fn promote(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(when, _)| *when <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.add(key);
            }
        }
    }

    /// Whether the key is due again.
    fn done(&mut self, key: &K) -> bool {
        let again = self.states.remove(key) == Some(State::WorkingAndAgain);
        if again {
            self.add(key.clone());
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_key_added_twice_comes_once() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn a_key_added_during_its_work_comes_again_and_never_at_the_same_time() {
        let queue = Queue::new();
        queue.add("a");
        let key = queue.next().await;
        queue.add("a");
        assert_eq!(queue.next().now_or_never(), None, "it is being worked on");
        queue.done(&key);
        assert_eq!(queue.next().now_or_never(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_for_later_comes_when_its_time_has_come() {
        let queue = Queue::new();
        let begin = Instant::now();
        queue.add_at("later", begin + Duration::from_secs(5));
        queue.add_at("sooner", begin + Duration::from_secs(2));
        assert_eq!(queue.next().await, "sooner");
        assert_eq!(begin.elapsed().as_secs(), 2);
        assert_eq!(queue.next().await, "later");
        assert_eq!(begin.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_hears_of_an_earlier_deadline() {
        let queue = std::sync::Arc::new(Queue::new());
        let begin = Instant::now();
        queue.add_at("later", begin + Duration::from_secs(60));
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await }
        });
        tokio::task::yield_now().await;
        queue.add_at("sooner", begin + Duration::from_secs(1));
        assert_eq!(waiting.await.unwrap(), "sooner");
        assert_eq!(begin.elapsed().as_secs(), 1);
    }
}
