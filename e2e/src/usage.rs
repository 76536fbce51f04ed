// SPDX-License-Identifier: Apache-2.0
//! What a process used so far, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// CPU time and peak memory of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// User and system time, in the kernel's ticks (usually 10 ms).
    pub cpu: Duration,
    /// Peak resident memory, in bytes.
    pub peak_rss: u64,
    /// Resident memory now, in bytes.
    pub rss: u64,
}

impl Usage {
    /// Of the process `id`, from `/proc`.
    pub fn of(id: u32) -> anyhow::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Self {
            cpu: cpu_ticks(&stat)
                .map(|ticks| Duration::from_millis(ticks * 1000 / per_second))
                .context("unreadable /proc/PID/stat")?,
            peak_rss: bytes(&status, "VmHWM:").context("no VmHWM in /proc/PID/status")?,
            rss: bytes(&status, "VmRSS:").context("no VmRSS in /proc/PID/status")?,
        })
    }

    /// Peak resident memory in megabytes (10^6 bytes).
    pub fn peak_megabytes(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
        let bytes = self.peak_rss as f64;
        bytes / 1e6
    }
}

/// Fields 14 and 15 (utime, stime) of proc(5); field 2, the name, may hold spaces and ends with the last `)`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut after_name = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (after_name.next()?.parse().ok()?, after_name.next()?.parse().ok()?);
    Some(user + system)
}

/// A line `KEY   N kB` of /proc/PID/status, in bytes.
fn bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_spaces_and_parentheses() {
        let stat = "42 (a) (b c) S 1 2 3 4 5 6 7 8 9 10 700 30 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some(730));
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(bytes("Name:\tx\nVmHWM:\t     12 kB\nVmRSS:\t 8 kB\n", "VmHWM:"), Some(12_288));
    }

    #[test]
    fn this_very_process_uses_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.peak_rss >= usage.rss && usage.rss > 0);
    }
}
