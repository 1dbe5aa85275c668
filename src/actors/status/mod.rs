//! Status: sends pod statuses to the API server, and keeps the mirrors of static pods.

pub mod mirror_manager;
pub mod status_manager;
mod watchers;
