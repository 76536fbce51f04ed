//! What needs a process of its own: real signals.

mod signals;
