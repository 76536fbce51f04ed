// SPDX-License-Identifier: Apache-2.0
//! The rights that the charts give, held against the audit logs of both API servers.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::cluster::{Audit, Cluster};
use e2e::ship::lab::{Lab, NAMESPACE};
use e2e::ship::rights::{asked, given, refused, unused};
use tensile_testkit::shipped::Right;

/// A right that is not used here, and why it is given.
type Excuse = (&'static str, &'static str);

/// Who has rights: the cluster, the account, and what it has and does not use here.
const ACCOUNTS: [(Side, &str, &[Excuse]); 6] = [
    (Side::Upper, "webhook", &[("patch secrets", "its certificate is renewed after months: e2e webhook")]),
    (
        Side::Upper,
        "east-virtual-node",
        &[
            ("create events", "an update that creates needs it too, and the log has one of both"),
            ("patch nodes", "of a node that was there before with other labels: e2e node"),
            ("patch persistentvolumeclaims/status", "a claim grows: e2e volumes"),
            ("patch persistentvolumes", "a claim grows: e2e volumes"),
        ],
    ),
    (
        Side::Upper,
        "scheduler-multi-scheduler",
        &[
            ("list scheduling.k8s.io/podgroups", NO_API),
            ("list scheduling.k8s.io/workloads", NO_API),
            ("list scheduling.x-k8s.io/podgroups", NO_API),
            ("watch scheduling.k8s.io/podgroups", NO_API),
            ("watch scheduling.k8s.io/workloads", NO_API),
            ("watch scheduling.x-k8s.io/podgroups", NO_API),
            ("patch nodes", "there is room again for a pod that was refused: e2e multi_scheduler"),
        ],
    ),
    (
        Side::Upper,
        "descheduler",
        &[
            ("create events.k8s.io/events", NOT_MOVED),
            ("create pods/eviction", NOT_MOVED),
            ("get batch/jobs", NOT_MOVED),
            ("patch configmaps", NOT_MOVED),
            ("patch events.k8s.io/events", NOT_MOVED),
        ],
    ),
    (
        Side::Lower,
        "virtual-node",
        &[
            ("create persistentvolumes", "volumes that come down: e2e volumes"),
            ("delete persistentvolumes", "volumes that come down: e2e volumes"),
            ("get configmaps", "somebody else has one of the name: e2e objects"),
            ("get secrets", "somebody else has one of the name: e2e objects"),
            ("list metrics.k8s.io/pods", NO_API),
            ("patch persistentvolumeclaims", "a claim grows: e2e volumes"),
            ("patch secrets", "tokens are renewed after most of an hour: e2e identity"),
        ],
    ),
    (Side::Lower, "multi-scheduler", &[]),
];
/// Why nothing is asked for.
const NO_API: &str = "the cluster does not have this API here";
const NOT_MOVED: &str = "no pod is moved where there is one virtual node: e2e descheduler";

/// What is asked for though it may be refused: who asks then makes do with less.
const TRIED: [(&str, &str); 1] =
    [("list /api/v1/secrets?", "Secrets of all namespaces, which the default rights keep from it")];

/// One of the two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Upper,
    Lower,
}

impl Side {
    fn of(self, lab: &Lab) -> &Cluster {
        match self {
            Self::Upper => &lab.upper,
            Self::Lower => &lab.lower,
        }
    }
}

/// The rights of each account, to be asked for while the charts are installed.
pub(crate) async fn rights_of_all(lab: &Lab) -> anyhow::Result<Vec<BTreeSet<Right>>> {
    let ours = |role: &str| !role.starts_with("system:") && role != "extension-apiserver-authentication-reader";
    let mut all = Vec::new();
    for (side, account, _) in ACCOUNTS {
        let rights = given(side.of(lab), NAMESPACE, account, ours).await?;
        ensure!(!rights.is_empty(), "{account} has no rights");
        all.push(rights);
    }
    Ok(all)
}

/// Requests so far, of either side.
pub(crate) fn requests(lab: &Lab) -> anyhow::Result<[usize; 2]> {
    Ok([lab.upper.audit()?.requests.len(), lab.lower.audit()?.requests.len()])
}

/// None of the first requests of either side was refused (later ones are, while rights are taken away), and each right was
/// used, but for those that are named with a reason.
pub(crate) fn all_rights_were_used(lab: &Lab, given: &[BTreeSet<Right>], first: [usize; 2]) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for ((side, account, excused), given) in ACCOUNTS.iter().zip(given) {
        let mut early = side.of(lab).audit()?;
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let audit: Audit = asked(&early, &user);
        ensure!(!audit.requests.is_empty(), "{account} has asked for nothing");
        early.requests.truncate(first[usize::from(*side == Side::Lower)]);
        for request in refused(&asked(&early, &user)) {
            if !TRIED.iter().any(|(tried, _)| request.starts_with(tried)) {
                wrong.push(format!("{side:?} {account} may not {request}"));
            }
        }
        let unused: BTreeSet<String> = unused(given, &audit).into_iter().map(text).collect();
        let excused: BTreeSet<String> = excused.iter().map(|(right, _)| (*right).to_owned()).collect();
        for right in unused.difference(&excused) {
            wrong.push(format!("{side:?} {account} does not need {right}"));
        }
        for right in excused.difference(&unused) {
            wrong.push(format!("{side:?} {account} needs {right}, which is excused"));
        }
    }
    ensure!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    Ok(())
}

fn text(right: &Right) -> String {
    format!("{} {}", right.verb, right.resource.trim_start_matches('/'))
}
