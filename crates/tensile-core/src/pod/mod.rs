//! The pod on its way down, and its status on the way up.
