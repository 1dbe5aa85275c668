//! Drivers of resource claims: what each has prepared, how that is, and the calls.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;

use super::calls::{Call, PluginOutlet};
use super::changes::Listener;
use super::{CLAIMS, Driver, Plugins};
use crate::actors::kit::trace::lock;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::claims::health::{DeviceHealth, Health};
use crate::logic::plugins::claims::states::Answer;
use crate::logic::plugins::claims::{ClaimId, PreparedDevice};
use crate::platform::plugins::{Connection, DRA_LIMIT, DraCalls, HealthNews, OpenCall};
use crate::sim::faults::Fault;
use crate::sim::faults::random::Random;
use crate::sim::invariants::CLAIMS_OUTLIVE;
use crate::sim::node::Node;

/// A claim that a driver has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The driver.
    pub driver: String,
    /// The claim's name.
    pub name: String,
    /// How its device is.
    pub health: Health,
}

/// Prepared claims, by UID.
pub type Claims = BTreeMap<String, Prepared>;

/// A driver's word about a device holds longer than any run.
const HOLDS_SECONDS: i64 = 100 * 365 * 86_400;

/// The CDI device of a claim.
pub fn device_of(driver: &str, uid: &str) -> String {
    format!("{CLAIMS}{driver}={uid}")
}

/// The device of one claim turns ill or well; gives the news of it.
pub(super) fn change(claims: &mut Claims, random: &Random) -> Option<String> {
    let place = usize::try_from(random.below(claims.len().max(1) as u64)).unwrap_or_default();
    let claim = claims.values_mut().nth(place)?;
    claim.health = if claim.health == Health::Healthy { Health::Unhealthy } else { Health::Healthy };
    Some(format!("the device of {} is {}", claim.name, claim.health))
}

impl Plugins {
    /// How the devices of a driver are, as it tells the agent.
    fn health_of(&self, driver: &str) -> Vec<DeviceHealth> {
        let claims = lock(&self.claims);
        let own = claims.values().filter(|claim| claim.driver == driver);
        let told = own.map(|claim| DeviceHealth {
            pool_name: "pool".to_owned(),
            device_name: claim.name.clone(),
            health: claim.health,
            holds_seconds: HOLDS_SECONDS,
            message: String::new(),
        });
        told.collect()
    }

    /// Devices of claims, among these, that no driver has prepared.
    pub fn unprepared(&self, devices: &[String]) -> Vec<String> {
        let claims = lock(&self.claims);
        let has = |device: &str| claims.iter().any(|(uid, claim)| device_of(&claim.driver, uid) == device);
        devices.iter().filter(|device| device.starts_with(CLAIMS) && !has(device)).cloned().collect()
    }
}

fn prepare(node: &Node, driver: &str, claims: Vec<ClaimId>) -> Answer {
    let plugins = &node.plugins;
    let one = |claim: ClaimId| {
        if node.faults.has(Fault::PluginErrors) && plugins.random().chance(0.05) {
            return (claim.uid, Err("the device is busy".to_owned()));
        }
        node.story.tell("driver", format!("{driver} prepares {}, {}", claim.key.name, claim.uid));
        let health = Health::Healthy;
        let prepared = Prepared { driver: driver.to_owned(), name: claim.key.name.clone(), health };
        // Prepared before, its device is as it is.
        lock(&plugins.claims).entry(claim.uid.clone()).or_insert(prepared);
        let device = PreparedDevice {
            pool_name: "pool".to_owned(),
            device_name: claim.key.name,
            cdi_device_ids: vec![device_of(driver, &claim.uid)],
            ..PreparedDevice::default()
        };
        (claim.uid, Ok(vec![device]))
    };
    let answer = claims.into_iter().map(one).collect();
    plugins.changed();
    answer
}

fn unprepare(node: &Node, driver: &str, claims: Vec<ClaimId>) -> Answer {
    let one = |claim: ClaimId| {
        if node.faults.has(Fault::PluginErrors) && node.plugins.random().chance(0.05) {
            return (claim.uid, Err("the device is busy".to_owned()));
        }
        let device = device_of(driver, &claim.uid);
        let user = lock(&node.containers).user_of(&device);
        node.story.tell("driver", format!("{driver} releases {}, {}", claim.key.name, claim.uid));
        lock(&node.plugins.claims).remove(&claim.uid);
        if let Some(user) = user {
            node.invariants.broken(CLAIMS_OUTLIVE, format!("{} is released while {user} runs", claim.key.name));
        }
        (claim.uid, Ok(vec![]))
    };
    claims.into_iter().map(one).collect()
}

impl PluginOutlet {
    /// A call about claims: a driver does one at a time, and others wait.
    fn about_claims(&self, at: &str, method: &'static str, claims: &[ClaimId]) -> (Call, String) {
        let driver = self.plugins().driver(at).map(|driver| driver.name).unwrap_or_default();
        let names: Vec<&str> = claims.iter().map(|claim| claim.key.name.as_str()).collect();
        let thing = Some(format!("claims of {driver}"));
        (Call { about: names.join(" "), thing, waits: true, ..Call::asking(at, method, DRA_LIMIT) }, driver)
    }
}

/// The stream of one life of a driver.
struct HealthWatch {
    of: PluginOutlet,
    at: String,
    driver: Option<Driver>,
    told: Option<Vec<DeviceHealth>>,
}

impl HealthWatch {
    async fn next(&mut self, changes: &mut Listener) -> Result<Vec<DeviceHealth>, CallError> {
        let (plugins, node) = (self.of.plugins(), self.of.outlet.node());
        loop {
            self.of.outlet.pass(plugins.latency(node)).await;
            let driver = self.driver.as_ref().filter(|driver| plugins.life(&self.at) == Some(driver.life));
            let Some(driver) = driver else {
                let problem = CallProblem::Unreachable("error reading from server: EOF".to_owned());
                return Err(CallError { method: "NodeWatchResources", problem });
            };
            let now = plugins.health_of(&driver.name);
            if self.told.as_ref() != Some(&now) {
                self.told = Some(now.clone());
                return Ok(now);
            }
            changes.changed().await;
        }
    }
}

#[async_trait]
impl DraCalls for PluginOutlet {
    async fn prepare(&self, at: &str, _: Service, claims: Vec<ClaimId>) -> Result<Answer, CallError> {
        let (call, driver) = self.about_claims(at, "NodePrepareResources", &claims);
        self.call(call, move |node| Ok(prepare(node, &driver, claims))).await
    }

    async fn unprepare(&self, at: &str, _: Service, claims: Vec<ClaimId>) -> Result<Answer, CallError> {
        let (call, driver) = self.about_claims(at, "NodeUnprepareResources", &claims);
        self.call(call, move |node| Ok(unprepare(node, &driver, claims))).await
    }

    async fn watch_health(&self, at: &str) -> Result<HealthNews, CallError> {
        self.call(Call::asking(at, "NodeWatchResources", Duration::from_secs(10)), |_| Ok(())).await?;
        let plugins = self.plugins();
        let watch = HealthWatch { of: self.clone(), at: at.to_owned(), driver: plugins.driver(at), told: None };
        let changes = plugins.changes();
        Ok(Box::pin(stream::unfold(Some((watch, changes)), |watch| async move {
            let (mut watch, mut changes) = watch?;
            let news = watch.next(&mut changes).await;
            let goes_on = news.is_ok();
            Some((news, goes_on.then_some((watch, changes))))
        })))
    }

    async fn connect(&self, at: &str) -> Result<Connection, CallError> {
        self.call(Call::asking(at, "connect", Duration::from_secs(10)), |_| Ok(())).await?;
        let (of, at) = (self.clone(), at.to_owned());
        Ok(Box::pin(async move { of.ended(&at).await }))
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        self.open()
    }
}
