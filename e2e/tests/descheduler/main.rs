// SPDX-License-Identifier: Apache-2.0
//! Pods that one lower cluster has no room for run in the other, whatever happens to the descheduler.

mod away;
mod bare;
mod canary;
mod chart;
mod faults;
mod input;
mod kills;
mod limits;
mod moves;
mod multi;
mod places;
mod rebalance;
mod strategies;
