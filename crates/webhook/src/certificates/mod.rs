// SPDX-License-Identifier: Apache-2.0
//! Certificates of its own: a CA and what it signs, kept in a Secret that all replicas share.
//!
//! [`held`] is what the Secret holds, [`registration`] what API servers were told, [`plan`] decides from both and the
//! time, [`issue`] makes what was decided, and [`keeper`] is the task around them. Only the Secret holds state: any
//! replica may do the next step, and who comes second reads what the first wrote.

pub mod held;
pub mod issue;
pub mod keeper;
pub mod plan;
pub mod registration;
