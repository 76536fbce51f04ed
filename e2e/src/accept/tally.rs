// SPDX-License-Identifier: Apache-2.0
//! Counting what libtest prints.

use std::process::ExitStatus;

/// What became of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    suite: String,
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
    /// Results that were announced; a suite that dies announces none.
    results: usize,
}

impl Tally {
    pub(super) fn of(suite: &str) -> Self {
        Self { suite: suite.to_owned(), ..Self::default() }
    }

    /// Takes note of a line: libtest's `test NAME ... ok`, or `skipped: NAME: WHY`, which a test prints that passes
    /// only because it could not run.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(why) = line.strip_prefix("skipped: ") {
            self.skipped.push(format!("{}: {why}", self.suite));
        } else if line.starts_with("test result: ") {
            self.results += 1;
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            match outcome {
                "ok" => self.passed += 1,
                "FAILED" => self.failed.push(format!("{}: {name}", self.suite)),
                _ if outcome.starts_with("ignored") => self.skipped.push(format!("{}: {name}: {outcome}", self.suite)),
                // `has been running for over 60 seconds`, and what else may be said of a test that goes on.
                _ => {}
            }
        }
    }

    /// Takes note of the end: a suite that failed without naming a test, or ended without a result, is a failure too.
    pub(super) fn ended(&mut self, status: ExitStatus) {
        if (!status.success() && self.failed.is_empty()) || self.results == 0 {
            self.failed.push(format!("{}: {status}", self.suite));
        }
        // libtest counted a test that skipped itself as passed.
        let themselves = self.skipped.iter().filter(|skipped| !skipped.contains(": ignored")).count();
        self.passed = self.passed.saturating_sub(themselves);
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    pub(super) fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Names what failed and was skipped; the last line is the sum.
    pub(super) fn report(&self) -> String {
        let failed = self.failed.iter().map(|name| format!("failed: {name}\n"));
        let skipped = self.skipped.iter().map(|why| format!("skipped: {why}\n"));
        let sum = format!("{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped.len());
        failed.chain(skipped).collect::<String>() + &sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn tally(output: &str, code: i32) -> Tally {
        let mut tally = Tally::of("s");
        output.lines().for_each(|line| tally.read(line));
        tally.ended(ExitStatus::from_raw(code << 8));
        tally
    }

    #[test]
    fn passed_failed_and_skipped_are_added_up() {
        let mut sum = tally("test a ... ok\ntest b - should panic ... ok\ntest result: ok. 2 passed\n", 0);
        sum.add(tally(
            "test c ... FAILED\ntest d ... ok\ntest e ... ignored, slow\nskipped: d: no disk\ntest result: FAILED.\n",
            101,
        ));
        assert_eq!(
            sum.report(),
            "failed: s: c\nskipped: s: e: ignored, slow\nskipped: s: d: no disk\n2 passed, 1 failed, 2 skipped"
        );
    }

    #[test]
    fn a_suite_that_dies_has_failed() {
        assert_eq!(tally("test a ... ok\n", 101).failed(), 1);
        assert_eq!(tally("", 0).failed(), 1);
    }

    #[test]
    fn a_test_that_takes_long_is_counted_once() {
        let output = "test a has been running for over 60 seconds\ntest a ... ok\ntest result: ok.\n";
        assert_eq!(tally(output, 0).report(), "1 passed, 0 failed, 0 skipped");
    }
}
