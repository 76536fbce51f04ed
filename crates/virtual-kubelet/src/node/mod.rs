//! The node: registration, lease, status.
