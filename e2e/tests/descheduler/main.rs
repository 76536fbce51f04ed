//! Pods that one lower cluster has no room for run in the other, whatever happens to the descheduler.

mod input;
mod kills;
mod lab;
mod limits;
mod moves;
mod workload;
