// SPDX-License-Identifier: Apache-2.0
//! Quantities and resource vectors.

pub mod quantity;
pub mod request;
pub mod vector;

pub use quantity::{Format, ParseQuantityError, Quantity};
pub use request::{PodRequestView, pod_request};
pub use vector::{ResourceName, ResourceVector};
