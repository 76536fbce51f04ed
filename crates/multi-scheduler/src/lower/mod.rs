// SPDX-License-Identifier: Apache-2.0
//! One lower cluster: its columns, and how well they are known.

mod follow;
mod health;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tensile_core::scheduling::{Cluster, Gain, Kind, Profile};
use tokio::sync::watch;

pub use follow::{Heard, follow, probe};
pub use health::Health;

/// A lower cluster that is followed.
#[derive(Debug)]
pub struct Lower {
    /// What its source calls it.
    pub name: String,
    /// The UID of its `kube-system` namespace.
    pub id: Arc<str>,
    cluster: RwLock<Cluster>,
    health: Mutex<Health>,
    listed: watch::Sender<bool>,
}

impl Lower {
    /// A cluster of which nothing is known yet.
    pub fn new(name: &str, id: &str, profile: Profile, now: Instant) -> Self {
        Self {
            name: name.to_owned(),
            id: id.into(),
            cluster: RwLock::new(Cluster::new(profile)),
            health: Mutex::new(Health::new(now)),
            listed: watch::Sender::new(false),
        }
    }

    /// Its columns, to ask. Every change of them is whole, so a panic elsewhere does not spoil them.
    pub fn read(&self) -> RwLockReadGuard<'_, Cluster> {
        self.cluster.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its columns, to change.
    pub fn write(&self) -> RwLockWriteGuard<'_, Cluster> {
        self.cluster.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a watch says. Returns whether something that was refused may fit now.
    pub fn hear(&self, kind: Kind, heard: Heard, now: Instant) -> Gain {
        let complete = matches!(heard, Heard::Complete);
        let gain = match heard {
            Heard::Begin => {
                self.write().begin(kind);
                Gain::None
            }
            Heard::Change(change) => self.write().apply(change),
            Heard::Complete => self.write().end(kind),
            Heard::Interrupted(reason) => {
                self.health().interrupted(kind, reason, now);
                return Gain::None;
            }
        };
        let mut health = self.health();
        let fresh = health.heard(kind, complete);
        let listed = health.is_listed();
        drop(health);
        if listed {
            self.listed.send_if_modified(|known| !std::mem::replace(known, true));
        }
        if fresh { Gain::Room } else { gain }
    }

    /// Its API server answered, or did not. Returns whether what is known of it counts again.
    pub fn probed(&self, answer: Result<(), String>, now: Instant, patience: Duration) -> bool {
        let mut health = self.health();
        let before = health.state(now, patience);
        health.probed(answer, now);
        before.is_err() && health.state(now, patience).is_ok()
    }

    /// Whether what is known of it counts; if not, why.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn state(&self, now: Instant, patience: Duration) -> Result<(), String> {
        self.health().state(now, patience)
    }

    /// Waits until everything was listed once.
    pub async fn until_listed(&self) {
        let mut listed = self.listed.subscribe();
        // The sender lives as long as this cluster.
        drop(listed.wait_for(|listed| *listed).await);
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
