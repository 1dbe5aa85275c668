//! Drivers of resource claims: what each has prepared, and the calls.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use super::calls::{Call, PluginOutlet};
use super::{CLAIMS, Plugins};
use crate::actors::kit::trace::lock;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::claims::health::{DeviceHealth, Health};
use crate::logic::plugins::claims::states::Answer;
use crate::logic::plugins::claims::{ClaimId, PreparedDevice};
use crate::platform::plugins::{Connection, DRA_LIMIT, DraCalls, HealthNews, OpenCall};
use crate::sim::faults::Fault;
use crate::sim::invariants::CLAIMS_OUTLIVE;
use crate::sim::node::Node;

/// A claim that a driver has prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The driver.
    pub driver: String,
    /// The claim's name.
    pub name: String,
}

/// Prepared claims, by UID.
pub type Claims = BTreeMap<String, Prepared>;

/// The CDI device of a claim.
fn device_of(driver: &str, uid: &str) -> String {
    format!("{CLAIMS}{driver}={uid}")
}

impl Plugins {
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
        let prepared = Prepared { driver: driver.to_owned(), name: claim.key.name.clone() };
        lock(&plugins.claims).insert(claim.uid.clone(), prepared);
        let device = PreparedDevice {
            pool_name: "pool".to_owned(),
            device_name: claim.key.name,
            cdi_device_ids: vec![device_of(driver, &claim.uid)],
            ..PreparedDevice::default()
        };
        (claim.uid, Ok(vec![device]))
    };
    claims.into_iter().map(one).collect()
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
        let device = DeviceHealth {
            pool_name: "pool".to_owned(),
            device_name: "any".to_owned(),
            health: Health::Healthy,
            holds_seconds: 0,
            message: String::new(),
        };
        let first = stream::iter([Ok(vec![device])]);
        let (of, at) = (self.clone(), at.to_owned());
        let end = stream::once(async move {
            of.ended(&at).await;
            let problem = CallProblem::Unreachable("error reading from server: EOF".to_owned());
            Err(CallError { method: "NodeWatchResources", problem })
        });
        Ok(Box::pin(first.chain(end)))
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
