//! Interim.
use crate::platform::http_probe::*;
/// x
pub struct NoProber;
#[async_trait::async_trait]
impl HttpProber for NoProber {
    async fn probe(&self, _: HttpProbe) -> ProbeOutcome { ProbeOutcome::Error("no prober".into()) }
}
/// x
pub struct NoManager;
impl crate::actors::settings::ServiceManager for NoManager { fn feed_watchdog(&self) {} }
