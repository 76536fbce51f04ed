// SPDX-License-Identifier: Apache-2.0
//! The machine that is measured on: how busy it is, and how many logs may be followed on it.

use std::fs;

use anyhow::Context as _;

/// How many inotify instances a user may have.
const INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";

/// Time of all cores together since the start of the machine, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// Until now.
    pub(super) fn now() -> anyhow::Result<Self> {
        Self::read(&fs::read_to_string("/proc/stat")?).context("unreadable /proc/stat")
    }

    /// The first line of proc(5)'s stat: user, nice, system, idle, iowait, and so on; guests are in user already.
    fn read(stat: &str) -> Option<Self> {
        let numbers: Vec<u64> =
            stat.lines().next()?.split_whitespace().skip(1).take(8).map_while(|word| word.parse().ok()).collect();
        Some(Self { idle: numbers.get(3)? + numbers.get(4)?, all: numbers.iter().sum() })
    }

    /// Both periods together.
    pub(super) fn and(self, more: Self) -> Self {
        Self { idle: self.idle + more.idle, all: self.all + more.all }
    }

    /// The period since then.
    pub(super) fn since(self, then: Self) -> Self {
        Self { idle: self.idle.saturating_sub(then.idle), all: self.all.saturating_sub(then.all) }
    }

    /// How much of a period nobody used, in percent.
    pub(super) fn idle_percent(self) -> u64 {
        self.idle * 100 / self.all.max(1)
    }
}

/// Room for many inotify instances: a kubelet needs one for each log that is followed, and a user has 128. Taken back on
/// drop.
#[derive(Debug)]
pub(super) struct Instances {
    before: Option<String>,
}

impl Instances {
    /// At least as many.
    pub(super) fn at_least(count: usize) -> anyhow::Result<Self> {
        let before = fs::read_to_string(INSTANCES)?;
        if before.trim().parse::<usize>()? >= count {
            return Ok(Self { before: None });
        }
        fs::write(INSTANCES, count.to_string()).with_context(|| format!("cannot write {INSTANCES}"))?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for Instances {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            fs::write(INSTANCES, before).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_the_share_of_a_period_that_nobody_used() {
        let stat =
            |user, idle, iowait| format!("cpu  {user} 0 10 {idle} {iowait} 0 0 0 5 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n");
        let then = Ticks::read(&stat(100, 400, 0)).unwrap();
        let now = Ticks::read(&stat(175, 420, 5)).unwrap();
        assert_eq!(now.since(then).idle_percent(), 25);
        assert_eq!(now.since(then).and(Ticks { idle: 75, all: 100 }).idle_percent(), 50);
        assert!(Ticks::read("nothing").is_none());
    }
}
