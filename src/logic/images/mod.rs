//! Images: their names, credentials of registries, when an image is pulled, who may use it, and when it goes.
//!
//! May import `formats`, `model` and `volumes`.

pub mod credential_plugins;
pub mod credential_tokens;
pub mod image_credentials;
pub mod image_garbage;
pub mod image_name;
pub mod image_policy;
pub mod image_records;
pub mod pull_queue;
