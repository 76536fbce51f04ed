//! Admission: what only lower nodes can satisfy moves into the stash.
