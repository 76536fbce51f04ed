// SPDX-License-Identifier: Apache-2.0
//! The descheduler under test: two lower clusters, one of them fragmented, workloads that are stuck there, and kills.

pub mod audit;
pub mod kills;
pub mod lab;
pub mod workload;
