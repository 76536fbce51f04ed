// SPDX-License-Identifier: Apache-2.0
//! Generated lower clusters: nodes, pods on them and pods that look for a node, as JSON that an API server takes, and an
//! oracle that says which node they find.

mod generate;
mod oracle;

pub use generate::{NAMESPACES, bound, namespaces, nodes, pod};
pub use oracle::{Scene, fits};
