// SPDX-License-Identifier: Apache-2.0
//! Measures the engine of the multi-scheduler: `cargo run --release -p tensile-core --example scheduling`.

mod fleet;
mod measure;
mod plot;

fn main() {
    measure::run();
}
