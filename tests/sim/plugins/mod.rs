//! Drivers beside the agent: devices, claims and volumes that they bring, whatever goes wrong in between.

pub mod claims;
pub mod devices;
pub mod faults;
pub mod volumes;

use podwright::sim::Options;

/// A node of a cluster that may have drivers.
fn with_drivers() -> Options {
    Options { cluster: true, plugins: true, ..Options::default() }
}
