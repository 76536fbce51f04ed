// SPDX-License-Identifier: Apache-2.0
//! All pods of the virtual node: for each UID what is known upstairs, at the provider, and of what we did.
//!
//! Digests only: the text of a pod is kept until the provider has it, the text of a status until it is shown upstairs.

mod present;
mod retry;
pub(super) mod stages;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus::HistogramVec;
use serde_json::{Map, Value, value::RawValue};
use tokio::{sync::mpsc, time::Instant};

use super::{
    PodId, ProviderPod,
    plan::{Action, Lower, LowerPod, Memory, Pair, Sent, Upper, plan},
    status::{self, Shown},
    upper::{Gates, UpperPod},
};
use crate::queue::Queue;
use retry::Retry;
use stages::{Course, PodStart, Stage, Stages};

type Uid = Arc<str>;

/// The pairs and the queue of those to look at.
#[derive(Debug)]
pub(crate) struct Pairs {
    table: Mutex<Table>,
    pub(crate) queue: Queue<Uid>,
    stages: Stages,
}

#[derive(Debug, Default)]
struct Table {
    records: HashMap<Uid, Record>,
    /// Pods that wait until an earlier pod of their name is gone.
    waiting: HashMap<(Arc<str>, Arc<str>), Uid>,
    upper_list: u32,
    lower_list: u32,
    upper_synced: bool,
    provider_synced: bool,
}

#[derive(Debug)]
struct Record {
    id: PodId,
    upper: Upper,
    /// Kept while the provider does not have the pod.
    text: Option<Box<RawValue>>,
    lower: Lower,
    /// Version of the provider's pod, also of one that is gone.
    lower_version: u64,
    /// Kept while it is not shown upstairs.
    lower_status: Option<Box<str>>,
    memory: Memory,
    retry: Option<Retry>,
    /// Of a pod that came while we looked, until it is shown as running.
    course: Option<Box<Course>>,
    /// What it waited for came while a step was under way, too late for that step.
    woken: bool,
    /// The last list that named it.
    upper_list: u32,
    lower_list: u32,
}

/// What to do for one pair, with what doing it needs.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) id: PodId,
    pub(crate) action: Action,
    pub(crate) upper: Option<UpperPod>,
    /// The whole pod, when it is at hand.
    pub(crate) text: Option<Box<RawValue>>,
    /// The provider's status, when it is at hand.
    pub(crate) status: Option<Map<String, Value>>,
    /// How often the step has failed.
    pub(crate) attempts: u32,
}

impl Pairs {
    pub(crate) fn new(stages: HistogramVec) -> Self {
        Self { table: Mutex::new(Table::default()), queue: Queue::new(), stages: Stages::new(stages) }
    }

    /// Tells each start from now on.
    pub(crate) fn tell_starts(&self, starts: mpsc::Sender<PodStart>) {
        if self.stages.starts.set(starts).is_err() {
            tracing::error!("how pods came to run is told to somebody already");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A list of upper pods begins.
    pub(crate) fn upper_list_begins(&self) {
        self.lock().upper_list += 1;
    }

    /// The list is complete: pods it did not name have to be asked for.
    pub(crate) fn upper_list_ends(&self) {
        let mut table = self.lock();
        let (list, first) = (table.upper_list, !table.upper_synced);
        table.upper_synced = true;
        for (uid, record) in &mut table.records {
            let missing = record.upper_list != list && matches!(record.upper, Upper::Present(_));
            if missing {
                record.upper = Upper::Unknown;
            }
            if missing || (first && matches!(record.upper, Upper::Unknown)) {
                self.queue.add(uid.clone());
            }
        }
    }

    /// An upper pod as a list has it: this counts, whatever was known.
    pub(crate) fn upper_listed(&self, pod: UpperPod, text: Box<RawValue>) {
        self.upper_present(pod, text, true);
    }

    /// An upper pod as a watch or an answer has it: an older version than is known does not count.
    pub(crate) fn upper_seen(&self, pod: UpperPod, text: Box<RawValue>) {
        self.upper_present(pod, text, false);
    }

    fn upper_present(&self, pod: UpperPod, text: Box<RawValue>, listed: bool) {
        let uid = pod.id.uid.clone();
        let now = Instant::now();
        let mut table = self.lock();
        let (list, looking) = (table.upper_list, table.provider_synced);
        let is_new = !table.records.contains_key(&uid);
        let record = table.record(&pod.id);
        record.upper_list = list;
        if let Upper::Present(known) = &record.upper
            && !listed
            && known.resource_version > pod.resource_version
        {
            return;
        }
        let to_create = !matches!(record.lower, Lower::Present(_)) && pod.deleting.is_none() && !pod.shown.started();
        record.text = to_create.then_some(text);
        if let Lower::Present(lower) = &record.lower
            && shows(&pod, lower.hash, lower.disrupted)
        {
            record.lower_status = None;
        }
        if is_new && looking && to_create {
            record.course = Some(Box::new(Course::begin(now)));
        }
        if pod.shown.past_pending {
            self.stages.pass(&record.id, &mut record.course, Stage::Show, now);
        }
        record.upper = Upper::Present(pod);
        drop(table);
        self.queue.add(uid);
    }

    /// The upper pod does not exist any more.
    pub(crate) fn upper_gone(&self, id: &PodId) {
        self.change(id, |record| {
            record.upper = Upper::Gone;
            record.text = None;
        });
    }

    /// It is no longer certain that the upper pod exists.
    pub(crate) fn upper_unknown(&self, id: &PodId) {
        self.change(id, |record| record.upper = Upper::Unknown);
    }

    /// A list of the provider begins.
    pub(crate) fn lower_list_begins(&self) {
        self.lock().lower_list += 1;
    }

    /// The list is complete: pods it did not name have to be asked for.
    pub(crate) fn lower_list_ends(&self) {
        let mut table = self.lock();
        let (list, first) = (table.lower_list, !table.provider_synced);
        table.provider_synced = true;
        for (uid, record) in &mut table.records {
            let missing = record.lower_list != list && matches!(record.lower, Lower::Present(_));
            if missing {
                record.lower = Lower::Unknown;
            }
            if missing || first {
                self.queue.add(uid.clone());
            }
        }
    }

    /// The provider's pod, as it lists it (this counts) or says otherwise (an older version does not count).
    pub(crate) fn lower_present(&self, pod: &ProviderPod, listed: bool) {
        let mut table = self.lock();
        let (list, upper_synced) = (table.lower_list, table.upper_synced);
        let record = table.record(&pod.id);
        record.lower_list = list;
        if !listed && pod.version != 0 && pod.version < record.lower_version {
            return;
        }
        let past_pending = record.set_lower(pod, upper_synced);
        let passed = if past_pending { Stage::Start } else { Stage::Create };
        self.stages.pass(&record.id, &mut record.course, passed, Instant::now());
        drop(table);
        self.queue.add(pod.id.uid.clone());
    }

    /// The provider does not have the pod any more.
    pub(crate) fn lower_gone(&self, id: &PodId, version: u64) {
        let mut table = self.lock();
        if let Some(record) = table.records.get_mut(&id.uid) {
            let ended = matches!(&record.lower, Lower::Present(lower) if lower.terminal);
            record.lower_status = record.lower_status.take().filter(|_| ended);
            record.lower = Lower::Gone;
            record.lower_version = record.lower_version.max(version);
            record.retry = None;
            self.queue.add(id.uid.clone());
        }
        if let Some(uid) = table.waiting.remove(&id.key()) {
            if let Some(record) = table.records.get_mut(&uid) {
                record.retry = None;
            }
            self.queue.add(uid);
        }
    }

    /// The name of `id` is still taken by an earlier pod.
    pub(crate) fn waits_for_name(&self, id: &PodId) {
        self.lock().waiting.insert(id.key(), id.uid.clone());
    }

    /// A status was shown upstairs: its text is needed no longer, unless gates may change what is to be shown of it.
    pub(crate) fn sent(&self, id: &PodId, sent: Sent) {
        self.change(id, |record| {
            record.memory.sent = Some(sent);
            let shown = match (&record.upper, &record.lower) {
                (Upper::Present(upper), Lower::Present(lower)) => upper.gates == Gates::None && lower.hash == sent.hash,
                _ => false,
            };
            if shown {
                record.lower_status = None;
            }
        });
    }

    /// Changes what is remembered of a pair.
    pub(crate) fn remember(&self, id: &PodId, change: impl FnOnce(&mut Memory)) {
        self.change(id, |record| change(&mut record.memory));
    }

    /// The refusal that is shown on the upper pod.
    pub(crate) fn refusal_of(&self, id: &PodId) -> Option<u64> {
        self.lock().records.get(&id.uid).and_then(|record| record.memory.refusal)
    }

    fn change(&self, id: &PodId, change: impl FnOnce(&mut Record)) {
        let mut table = self.lock();
        if let Some(record) = table.records.get_mut(&id.uid) {
            change(record);
            drop(table);
            self.queue.add(id.uid.clone());
        }
    }

    /// What to do next for the pod `uid` at `now` (seconds since the epoch); `None` when that is nothing.
    pub(crate) fn step(&self, uid: &Uid, now: i64) -> Option<Step> {
        let mut table = self.lock();
        let (upper_synced, provider_synced) = (table.upper_synced, table.provider_synced);
        let record = table.records.get_mut(uid)?;
        let pair = record.pair(upper_synced, provider_synced);
        let action = plan(&pair, now);
        match action {
            Action::Nothing => return None,
            Action::LookAgain(seconds) => {
                let wait = std::time::Duration::from_secs(seconds.unsigned_abs());
                self.queue.add_at(uid.clone(), Instant::now() + wait);
                return None;
            }
            Action::Forget => {
                table.records.remove(uid);
                return None;
            }
            _ => {}
        }
        if let Some(retry) = record.retry
            && retry.at > Instant::now()
            && record.depends_on() == (retry.revision, retry.deleting)
        {
            return None; // It is in the queue for then.
        }
        record.woken = false;
        let status = match action {
            Action::Report => record.lower_status.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            _ => None,
        };
        Some(Step {
            id: record.id.clone(),
            action,
            upper: match pair.upper {
                Upper::Present(upper) => Some(upper),
                Upper::Unknown | Upper::Gone => None,
            },
            text: if action == Action::Create { record.text.take() } else { None },
            status,
            attempts: record.retry.map_or(0, |retry| retry.attempts),
        })
    }
}

impl Table {
    fn record(&mut self, id: &PodId) -> &mut Record {
        self.records.entry(id.uid.clone()).or_insert_with(|| Record {
            id: id.clone(),
            upper: Upper::Unknown,
            text: None,
            lower: Lower::Unknown,
            lower_version: 0,
            lower_status: None,
            memory: Memory::default(),
            retry: None,
            course: None,
            woken: false,
            upper_list: 0,
            lower_list: 0,
        })
    }
}

impl Record {
    /// Takes note of the provider's pod; whether its phase is past Pending.
    fn set_lower(&mut self, pod: &ProviderPod, upper_synced: bool) -> bool {
        let empty = Map::new();
        let below = pod.status.as_object().unwrap_or(&empty);
        let shown = Shown::of(below);
        self.lower_version = pod.version;
        self.memory.ran |= shown.started();
        self.text = None;
        let (hash, needed) = match &self.upper {
            Upper::Present(upper) => {
                let hash = if upper.gates == Gates::None { shown.hash } else { gated_hash(below, upper) };
                (hash, !shows(upper, hash, shown.disrupted))
            }
            // The upper pod is still to be listed. How its pod ended must not be lost until then; all else can be asked
            // for again, and is mostly shown already.
            Upper::Unknown => (shown.hash, !upper_synced && shown.terminal()),
            Upper::Gone => (shown.hash, false),
        };
        self.lower_status = needed.then(|| pod.status.to_string().into());
        self.lower = Lower::Present(LowerPod {
            applied: pod.applied,
            ending_by: pod.ending_by,
            terminal: shown.terminal(),
            disrupted: shown.disrupted,
            hash,
        });
        shown.past_pending
    }

    /// What is known, for the decision. Gates upstairs may have changed since the provider spoke.
    fn pair(&mut self, upper_synced: bool, provider_synced: bool) -> Pair {
        if let (Upper::Present(upper), Lower::Present(lower)) = (&self.upper, &mut self.lower)
            && upper.gates != Gates::None
            && let Some(below) = self.lower_status.as_deref().and_then(|text| serde_json::from_str(text).ok())
        {
            lower.hash = gated_hash(&below, upper);
        }
        Pair {
            upper: self.upper.clone(),
            lower: self.lower.clone(),
            memory: self.memory.clone(),
            last_words: matches!(self.lower, Lower::Gone) && self.lower_status.is_some(),
            upper_synced,
            provider_synced,
        }
    }

    fn depends_on(&self) -> (u64, Option<i64>) {
        match &self.upper {
            Upper::Present(upper) => (upper.revision, upper.deleting),
            Upper::Unknown | Upper::Gone => (0, None),
        }
    }
}

/// Whether `upper` shows such a status for good: gates may change what is to be shown of it.
fn shows(upper: &UpperPod, hash: u64, disrupted: bool) -> bool {
    upper.gates == Gates::None && (upper.shown.hash, upper.shown.disrupted) == (hash, disrupted)
}

fn gated_hash(below: &Map<String, Value>, upper: &UpperPod) -> u64 {
    Shown::of(&status::desired(below, upper)).hash
}
