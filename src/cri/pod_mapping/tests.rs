//! Tables and whole-pod comparisons.
