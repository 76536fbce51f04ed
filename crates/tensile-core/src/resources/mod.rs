//! Quantities and resource vectors.
