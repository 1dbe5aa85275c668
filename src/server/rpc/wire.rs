//! The messages and services of PodResources and of the Pods API, as `build.rs` makes them from `proto`.
//!
//! The client halves are for tests.

#![allow(
    missing_docs,
    clippy::all,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "generated; the protocols' own comments are in the proto files"
)]

pub mod podresources_v1 {
    include!(concat!(env!("OUT_DIR"), "/podresources_v1/v1.rs"));
}

pub mod podresources_v1alpha1 {
    include!(concat!(env!("OUT_DIR"), "/podresources_v1alpha1/v1alpha1.rs"));
}

pub mod pods_v1alpha1 {
    include!(concat!(env!("OUT_DIR"), "/pods_v1alpha1/v1alpha1.rs"));
}
