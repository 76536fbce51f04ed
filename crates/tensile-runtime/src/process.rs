// SPDX-License-Identifier: Apache-2.0
//! What this process takes from its machine, under the names Prometheus' clients use everywhere.
//!
//! Read from `/proc` at scrape time; on a system without it the collector shows nothing.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, IntGauge};

/// `USER_HZ`: the kernel counts CPU time for user space in hundredths of a second on every architecture we build for.
const TICKS_PER_SECOND: f64 = 100.0;
/// Size of a page in `/proc/self/statm`; `VmRSS` in `/proc/self/status` is in kB instead and needs no page size.
const KIB: i64 = 1024;

/// CPU time, memory, file descriptors and start time of this process.
#[derive(Debug)]
pub struct ProcessCollector {
    cpu: Counter,
    resident: IntGauge,
    virtual_size: IntGauge,
    open_fds: IntGauge,
    max_fds: IntGauge,
    started: Gauge,
}

impl ProcessCollector {
    /// The collector, to be registered once.
    ///
    /// # Errors
    ///
    /// Never with the names below; the signature is that of the metrics library.
    pub fn new() -> prometheus::Result<Self> {
        Ok(Self {
            cpu: Counter::new("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")?,
            resident: IntGauge::new("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            virtual_size: IntGauge::new("process_virtual_memory_bytes", "Virtual memory size in bytes.")?,
            open_fds: IntGauge::new("process_open_fds", "Number of open file descriptors.")?,
            max_fds: IntGauge::new("process_max_fds", "Maximum number of open file descriptors.")?,
            started: Gauge::new(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
        })
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.cpu.desc();
        for gauge in [&self.resident, &self.virtual_size, &self.open_fds, &self.max_fds] {
            all.extend(gauge.desc());
        }
        all.extend(self.started.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Vec::new();
        if let Some(stat) = Stat::now() {
            self.cpu.inc_by((stat.cpu_seconds - self.cpu.get()).max(0.0));
            families.extend(self.cpu.collect());
            if let Some(booted) = boot_time() {
                self.started.set(booted + stat.started_seconds_after_boot);
                families.extend(self.started.collect());
            }
        }
        let status = proc_file("status");
        for (gauge, value) in [
            (&self.resident, status.as_deref().and_then(|text| kib_of(text, "VmRSS:"))),
            (&self.virtual_size, status.as_deref().and_then(|text| kib_of(text, "VmSize:"))),
            (&self.open_fds, open_fds()),
            (&self.max_fds, proc_file("limits").as_deref().and_then(max_fds)),
        ] {
            if let Some(value) = value {
                gauge.set(value);
                families.extend(gauge.collect());
            }
        }
        families
    }
}

/// The part of `/proc/self/stat` that is shown.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    started_seconds_after_boot: f64,
}

impl Stat {
    fn now() -> Option<Self> {
        Self::parse(&proc_file("stat")?)
    }

    /// Fields are counted from behind the name, which may itself hold spaces and parentheses (`proc_pid_stat(5)`):
    /// `utime` is field 14, `stime` 15, `starttime` 22, and the first behind the name is 3.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
            started_seconds_after_boot: field(22)? / TICKS_PER_SECOND,
        })
    }
}

fn proc_file(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/{name}")).ok()
}

fn boot_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// A line `Key:   123 kB` of `/proc/self/status`, in bytes.
fn kib_of(status: &str, key: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse::<i64>().ok().map(|kib| kib * KIB)
}

/// Open descriptors, less the one that counts them.
fn open_fds() -> Option<i64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(count).ok().map(|count| count - 1)
}

/// The soft limit; `unlimited` shows nothing.
fn max_fds(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::Registry;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 8 0 12345 999 888 777";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_seconds: 3.0, started_seconds_after_boot: 123.45 }));
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(kib_of("VmSize:\t  20 kB\nVmRSS:\t   3 kB\n", "VmRSS:"), Some(3072));
    }

    #[test]
    fn the_soft_limit_of_descriptors_is_shown_and_no_limit_is_not() {
        let line = |soft: &str| format!("Limit  Soft Limit\nMax open files            {soft}    524288     files\n");
        assert_eq!(max_fds(&line("1024")), Some(1024));
        assert_eq!(max_fds(&line("unlimited")), None);
    }

    #[test]
    fn this_process_shows_all_of_it() {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::new().unwrap())).unwrap();
        let families = registry.gather();
        let value = |name: &str| {
            let family = families.iter().find(|family| family.name() == name).unwrap();
            family.get_metric()[0].get_gauge().get_value()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        let started = value("process_start_time_seconds");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(started > now - 3600.0 && started < now + 2.0, "started {started}, now {now}");
        let cpu = families.iter().find(|family| family.name() == "process_cpu_seconds_total").unwrap();
        assert!(cpu.get_metric()[0].get_counter().get_value() >= 0.0);
    }
}
