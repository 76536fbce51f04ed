// SPDX-License-Identifier: Apache-2.0
//! What a pod takes from a node: kube-scheduler's sum over containers, init containers, sidecars and overhead.
//!
//! The rules are those of `k8s.io/component-helpers/resource.PodRequests`. The views borrow from the JSON text, so
//! that a lower cluster's 50,000 foreign pods cost no object trees.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::vector::{ResourceName, ResourceVector};

#[cfg(test)]
mod tests;

/// What of a pod decides about its request, and where that counts. Everything else is skipped while parsing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodRequestView<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

/// The request of a pod that is not placed yet, from its spec alone.
///
/// # Errors
/// When a member that decides has another shape than the API's, for instance a quantity that is none.
pub fn pod_request(spec: &Value) -> Result<ResourceVector, serde_json::Error> {
    Spec::deserialize(spec).map(|spec| spec.request(None))
}

impl<'a> PodRequestView<'a> {
    /// Parses the view from a pod's JSON text.
    ///
    /// # Errors
    /// When a member that decides has another shape than the API's.
    pub fn parse(raw: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw)
    }

    /// What the pod asks for before it is placed: its spec alone.
    #[must_use]
    pub fn incoming(&self) -> ResourceVector {
        self.spec.request(None)
    }

    /// What a placed pod takes: per container the largest of what is asked, allocated and in use, so that a resize
    /// under way is counted at its larger end. A resize that the node calls infeasible is not counted.
    #[must_use]
    pub fn placed(&self) -> ResourceVector {
        self.spec.request(Some(&self.status))
    }

    /// The node that the pod takes its request from: none while it is not bound, and after it finished.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        let finished = matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        self.spec.node_name.as_deref().filter(|node| !node.is_empty() && !finished)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec<'a> {
    #[serde(borrow)]
    pub(crate) node_name: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) init_containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) overhead: ResourceVector,
    pub(crate) resources: Option<Resources>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    #[serde(borrow)]
    restart_policy: Option<Cow<'a, str>>,
    /// Not part of the request; read here, so that a scheduler reads containers once.
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) ports: Vec<Port<'a>>,
}

/// A port of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port<'a> {
    #[serde(rename = "hostPort")]
    pub(crate) host: Option<u16>,
    #[serde(rename = "hostIP", borrow)]
    pub(crate) host_ip: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) protocol: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    #[serde(deserialize_with = "or_default")]
    requests: ResourceVector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status<'a> {
    #[serde(borrow)]
    pub(crate) phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) nominated_node_name: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
    resources: Option<Resources>,
    #[serde(deserialize_with = "or_default")]
    allocated_resources: ResourceVector,
    #[serde(deserialize_with = "or_default")]
    node_allocatable_resource_claim_statuses: Vec<ClaimStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    resources: Option<Resources>,
    #[serde(deserialize_with = "or_default")]
    allocated_resources: ResourceVector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    #[serde(deserialize_with = "or_default")]
    resources: ResourceVector,
}

/// `null` is what Go clients send for an empty list or map.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Spec<'_> {
    /// The request, with what the status says about it when the pod is placed.
    pub(crate) fn request(&self, status: Option<&Status<'_>>) -> ResourceVector {
        let mut request = self.containers_request(status);
        for claim in status.iter().flat_map(|status| &status.node_allocatable_resource_claim_statuses) {
            request.add_all(&claim.resources);
        }
        // Pod-level requests replace what the containers add up to, for the resources that may be set there.
        if let Some(level) = &self.resources {
            let effective = status.and_then(|status| {
                let actual = &status.resources.as_ref()?.requests;
                Some(status.effective(&level.requests, actual, &status.allocated_resources))
            });
            for (name, milli) in level.requests.iter().filter(|(name, _)| is_pod_level(name)) {
                let milli = effective.as_ref().map_or(milli, |effective| effective.get(name).unwrap_or(0));
                request.set(name.clone(), milli);
            }
        }
        request.add_all(&self.overhead);
        request
    }

    /// max(containers + sidecars, the most that starting up needs at once).
    fn containers_request(&self, status: Option<&Status<'_>>) -> ResourceVector {
        let mut running = ResourceVector::new();
        for container in &self.containers {
            let reported = status.map(|status| (status, &status.container_statuses));
            running.add_all(&container.request(reported));
        }
        let (mut sidecars, mut starting) = (ResourceVector::new(), ResourceVector::new());
        for container in &self.init_containers {
            if container.is_sidecar() {
                let reported = status.map(|status| (status, &status.init_container_statuses));
                let own = container.request(reported);
                running.add_all(&own);
                sidecars.add_all(&own);
            } else {
                // An ordinary init container runs beside the sidecars that were started before it.
                let mut while_it_runs = sidecars.clone();
                while_it_runs.add_all(&container.resources.requests);
                starting.raise_to(&while_it_runs);
            }
        }
        running.raise_to(&starting);
        running
    }
}

/// Whether `name` may be requested for a whole pod (upstream `IsSupportedPodLevelResource`).
fn is_pod_level(name: &ResourceName) -> bool {
    *name == ResourceName::CPU || *name == ResourceName::MEMORY || name.is_hugepages()
}

impl<'a> Container<'a> {
    /// An init container that runs as long as the pod.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    fn request(&self, reported: Option<(&Status<'a>, &Vec<ContainerStatus<'a>>)>) -> Cow<'_, ResourceVector> {
        let asked = &self.resources.requests;
        reported
            .and_then(|(status, containers)| {
                let own = containers.iter().find(|own| own.name == self.name)?;
                let actual = &own.resources.as_ref()?.requests;
                Some(Cow::Owned(status.effective(asked, actual, &own.allocated_resources)))
            })
            .unwrap_or(Cow::Borrowed(asked))
    }
}

impl Status<'_> {
    fn effective(&self, asked: &ResourceVector, actual: &ResourceVector, allocated: &ResourceVector) -> ResourceVector {
        let mut effective = actual.clone();
        effective.raise_to(allocated);
        if !self.resize_infeasible() {
            effective.raise_to(asked);
        }
        effective
    }

    fn resize_infeasible(&self) -> bool {
        self.conditions
            .iter()
            .find(|condition| condition.kind == "PodResizePending")
            .is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
    }
}
