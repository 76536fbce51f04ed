// SPDX-License-Identifier: Apache-2.0
//! Objects of a lower cluster, reduced to what decides about fitting. Each is decoded straight from the JSON of a watch.

mod limit_range;
mod namespace;
mod node;
mod pod;
mod storage;

pub use limit_range::LimitRange;
pub use namespace::{Namespace, Quota};
pub use node::{Node, Taint};
pub use pod::Pod;
pub use storage::{AccessMode, Claim, CsiNode, StorageClass, Volume, VolumeHandle};

use serde::Deserialize;

pub use super::amounts::Amounts;
use super::label_selector::or_default;
pub use super::shape::{Disk, HostPort, Protocol, Shape};

/// An object as the API writes it. Its `spec` and `status` may be absent or `null`.
#[derive(Deserialize)]
#[serde(bound = "M: Deserialize<'de>, S: Deserialize<'de> + Default, T: Deserialize<'de> + Default")]
struct Written<M, S, T> {
    metadata: M,
    #[serde(default, deserialize_with = "or_default")]
    spec: S,
    #[serde(default, deserialize_with = "or_default")]
    status: T,
}
