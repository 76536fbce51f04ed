// SPDX-License-Identifier: Apache-2.0
//! One line of Prometheus' text format, read without copying it.
//!
//! Only what decides whose the sample is gets looked at; the line itself passes on as it came.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// A sample, as places in its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: Range<usize>,
    pub(super) namespace: Option<Range<usize>>,
    pub(super) pod: Option<Range<usize>>,
    pub(super) pod_uid: Option<Range<usize>>,
    pub(super) node: Option<Range<usize>>,
    pub(super) value: Range<usize>,
    /// Milliseconds; absent when the sample is of now.
    pub(super) timestamp: Option<i64>,
}

/// Reads a line that is neither empty nor a comment; `None` when it is no sample.
pub(super) fn sample(line: &[u8]) -> Option<Line> {
    let mut sample = Line { name: 0..run(line, 0, is_name), ..Line::default() };
    if sample.name.is_empty() {
        return None;
    }
    let mut at = blank(line, sample.name.end);
    if line.get(at) == Some(&b'{') {
        at = labels(line, at + 1, &mut sample)?;
    }
    let mut words = Words { line, at };
    sample.value = words.next()?;
    sample.timestamp = match words.next() {
        Some(word) => Some(std::str::from_utf8(line.get(word)?).ok()?.parse().ok()?),
        None => None,
    };
    words.next().is_none().then_some(sample)
}

/// Reads labels up to their closing brace and returns the place behind it.
fn labels(line: &[u8], mut at: usize, sample: &mut Line) -> Option<usize> {
    loop {
        at = blank(line, at);
        if *line.get(at)? == b'}' {
            return Some(at + 1);
        }
        let name = at..run(line, at, is_name);
        at = expect(line, name.end, b'=')?;
        at = expect(line, at, b'"')?;
        let value = at..quoted(line, at)?;
        at = blank(line, value.end + 1);
        let place = match line.get(name)? {
            b"" => return None,
            b"namespace" => Some(&mut sample.namespace),
            b"pod" => Some(&mut sample.pod),
            b"pod_uid" => Some(&mut sample.pod_uid),
            b"node" => Some(&mut sample.node),
            _ => None,
        };
        // A label that comes twice names nobody.
        if place.is_some_and(|place| place.replace(value).is_some()) {
            return None;
        }
        match *line.get(at)? {
            b',' => at += 1,
            b'}' => {}
            _ => return None,
        }
    }
}

/// The place of the quote that ends a value which begins at `at`; a backslash takes the next byte with it.
fn quoted(line: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', line.get(at..)?)?;
        if *line.get(at)? == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The place behind `byte`, which is the next after blanks.
fn expect(line: &[u8], at: usize, byte: u8) -> Option<usize> {
    let at = blank(line, at);
    (*line.get(at)? == byte).then_some(at + 1)
}

fn blank(line: &[u8], at: usize) -> usize {
    run(line, at, is_blank)
}

/// Where a run of such bytes that begins at `at` ends.
fn run(line: &[u8], at: usize, is: fn(u8) -> bool) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| !is(*byte)).unwrap_or(rest.len())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':')
}

struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = blank(self.line, self.at);
        self.at = run(self.line, start, |byte| !is_blank(byte));
        (start < self.at).then_some(start..self.at)
    }
}

/// The name a `# HELP` or `# TYPE` line is about; `None` for any other comment.
pub(super) fn headed(comment: &[u8]) -> Option<&[u8]> {
    let rest = comment.strip_prefix(b"# HELP ").or_else(|| comment.strip_prefix(b"# TYPE "))?;
    let name = rest.get(..memchr(b' ', rest).unwrap_or(rest.len()))?;
    (!name.is_empty() && name.iter().all(|byte| is_name(*byte))).then_some(name)
}
