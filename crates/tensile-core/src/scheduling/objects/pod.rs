// SPDX-License-Identifier: Apache-2.0
//! Pods, reduced to what decides about fitting.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

use super::super::amounts::Amounts;
use super::super::label_selector::{PodTerm, WrittenTerm};
use super::super::labels::Labels;
use super::super::text::Text;
use super::super::uid::Uid;
use super::{Disk, HostPort, Protocol, Shape, Written, or_default};
use crate::names;
use crate::resources::ResourceVector;
use crate::resources::request;
use crate::thin::Read::{self, Items, Members, Whole};
use crate::thin::thin;

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its UID.
    pub uid: Uid,
    /// UID of the upper pod that it was made for.
    pub upper: Option<Uid>,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// The node that the scheduler made room on for it.
    pub nominated: Option<Text>,
    /// Its priority.
    pub priority: i32,
    /// It ended, and takes nothing any more.
    pub finished: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// What counts for others and for its node.
    pub shape: Shape,
}

impl Pod {
    /// Reads a pod.
    ///
    /// # Errors
    /// When a member that counts has another shape than the API's.
    pub fn decode(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(thin(json, &READ).as_deref().unwrap_or(json))
    }
}

/// What is read of a pod.
const READ: Read = Members(&[
    (
        "metadata",
        Members(&[
            ("name", Whole),
            ("namespace", Whole),
            ("uid", Whole),
            ("labels", Whole),
            ("annotations", Members(&[(names::UPPER_UID, Whole)])),
            ("deletionTimestamp", Whole),
        ]),
    ),
    (
        "spec",
        Members(&[
            ("nodeName", Whole),
            ("containers", Items(&CONTAINER)),
            ("initContainers", Items(&CONTAINER)),
            ("overhead", Whole),
            ("resources", RESOURCES),
            ("priority", Whole),
            ("affinity", Members(&[("podAntiAffinity", Members(&[(REQUIRED, Whole)]))])),
            ("volumes", Items(&VOLUME)),
        ]),
    ),
    (
        "status",
        Members(&[
            ("phase", Whole),
            ("nominatedNodeName", Whole),
            ("conditions", Items(&Members(&[("type", Whole), ("reason", Whole)]))),
            ("containerStatuses", Items(&CONTAINER_STATUS)),
            ("initContainerStatuses", Items(&CONTAINER_STATUS)),
            ("resources", RESOURCES),
            ("allocatedResources", Whole),
            ("nodeAllocatableResourceClaimStatuses", Items(&Members(&[("resources", Whole)]))),
        ]),
    ),
]);
const RESOURCES: Read = Members(&[("requests", Whole)]);
const CONTAINER: Read = Members(&[
    ("name", Whole),
    ("resources", RESOURCES),
    ("restartPolicy", Whole),
    ("ports", Items(&Members(&[("hostPort", Whole), ("hostIP", Whole), ("protocol", Whole)]))),
]);
const CONTAINER_STATUS: Read = Members(&[("name", Whole), ("resources", RESOURCES), ("allocatedResources", Whole)]);
const VOLUME: Read = Members(&[
    ("name", Whole),
    ("persistentVolumeClaim", Whole),
    ("ephemeral", Whole),
    ("gcePersistentDisk", Whole),
    ("awsElasticBlockStore", Whole),
    ("iscsi", Whole),
    ("rbd", Whole),
]);
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    namespace: Text,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    labels: Labels,
    #[serde(default, deserialize_with = "or_default")]
    annotations: Annotations,
    deletion_timestamp: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "tensile.io/upper-uid")]
    upper: Option<Uid>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    node_name: Option<Text>,
    #[serde(borrow, deserialize_with = "or_default")]
    containers: Vec<request::Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    init_containers: Vec<request::Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    overhead: ResourceVector,
    resources: Option<request::Resources>,
    #[serde(deserialize_with = "or_default")]
    priority: i32,
    #[serde(deserialize_with = "or_default")]
    affinity: Affinity,
    #[serde(borrow, deserialize_with = "or_default")]
    volumes: Vec<Mounted<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pod_anti_affinity: Required,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Required {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "or_default")]
    terms: Vec<WrittenTerm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Mounted<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<de::IgnoredAny>,
    gce_persistent_disk: Option<Gce>,
    aws_elastic_block_store: Option<Ebs>,
    iscsi: Option<Iscsi>,
    rbd: Option<Rbd>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimSource {
    claim_name: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gce {
    pd_name: Text,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
struct Ebs {
    #[serde(rename = "volumeID")]
    volume: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Iscsi {
    iqn: Text,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rbd {
    #[serde(default, deserialize_with = "or_default")]
    monitors: Vec<Text>,
    #[serde(default)]
    pool: Text,
    #[serde(default)]
    image: Text,
    #[serde(default)]
    read_only: bool,
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::<Meta<'de>, Spec<'de>, request::Status<'de>>::deserialize(deserializer)?;
        let Written { metadata, spec, status } = written;
        let nonempty = |name: Option<Text>| name.filter(|name| !name.is_empty());
        let (claims, disks) = mounts(&metadata.name, spec.volumes);
        let terms = spec.affinity.pod_anti_affinity.terms.into_iter();
        let terms = terms.map(|term| PodTerm::of(term, &metadata.namespace, &metadata.labels)).collect();
        let ports = ports(&spec.containers, &spec.init_containers);
        let asked = request::Spec {
            node_name: None,
            containers: spec.containers,
            init_containers: spec.init_containers,
            overhead: spec.overhead,
            resources: spec.resources,
        };
        Ok(Self {
            uid: Uid::of(&metadata.uid),
            upper: metadata.annotations.upper,
            node: nonempty(spec.node_name),
            nominated: nonempty(status.nominated_node_name.as_deref().map(Text::from)),
            priority: spec.priority,
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            terminating: metadata.deletion_timestamp.is_some(),
            shape: Shape {
                request: Amounts::of(&asked.request(Some(&status))),
                namespace: metadata.namespace,
                labels: metadata.labels,
                ports,
                anti_affinity: terms,
                claims,
                disks,
            },
        })
    }
}

/// The ports of the node that the containers listen on while the pod runs.
fn ports(containers: &[request::Container<'_>], init: &[request::Container<'_>]) -> Box<[HostPort]> {
    let sidecars = init.iter().filter(|container| container.is_sidecar());
    let mut ports: Vec<HostPort> = Vec::new();
    for port in containers.iter().chain(sidecars).flat_map(|container| &container.ports) {
        let Some(number) = port.host.filter(|number| *number > 0) else { continue };
        let port = HostPort {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            },
            port: number,
            ip: port.host_ip.as_deref().filter(|ip| !matches!(*ip, "" | "0.0.0.0")).map(Text::from),
        };
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports.into()
}

/// The names of the claims, and the disks without one.
fn mounts(pod: &str, volumes: Vec<Mounted<'_>>) -> (Box<[Text]>, Box<[Disk]>) {
    let (mut claims, mut disks) = (Vec::new(), Vec::new());
    for volume in volumes {
        let claim = volume.persistent_volume_claim.map(|source| source.claim_name);
        // The claim of a generic ephemeral volume is called after pod and volume.
        let ephemeral = volume.ephemeral.map(|_| format!("{pod}-{}", volume.name).into());
        claims.extend(claim.or(ephemeral));
        let gce = volume.gce_persistent_disk;
        disks.extend(gce.map(|Gce { pd_name: name, read_only }| Disk::GcePersistentDisk { name, read_only }));
        disks.extend(volume.aws_elastic_block_store.map(|Ebs { volume }| Disk::AwsElasticBlockStore { volume }));
        disks.extend(volume.iscsi.map(|Iscsi { iqn, read_only }| Disk::Iscsi { iqn, read_only }));
        disks.extend(volume.rbd.map(|Rbd { monitors, pool, image, read_only }| {
            let pool = if pool.is_empty() { "rbd".into() } else { pool };
            Disk::Rbd { monitors: monitors.into(), pool, image, read_only }
        }));
    }
    claims.sort();
    claims.dedup();
    (claims.into(), disks.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: &serde_json::Value) -> Pod {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn a_pod_is_reduced_to_what_counts() {
        let pod = pod(&json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "a\"b"},
                "annotations": {"tensile.io/upper-uid": "above", "other": "x"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "node", "priority": 7, "overhead": {"cpu": "10m"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Ki"}},
                    "ports": [{"containerPort": 1}, {"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}]}],
                "initContainers": [
                    {"name": "i", "ports": [{"hostPort": 81}], "resources": {"requests": {"cpu": "1"}}},
                    {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 82, "protocol": "UDP"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "x", "emptyDir": {}}]},
            "status": {"phase": "Running"},
        }));
        assert_eq!((pod.uid, pod.upper), (Uid::of("u"), Some(Uid::of("above"))));
        assert_eq!((pod.node.as_deref(), pod.priority, pod.terminating, pod.finished), (Some("node"), 7, true, false));
        assert_eq!(pod.shape.request.main, [1010, 1024, 0]);
        assert_eq!(pod.shape.labels.get("app"), Some("a\"b"));
        let port = |port, protocol| HostPort { protocol, port, ip: None };
        assert_eq!(&*pod.shape.ports, &[port(80, Protocol::Tcp), port(82, Protocol::Udp)]);
        assert_eq!(&*pod.shape.claims, &["claim".into(), "p-e".into()]);
    }

    #[test]
    fn a_finished_pod_and_one_without_a_node_are_told() {
        let pod = pod(&json!({"metadata": {"uid": "u"}, "spec": {"nodeName": ""},
            "status": {"phase": "Failed", "nominatedNodeName": "n"}}));
        assert_eq!((pod.node, pod.nominated.as_deref(), pod.finished), (None, Some("n"), true));
    }
}
