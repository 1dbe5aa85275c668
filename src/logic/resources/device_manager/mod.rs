//! Devices of device plugins: which there are, and which containers own them (RES-39 to RES-46).
//!
//! Pure. [`devices`] is what plugins say.

pub mod devices;
