//! tensile-runtime
