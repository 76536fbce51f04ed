// SPDX-License-Identifier: Apache-2.0
//! How many pods are moved in a time: token buckets for all, for a node, for a namespace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::back_off::later;

/// How many within [`Limits::interval`]; `None`: any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Off one virtual node.
    pub per_node: Option<u32>,
    /// In one namespace.
    pub per_namespace: Option<u32>,
    /// In all.
    pub total: Option<u32>,
    /// In which time.
    pub interval: Duration,
}

/// What is left of the limits. After a restart it is all: so much more may be moved then, once.
#[derive(Debug, Clone)]
pub struct Buckets {
    limits: Limits,
    levels: BTreeMap<Scope, Level>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Total,
    Node(Arc<str>),
    Namespace(Arc<str>),
}

#[derive(Debug, Clone, Copy)]
struct Level {
    /// Tokens at `at`.
    tokens: f64,
    at: Timestamp,
}

impl Buckets {
    /// Full ones.
    pub fn new(limits: Limits) -> Self {
        Self { limits, levels: BTreeMap::new() }
    }

    /// Takes one token for a move off `node` in `namespace`, or says when there will be one. All or none are taken.
    pub fn take(&mut self, node: &str, namespace: &str, now: Timestamp) -> Result<(), Timestamp> {
        let scopes = self.scopes(node, namespace);
        let wait = scopes.iter().map(|(scope, size)| self.wait(scope, *size, now)).max().unwrap_or_default();
        if !wait.is_zero() {
            return Err(later(now, wait));
        }
        for (scope, size) in scopes {
            let tokens = self.tokens(&scope, size, now) - 1.0;
            self.levels.insert(scope, Level { tokens, at: now });
        }
        Ok(())
    }

    /// Gives back what was taken for a move that did not happen.
    pub fn give_back(&mut self, node: &str, namespace: &str) {
        for (scope, size) in self.scopes(node, namespace) {
            if let Some(level) = self.levels.get_mut(&scope) {
                level.tokens = (level.tokens + 1.0).min(f64::from(size));
            }
        }
    }

    /// Forgets what is full again.
    pub fn prune(&mut self, now: Timestamp) {
        let interval = self.limits.interval;
        self.levels.retain(|_, level| later(level.at, interval) > now);
    }

    fn scopes(&self, node: &str, namespace: &str) -> Vec<(Scope, u32)> {
        let all = [
            (Scope::Total, self.limits.total),
            (Scope::Node(node.into()), self.limits.per_node),
            (Scope::Namespace(namespace.into()), self.limits.per_namespace),
        ];
        all.into_iter().filter_map(|(scope, size)| Some((scope, size?))).collect()
    }

    fn tokens(&self, scope: &Scope, size: u32, now: Timestamp) -> f64 {
        let size = f64::from(size);
        let Some(level) = self.levels.get(scope) else { return size };
        let passed = now.duration_since(level.at).as_secs_f64().max(0.0);
        (level.tokens + passed * self.rate(size)).min(size)
    }

    fn wait(&self, scope: &Scope, size: u32, now: Timestamp) -> Duration {
        let missing = 1.0 - self.tokens(scope, size, now);
        if missing <= 1e-6 {
            return Duration::ZERO;
        }
        // A size of nothing never fills.
        Duration::try_from_secs_f64(missing / self.rate(size.into())).unwrap_or(Duration::MAX)
    }

    /// Tokens a second.
    fn rate(&self, size: f64) -> f64 {
        size / self.limits.interval.as_secs_f64().max(1e-3)
    }
}
