// SPDX-License-Identifier: Apache-2.0
//! What goes wrong, and for whom.

use std::fmt;
use std::time::Duration;

use http::Method;

/// A request that the proxy saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Method.
    pub method: Method,
    /// Path, such as `/api/v1/pods`.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
}

impl Seen {
    /// Whether it opens a watch.
    pub fn is_watch(&self) -> bool {
        self.query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }

    /// Whether it is about this resource (plural): the collection, one object, or its subresources.
    pub fn is_about(&self, resource: &str) -> bool {
        self.path.split('/').any(|part| part == resource)
    }
}

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Passed on only after this time.
    Delay(Duration),
    /// Not passed on; answered with this HTTP status and a Kubernetes `Status`.
    Status {
        /// HTTP status.
        code: u16,
        /// The machine-readable reason, such as `TooManyRequests`.
        reason: &'static str,
        /// Seconds of a `Retry-After` header.
        retry_after: Option<u32>,
    },
    /// A watch that begins with an ERROR event `410 Expired` and ends.
    ExpiredInStream,
    /// A watch begins at this version instead of the one that was asked for: the API server tells again what has happened
    /// since.
    WatchFrom(String),
    /// Never answered: the connection stays open and silent.
    Stall,
    /// The connection breaks after this many bytes of the answer's body.
    CutAfterBytes(usize),
    /// The connection breaks in the middle of the line after this many whole ones: half a watch event arrives.
    CutInLine(usize),
    /// The answer's body is read and passed on at this many bytes a second, as if the reader were slow.
    Slow {
        /// Bytes a second.
        bytes_per_second: u32,
    },
}

impl Fault {
    /// `429 TooManyRequests` with `Retry-After`.
    pub const fn too_many_requests(retry_after: u32) -> Self {
        Self::Status { code: 429, reason: "TooManyRequests", retry_after: Some(retry_after) }
    }

    /// `410 Expired` as HTTP status.
    pub const EXPIRED: Self = Self::Status { code: 410, reason: "Expired", retry_after: None };

    /// `500 InternalError`.
    pub const INTERNAL_ERROR: Self = Self::Status { code: 500, reason: "InternalError", retry_after: None };
}

/// What happens to a watch that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The connection breaks, in the middle of the body.
    Cut,
    /// The stream ends properly, as when the API server's timeout is over.
    End,
    /// An ERROR event `410 Expired`, then the proper end.
    Expire,
    /// Nothing arrives any more, the connection stays open (half-open).
    Stall,
}

/// A fault, the requests it is for, and how often.
pub struct Rule {
    fault: Fault,
    when: Box<dyn Fn(&Seen) -> bool + Send>,
    left: usize,
}

impl Rule {
    /// `fault` for every request, without end.
    pub fn new(fault: Fault) -> Self {
        Self { fault, when: Box::new(|_| true), left: usize::MAX }
    }

    /// Only for requests for which `when` holds.
    #[must_use]
    pub fn when(self, when: impl Fn(&Seen) -> bool + Send + 'static) -> Self {
        Self { when: Box::new(when), ..self }
    }

    /// Only the first `times` times.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { left: times, ..self }
    }

    /// The fault, if the rule is for this request; counts it.
    pub(super) fn apply(&mut self, seen: &Seen) -> Option<Fault> {
        if self.left == 0 || !(self.when)(seen) {
            return None;
        }
        self.left -= 1;
        Some(self.fault.clone())
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("fault", &self.fault).field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str, query: &str) -> Seen {
        Seen { method: Method::GET, path: path.to_owned(), query: query.to_owned() }
    }

    #[test]
    fn a_rule_counts_only_the_requests_it_is_for() {
        let mut rule = Rule::new(Fault::Stall).when(|seen| seen.is_about("pods")).times(1);
        assert_eq!(rule.apply(&seen("/api/v1/nodes", "")), None);
        assert_eq!(rule.apply(&seen("/api/v1/namespaces/default/pods", "")), Some(Fault::Stall));
        assert_eq!(rule.apply(&seen("/api/v1/pods", "")), None);
    }

    #[test]
    fn a_watch_is_told_by_its_query() {
        assert!(seen("/api/v1/pods", "labelSelector=a&watch=true").is_watch());
        assert!(!seen("/api/v1/pods", "labelSelector=watch%3Dtrue").is_watch());
    }

    #[test]
    fn a_resource_is_a_whole_part_of_the_path() {
        assert!(seen("/api/v1/namespaces/a/pods/b/status", "").is_about("pods"));
        assert!(!seen("/api/v1/namespaces/a/podtemplates", "").is_about("pods"));
    }
}
