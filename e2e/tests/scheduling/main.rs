//! The engine of the multi-scheduler, held against a real scheduler.

mod oracle;
