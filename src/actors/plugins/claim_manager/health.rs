//! The health of devices: what drivers tell is kept, and told to the workers of the pods that have the devices (RES-51).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::ClaimManager;
use crate::actors::kit::context::Context;
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Steady;
use crate::logic::plugins::claims::book::ClaimBook;
use crate::logic::plugins::claims::health::{DeviceHealth, DeviceName, FILE_NAME, HealthBook};
use crate::logic::plugins::claims::report::{HealthByContainer, health_of};
use crate::logic::plugins::plugin::Plugin;
use crate::messages::plugins::claim_manager::{ClaimManagerMsg, DriverStep};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::{Ended, Subscriber};

/// From one look for words that became too old to the next, while there are any.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// A pod whose worker hears of its devices.
struct Followed {
    pod: Arc<Pod>,
    worker: Subscriber<PodWorkerMsg>,
    told: Option<HealthByContainer>,
}

/// See the module.
#[derive(Default)]
pub(super) struct DeviceWatch {
    book: HealthBook,
    followed: BTreeMap<PodUid, Followed>,
    /// When to look for words that became too old.
    look_at: Option<Steady>,
    writes: SingleFlight<()>,
}

impl DeviceWatch {
    pub(super) fn restore(&mut self, file: Option<&[u8]>) {
        if let Some(file) = file {
            self.book.restore(file);
        }
    }

    pub(super) fn look_at(&self) -> Option<Steady> {
        self.look_at
    }
}

/// The pods that have one of these devices.
fn users(book: &ClaimBook, devices: &BTreeSet<DeviceName>) -> BTreeSet<PodUid> {
    let mut found = BTreeSet::new();
    for claim in book.all() {
        let names = claim.drivers.iter().flat_map(|(driver, devices)| {
            devices.iter().map(move |device| (driver.clone(), device.pool_name.clone(), device.device_name.clone()))
        });
        if names.into_iter().any(|name| devices.contains(&name)) {
            found.extend(claim.pods.iter().cloned());
        }
    }
    found
}

impl ClaimManager {
    /// A worker is to hear of its pod's devices, or of no pod any more.
    pub(super) fn follow(
        &mut self,
        uid: PodUid,
        followed: Option<(Arc<Pod>, Subscriber<PodWorkerMsg>)>,
        context: &Context<ClaimManagerMsg>,
    ) {
        match followed {
            None => self.unfollow(&uid),
            Some((pod, worker)) => {
                self.devices.followed.insert(uid.clone(), Followed { pod, worker, told: None });
                self.tell_devices_of(&uid, context);
            }
        }
    }

    pub(super) fn unfollow(&mut self, uid: &PodUid) {
        self.devices.followed.remove(uid);
    }

    /// The claims are known now, and with them which pods have which devices.
    pub(super) fn tell_devices(&mut self, context: &Context<ClaimManagerMsg>) {
        let followed: Vec<PodUid> = self.devices.followed.keys().cloned().collect();
        followed.iter().for_each(|uid| self.tell_devices_of(uid, context));
        if self.devices.look_at.is_none() && self.devices.book.may_expire() {
            self.devices.look_at = Some(context.steady().plus(LOOK_PERIOD));
        }
    }

    pub(super) fn tell_devices_of(&mut self, uid: &PodUid, context: &Context<ClaimManagerMsg>) {
        let (Some(followed), Some(states)) = (self.devices.followed.get_mut(uid), &self.states) else { return };
        let health = health_of(&followed.pod, states.book(), &self.devices.book, self.args.gates, context.now());
        if followed.told.as_ref() == Some(&health) || (followed.told.is_none() && health.is_empty()) {
            return;
        }
        context.tell_subscriber(&followed.worker, PodWorkerMsg::DevicesToldOf(health.clone()));
        followed.told = Some(health);
    }

    fn changed(&mut self, devices: &BTreeSet<DeviceName>, context: &mut Context<ClaimManagerMsg>) {
        if devices.is_empty() {
            return;
        }
        let users = self.states.as_ref().map(|states| users(states.book(), devices)).unwrap_or_default();
        users.iter().for_each(|uid| self.tell_devices_of(uid, context));
        self.write_health(context);
    }

    pub(super) fn take_health(
        &mut self,
        plugin: &Plugin,
        devices: Option<Vec<DeviceHealth>>,
        context: &mut Context<ClaimManagerMsg>,
    ) {
        let Some(devices) = devices else { return self.forget_health(plugin, context) };
        if self.drivers.all().all(|instance| instance.plugin.attempt != plugin.attempt) {
            return; // It went meanwhile.
        }
        let changed = self.devices.book.take(&plugin.name, plugin.attempt, devices, context.now());
        self.changed(&changed, context);
        if self.devices.look_at.is_none() {
            self.devices.look_at = Some(context.steady().plus(LOOK_PERIOD));
        }
    }

    /// Nothing holds any more that this instance of the driver told.
    pub(super) fn forget_health(&mut self, plugin: &Plugin, context: &mut Context<ClaimManagerMsg>) {
        let changed = self.devices.book.forget(&plugin.name, plugin.attempt);
        self.changed(&changed, context);
    }

    pub(super) fn expire_health(&mut self, context: &mut Context<ClaimManagerMsg>) {
        if self.devices.look_at.is_none_or(|at| at > context.steady()) {
            return;
        }
        let changed = self.devices.book.expire(context.now());
        self.changed(&changed, context);
        self.devices.look_at = self.devices.book.may_expire().then(|| context.steady().plus(LOOK_PERIOD));
    }

    fn write_health(&mut self, context: &mut Context<ClaimManagerMsg>) {
        if self.devices.writes.want(()).is_none() {
            return;
        }
        let (files, bytes) = (Arc::clone(&self.args.files), self.devices.book.print());
        let work = async move { files.write(FILE_NAME, bytes).await.map_err(|error| error.to_string()) };
        let written = |outcome: Result<_, _>| ClaimManagerMsg::Driver(DriverStep::HealthWritten(outcome.into()));
        context.start("keep health", FILE_NAME, work, written);
    }

    /// A file that could not be written costs only news that come again anyhow.
    pub(super) fn health_written(&mut self, outcome: Ended<()>, context: &mut Context<ClaimManagerMsg>) {
        let (_, wanted) = self.devices.writes.end();
        if let Err(why) = outcome.into_result() {
            tracing::warn!(why, file = FILE_NAME, "the health of devices is not kept");
        }
        if wanted.is_some() {
            self.write_health(context);
        }
    }
}
