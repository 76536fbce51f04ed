//! What a virtual node shows of its lower cluster.
