//! The codec: its bytes, its errors, what survives.
