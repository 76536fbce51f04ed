// SPDX-License-Identifier: Apache-2.0
//! `kubectl tensile`: what an operator of lower clusters does by hand.
//!
//! Each command reads what it needs through [`cluster`], makes a value of it that can be printed as table, JSON or YAML
//! ([`output`]), and decides nothing that a service decides: it shows what they said.

pub mod app;
pub mod args;
pub mod cluster;
pub mod doctor;
pub mod drain;
pub mod join;
pub mod leave;
pub mod output;
pub mod status;
pub mod top;
pub mod why;
