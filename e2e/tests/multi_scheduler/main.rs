//! Pods are bound to virtual nodes whose clusters have a node that they fit on: a real kube-scheduler asks the
//! multi-scheduler.

mod chart;
mod clusters;
mod fragments;
mod lab;
mod questions;
mod versions;
mod wire;
