//! Recovery: what fails, and that nothing is lost by it; one seed tells one story.

pub(super) mod crashes;
pub(super) mod determinism;
pub(super) mod faults;
pub(super) mod mends;
pub(super) mod pains;
pub(super) mod restarts;
pub(super) mod strict;
