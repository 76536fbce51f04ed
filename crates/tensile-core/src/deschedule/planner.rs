// SPDX-License-Identifier: Apache-2.0
//! The judgement on each pod that may have to move.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::back_off::{earlier, later};
use super::balance::Scales;
use super::plan::{Cause, Eviction, Exclude, Found, Inquiry, Plan, Restart, World, look_again};
use super::{Buckets, Held, Permit, Plugin, Pod, Policy, Strategy, Turn, Why};
use crate::exclusion::{Exclusion, Record};

/// An exclusion that ends sooner does not count: the pod's successor could be made after it.
const MARGIN: Duration = Duration::from_secs(5);
/// A pod that is on a node so long after its owner was excluded from it shows that nobody enforces exclusions. Before,
/// the webhook may not have heard of it; creation times are whole seconds of another clock.
const SLACK: Duration = Duration::from_secs(5);
/// A rollout that is under way is looked at again after this time.
const ROLLOUT: Duration = Duration::from_secs(5);

pub(super) struct Planner<'a, 'w> {
    pub(super) world: &'a World<'w>,
    pub(super) policy: &'a Policy,
    pub(super) buckets: &'a mut Buckets,
    /// What would be left of them if all that is only excluded yet were evicted too.
    pub(super) ahead: Buckets,
    pub(super) now: Timestamp,
    pub(super) outages: BTreeSet<&'a str>,
    /// Owners with a move in flight, by UID.
    pub(super) busy: BTreeSet<Arc<str>>,
    /// Owners whose pods do not all serve, by UID.
    pub(super) unsettled: BTreeSet<Arc<str>>,
    /// Moves that the multi-scheduler's room was counted on for already, by node.
    pub(super) granted: BTreeMap<&'a str, u64>,
    pub(super) plan: Plan,
}

impl<'a, 'w> Planner<'a, 'w> {
    /// A pod on a node that a strategy found.
    pub(super) fn bound(&mut self, found: &Found<'_>) {
        let pod = found.pod;
        if let Err(why) = self.judge(found) {
            if let Why::Parked(until) = &why {
                look_again(&mut self.plan, *until);
            }
            self.plan.held.push(Held { pod: pod.uid.clone(), why });
        }
    }

    /// As many pods as it takes to bring the nodes into balance. Those that cannot be moved are passed over.
    pub(super) fn balance(&mut self, strategy: &Strategy) {
        let (world, policy, now) = (self.world, self.policy, self.now);
        let movable = |pod: &Pod| may_move(policy, pod, now).is_ok();
        let Some(mut scales) = Scales::weigh(world, policy, strategy, movable) else { return };
        while let Some((pod, node)) = scales.next() {
            let reason = format!("{node} is out of balance");
            let found = Found { at: now, pod, node, strategy, reason };
            if self.judge(&found) == Ok(true) {
                scales.moves(pod);
            }
        }
    }

    /// Whether something is done about the pod; `false`: it has to wait.
    fn judge(&mut self, found: &Found<'_>) -> Result<bool, Why> {
        let (pod, node, plugin) = (found.pod, found.node, &found.strategy.plugin);
        let owner: Arc<str> = may_move(self.policy, pod, self.now)?.into();
        if self.outages.contains(node) && plugin.shows_failure() {
            return Err(Why::Outage(node.into()));
        }
        if self.busy.contains(&*owner) || (plugin.disturbs() && pod.ready && self.unsettled.contains(&*owner)) {
            return Ok(false);
        }
        if let Plugin::NodeTaints { surge: true, .. } = plugin
            && let Some(done) = self.roll_out(found, &owner)?
        {
            return Ok(done);
        }
        if !self.job_allows(pod)? || !self.enforced(pod)? {
            return Ok(false);
        }
        let cause = || Cause::Found {
            node: node.into(),
            profile: found.strategy.profile.clone(),
            plugin: found.strategy.plugin.name(),
            reason: found.reason.clone(),
        };
        let live = self.exclusions(pod).find(|exclusion| exclusion.node == node && self.is_live(exclusion));
        if let Some(live) = live {
            if pod.created > later(self.policy.back_off.since(live), SLACK) {
                let until = live.until;
                look_again(&mut self.plan, until);
                return Err(Why::NotEnforced(node.into()));
            }
            return Ok(self.evict(pod, &owner, node, cause()));
        }
        let mut exclude = self.exclude(pod, node)?;
        // An exclusion that waits for the limits could run out, and would count as a move that never was.
        if let Err(when) = self.ahead.take(node, &pod.namespace, self.now) {
            look_again(&mut self.plan, when);
            return Ok(false);
        }
        let has_place = self.has_place(pod, node, plugin.disturbs(), &mut exclude.record);
        if has_place != Ok(true) {
            self.ahead.give_back(node, &pod.namespace);
            return has_place;
        }
        self.plan.exclude.push(exclude);
        self.busy.insert(owner);
        Ok(true)
    }

    /// Lets its Deployment bring new pods first, if it is one's. Whether something is done; `None`: it cannot do that.
    fn roll_out(&mut self, found: &Found<'_>, owner: &str) -> Result<Option<bool>, Why> {
        let (pod, node) = (found.pod, found.node);
        if pod.owner.as_ref().is_none_or(|owner| &*owner.kind != "ReplicaSet") {
            return Ok(None);
        }
        let Some(rollout) = self.world.rollouts.get(owner) else {
            self.plan.ask.push(pod.uid.clone());
            return Ok(Some(false));
        };
        match (rollout.turn(), &rollout.deployment) {
            (Turn::Restart, Some(deployment)) => {
                if !self.ready_nodes(pod).any(|name| name != node) {
                    return Err(Why::NowhereElse);
                }
                if let Err(when) = self.take(node, &pod.namespace) {
                    look_again(&mut self.plan, when);
                    return Ok(Some(false));
                }
                let (pod, deployment, reason) = (pod.uid.clone(), deployment.clone(), found.reason.clone());
                self.plan.restart.push(Restart { pod, deployment, reason });
                self.busy.insert(owner.into());
                Ok(Some(true))
            }
            (Turn::Wait, _) => {
                let soon = later(self.now, ROLLOUT);
                look_again(&mut self.plan, soon);
                Ok(Some(false))
            }
            _ => Ok(None),
        }
    }

    /// Whether somebody keeps the pod's successor off its node; `false` until that is known. Of a bare pod we do.
    fn enforced(&self, pod: &Pod) -> Result<bool, Why> {
        if pod.owner.is_none() {
            return Ok(true);
        }
        let enforces = self.world.places.and_then(|places| places.enforces);
        if enforces.is_some() && pod.scheduler.as_deref() == enforces {
            return Ok(true);
        }
        match self.world.guard.permit(self.now) {
            Permit::Yes => Ok(true),
            Permit::NotYet => Ok(false),
            Permit::No(missing) => Err(Why::NobodyEnforces(missing)),
        }
    }

    /// Whether the Job, if it is one's, bears the loss; `false` until that is known.
    fn job_allows(&mut self, pod: &Pod) -> Result<bool, Why> {
        let Some(owner) = pod.owner.as_ref().filter(|owner| &*owner.kind == "Job") else { return Ok(true) };
        match self.world.jobs.get(&owner.uid) {
            None => {
                self.plan.ask.push(pod.uid.clone());
                Ok(false)
            }
            Some(job) if job.may_lose_a_pod(pod.index_failures) => Ok(true),
            Some(_) => Err(Why::JobWouldFail),
        }
    }

    /// Takes a token for what is done now; what is only excluded yet finds one less.
    fn take(&mut self, node: &str, namespace: &str) -> Result<(), Timestamp> {
        self.buckets.take(node, namespace, self.now)?;
        self.ahead.take(node, namespace, self.now).or(Ok(()))
    }

    /// Whether the limits allow it now.
    fn evict(&mut self, pod: &Pod, owner: &str, node: &str, cause: Cause) -> bool {
        match self.take(node, &pod.namespace) {
            Ok(()) => {
                self.busy.insert(owner.into());
                let eviction = Eviction { pod: pod.uid.clone(), cause };
                if pod.owner.is_some() {
                    self.plan.evict.push(eviction);
                } else {
                    self.plan.recreate.push(eviction);
                }
                true
            }
            Err(when) => {
                look_again(&mut self.plan, when);
                false
            }
        }
    }

    /// The record that excludes the pod's next incarnation from `node`.
    fn exclude(&self, pod: &Pod, node: &str) -> Result<Exclude, Why> {
        let (back_off, key) = (&self.policy.back_off, pod.subject().key());
        if let Some(version) = self.world.newer.get(&key) {
            return Err(Why::NewerRecord(*version));
        }
        if !self.ready_nodes(pod).any(|name| name != node) {
            return Err(Why::NowhereElse);
        }
        let empty = Record::default();
        let record = self.world.records.get(&key).unwrap_or(&empty);
        if back_off.attempts(record, self.now) >= self.policy.moves {
            let ends = record.nodes.iter().filter(|exclusion| !back_off.forgotten(exclusion, self.now));
            let ends = ends.map(|exclusion| later(exclusion.until, back_off.most)).min();
            return Err(Why::Parked(ends.unwrap_or(self.now)));
        }
        let record = back_off.excluded(record, node, self.now);
        Ok(Exclude { key, record, pod: pod.uid.clone() })
    }

    /// Leaves the pod somewhere to go: if it is excluded from all nodes but `node`, the oldest exclusion in `record` ends;
    /// unless it is only `disturbed`: then it stays.
    fn leave_a_way(&self, pod: &Pod, node: &str, disturbed: bool, record: &mut Record) -> Result<(), Why> {
        let candidates: Vec<&str> = self.ready_nodes(pod).filter(|name| *name != node).collect();
        let records = |name: &str| self.exclusions(pod).filter(|e| e.node == name && e.until > self.now).count();
        if candidates.iter().all(|candidate| records(candidate) > 0) {
            if disturbed {
                return Err(Why::NowhereElse);
            }
            // One that another record of the pod has too would not end with this one.
            let among = |exclusion: &&mut Exclusion| {
                candidates.contains(&exclusion.node.as_str()) && records(&exclusion.node) == 1
            };
            let live = record.nodes.iter_mut().filter(|exclusion| exclusion.until > self.now).filter(among);
            let since = |exclusion: &&mut Exclusion| self.policy.back_off.since(exclusion);
            live.min_by_key(since).ok_or(Why::NowhereElse)?.until = self.now;
        }
        Ok(())
    }

    /// Whether the pod has a way off `node`; `false` until that is known. The multi-scheduler, if there is one, knows where there
    /// is room, which is counted once in a plan. Where only nodes have it that the pod would be kept off, that ends early in
    /// `record`, unless the pod is only `disturbed`.
    fn has_place(&mut self, pod: &Pod, node: &str, disturbed: bool, record: &mut Record) -> Result<bool, Why> {
        let fit = match self.world.places.map(|places| places.fits.get(&pod.uid)) {
            Some(None) => {
                self.inquire(pod);
                return Ok(false);
            }
            None | Some(Some(None)) => return self.leave_a_way(pod, node, disturbed, record).map(|()| true),
            Some(Some(Some(fit))) => fit,
        };
        let excluded = |name: &str| record.nodes.iter().any(|one| one.node == name && one.until > self.now);
        let left = |name: &str| fit.on(name).saturating_sub(self.granted.get(name).copied().unwrap_or_default());
        let others = self.world.nodes.iter().filter(|(name, there)| {
            let borne = self.borne(pod).any(|exclusion| *exclusion.node == ***name);
            there.not_ready_since.is_none() && ***name != *node && pod.may_go_to(name, there, borne)
        });
        let roomy = others.map(|(name, _)| &**name).filter(|name| left(name) > 0 && !(disturbed && excluded(name)));
        let best = roomy.max_by_key(|name| (!excluded(name), left(name))).ok_or(Why::NowhereFits)?;
        for exclusion in record.nodes.iter_mut().filter(|exclusion| exclusion.node == best) {
            exclusion.until = exclusion.until.min(self.now);
        }
        *self.granted.entry(best).or_default() += 1;
        Ok(true)
    }

    fn inquire(&mut self, pod: &Pod) {
        let borne = self.borne(pod).map(|exclusion| exclusion.node.clone()).collect();
        self.plan.fit.push(Inquiry { pod: pod.uid.clone(), borne });
    }

    /// A pod that the upper scheduler finds no node for, if it is our doing.
    pub(super) fn unbound(&mut self, pod: &Pod) {
        let (Some(trouble), owner) = (&pod.unbound, own_or(pod)) else { return };
        let patience = self.policy.strategies.iter().find_map(|strategy| match &strategy.plugin {
            Plugin::UnschedulableBelow { after } if strategy.namespaces.has(&pod.namespace) => Some(*after),
            _ => None,
        });
        let (Some(patience), false) = (patience, self.busy.contains(owner)) else { return };
        let is_ready = |name: &str| self.world.nodes.get(name).is_some_and(|node| node.not_ready_since.is_none());
        let borne: Vec<&Exclusion> = self.borne(pod).filter(|exclusion| is_ready(&exclusion.node)).collect();
        let (Some(oldest), due) =
            (borne.iter().min_by_key(|exclusion| exclusion.until).copied(), later(trouble.since, patience))
        else {
            return;
        };
        if due > self.now {
            look_again(&mut self.plan, due);
        } else if oldest.until <= self.now {
            if may_move(self.policy, pod, self.now).is_ok() && self.job_allows(pod) == Ok(true) {
                self.evict(pod, owner, "", Cause::Outlived);
            }
        } else if let Some(node) = self.roomy_again(pod, &borne) {
            self.lift(pod, &node, owner);
        } else if !self.ready_nodes(pod).any(|name| borne.iter().all(|exclusion| exclusion.node != name)) {
            let node = oldest.node.clone();
            self.lift(pod, &node, owner);
        } else {
            let until = oldest.until;
            look_again(&mut self.plan, until);
        }
    }

    /// A node that an unbound pod is kept off, and that has room for it again, says the multi-scheduler.
    fn roomy_again(&mut self, pod: &Pod, borne: &[&Exclusion]) -> Option<String> {
        let places = self.world.places?;
        match places.fits.get(&pod.uid) {
            None => {
                self.inquire(pod);
                None
            }
            Some(fit) => {
                let fit = fit.as_ref()?;
                let roomy = borne.iter().find(|exclusion| exclusion.until > self.now && fit.on(&exclusion.node) > 0);
                roomy.map(|exclusion| exclusion.node.clone())
            }
        }
    }

    /// Ends the exclusion from `node` early, in the record that holds it: the pod's own, or that of all pods of its owner.
    fn lift(&mut self, pod: &Pod, node: &str, owner: &str) {
        let (world, now) = (self.world, self.now);
        let ends = |exclusion: &Exclusion| exclusion.node == node && exclusion.until > now;
        let keys = pod.subjects().into_iter().map(|subject| subject.key()).filter(|key| !world.newer.contains_key(key));
        let mut held = keys.filter_map(|key| world.records.get(&key).map(|record| (key, record)));
        let Some((key, record)) = held.find(|(_, record)| record.nodes.iter().any(ends)) else { return };
        let mut record = record.clone();
        record.nodes.iter_mut().filter(|exclusion| ends(exclusion)).for_each(|exclusion| exclusion.until = now);
        self.busy.insert(owner.into());
        self.plan.exclude.push(Exclude { key, record, pod: pod.uid.clone() });
    }

    /// The exclusions that concern the pod, also those that have run out.
    fn exclusions(&self, pod: &Pod) -> impl Iterator<Item = &'a Exclusion> + use<'a, 'w> {
        let world = self.world;
        let records: Vec<&'a Record> =
            pod.subjects().iter().filter_map(|subject| world.records.get(&subject.key())).collect();
        records.into_iter().flat_map(|record| &record.nodes)
    }

    fn is_live(&self, exclusion: &Exclusion) -> bool {
        exclusion.until > later(self.now, MARGIN)
    }

    /// The virtual nodes that are ready and meet the constraints of the pod's author.
    fn ready_nodes<'p>(&'p self, pod: &'p Pod) -> impl Iterator<Item = &'p str> {
        let borne: BTreeSet<&str> = self.borne(pod).map(|exclusion| exclusion.node.as_str()).collect();
        let ready = self.world.nodes.iter().filter(|(_, node)| node.not_ready_since.is_none());
        let allowed = ready.filter(move |(name, node)| pod.may_go_to(name, node, borne.contains(&***name)));
        allowed.map(|(name, _)| &**name)
    }

    /// The exclusions that held when the pod was made: it bears them.
    fn borne(&self, pod: &Pod) -> impl Iterator<Item = &'a Exclusion> + use<'a, 'w> {
        let (back_off, created) = (self.policy.back_off, pod.created);
        self.exclusions(pod)
            .filter(move |exclusion| (earlier(back_off.since(exclusion), MARGIN)..exclusion.until).contains(&created))
    }
}

/// Who makes the pod again: its controller, or, if the policy says so, we; then it is its own owner.
fn may_move<'p>(policy: &Policy, pod: &'p Pod, now: Timestamp) -> Result<&'p str, Why> {
    let protections = &policy.protections;
    if pod.owner.is_none() && (pod.mirror || !protections.recreate) {
        return Err(Why::NoController);
    }
    let kind = pod.owner.as_ref().map(|owner| &*owner.kind);
    let protected = [
        (kind == Some("DaemonSet"), "pods of a DaemonSet"),
        (pod.mirror || kind == Some("Node"), "mirror pods"),
        // What has run may not run twice; only a controller knows whether it may.
        (kind.is_none() && (pod.started || pod.finished()), "pods without a controller that have started"),
        (pod.priority >= protections.priority, "pods of its priority"),
        (pod.claims && protections.claims, "pods with a persistent volume claim"),
        // The next pod of its name has the same claim, which may be bound where it is now.
        (pod.claims && kind == Some("StatefulSet"), "pods of a StatefulSet with a persistent volume claim"),
        (pod.local_storage && pod.started && protections.local_storage, "pods with local data"),
        (later(pod.created, protections.min_age) > now, "young pods"),
    ];
    match protected.iter().find(|(protected, _)| *protected) {
        Some((_, what)) => Err(Why::Protected(what)),
        None => Ok(own_or(pod)),
    }
}

/// The UID of the pod's controller, or its own.
fn own_or(pod: &Pod) -> &str {
    pod.owner.as_ref().map_or(&pod.uid, |owner| &owner.uid)
}
