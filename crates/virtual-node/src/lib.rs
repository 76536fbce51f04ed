//! virtual-node
