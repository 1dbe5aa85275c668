//! Stand-ins for what runs on the host, for tests of other modules too.

pub(crate) mod played_bus;
pub(crate) mod played_program;
