// SPDX-License-Identifier: Apache-2.0
//! All counters of a virtual node: fed with what sources say, read as usage.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::{HashMap, HashSet};

use super::{
    ContainerUsage, ContainerValues, Counters, Member, Millis, NodeUsage, PodMetrics, PodReading, PodUsage, Reading,
    Roster, Sum, bytes, cpu_nanos, roster::is_plain,
};

/// The counters of one virtual node.
#[derive(Clone, Debug)]
pub struct Meter {
    since: Millis,
    /// Of the node, over its pods.
    node: Sum,
    /// Of each pod, over its containers; only where the source does not count pods itself.
    pods: HashMap<Arc<str>, Sum>,
    /// Of each container; only where the source does not count.
    counters: Counters,
}

impl Meter {
    /// Counts from `now` on.
    pub fn since(now: Millis) -> Self {
        Self { since: now, node: Sum::since(now), pods: HashMap::default(), counters: Counters::default() }
    }

    /// From now on another source is asked: its counters are others.
    pub fn elsewhere(&mut self, now: Millis) {
        self.node.elsewhere(now);
        self.pods.clear();
        self.counters = Counters::default();
    }

    /// Takes CPU time of pods, where the source counts it.
    pub fn pods(&mut self, readings: &[PodReading]) {
        for PodReading { uid, since, reading } in readings {
            self.node.add(uid, *since, *reading);
        }
    }

    /// What pods use, by the rates that the metrics API says.
    pub fn rates<'r>(&mut self, roster: &'r Roster, said: Vec<PodMetrics>) -> Vec<PodUsage<'r>> {
        let usage = said.into_iter().filter_map(|pod| {
            let member = roster.find(&pod.namespace, &pod.name)?;
            let containers = pod.containers.into_iter().filter(|(name, ..)| is_plain(name));
            let containers = containers.filter_map(|(name, rate, memory)| {
                let started = member.started(&name);
                let cpu = self.counters.rate(&member.uid, &name, started, rate)?;
                let (name, nano_cores, memory) = (name.into(), Some(rate.nano_cores), memory.max(1));
                Some(ContainerUsage { name, started, cpu, nano_cores, memory })
            });
            let containers = containers.collect();
            self.pod(member, containers)
        });
        usage.collect()
    }

    /// What pods use, by the counters that a metric store has. A container needs both values to be shown.
    pub fn values<'r>(
        &mut self,
        roster: &'r Roster,
        cpu: &ContainerValues,
        memory: &ContainerValues,
    ) -> Vec<PodUsage<'r>> {
        let mut containers: HashMap<&str, BTreeMap<&str, (Reading, u64)>> = HashMap::default();
        for (key, (seconds, at)) in cpu {
            let held = memory.get(key).and_then(|(held, _)| bytes(*held));
            if let (Some(nanos), Some(held), true) = (cpu_nanos(*seconds), held, is_plain(&key.1)) {
                containers.entry(&key.0).or_default().insert(&key.1, (Reading { at: *at, nanos }, held));
            }
        }
        let usage = roster.iter().filter_map(|member| {
            let containers = containers.get(&*member.uid)?.iter().filter_map(|(name, (cpu, memory))| {
                let started = member.started(name);
                let cpu = self.counters.counter(&member.uid, name, started, *cpu)?;
                let (name, memory) = ((*name).into(), (*memory).max(1));
                Some(ContainerUsage { name, started, cpu, nano_cores: None, memory })
            });
            let containers = containers.collect();
            self.pod(member, containers)
        });
        usage.collect()
    }

    /// Adds the containers of a pod up, and the pod to its node.
    fn pod<'r>(&mut self, member: &'r Member, containers: Vec<ContainerUsage>) -> Option<PodUsage<'r>> {
        if containers.is_empty() {
            return None;
        }
        let sum = self.pods.entry(member.uid.clone()).or_insert_with(|| Sum::since(self.since));
        for container in &containers {
            sum.add(&container.name, container.started, container.cpu);
        }
        let cpu = sum.reading();
        if let Some(cpu) = cpu {
            self.node.add(&member.uid, member.since, cpu);
        }
        Some(PodUsage { member, cpu, containers })
    }

    /// What the node uses, where the usage of its pods is known.
    pub fn node<'a>(&self, name: &'a str, pods: &[PodUsage<'_>]) -> NodeUsage<'a> {
        let nano_cores = if pods.is_empty() { None } else { pods.iter().map(PodUsage::nano_cores).sum() };
        self.node_with(name, nano_cores, pods.iter().map(PodUsage::memory).sum())
    }

    /// What the node uses, where its source has added up all but CPU time.
    pub fn node_with<'a>(&self, name: &'a str, nano_cores: Option<u64>, memory: u64) -> NodeUsage<'a> {
        NodeUsage { name, since: self.since, cpu: self.node.reading(), nano_cores, memory }
    }

    /// Forgets the pods that are not on the roster; what they used stays in the node's sum.
    pub fn keep(&mut self, roster: &Roster) {
        let uids: HashSet<&str> = roster.uids();
        self.node.keep(&uids);
        self.pods.retain(|uid, _| uids.contains(&**uid));
        self.counters.keep(&uids);
    }
}
