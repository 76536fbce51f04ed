//! Measures the engine of the multi-scheduler: `cargo run --release -p tensile-core --example scheduling`.

mod fleet;
mod measure;

fn main() {
    measure::run();
}
