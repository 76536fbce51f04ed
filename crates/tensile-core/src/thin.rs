// SPDX-License-Identifier: Apache-2.0
//! JSON without the members that nobody reads.
//!
//! Most of what a watch sends decides nothing here: managed fields, environments, conditions. To pass over a member by its
//! quotes and braces takes a fraction of what it takes to parse it. What is passed over is not checked.

/// What is read of a value.
#[derive(Debug)]
pub enum Read {
    /// All of it.
    Whole,
    /// These members of an object.
    Members(&'static [(&'static str, Read)]),
    /// Of each item of a list.
    Items(&'static Read),
}

/// The part of `json` that is read; `None` if it is no JSON. A value of another kind than is expected is in it whole: who
/// reads it will say what is wrong with it.
#[must_use]
pub fn thin(json: &str, read: &Read) -> Option<String> {
    let mut scanner = Scanner { json, at: 0 };
    // A pod of 5 KB becomes one of 1 KB.
    let mut out = String::with_capacity(json.len() / 4);
    scanner.copy(read, &mut out)?;
    Some(out)
}

struct Scanner<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    /// The first byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    /// What is between the quotes.
    fn string(&mut self) -> Option<&'a str> {
        (self.peek()? == b'"').then_some(())?;
        let start = self.at + 1;
        self.at = end_of_string(self.json.as_bytes(), self.at)?;
        self.json.get(start..self.at - 1)
    }

    fn copy(&mut self, read: &Read, out: &mut String) -> Option<()> {
        match (read, self.peek()?) {
            (Read::Members(wanted), b'{') => {
                out.push('{');
                self.at += 1;
                if self.peek()? != b'}' {
                    let empty = out.len();
                    self.members(wanted, empty, out)?;
                }
                self.take(b'}')?;
                out.push('}');
            }
            (Read::Items(read), b'[') => {
                out.push('[');
                self.at += 1;
                if self.peek()? != b']' {
                    self.copy(read, out)?;
                    while self.peek()? == b',' {
                        self.at += 1;
                        out.push(',');
                        self.copy(read, out)?;
                    }
                }
                self.take(b']')?;
                out.push(']');
            }
            _ => {
                let start = self.at;
                self.pass()?;
                out.push_str(self.json.get(start..self.at)?);
            }
        }
        Some(())
    }

    /// The members of an object of which `out` has nothing yet when it is as long as `empty`.
    fn members(&mut self, wanted: &[(&str, Read)], empty: usize, out: &mut String) -> Option<()> {
        loop {
            let name = self.string()?;
            self.take(b':')?;
            if let Some((_, read)) = wanted.iter().find(|(known, _)| *known == name) {
                if out.len() > empty {
                    out.push(',');
                }
                out.push('"');
                out.push_str(name);
                out.push_str("\":");
                self.copy(read, out)?;
            } else {
                self.pass()?;
            }
            if self.peek()? != b',' {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// Goes past a value.
    fn pass(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.at = end_of_string(self.json.as_bytes(), self.at)?,
            b'{' | b'[' => self.at = end_of_structure(self.json.as_bytes(), self.at)?,
            b',' | b':' | b'}' | b']' => return None,
            _ => {
                while !matches!(self.byte(), None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')) {
                    self.at += 1;
                }
            }
        }
        Some(())
    }
}

/// Where an object or list that begins at `at` has ended.
fn end_of_structure(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match *json.get(at)? {
            b'"' => {
                at = end_of_string(json, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// One in each byte of a word.
const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
/// The highest bit of each byte.
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// Where a string that begins with the quote at `at` has ended.
fn end_of_string(json: &[u8], mut at: usize) -> Option<usize> {
    // Marks bytes that are zero; above the first of them, others too.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    at += 1;
    loop {
        // Eight bytes at a time.
        while let Some(bytes) = json.get(at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*bytes);
            let ends = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
            at += (ends.trailing_zeros() / 8) as usize;
            if ends != 0 {
                break;
            }
        }
        match *json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Read = Read::Members(&[
        ("a", Read::Whole),
        ("b", Read::Items(&Read::Members(&[("c", Read::Whole)]))),
        ("d", Read::Members(&[("e", Read::Whole)])),
    ]);

    fn thin(json: &str) -> Option<String> {
        super::thin(json, &READ)
    }

    #[test]
    fn what_is_not_named_is_left_out_at_every_level() {
        let json = r#" { "x" : [1,{"a":"]}"}] , "a" : {"x": [ 1 ]}, "b":[{"c":1,"x":null},{},{"x":"\\\"}","c":"\"x"}],
            "d": {"x":true, "e" : -1.5e3 } , "y":"a rather long string with a quote at its end\"" }"#;
        assert_eq!(thin(json).unwrap(), r#"{"a":{"x": [ 1 ]},"b":[{"c":1},{},{"c":"\"x"}],"d":{"e":-1.5e3}}"#);
        assert_eq!(thin("{}").unwrap(), "{}");
        assert_eq!(thin(r#"{"b":[]}"#).unwrap(), r#"{"b":[]}"#);
    }

    #[test]
    fn what_is_of_another_kind_is_kept_for_who_reads_it() {
        assert_eq!(thin(r#"{"b":{"c":1,"x":2},"d":null}"#).unwrap(), r#"{"b":{"c":1,"x":2},"d":null}"#);
        assert_eq!(thin("[1]").unwrap(), "[1]");
    }

    #[test]
    fn what_does_not_end_is_no_json() {
        for json in [
            "",
            "{",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":"x"#,
            r#"{"a":[1"#,
            r#"{"x":[}"#,
            r#"{"a" 1}"#,
            r#"{"a":1 "b"}"#,
            "{a:1}",
            r#"{"x":"\"#,
            r#"{"a":,}"#,
        ] {
            assert_eq!(thin(json), None, "{json}");
        }
    }

    #[test]
    fn strings_of_all_lengths_end_where_they_do() {
        for length in 0..40 {
            for ends in ["", r"\\", r#"\""#, "ü", r#"\\\""#] {
                let string = format!("\"{}{ends}\"", "x".repeat(length));
                assert_eq!(end_of_string(format!("{string},\"").as_bytes(), 0), Some(string.len()), "{string}");
                assert_eq!(end_of_string(string.as_bytes(), 0), Some(string.len()), "{string}");
            }
        }
    }
}
