// SPDX-License-Identifier: Apache-2.0
//! Prometheus text: what is kept, how it is renamed, and what broken text does.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{super::*, *};

fn picked(roster: &Roster, chunks: &[&[u8]]) -> Picked {
    let mut picker = Picker::new(roster, "lower-1", "virtual", 1 << 20, |_| {});
    for chunk in chunks {
        picker.feed(chunk).unwrap();
    }
    picker.finish().unwrap()
}

fn text(roster: &Roster, said: &str) -> String {
    picked(roster, &[said.as_bytes()]).families.text()
}

const SAID: &str = r#"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="main",namespace="ns",pod="ours"} 1.5 1700000000123
container_cpu_usage_seconds_total{container="main",namespace="ns",pod="theirs"} 99 1700000000123
container_cpu_usage_seconds_total{container="main",namespace="other",pod="ours"} 98 1700000000123
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 12345 1700000000123
# HELP prober_probe_total [BETA] Cumulative number of probes
# TYPE prober_probe_total counter
prober_probe_total{container="main",namespace="ns",pod="ours",pod_uid="below-ours",probe_type="Readiness",result="successful"} 3
prober_probe_total{container="main",namespace="ns",pod="ours",pod_uid="an-earlier-one",probe_type="Readiness",result="successful"} 7
# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise
# TYPE resource_scrape_error gauge
resource_scrape_error 0
"#;

const OURS: &str = r#"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="main",namespace="ns",pod="ours"} 1.5 1700000000123
# HELP prober_probe_total [BETA] Cumulative number of probes
# TYPE prober_probe_total counter
prober_probe_total{container="main",namespace="ns",pod="ours",pod_uid="above-ours",probe_type="Readiness",result="successful"} 3
"#;

#[test]
fn only_our_pods_are_kept_and_their_uid_and_node_are_those_above() {
    assert_eq!(text(&roster(&["ours"]), SAID), OURS);
    let said = "some_metric{node=\"lower-1\",pod=\"ours\",namespace=\"ns\",} 1\n";
    assert_eq!(text(&roster(&["ours"]), said), "some_metric{node=\"virtual\",pod=\"ours\",namespace=\"ns\",} 1\n");
}

#[test]
fn a_pod_that_is_called_otherwise_below_is_shown_by_its_name_above() {
    let renamed = Member { below: ("far".into(), "ours-5f3a".into()), ..member("ours") };
    let said = "some_metric{node=\"lower-1\",pod=\"ours-5f3a\",namespace=\"far\"} 1\n\
                some_metric{node=\"lower-1\",pod=\"ours\",namespace=\"ns\"} 2\n";
    let shown = "some_metric{node=\"virtual\",pod=\"ours\",namespace=\"ns\"} 1\n";
    assert_eq!(text(&Roster::from_iter([renamed]), said), shown);
}

#[test]
fn a_pod_that_is_elsewhere_by_now_is_not_taken_from_the_node_it_left() {
    let moved = Member { lower_node: "lower-2".into(), ..member("ours") };
    assert_eq!(text(&Roster::from_iter([moved]), SAID), "");
}

#[test]
fn where_the_text_is_cut_does_not_matter() {
    let roster = roster(&["ours"]);
    for cut in 0..SAID.len() {
        let (head, tail) = SAID.as_bytes().split_at(cut);
        assert_eq!(picked(&roster, &[head, tail]).families.text(), OURS, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = SAID.as_bytes().chunks(1).collect();
    assert_eq!(picked(&roster, &bytes).families.text(), OURS);
    assert_eq!(text(&roster, SAID.trim_end()), OURS.trim_end().to_owned() + "\n");
    assert_eq!(text(&roster, &SAID.replace('\n', "\r\n")), OURS);
}

#[test]
fn what_is_kept_is_also_shown_with_its_value_and_time() {
    let (roster, mut seen) = (roster(&["ours"]), Vec::new());
    let mut picker = Picker::new(&roster, "lower-1", "virtual", 1 << 20, |sample: &Sample<'_>| {
        seen.push((sample.name.to_owned(), sample.member.uid.to_string(), sample.value, sample.at));
    });
    picker.feed(SAID.as_bytes()).unwrap();
    picker.finish().unwrap();
    let cpu = ("container_cpu_usage_seconds_total".to_owned(), "above-ours".to_owned(), 1.5, Some(1_700_000_000_123));
    assert_eq!(seen, [cpu, ("prober_probe_total".to_owned(), "above-ours".to_owned(), 3.0, None)]);
}

#[test]
fn a_kubelet_that_does_not_know_everything_is_heard() {
    for (said, incomplete) in [
        ("resource_scrape_error 0\n", false),
        ("resource_scrape_error 1\n", true),
        ("container_scrape_error{} 1\n", true),
        ("other 1\n", false),
    ] {
        assert_eq!(picked(&roster(&[]), &[said.as_bytes()]).incomplete, incomplete, "{said}");
    }
}

#[test]
fn samples_of_several_kubelets_stand_together() {
    let of = |pod: &str, value: u8| {
        let said = format!(
            "# TYPE h histogram\nh_bucket{{namespace=\"ns\",pod=\"{pod}\",le=\"1\"}} {value}\nh_sum{{namespace=\"ns\",pod=\"{pod}\"}} {value}\n# TYPE z gauge\nz{{namespace=\"ns\",pod=\"{pod}\"}} {value}\n"
        );
        picked(&roster(&["a", "b"]), &[said.as_bytes()]).families
    };
    let mut both = of("a", 1);
    both.merge(of("b", 2));
    let expected = r#"# TYPE h histogram
h_bucket{namespace="ns",pod="a",le="1"} 1
h_sum{namespace="ns",pod="a"} 1
h_bucket{namespace="ns",pod="b",le="1"} 2
h_sum{namespace="ns",pod="b"} 2
# TYPE z gauge
z{namespace="ns",pod="a"} 1
z{namespace="ns",pod="b"} 2
"#;
    assert_eq!(both.text(), expected);
}

#[test]
fn a_line_that_cannot_be_read_costs_itself_only() {
    let good = "m{namespace=\"ns\",pod=\"ours\"} 1\n";
    for bad in [
        "m{namespace=\"ns\",pod=\"ours\" 1",
        "m{namespace=\"ns\",pod=\"ours} 1",
        "m{namespace=\"ns\",pod=\"ours\"}",
        "m{namespace=\"ns\",pod=\"ours\"} one",
        "m{namespace=\"ns\",pod=\"ours\"} 1 soon",
        "m{namespace=\"ns\",pod=\"ours\"} 1 2 3",
        "m{namespace=\"ns\",pod=\"theirs\",pod=\"ours\"} 1",
        "m{namespace=\"ns\",=\"x\",pod=\"ours\"} 1",
        "{\"m\",namespace=\"ns\",pod=\"ours\"} 1",
        "m{namespace=\"ns\",pod=\"ours\",x=\"\\\"} 1",
        "m",
        "{",
        "#",
        "# HELP",
    ] {
        assert_eq!(text(&roster(&["ours"]), &format!("{bad}\n{good}{bad}\n")), good, "{bad}");
    }
    assert_eq!(
        picked(&roster(&["ours"]), &[b"m{namespace=\"ns\",pod=\"ours\",x=\"\xff\"} 1\n", good.as_bytes()])
            .families
            .text(),
        good
    );
}

#[test]
fn a_line_without_end_is_passed_over_and_holds_no_memory() {
    let roster = roster(&["ours"]);
    let mut picker = Picker::new(&roster, "lower-1", "virtual", 1 << 20, |_| {});
    for _ in 0..1_000 {
        picker.feed(&[b'x'; 10_000]).unwrap();
    }
    picker.feed(b"\nm{namespace=\"ns\",pod=\"ours\"} 1\n").unwrap();
    assert_eq!(picker.finish().unwrap().families.text(), "m{namespace=\"ns\",pod=\"ours\"} 1\n");
}

#[test]
fn no_more_is_kept_than_is_allowed() {
    let (roster, line) = (roster(&["ours"]), b"m{namespace=\"ns\",pod=\"ours\"} 1\n".repeat(100));
    let mut picker = Picker::new(&roster, "lower-1", "virtual", 5_000, |_| {});
    assert_eq!(picker.feed(&line), Ok(()));
    assert_eq!(picker.feed(&line), Err(TooMuch(5_000)));
}

/// Label values that need escapes in the text format.
fn value() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "-", "\\", "\"", "\n", "{", "}", ",", " ", "=", "ü"]), 0..6)
        .prop_map(|parts| parts.concat())
}

/// How the format writes a label value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn metric() -> impl Strategy<Value = (String, bool, Vec<(String, String)>, f64)> {
    let pod = prop::sample::select(vec!["a", "b", "c", "d"]);
    let namespace = prop::sample::select(vec!["ns", "other"]);
    let more = prop::collection::btree_map("[a-m][a-z_]{0,5}", value(), 0..4);
    ("m[a-z]{0,3}", any::<bool>(), pod, namespace, more, any::<u16>(), any::<prop::sample::Index>()).prop_map(
        |(name, named, pod, namespace, more, number, at)| {
            let mut labels: Vec<(String, String)> =
                more.into_iter().filter(|(key, _)| key != "node" && key != "namespace").collect();
            if named {
                labels.insert(at.index(labels.len() + 1), ("pod".to_owned(), pod.to_owned()));
                labels.insert(at.index(labels.len() + 1), ("namespace".to_owned(), namespace.to_owned()));
            }
            (name, named, labels, f64::from(number))
        },
    )
}

proptest! {
    /// The oracle decides on the labels as they were before they were written; the picker only sees text.
    #[test]
    fn exactly_the_samples_of_our_pods_pass(metrics in prop::collection::vec(metric(), 0..30), cut in any::<prop::sample::Index>()) {
        let written = |(name, _, labels, number): &(String, bool, Vec<(String, String)>, f64)| {
            let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            format!("{name}{{{}}} {number}\n", labels.join(","))
        };
        let all: String = metrics.iter().map(written).collect();
        let is_ours = |(_, named, labels, _): &&(String, bool, Vec<(String, String)>, f64)| {
            let is = |key: &str, values: &[&str]| labels.iter().any(|(k, value)| k == key && values.contains(&value.as_str()));
            *named && is("pod", &["a", "b"]) && is("namespace", &["ns"])
        };
        let mut expected: Vec<String> = metrics.iter().filter(is_ours).map(written).collect();
        let (head, tail) = all.as_bytes().split_at(cut.index(all.len() + 1));
        let text = picked(&roster(&["a", "b"]), &[head, tail]).families.text();
        let mut kept: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
        expected.sort();
        kept.sort();
        prop_assert_eq!(kept, expected);
    }

    /// Garbage never panics, and nothing but whole lines that name a pod of ours comes out.
    #[test]
    fn garbage_gives_no_line_that_was_not_there(
        chunks in prop::collection::vec(prop::collection::vec(prop::sample::select(b"m{}\"\\=,# \n\r\x00\xff1.namespod".to_vec()), 0..40), 0..20),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut chunks = chunks;
        chunks.push(b"{namespace=\"ns\",pod=\"a\"} 1\nm{namespace=\"ns\",pod=\"a\"} 1\n".to_vec());
        chunks.push(noise);
        let slices: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
        let text = picked(&roster(&["a"]), &slices).families.text();
        let given = chunks.concat();
        let lines: BTreeSet<&[u8]> = given.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        for line in text.lines() {
            prop_assert!(lines.contains(line.as_bytes()), "{line}");
            prop_assert!(line.starts_with('#') || line.contains("pod=\"a\"") || line.contains("pod = \"a\""), "{line}");
        }
    }
}
