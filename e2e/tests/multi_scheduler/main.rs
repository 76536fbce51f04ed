// SPDX-License-Identifier: Apache-2.0
//! Pods are bound to virtual nodes whose clusters have a node that they fit on: a real kube-scheduler asks the
//! multi-scheduler.

mod burst;
mod chart;
mod clusters;
mod fragments;
mod gangs;
mod lab;
mod questions;
mod replicas;
mod versions;
mod webhook;
mod wire;
