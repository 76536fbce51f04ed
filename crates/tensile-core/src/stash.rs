//! The codec of the `clusterSelector` annotation.
