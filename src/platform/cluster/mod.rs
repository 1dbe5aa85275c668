//! Cluster: the API server's client, the agent's certificates, API objects, and the store for a boot without the server.

pub mod access_review;
pub mod certificates;
mod crypto;
pub mod key_pair;
pub mod kube_api;
pub mod live_certificate;
pub mod objects;
pub mod offline_store;
