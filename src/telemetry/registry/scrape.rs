//! The means by which a scrape asks actors.

use std::time::Duration;

use crate::actors::kit::trace::Cause;

/// How long an actor may be waited for; a scrape without its figures is better than none.
pub(in crate::telemetry) const ASK_LIMIT: Duration = Duration::from_secs(2);
/// Why a scrape asks actors.
pub(in crate::telemetry) const SCRAPE: Cause = Cause::outside("request");
