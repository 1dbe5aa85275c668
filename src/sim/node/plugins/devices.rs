//! Device plugins: devices that come, go and turn ill; registration by the agent's socket; the calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::calls::{Call, PluginOutlet};
use super::{Driver, ROOT};
use crate::actors::kit::trace::lock;
use crate::logic::plugins::call_error::{CallError, CallProblem, Code};
use crate::logic::plugins::device_registration::{Registration, VERSION};
use crate::logic::plugins::plugin::PluginKind;
use crate::logic::resources::device_manager::devices::{Device, DeviceGrant, Health, PluginOptions};
use crate::platform::plugins::{DeviceCalls, DeviceList, DeviceSocket, OpenCall, Registrar};
use crate::sim::faults::Fault;
use crate::sim::faults::random::Random;

/// The deadlines of calls.
const ASK_LIMIT: Duration = Duration::from_secs(10);
const GIVE_LIMIT: Duration = Duration::from_secs(30);
/// From the appearance of the agent's socket to the registration.
const REGISTER_AFTER: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// Wait of a plugin before it registers once more.
const REGISTER_RETRY: Duration = Duration::from_secs(3);

/// The devices of one resource.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// All that there ever were, with whether each is plugged in: now, and as it is meant to be.
    all: BTreeMap<String, [(Device, bool); 2]>,
    /// Calls that its plugin wants.
    pub options: PluginOptions,
}

impl Resource {
    /// The devices that are plugged in.
    fn plugged_in(&self) -> BTreeMap<String, Device> {
        let shown = self.all.iter().filter(|(_, [(_, is_in), _])| *is_in);
        shown.map(|(id, [(device, _), _])| (id.clone(), device.clone())).collect()
    }
}

/// All devices, by resource.
#[derive(Debug, Default)]
pub struct Devices {
    /// See the struct.
    pub all: BTreeMap<String, Resource>,
}

impl Devices {
    /// One device turns ill or well, or is pulled out or plugged in again; gives the news of it.
    pub(super) fn change(&mut self, random: &Random) -> Option<String> {
        let pick = |count: usize| usize::try_from(random.below(count.max(1) as u64)).unwrap_or_default();
        let place = pick(self.all.len());
        let (resource, of) = self.all.iter_mut().nth(place)?;
        let place = pick(of.all.len());
        let (id, [(device, is_in), _]) = of.all.iter_mut().nth(place)?;
        if random.chance(0.5) {
            *is_in = !*is_in;
            return Some(format!("{resource}={id} {}", if *is_in { "is plugged in" } else { "is pulled out" }));
        }
        device.health = if device.health == Health::Healthy { Health::Unhealthy } else { Health::Healthy };
        Some(format!("{resource}={id} is {}", device.health))
    }

    /// All devices are as they are meant to be.
    pub(super) fn recover(&mut self) {
        self.all.values_mut().flat_map(|of| of.all.values_mut()).for_each(|[now, meant]| now.clone_from(meant));
    }

    /// A resource has these devices, each as `a`, `a!` when it is not healthy, `a@1` near a NUMA node; others that it had are
    /// pulled out.
    pub fn set(&mut self, resource: &str, devices: &[&str]) {
        let of = self.all.entry(resource.to_owned()).or_default();
        of.all.values_mut().flatten().for_each(|(_, is_in)| *is_in = false);
        for text in devices {
            let (text, health) = match text.strip_suffix('!') {
                Some(text) => (text, Health::Unhealthy),
                None => (*text, Health::Healthy),
            };
            let (id, node) = text.split_once('@').map_or((text, None), |(id, node)| (id, node.parse().ok()));
            let device = (Device { health, nodes: node.into_iter().collect() }, true);
            of.all.insert(id.to_owned(), [device.clone(), device]);
        }
    }
}

/// The resource of a plugin, by its endpoint.
fn resource_of(node: &super::Node, endpoint: &str) -> String {
    node.plugins.driver(endpoint).map(|driver| driver.name).unwrap_or_default()
}

impl PluginOutlet {
    /// A plugin registers by the agent's socket. Gives what is to be tried again.
    async fn register(&self, endpoint: String, driver: Driver, registrar: Registrar) -> Option<String> {
        let plugins = self.plugins();
        self.outlet.pass(plugins.random().between(REGISTER_AFTER.0, REGISTER_AFTER.1)).await;
        if plugins.life(&endpoint) != Some(driver.life) {
            return None;
        }
        let name = endpoint.rsplit('/').next().unwrap_or_default().to_owned();
        let asked = Registration { version: VERSION.to_owned(), endpoint: name, resource: driver.name };
        let answer = registrar(asked).await;
        self.outlet.pass(Duration::ZERO).await;
        let Err(refusal) = answer else {
            self.outlet.node().story.tell("driver", format!("{endpoint} is registered"));
            return None;
        };
        self.outlet.node().story.tell("driver", format!("{endpoint} is refused: {refusal}"));
        self.outlet.pass(REGISTER_RETRY).await;
        Some(endpoint)
    }
}

#[async_trait]
impl DeviceSocket for PluginOutlet {
    fn endpoint(&self, name: &str) -> String {
        format!("{ROOT}/device-plugins/{name}")
    }

    async fn serve(&self, registrar: Registrar) -> String {
        let mut changes = self.plugins().changes();
        let (mut begun, mut open) = (BTreeMap::new(), FuturesUnordered::new());
        loop {
            for (endpoint, driver) in self.plugins().drivers() {
                let is_due = driver.kind == PluginKind::Device && driver.socket.is_none() && driver.is_up;
                if !is_due || begun.get(&endpoint) == Some(&driver.life) {
                    continue;
                }
                begun.insert(endpoint.clone(), driver.life);
                // Now and then it registers twice.
                let is_restless = self.outlet.node().faults.has(Fault::PluginRestarts);
                let times = if is_restless && self.plugins().random().chance(0.2) { 2 } else { 1 };
                for _ in 0..times {
                    open.push(self.register(endpoint.clone(), driver.clone(), Arc::clone(&registrar)));
                }
            }
            tokio::select! {
                biased;
                Some(again) = open.next() => {
                    if let Some(endpoint) = again {
                        begun.remove(&endpoint);
                    }
                }
                () = changes.changed() => {}
            }
        }
    }

    fn problem(&self) -> Option<String> {
        None
    }
}

/// The devices of one life of a plugin.
struct SimDeviceList {
    of: PluginOutlet,
    at: String,
    life: Option<u64>,
    told: Mutex<Option<BTreeMap<String, Device>>>,
}

#[async_trait]
impl DeviceList for SimDeviceList {
    async fn next(&self) -> Result<Option<BTreeMap<String, Device>>, CallError> {
        let (plugins, node) = (self.of.plugins(), self.of.outlet.node());
        let mut changes = plugins.changes();
        loop {
            self.of.outlet.pass(plugins.latency(node)).await;
            if self.life.is_none() || plugins.life(&self.at) != self.life {
                let problem = CallProblem::Unreachable("error reading from server: EOF".to_owned());
                return Err(CallError { method: "ListAndWatch", problem });
            }
            let resource = resource_of(node, &self.at);
            let shown = lock(&plugins.devices).all.get(&resource).map(Resource::plugged_in).unwrap_or_default();
            if lock(&self.told).as_ref() != Some(&shown) {
                *lock(&self.told) = Some(shown.clone());
                return Ok(Some(shown));
            }
            changes.changed().await;
        }
    }
}

#[async_trait]
impl DeviceCalls for PluginOutlet {
    async fn connect(&self, at: &str) -> Result<PluginOptions, CallError> {
        let of = at.to_owned();
        self.call(Call::asking(at, "GetDevicePluginOptions", ASK_LIMIT), move |node| {
            let resource = resource_of(node, &of);
            Ok(lock(&node.plugins.devices).all.get(&resource).map(|of| of.options).unwrap_or_default())
        })
        .await
    }

    fn list(&self, at: &str) -> Arc<dyn DeviceList> {
        let (of, life) = (self.clone(), self.plugins().life(at));
        Arc::new(SimDeviceList { of, at: at.to_owned(), life, told: Mutex::default() })
    }

    async fn prefer(
        &self,
        at: &str,
        available: Vec<String>,
        required: Vec<String>,
        count: usize,
    ) -> Result<Vec<String>, CallError> {
        self.call(Call::asking(at, "GetPreferredAllocation", ASK_LIMIT), move |_| {
            // The last ones first: not those that the agent would take by itself.
            let others = available.into_iter().rev().filter(|id| !required.contains(id)).collect::<Vec<_>>();
            Ok(required.into_iter().chain(others).take(count).collect())
        })
        .await
    }

    async fn allocate(&self, at: &str, ids: Vec<String>) -> Result<DeviceGrant, CallError> {
        let (of, about) = (at.to_owned(), ids.join(" "));
        let call = Call { about, ..Call::asking(at, "Allocate", GIVE_LIMIT) };
        self.call(call, move |node| {
            let resource = resource_of(node, &of);
            let devices = lock(&node.plugins.devices);
            let shown = devices.all.get(&resource).map(Resource::plugged_in).unwrap_or_default();
            if let Some(unknown) = ids.iter().find(|id| !shown.contains_key(*id)) {
                return Err((Code::InvalidArgument, format!("invalid allocation request with device {unknown}")));
            }
            node.story.tell("driver", format!("{resource} gives {}", ids.join(" ")));
            let envs = BTreeMap::from([("DEVICES".to_owned(), ids.join(","))]);
            let cdi_devices = ids.iter().map(|id| format!("{resource}={id}")).collect();
            Ok(DeviceGrant { envs, cdi_devices, ..DeviceGrant::default() })
        })
        .await
    }

    async fn pre_start(&self, at: &str, ids: Vec<String>) -> Result<(), CallError> {
        let call = Call { about: ids.join(" "), ..Call::asking(at, "PreStartContainer", GIVE_LIMIT) };
        self.call(call, |_| Ok(())).await
    }

    fn open_calls(&self) -> Vec<(String, OpenCall)> {
        self.open()
    }
}
