//! The files of volumes that the agent fills itself: from objects of the API, from the pod, and by request.
//!
//! Pure. `payload` holds files and makes those of ConfigMaps and Secrets; `downward` makes those of the pod's own fields;
//! `projected` puts sources together: with these two `token`, `certificate` and `trust`.

pub mod certificate;
pub mod downward;
pub mod payload;
pub mod projected;
pub mod token;
pub mod trust;
