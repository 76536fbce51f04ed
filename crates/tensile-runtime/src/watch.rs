// SPDX-License-Identifier: Apache-2.0
//! Watches: objects that are followed for ever, and a map of them that is kept up to date.

mod raw;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

pub use raw::Raw;

/// Lists, watches, resumes, and lists anew when the server has forgotten where we were. Does not end.
///
/// Errors are logged and retried with kube-runtime's back-off (800 ms to 30 s with jitter).
pub fn follow<O>(api: Api<O>, config: Config) -> impl Stream<Item = Event<O>> + Send
where
    O: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    attend(api, config).filter_map(|event| {
        if let Err(error) = &event {
            tracing::warn!(kind = %O::kind(&()), %error, "watch interrupted, trying again");
        }
        ready(event.ok())
    })
}

/// As [`follow`], for who has to know of interruptions: they are told instead of logged.
pub fn attend<O>(api: Api<O>, config: Config) -> impl Stream<Item = Result<Event<O>, Error>> + Send
where
    O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watcher(api, config).default_backoff()
}

/// A list that is under way: it takes the place of what is known when it is complete.
#[derive(Debug)]
pub struct Listing<K, V> {
    fresh: BTreeMap<K, V>,
    complete: bool,
}

impl<K, V> Default for Listing<K, V> {
    fn default() -> Self {
        Self { fresh: BTreeMap::new(), complete: false }
    }
}

impl<K: Ord, V> Listing<K, V> {
    /// Whether there was a complete list.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Brings `known` up to date with an event about an object, which `read` makes an entry of: its key, and what has to be
    /// known of it, if anything. An object without a key is passed over. Returns whether `known` may have changed.
    pub fn note<O>(
        &mut self,
        known: &mut BTreeMap<K, V>,
        event: Event<O>,
        mut read: impl FnMut(O) -> Option<(K, Option<V>)>,
    ) -> bool {
        let mut put = |map: &mut BTreeMap<K, V>, object| match read(object) {
            Some((key, Some(value))) => drop(map.insert(key, value)),
            Some((key, None)) => drop(map.remove(&key)),
            None => {}
        };
        match event {
            Event::Init => self.fresh.clear(),
            Event::InitApply(object) => put(&mut self.fresh, object),
            Event::InitDone => {
                *known = std::mem::take(&mut self.fresh);
                self.complete = true;
                return true;
            }
            Event::Apply(object) => {
                put(known, object);
                return true;
            }
            Event::Delete(object) => {
                if let Some((key, _)) = read(object) {
                    known.remove(&key);
                }
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects are `key=value`, `key` alone for one of which nothing has to be known; others are passed over.
    fn read(object: &str) -> Option<(String, Option<String>)> {
        let (key, value) = object.split_once('=').map_or((object, None), |(key, value)| (key, Some(value)));
        (!key.is_empty()).then(|| (key.to_owned(), value.map(str::to_owned)))
    }

    #[test]
    fn what_is_known_follows_lists_changes_and_deletions() {
        let (mut listing, mut known) = (Listing::default(), BTreeMap::new());
        let mut told = |event, changed, expected: &[(&str, &str)]| {
            assert_eq!(listing.note(&mut known, event, read), changed);
            let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(known, expected);
            listing.is_complete()
        };
        assert!(!told(Event::Init, false, &[]));
        assert!(!told(Event::InitApply("a=1"), false, &[]));
        assert!(!told(Event::InitApply("b"), false, &[]));
        assert!(told(Event::InitDone, true, &[("a", "1")]));
        told(Event::Apply("b=2"), true, &[("a", "1"), ("b", "2")]);
        told(Event::Apply("=3"), true, &[("a", "1"), ("b", "2")]);
        told(Event::Apply("a"), true, &[("b", "2")]);
        told(Event::Delete("b=2"), true, &[]);
        told(Event::Apply("c=1"), true, &[("c", "1")]);
        told(Event::Init, false, &[("c", "1")]);
        told(Event::InitApply("x=1"), false, &[("c", "1")]);
        told(Event::Init, false, &[("c", "1")]);
        told(Event::InitApply("d=1"), false, &[("c", "1")]);
        assert!(told(Event::InitDone, true, &[("d", "1")]));
    }
}
