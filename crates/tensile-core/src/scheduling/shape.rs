// SPDX-License-Identifier: Apache-2.0
//! What pods of one controller have in common: stored once, however many they are.

use super::amounts::Amounts;
use super::label_selector::PodTerm;
use super::labels::Labels;
use super::text::{Text, Texts};

/// What of a pod counts for others and for the node it is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Its namespace.
    pub namespace: Text,
    /// Its labels.
    pub labels: Labels,
    /// What it takes of its node, besides being one pod.
    pub request: Amounts,
    /// Ports of the node it listens on.
    pub ports: Box<[HostPort]>,
    /// Its required pod anti-affinity: others keep away too.
    pub anti_affinity: Box<[PodTerm]>,
    /// Names of the claims it mounts.
    pub claims: Box<[Text]>,
    /// Disks it mounts without a claim.
    pub disks: Box<[Disk]>,
}

impl Shape {
    pub(super) fn share(&mut self, texts: &mut Texts) {
        texts.share(&mut self.namespace);
        self.anti_affinity.iter_mut().for_each(|term| term.share(texts));
        self.claims.iter_mut().for_each(|claim| texts.share(claim));
    }
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP, also when nothing is said.
    #[default]
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// The address; `None` for all.
    pub ip: Option<Text>,
}

impl HostPort {
    /// Whether only one of the two can be listened on.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        let same_ip = self.ip.is_none() || other.ip.is_none() || self.ip == other.ip;
        self.protocol == other.protocol && self.port == other.port && same_ip
    }
}

/// A disk that few can mount at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Disk {
    /// A disk of Google's cloud: all read it, or one mounts it.
    GcePersistentDisk {
        /// Its name.
        name: Text,
        /// Mounted to be read only.
        read_only: bool,
    },
    /// A disk of Amazon's cloud: one mounts it.
    AwsElasticBlockStore {
        /// Its ID.
        volume: Text,
    },
    /// A disk over iSCSI: all read it, or one mounts it.
    Iscsi {
        /// The target's name.
        iqn: Text,
        /// Mounted to be read only.
        read_only: bool,
    },
    /// A disk of Ceph: all read it, or one mounts it.
    Rbd {
        /// The monitors; disks with a common one may be the same.
        monitors: Box<[Text]>,
        /// Its pool.
        pool: Text,
        /// Its image.
        image: Text,
        /// Mounted to be read only.
        read_only: bool,
    },
}

impl Disk {
    /// Whether only one of the two can be mounted on a node.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::GcePersistentDisk { name, read_only },
                Self::GcePersistentDisk { name: other, read_only: other_too },
            ) => name == other && !(*read_only && *other_too),
            (Self::AwsElasticBlockStore { volume }, Self::AwsElasticBlockStore { volume: other }) => volume == other,
            (Self::Iscsi { iqn, read_only }, Self::Iscsi { iqn: other, read_only: other_too }) => {
                iqn == other && !(*read_only && *other_too)
            }
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd { monitors: others, pool: other_pool, image: other_image, read_only: other_too },
            ) => {
                pool == other_pool
                    && image == other_image
                    && monitors.iter().any(|monitor| others.contains(monitor))
                    && !(*read_only && *other_too)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_clash_by_protocol_number_and_address() {
        let port = |protocol, port, ip: &str| HostPort { protocol, port, ip: (!ip.is_empty()).then(|| ip.into()) };
        let all = port(Protocol::Tcp, 80, "");
        assert!(all.clashes(&all));
        assert!(all.clashes(&port(Protocol::Tcp, 80, "10.0.0.1")));
        assert!(!all.clashes(&port(Protocol::Udp, 80, "")));
        assert!(!all.clashes(&port(Protocol::Tcp, 81, "")));
        assert!(!port(Protocol::Tcp, 80, "10.0.0.1").clashes(&port(Protocol::Tcp, 80, "10.0.0.2")));
        assert!(port(Protocol::Tcp, 80, "10.0.0.1").clashes(&port(Protocol::Tcp, 80, "10.0.0.1")));
    }

    #[test]
    fn disks_are_shared_by_readers_only_and_amazons_by_nobody() {
        let gce = |read_only| Disk::GcePersistentDisk { name: "d".into(), read_only };
        assert!(!gce(true).clashes(&gce(true)));
        assert!(gce(true).clashes(&gce(false)));
        let ebs = Disk::AwsElasticBlockStore { volume: "d".into() };
        assert!(ebs.clashes(&ebs));
        assert!(!ebs.clashes(&gce(false)));
        let rbd = |monitors: &[&str], read_only| Disk::Rbd {
            monitors: monitors.iter().map(|monitor| (*monitor).into()).collect(),
            pool: "p".into(),
            image: "i".into(),
            read_only,
        };
        assert!(rbd(&["a", "b"], false).clashes(&rbd(&["b", "c"], true)));
        assert!(!rbd(&["a"], false).clashes(&rbd(&["b"], false)));
        let iscsi = |iqn: &str| Disk::Iscsi { iqn: iqn.into(), read_only: false };
        assert!(iscsi("a").clashes(&iscsi("a")));
        assert!(!iscsi("a").clashes(&iscsi("b")));
    }
}
