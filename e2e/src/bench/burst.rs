// SPDX-License-Identifier: Apache-2.0
//! Many pods at once: until all are Running upstairs, and what the virtual node spends on their whole lives.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::lab::{DEADLINE, Lab, Target};
use super::statistics::{median, milliseconds, per_pod};
use super::table::Row;

/// How the virtual node calls itself to API servers.
const USER_AGENT: &str = "tensile-virtual-node/";

/// What one burst through the virtual node took.
#[derive(Clone, Debug)]
pub(super) struct Through {
    pods: usize,
    /// From the first creation until the last pod had a node above, was there below, ran below, was shown Running above.
    until: [Duration; 4],
    /// From the deletion of all until the last object was gone on both sides.
    until_gone: Duration,
    /// CPU of the virtual node, creation to deletion.
    cpu: Duration,
    /// Peak resident memory of the fresh process when all ran, in megabytes.
    peak: f64,
    /// Requests of the virtual node by side and kind.
    requests: BTreeMap<String, usize>,
}

/// (a): pods created in the upper cluster, until all are Running there.
pub(super) async fn through(lab: &Lab, pods: usize, namespace: &str) -> anyhow::Result<Through> {
    let link = lab.link().await?;
    let (above, below) = lab.watch(namespace).await?;
    let spent = link.process().usage()?.cpu;
    let asked = [lab.upper.audit()?.requests.len(), lab.lower.audit()?.requests.len()];

    let begin = Instant::now();
    lab.create(namespace, pods, Target::VirtualNode).await?;
    let shown = above.reached(|life| life.running, pods, "Running", DEADLINE).await?;
    let until = [
        above.reached(|life| life.bound, pods, "bound", DEADLINE).await?,
        below.reached(|life| life.created, pods, "created", DEADLINE).await?,
        below.reached(|life| life.running, pods, "Running", DEADLINE).await?,
        shown,
    ];
    let peak = link.process().usage()?.peak_megabytes();
    let deletion = Instant::now();
    lab.clear(namespace, Target::VirtualNode, &above, &below).await?;

    let sides = [("upper", lab.upper.audit()?.after(asked[0])), ("lower", lab.lower.audit()?.after(asked[1]))];
    let requests = sides.iter().flat_map(|(side, audit)| {
        audit.by(USER_AGENT).counts().into_iter().map(move |(kind, count)| (format!("{side} {kind}"), count))
    });
    Ok(Through {
        pods,
        until: until.map(|moment| moment - begin),
        until_gone: deletion.elapsed(),
        cpu: link.process().usage()?.cpu.saturating_sub(spent),
        peak,
        requests: requests.collect(),
    })
}

/// (b): the same number of pods created in both clusters at once, on simulated nodes of each. No virtual node runs.
pub(super) async fn direct(lab: &Lab, pods: usize, namespace: &str) -> anyhow::Result<Duration> {
    let (above, below) = lab.watch(namespace).await?;
    let begin = Instant::now();
    lab.create(namespace, pods, Target::Simulated).await?;
    let one = above.reached(|life| life.running, pods, "Running", DEADLINE).await?;
    let other = below.reached(|life| life.running, pods, "Running", DEADLINE).await?;
    lab.clear(namespace, Target::Simulated, &above, &below).await?;
    Ok(one.max(other) - begin)
}

impl Through {
    fn cpu_per_pod(&self) -> f64 {
        milliseconds(self.cpu) / per_pod(self.pods, 1)
    }

    fn requests_per_pod(&self, which: fn(&str) -> bool) -> f64 {
        let counts = self.requests.iter().filter(|(kind, _)| which(kind)).map(|(_, count)| count);
        per_pod(counts.sum(), self.pods)
    }

    /// The kinds of requests that come about for at least every twentieth pod, and how many a pod.
    fn frequent_requests(&self) -> String {
        let shares = self.requests.iter().map(|(kind, count)| (kind, per_pod(*count, self.pods)));
        let frequent = shares.filter(|(_, share)| *share >= 0.05).map(|(kind, share)| format!("{kind} {share:.2}"));
        frequent.collect::<Vec<_>>().join(", ")
    }
}

fn is_event(kind: &str) -> bool {
    kind.contains(" events")
}

/// For a pod: not the node, nor what is asked once for all pods.
fn is_for_pods(kind: &str) -> bool {
    !is_event(kind) && ![" leases", " nodes", " watch ", " list ", " /"].iter().any(|other| kind.contains(other))
}

/// The medians of all rounds.
pub(super) fn rows(through: &[Through], direct: &[Duration], pods: usize) -> Vec<Row> {
    let middle = |figure: &dyn Fn(&Through) -> f64| median(through.iter().map(figure));
    let ours = middle(&|one| one.until[3].as_secs_f64());
    let reference = median(direct.iter().map(Duration::as_secs_f64));
    let speed = |seconds: f64| format!("{seconds:.1} s, {:.0} pods/s", per_pod(pods, 1) / seconds);
    let requests = middle(&|one| one.requests_per_pod(is_for_pods));
    let frequent = through.last().map(Through::frequent_requests).unwrap_or_default();
    vec![
        Row::new(format!("{pods} pods through the virtual node until Running"), speed(ours))
            .tensile_kube("64 s, 31 pods/s"),
        Row::new(format!("{pods} pods directly in both clusters until Running"), speed(reference))
            .tensile_kube("26-29 s"),
        Row::new("ratio of the two", format!("{:.2}", ours / reference)).target("<= 1.0").tensile_kube("2.3"),
        Row::new(
            format!("{pods} pods from deletion until gone on both sides"),
            format!("{:.1} s", middle(&|one| one.until_gone.as_secs_f64())),
        ),
        Row::new("CPU per pod life", format!("{:.2} ms", middle(&Through::cpu_per_pod)))
            .target("<= 3 ms")
            .tensile_kube("58 ms"),
        Row::new(format!("peak memory at {pods} pods"), format!("{:.1} MB", middle(&|one| one.peak)))
            .target("<= 30 MB")
            .tensile_kube("340 MB"),
        Row::new("API requests per pod life, both sides", format!("{requests:.2} ({frequent})"))
            .target("<= 6")
            .tensile_kube("9.6 with events"),
        Row::new("events per pod life", format!("{:.2}", middle(&|one| one.requests_per_pod(is_event))))
            .target("<= 1")
            .tensile_kube("3"),
    ]
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bound, created, running, shown] = self.until.map(|time| time.as_secs_f64());
        let (gone, cpu, peak) = (self.until_gone.as_secs_f64(), self.cpu_per_pod(), self.peak);
        write!(
            f,
            "all bound after {bound:.1} s, created below {created:.1} s, running below {running:.1} s, shown \
             {shown:.1} s; gone in {gone:.1} s; {cpu:.2} ms CPU per pod, {peak:.1} MB"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_pods_are_told_from_those_of_the_node() {
        let of_pods = ["upper patch pods/status", "lower create pods", "lower create namespaces", "upper delete pods"];
        assert!(of_pods.into_iter().all(is_for_pods));
        let others = ["upper create events", "upper update leases", "upper patch nodes/status", "upper watch pods"];
        assert!(!others.into_iter().any(is_for_pods));
        assert!(!is_for_pods("lower get /version"));
    }
}
