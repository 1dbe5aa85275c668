//! How many volumes of a driver the node has room for (VOL-12): the driver is asked again as often as its CSIDriver object
//! says, and when a volume could not be attached for lack of room. The cluster hears of a change, so that the scheduler
//! knows.
//!
//! A driver whose object names no period is asked at its registration alone, and costs the cluster nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::storage::v1::CSIDriver;

use super::CsiManager;
use super::cluster::Job;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::model::time::Steady;
use crate::logic::plugins::csi_registration::CsiNodeInfo;
use crate::logic::volumes::csi::rules::limit_period;
use crate::messages::Ended;
use crate::messages::plugins::csi_manager::{CsiManagerMsg, DriverStep, LimitNews};
use crate::platform::cluster::kube_api::{ApiServer, Place};

/// Wait before a CSIDriver object is read again that could not be read.
const RETRY: Duration = Duration::from_secs(60);
/// The least time between two questions because of lack of room.
const ASK_MIN: Duration = Duration::from_secs(10);

/// A driver's limit.
#[derive(Default)]
pub(super) struct Limit {
    /// The driver's words that the cluster knows.
    info: CsiNodeInfo,
    /// How often the driver is asked.
    period: Option<Duration>,
    timer: Option<OperationId>,
    /// When the driver was asked last.
    asked: Option<Steady>,
    /// Another one is wanted where a volume found no room meanwhile: the driver's answer may be from before.
    reads: SingleFlight<()>,
}

impl CsiManager {
    /// The cluster knows the driver, with these words.
    pub(super) fn follow_limit(&mut self, driver: &str, info: CsiNodeInfo, context: &mut Context<CsiManagerMsg>) {
        self.forget_limit(driver, context);
        self.limits.insert(driver.to_owned(), Limit { info, ..Limit::default() });
        self.read_limit(driver, false, context);
    }

    /// The driver is gone.
    pub(super) fn forget_limit(&mut self, driver: &str, context: &mut Context<CsiManagerMsg>) {
        if let Some(timer) = self.limits.remove(driver).and_then(|limit| limit.timer) {
            context.cancel(timer);
        }
    }

    /// The node had no room for a volume of the driver.
    pub(super) fn limit_reached(&mut self, driver: &str, context: &mut Context<CsiManagerMsg>) {
        let now = context.steady();
        let Some(limit) = self.limits.get_mut(driver) else { return };
        if limit.reads.is_under_way() {
            limit.reads.later(());
        } else if limit.asked.is_none_or(|asked| now.since(asked) >= ASK_MIN) {
            self.read_limit(driver, true, context);
        }
    }

    /// The period is over.
    pub(super) fn limit_due(&mut self, driver: &str, context: &mut Context<CsiManagerMsg>) {
        if let Some(limit) = self.limits.get_mut(driver) {
            limit.timer = None;
            let asks = limit.period.is_some();
            self.read_limit(driver, asks, context);
        }
    }

    /// Reads how often the driver is to be asked; asks it too, where that is wanted. One such work a driver at a time.
    fn read_limit(&mut self, driver: &str, asks: bool, context: &mut Context<CsiManagerMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        let (endpoint, now) = (self.endpoint(driver), context.steady());
        let Some(limit) = self.limits.get_mut(driver).filter(|limit| !limit.reads.is_under_way()) else { return };
        let _ = limit.reads.want(());
        if asks {
            limit.asked = Some(now);
        }
        let (calls, name, of) = (Arc::clone(&self.args.calls), driver.to_owned(), driver.to_owned());
        let work = async move {
            let mut news = LimitNews { volumes_max: None, period: period_of(&api, &name).await };
            if let Some(endpoint) = endpoint.filter(|_| asks) {
                news.volumes_max =
                    Some(calls.node_info(&endpoint).await.map_err(|error| error.to_string())?.volumes_max);
            }
            Ok::<_, String>(news)
        };
        let ended = move |outcome: Result<_, _>| CsiManagerMsg::Driver(DriverStep::LimitRead(of, Ended::from(outcome)));
        context.start("read limit of driver", driver, work, ended);
    }

    pub(super) fn limit_read(&mut self, driver: &str, outcome: Ended<LimitNews>, context: &mut Context<CsiManagerMsg>) {
        let Some(limit) = self.limits.get_mut(driver) else { return };
        let (_, wanted) = limit.reads.end();
        let wait = match outcome.into_result() {
            Ok(LimitNews { volumes_max, period }) => {
                let wait = match period {
                    Ok(period) => {
                        limit.period = period;
                        period
                    }
                    Err(error) => {
                        tracing::warn!(driver, error, "it is not known how often a driver's limit is to be read");
                        Some(limit.period.unwrap_or(RETRY))
                    }
                };
                if let Some(volumes_max) = volumes_max.filter(|volumes_max| *volumes_max != limit.info.volumes_max) {
                    tracing::info!(driver, volumes_max, was = limit.info.volumes_max, "a driver's limit has changed");
                    limit.info.volumes_max = volumes_max;
                    let info = limit.info.clone();
                    self.jobs.push_back(Job::Limit { driver: driver.to_owned(), info });
                }
                wait
            }
            Err(error) => {
                tracing::warn!(driver, error, "a driver does not tell its limit");
                limit.period
            }
        };
        if let Some(wait) = wait
            && let Some(limit) = self.limits.get_mut(driver)
        {
            let due = CsiManagerMsg::Driver(DriverStep::LimitDue(driver.to_owned()));
            if let Some(former) = limit.timer.replace(context.after(wait, due)) {
                context.cancel(former);
            }
        }
        if let Some(limit) = self.limits.get(driver).filter(|_| wanted.is_some()) {
            let wait =
                limit.asked.map_or(Duration::ZERO, |asked| ASK_MIN.saturating_sub(context.steady().since(asked)));
            context.after(wait, CsiManagerMsg::LimitReached(driver.to_owned()));
        }
        self.publish(context);
    }
}

/// How often the cluster wants the driver to be asked. A driver without an object is never asked again.
async fn period_of(api: &ApiServer, driver: &str) -> Result<Option<Duration>, String> {
    match api.get::<CSIDriver>(&Place::Cluster, driver).await {
        Ok(object) => Ok(limit_period(&object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
