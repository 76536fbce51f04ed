// SPDX-License-Identifier: Apache-2.0
//! What an operator gets: images and charts, in clusters whose nodes are real.

pub mod images;
pub mod lab;
pub mod release;
pub mod rights;

/// The charts, which are also the services that have images.
pub const CHARTS: [&str; 4] = ["virtual-node", "webhook", "descheduler", "multi-scheduler"];
