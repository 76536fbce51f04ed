//! Objects of a lower cluster, reduced to what decides about fitting. Each is decoded straight from the JSON of a watch.

mod namespace;
mod node;
mod pod;
mod storage;

pub use namespace::{Namespace, Quota};
pub use node::{Node, Taint};
pub use pod::Pod;
pub use storage::{AccessMode, Claim, CsiNode, StorageClass, Volume, VolumeHandle};

pub use super::amounts::Amounts;
use super::label_selector::or_default;
pub use super::shape::{Disk, HostPort, Protocol, Shape};
