// SPDX-License-Identifier: Apache-2.0
//! Counters that are made here: they begin, grow, start anew, and never go back.

use std::sync::Arc;

use proptest::prelude::*;

use super::{super::*, *};

const SECOND: Millis = 1_000;

fn at(at: Millis, nanos: CpuNanos) -> Reading {
    Reading { at, nanos }
}

fn cores(nano_cores: u64, at: Millis) -> Rate {
    Rate { nano_cores, at, window: 10 * SECOND }
}

#[test]
fn a_rate_becomes_a_counter() {
    let (mut counters, pod) = (Counters::default(), Arc::from("a"));
    let started = Some(NOW - 3_600 * SECOND);
    let mut read = |rate| counters.rate(&pod, "main", started, rate).unwrap();
    assert_eq!(read(cores(500_000_000, NOW)), at(NOW, 1_000 + 5_000_000_000), "half a core for the rate's ten seconds");
    assert_eq!(read(cores(100_000_000, NOW + 5 * SECOND)), at(NOW + 5 * SECOND, 5_500_001_000));
    assert_eq!(read(cores(900_000_000, NOW + 5 * SECOND)), at(NOW + 5 * SECOND, 5_500_001_000), "no news");
    assert_eq!(read(cores(900_000_000, NOW + SECOND)), at(NOW + 5 * SECOND, 5_500_001_000), "older than what is known");
    assert_eq!(read(cores(0, NOW + 9 * SECOND)), at(NOW + 9 * SECOND, 5_500_001_000));
}

#[test]
fn a_container_that_does_nothing_has_a_counter_that_is_not_zero() {
    let counted = Counters::default().rate(&Arc::from("a"), "main", None, cores(0, NOW)).unwrap();
    assert_eq!(counted.nanos, 1_000);
}

#[test]
fn a_young_container_counts_from_its_start() {
    let counted = Counters::default().rate(&Arc::from("a"), "main", Some(NOW - 2 * SECOND), cores(1_000, NOW)).unwrap();
    assert_eq!(counted.nanos, 1_000 + 2_000);
}

#[test]
fn a_restart_starts_the_counter_anew_and_what_was_measured_before_it_is_not_the_new_ones() {
    let (mut counters, pod) = (Counters::default(), Arc::from("a"));
    counters.rate(&pod, "main", Some(NOW - 100 * SECOND), cores(1_000_000_000, NOW)).unwrap();
    let again = Some(NOW + 20 * SECOND);
    assert_eq!(counters.rate(&pod, "main", again, cores(1_000_000_000, NOW + 15 * SECOND)), None);
    let first = counters.rate(&pod, "main", again, cores(1_000_000_000, NOW + 24 * SECOND)).unwrap();
    assert_eq!(first.nanos, 1_000 + 4_000_000_000);
}

#[test]
fn copies_of_a_counter_that_differ_do_not_make_it_go_back() {
    let (mut counters, pod) = (Counters::default(), Arc::from("a"));
    let mut read = |started, reading| counters.counter(&pod, "main", Some(started), reading).unwrap();
    assert_eq!(read(0, at(10, 5_000)), at(10, 5_000));
    assert_eq!(read(0, at(20, 4_999)), at(20, 5_000));
    assert_eq!(read(0, at(30, 5_100)), at(30, 5_100));
    assert_eq!(read(35, at(40, 3_000)), at(40, 3_000), "but a restart does");
}

#[test]
fn what_is_forgotten_begins_anew() {
    let (mut counters, pod) = (Counters::default(), Arc::from("a"));
    counters.counter(&pod, "main", None, at(10, 9_000)).unwrap();
    counters.keep(&["a"].into_iter().collect());
    assert_eq!(counters.counter(&pod, "main", None, at(20, 8_000)), Some(at(20, 9_000)));
    counters.keep(&["b"].into_iter().collect());
    assert_eq!(counters.counter(&pod, "main", None, at(30, 8_000)), Some(at(30, 8_000)));
}

#[test]
fn a_sum_counts_what_happened_since_it_began() {
    let (mut sum, [old, new]) = (Sum::since(NOW), ["old", "new"].map(Arc::from));
    assert_eq!(sum.reading(), None);
    let (long_ago, just_now) = (Some(NOW - SECOND), Some(NOW + SECOND));
    sum.add(&old, long_ago, at(NOW + 2 * SECOND, 70_000));
    assert_eq!(sum.reading(), Some(at(NOW + 2 * SECOND, 1_000)), "what was used before is not counted");
    sum.add(&new, just_now, at(NOW + 3 * SECOND, 40));
    sum.add(&old, long_ago, at(NOW + 3 * SECOND, 70_500));
    assert_eq!(sum.reading(), Some(at(NOW + 3 * SECOND, 1_540)));
    sum.keep(&["old"].into_iter().collect());
    assert_eq!(sum.reading(), Some(at(NOW + 3 * SECOND, 1_540)), "a pod that is gone has used what it used");
    sum.add(&old, long_ago, at(NOW + 9 * SECOND, 600));
    assert_eq!(sum.reading(), Some(at(NOW + 9 * SECOND, 2_140)), "a counter that fell was started anew");
}

#[test]
fn readings_that_overtake_one_another_are_no_restart() {
    let (mut sum, pod) = (Sum::since(NOW), Arc::from("a"));
    for reading in
        [at(NOW, 1_000), at(NOW + 900, 990), at(NOW - 500, 900), at(NOW + 1_000, 1_100), at(NOW + 1_000, 9_999)]
    {
        sum.add(&pod, Some(NOW), reading);
    }
    assert_eq!(sum.reading().unwrap().nanos, 1_000 + 1_100);
}

#[test]
fn counters_that_are_read_elsewhere_from_now_on_are_no_news() {
    let (mut sum, pod) = (Sum::since(NOW), Arc::from("a"));
    sum.add(&pod, Some(NOW), at(NOW + SECOND, 50));
    sum.elsewhere(NOW + 2 * SECOND);
    sum.add(&pod, Some(NOW), at(NOW + 3 * SECOND, 9_000_000));
    sum.add(&pod, Some(NOW), at(NOW + 4 * SECOND, 9_000_007));
    assert_eq!(sum.reading(), Some(at(NOW + 4 * SECOND, 1_057)));
}

fn metrics(pod: &str, nano_cores: u64, memory: u64, at: Millis) -> PodMetrics {
    let containers = vec![("main".to_owned(), cores(nano_cores, at), memory)];
    PodMetrics { namespace: "ns".to_owned(), name: pod.to_owned(), containers }
}

#[test]
fn a_meter_makes_usage_of_rates_and_adds_it_up_for_the_node() {
    let roster: Roster = ["a", "b"]
        .map(|name| Member { since: Some(NOW), running: [("main".into(), NOW)].into(), ..member(name) })
        .into_iter()
        .collect();
    let mut meter = Meter::since(NOW);
    let read = |meter: &mut Meter, time, pods: &[(&str, u64, u64)]| {
        let list = pods.iter().map(|(pod, rate, memory)| metrics(pod, *rate, *memory, time)).collect();
        let usage = meter.rates(&roster, list);
        let node = meter.node("virtual", &usage);
        (usage.len(), node.cpu.map(|cpu| cpu.nanos), node.nano_cores, node.memory)
    };
    let first =
        read(&mut meter, NOW + 10 * SECOND, &[("a", 1_000_000_000, 100), ("b", 500_000_000, 10), ("theirs", 9, 9)]);
    // A microsecond for the node, each pod and each container.
    assert_eq!(first, (2, Some(15_000_005_000), Some(1_500_000_000), 110));
    let second = read(&mut meter, NOW + 12 * SECOND, &[("a", 1_000_000_000, 0)]);
    assert_eq!(second, (1, Some(17_000_005_000), Some(1_000_000_000), 1), "memory is never zero");
    let none = read(&mut meter, NOW + 14 * SECOND, &[]);
    assert_eq!(none, (0, Some(17_000_005_000), None, 0));
}

#[test]
fn a_pods_counter_goes_on_when_a_container_starts_anew() {
    let started = |started| -> Roster {
        [Member { since: Some(NOW), running: [("main".into(), started)].into(), ..member("a") }].into_iter().collect()
    };
    let (mut meter, before, after) = (Meter::since(NOW), started(NOW), started(NOW + 20 * SECOND));
    let first = meter.rates(&before, vec![metrics("a", 1_000_000_000, 1, NOW + 10 * SECOND)]);
    assert_eq!(first[0].cpu.unwrap().nanos, 10_000_002_000);
    let second = meter.rates(&after, vec![metrics("a", 1_000_000_000, 1, NOW + 21 * SECOND)]);
    assert_eq!(second[0].containers[0].cpu.nanos, 1_000_001_000);
    assert_eq!(second[0].cpu.unwrap().nanos, 11_000_003_000);
}

#[test]
fn a_meter_makes_usage_of_the_counters_of_a_store() {
    let roster: Roster = [Member { since: Some(NOW - SECOND), running: [("main".into(), NOW)].into(), ..member("a") }]
        .into_iter()
        .collect();
    let key = || (Arc::from("above-a"), Box::from("main"));
    let mut meter = Meter::since(NOW);
    let cpu = |seconds, time| ContainerValues::from_iter([(key(), (seconds, time))]);
    let usage = meter.values(&roster, &cpu(2.5, NOW + SECOND), &cpu(4096.0, NOW + SECOND));
    assert_eq!(usage[0].containers[0].cpu, at(NOW + SECOND, 2_500_000_000));
    assert_eq!((usage[0].containers[0].memory, usage[0].containers[0].nano_cores), (4096, None));
    let usage = meter.values(&roster, &cpu(3.0, NOW + 9 * SECOND), &ContainerValues::default());
    assert!(usage.is_empty(), "a container of which only half is known is not shown");
}

/// One step of a pod's life as its kubelet sees it: used so much, over so long; maybe its counter started anew before.
fn steps() -> impl Strategy<Value = Vec<(bool, u32, u16)>> {
    prop::collection::vec((prop::bool::weighted(0.1), any::<u32>(), 2_001..u16::MAX), 1..40)
}

proptest! {
    /// The oracle adds up what was used; the sum only sees counters. Each counter that starts anew is lower than before.
    #[test]
    fn a_sum_is_what_was_used_and_never_goes_back(lives in prop::collection::vec(steps(), 1..5)) {
        let (mut sum, mut used, mut before) = (Sum::since(NOW), 0_u64, 0);
        for (number, life) in lives.iter().enumerate() {
            let (pod, mut time, mut counter) = (Arc::from(format!("{number}")), NOW, 0_u64);
            for (anew, more, later) in life {
                time += Millis::from(*later);
                let more = u64::from(*more);
                if *anew && counter > more {
                    counter = 0;
                }
                counter += more;
                used += more;
                sum.add(&pod, Some(NOW), at(time, counter));
                let now = sum.reading().unwrap().nanos;
                prop_assert!(now >= before);
                before = now;
            }
        }
        prop_assert_eq!(before, FIRST + used);
    }

    /// The oracle integrates in floating point over the whole life; the counter rounds down once a step.
    #[test]
    fn a_counter_of_rates_is_their_integral_and_never_goes_back(
        steps in prop::collection::vec((0..64_000_000_000_u64, 0..100_000_i64), 1..50),
        age in 1..1_000_000_i64,
        window in 0..60_000_i64,
    ) {
        let (mut counters, pod, mut time, mut integral, mut before) = (Counters::default(), Arc::from("a"), NOW, 0.0, 0);
        for (number, (nano_cores, later)) in steps.iter().enumerate() {
            let passed = if number == 0 { window.min(age) } else { time += later; *later };
            #[allow(clippy::cast_precision_loss, reason = "an oracle with a tolerance")]
            { integral += *nano_cores as f64 * passed as f64 / 1e3; }
            let rate = Rate { nano_cores: *nano_cores, at: time, window };
            let reading = counters.rate(&pod, "main", Some(NOW - age), rate).unwrap();
            prop_assert!(reading.nanos >= before && reading.nanos > 0);
            before = reading.nanos;
        }
        #[allow(clippy::cast_precision_loss, reason = "an oracle with a tolerance")]
        let off = (before as f64 - 1e3 - integral).abs();
        prop_assert!(off <= 50.0 + integral * 1e-9, "{before} instead of {integral}");
    }
}
