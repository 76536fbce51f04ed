// SPDX-License-Identifier: Apache-2.0
//! The engine as its users see it: objects in, answers out.

#![allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]

mod columns;
mod fuzz;
mod oracle;
mod plugins;
mod reserves;
mod scene;
mod scores;
mod topologies;
mod volumes;
