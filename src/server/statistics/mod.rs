//! Statistics: `/stats/summary`, and all that Prometheus scrapes.

pub(super) mod scrape;
pub(super) mod stats;
