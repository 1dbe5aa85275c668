//! The registry: how metrics are made, kept, read at a scrape, and printed.

pub(super) mod exposition;
pub(super) mod families;
pub(super) mod register;
pub(super) mod scrape;
