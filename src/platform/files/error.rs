//! Why a file operation failed.

use std::path::Path;

/// A file operation that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{attempt} {path}: {problem}")]
pub struct FileError {
    /// The attempt, such as `make directory`.
    pub attempt: &'static str,
    /// On what.
    pub path: String,
    /// The kernel's error.
    pub problem: String,
}

impl FileError {
    /// Of what the kernel said.
    pub fn new(attempt: &'static str, path: &Path, problem: impl std::fmt::Display) -> Self {
        Self { attempt, path: path.display().to_string(), problem: problem.to_string() }
    }
}
