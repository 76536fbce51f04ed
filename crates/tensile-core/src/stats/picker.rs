// SPDX-License-Identifier: Apache-2.0
//! Prometheus text of a kubelet, reduced to our pods: read in chunks, line by line, kept by metric.

use std::collections::{BTreeMap, btree_map::Entry};

use memchr::memchr;

use super::{Member, Millis, Roster, exposition};

/// Longest line that is read; a longer one is passed over. A line has some hundred bytes.
const LINE: usize = 64 * 1024;
/// What samples of a metric may have behind the name their head has.
const SUFFIXES: &[&[u8]] = &[b"", b"_bucket", b"_sum", b"_count"];
/// How a kubelet says that it does not know everything it should, with a value that is not zero.
const SCRAPE_ERROR: &[u8] = b"scrape_error";

/// More of our pods' metrics than anybody holds in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {0} bytes of metrics")]
pub struct TooMuch(pub usize);

/// A sample of a pod of ours.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The metric.
    pub name: &'a str,
    /// Whose it is.
    pub member: &'a Member,
    /// Its value.
    pub value: f64,
    /// When it was taken, where that is said.
    pub at: Option<Millis>,
}

/// Metrics by name, each with its head and its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Families(BTreeMap<Box<str>, Family>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    head: String,
    samples: String,
}

impl Families {
    /// Adds a metric that we say ourselves; of one that is there already, only the samples count.
    pub fn add(&mut self, name: &str, head: &str, samples: &str) {
        let family = self.0.entry(name.into()).or_insert_with(|| Family { head: head.into(), ..Family::default() });
        family.samples.push_str(samples);
    }

    /// Adds what another source says: the text format wants all samples of a metric in one place.
    pub fn merge(&mut self, other: Self) {
        for (name, family) in other.0 {
            match self.0.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert(family)),
                Entry::Occupied(known) => {
                    known.into_mut().samples.push_str(&family.samples);
                }
            }
        }
    }

    /// All of it as text.
    pub fn text(&self) -> String {
        let mut text =
            String::with_capacity(self.0.values().map(|family| family.head.len() + family.samples.len()).sum());
        for family in self.0.values() {
            text.push_str(&family.head);
            text.push_str(&family.samples);
        }
        text
    }
}

/// What was picked from one kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picked {
    /// The metrics of our pods.
    pub families: Families,
    /// The kubelet says that it does not know everything.
    pub incomplete: bool,
}

/// Picks the samples of our pods on one lower node, and names them as above.
///
/// Everything else is dropped: other pods, samples that name no pod, lines that cannot be read. So no foreign pod shows,
/// and one broken line costs one line.
pub struct Picker<'r, F> {
    roster: &'r Roster,
    lower_node: &'r str,
    node: &'r str,
    limit: usize,
    seen: F,
    /// The line that the last chunk broke off in.
    partial: Vec<u8>,
    /// That line is longer than any that is read.
    passing: bool,
    /// Name and head of the metric that the text is at; its head is kept when a sample is.
    metric: Vec<u8>,
    head: String,
    kept: usize,
    picked: Picked,
}

impl<'r, F: FnMut(&Sample<'_>)> Picker<'r, F> {
    /// Picks from the kubelet of `lower_node` for virtual node `node`, at most `limit` bytes. Each sample that is kept is
    /// shown to `seen`.
    pub fn new(roster: &'r Roster, lower_node: &'r str, node: &'r str, limit: usize, seen: F) -> Self {
        let (partial, metric, head) = (Vec::new(), Vec::new(), String::new());
        let picked = Picked::default();
        Self { roster, lower_node, node, limit, seen, partial, passing: false, metric, head, kept: 0, picked }
    }

    /// Takes the next bytes, which may begin and end anywhere.
    ///
    /// # Errors
    /// When more is kept than was allowed.
    pub fn feed(&mut self, mut chunk: &[u8]) -> Result<(), TooMuch> {
        while let Some(end) = memchr(b'\n', chunk) {
            let (line, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if std::mem::take(&mut self.passing) {
                self.partial.clear();
            } else if self.partial.is_empty() {
                self.line(line);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole);
                whole.clear();
                self.partial = whole;
            }
        }
        if self.passing || self.partial.len() + chunk.len() > LINE {
            self.passing = true;
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(chunk);
        }
        if self.kept > self.limit { Err(TooMuch(self.limit)) } else { Ok(()) }
    }

    /// What was picked. A last line without its end counts: some servers leave the end out.
    ///
    /// # Errors
    /// As [`Picker::feed`].
    pub fn finish(mut self) -> Result<Picked, TooMuch> {
        self.feed(b"\n")?;
        Ok(self.picked)
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first() == Some(&b'#') {
            self.comment(line);
        } else if !line.is_empty() && line.len() <= LINE {
            // What cannot be read is passed over.
            let _: Option<()> = self.sample(line);
        }
    }

    fn comment(&mut self, line: &[u8]) {
        let Some(name) = exposition::headed(line) else { return };
        if name != self.metric {
            name.clone_into(&mut self.metric);
            self.head.clear();
        }
        if let Ok(text) = std::str::from_utf8(line)
            && self.head.len() + text.len() <= LINE
        {
            self.head.push_str(text);
            self.head.push('\n');
        }
    }

    fn sample(&mut self, line: &[u8]) -> Option<()> {
        let sample = exposition::sample(line)?;
        let text = |range: &std::ops::Range<usize>| std::str::from_utf8(line.get(range.clone())?).ok();
        let name = text(&sample.name)?;
        let (Some(namespace), Some(pod)) = (&sample.namespace, &sample.pod) else {
            let value: f64 = text(&sample.value)?.parse().ok()?;
            self.picked.incomplete |= name.as_bytes().ends_with(SCRAPE_ERROR) && value != 0.0;
            return None;
        };
        // Of two nodes that name the same pod, one has only not forgotten an earlier one yet.
        let member =
            self.roster.find(text(namespace)?, text(pod)?).filter(|found| *found.lower_node == *self.lower_node)?;
        if let Some(uid) = &sample.pod_uid
            && text(uid)? != &*member.lower_uid
        {
            return None;
        }
        let value = text(&sample.value)?.parse().ok()?;
        let line = std::str::from_utf8(line).ok()?;
        (self.seen)(&Sample { name, member, value, at: sample.timestamp });

        let mut renamed = [
            (sample.namespace, &*member.namespace),
            (sample.pod, &*member.name),
            (sample.pod_uid, &*member.uid),
            (sample.node, self.node),
        ];
        renamed.sort_unstable_by_key(|(place, _)| place.as_ref().map(|place| place.start));
        let family = family(&self.metric, name);
        let family = if let Some(family) = self.picked.families.0.get_mut(family) {
            family
        } else {
            let head = if family.as_bytes() == self.metric { self.head.clone() } else { String::new() };
            self.kept += head.len();
            self.picked.families.0.entry(family.into()).or_insert(Family { head, samples: String::new() })
        };
        let before = family.samples.len();
        let mut done = 0;
        for (place, name) in renamed {
            let Some(place) = place else { continue };
            family.samples.push_str(line.get(done..place.start)?);
            family.samples.push_str(name);
            done = place.end;
        }
        family.samples.push_str(line.get(done..)?);
        family.samples.push('\n');
        self.kept += family.samples.len() - before;
        Some(())
    }
}

/// The metric that a sample belongs to: the one whose head was last read, or one without a head.
fn family<'a>(metric: &'a [u8], sample: &'a str) -> &'a str {
    let belongs = sample.as_bytes().strip_prefix(metric).is_some_and(|suffix| SUFFIXES.contains(&suffix));
    std::str::from_utf8(metric).ok().filter(|metric| belongs && !metric.is_empty()).unwrap_or(sample)
}
