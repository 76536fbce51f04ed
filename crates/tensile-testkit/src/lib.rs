//! tensile-testkit
