//! Files: directories as descriptors, files that are whole or not there, the mount table, the agent's own directories.
//!
//! Other adapters build on these where a path comes from outside, or where a crash must not leave half a file.

pub mod checkpoints;
pub mod directories;
mod error;
pub mod mount_table;
pub mod project_quotas;
pub mod safe_path;
pub mod small_file;
pub mod whole_file;

pub use error::FileError;
