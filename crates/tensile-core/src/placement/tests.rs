//! Tables of splits and restores.
