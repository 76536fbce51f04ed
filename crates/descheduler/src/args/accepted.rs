// SPDX-License-Identifier: Apache-2.0
//! Flags of tensile-kube's descheduler that have no effect here, taken so that its manifests start.

use tensile_runtime::args::{Foreign, Shape};

/// tensile-kube's descheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TensileKube;

const LOGGING: &str = "use --log-level";
const STANDARD_ERROR: &str = "the log goes to standard error";

impl Foreign for TensileKube {
    const HEADING: &'static str = "Accepted from tensile-kube, without effect";

    const WITHOUT_EFFECT: &'static [(&'static str, Shape, &'static str)] = &[
        ("v", Shape::Value, LOGGING),
        ("vmodule", Shape::Value, LOGGING),
        ("log-backtrace-at", Shape::Value, LOGGING),
        ("log-dir", Shape::Value, STANDARD_ERROR),
        ("log-flush-frequency", Shape::Value, STANDARD_ERROR),
        ("logtostderr", Shape::Switch, STANDARD_ERROR),
        ("alsologtostderr", Shape::Switch, STANDARD_ERROR),
        ("stderrthreshold", Shape::Value, STANDARD_ERROR),
    ];
    const REFUSED: &'static [(&'static str, Shape, &'static str)] = &[];
}
