//! `ClaimManager`: has claims of resources prepared by their drivers before a pod's sandbox, and released after the pod (RES-48).
//!
//! Parent: Root. Restarted: after a failure; the file has every claim that a driver may know of, and `PluginWatcher` hands every
//! driver over again. `logic::plugins::claims` decides. Each call is an operation with a deadline, so a driver that hangs keeps
//! the pods alone that use it. Nothing is asked of a driver before the disk has the claim.

mod claims;
mod drivers;
mod health;
mod operations;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::earliest::Earliest;
use crate::actors::kit::held::Held;
use crate::actors::kit::untold::Untold;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Steady;
use crate::logic::plugins::claims::ClaimGates;
use crate::logic::plugins::claims::check::ClaimError;
use crate::logic::plugins::claims::drivers::Drivers;
use crate::logic::plugins::claims::pod_claims::container_requests;
use crate::logic::plugins::claims::states::ClaimStates;
use crate::logic::pods::pod_containers::find_container;
use crate::messages::plugins::claim_manager::{ClaimManagerMsg, ClaimReply, ClaimStep, DriverStep};
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::files::checkpoints::Checkpoints;
use crate::platform::observer::Observer;
use crate::platform::plugins::DraCalls;
use health::DeviceWatch;

/// Wait before files that could not be read or written are tried again.
const FILES_RETRY: Duration = Duration::from_secs(5);

/// The actor's means.
pub struct Args {
    /// The node's name.
    pub node_name: String,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Gates of the rules for claims.
    pub gates: ClaimGates,
    /// Calls drivers.
    pub calls: Arc<dyn DraCalls>,
    /// The files of state.
    pub files: Arc<dyn Checkpoints>,
    /// Hears the verdicts about drivers.
    pub plugin_watcher: Address<PluginWatcherMsg>,
    /// Knows which pods there are.
    pub pod_manager: Address<PodManagerMsg>,
    /// Counts calls.
    pub observer: Arc<dyn Observer>,
}

/// The askers that wait for the end of a pod's work.
#[derive(Default)]
struct Waiting {
    prepare: Vec<ClaimReply>,
    release: Vec<ClaimReply>,
    /// Since when, in uptime.
    since: Duration,
    /// How the last preparation failed, when nobody waited for it any more: the next asker hears of it.
    unheard: Option<ClaimError>,
}

/// See the module.
pub struct ClaimManager {
    args: Args,
    /// `None` until the file was read; what came before that is held.
    states: Option<ClaimStates>,
    held: Held<ClaimManagerMsg>,
    waiting: BTreeMap<PodUid, Waiting>,
    drivers: Drivers,
    /// The operations that watch over drivers, by their sockets.
    watches: BTreeMap<String, OperationId>,
    /// Deletions of ResourceSlices that are under way; without a name those of all drivers.
    wiping: BTreeMap<Option<String>, OperationId>,
    devices: DeviceWatch,
    /// Verdicts that `PluginWatcher` had no room for, by socket.
    untold: Untold<String, ClaimManagerMsg>,
    /// One timer for drivers that are away and for words that become too old.
    wake: Option<(Steady, OperationId)>,
    files_timer: Option<OperationId>,
    reconcile_timer: Earliest,
}

impl Actor for ClaimManager {
    const KIND: &'static str = "ClaimManager";
    type Msg = ClaimManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ClaimManagerMsg>) -> Self {
        let mut manager = Self {
            args,
            states: None,
            held: Held::default(),
            waiting: BTreeMap::new(),
            drivers: Drivers::default(),
            watches: BTreeMap::new(),
            wiping: BTreeMap::new(),
            devices: DeviceWatch::default(),
            untold: Untold::new(|| ClaimManagerMsg::Driver(DriverStep::RetellDue)),
            wake: None,
            files_timer: None,
            reconcile_timer: Earliest::default(),
        };
        manager.read_files(context);
        // No driver has registered yet: until one does, nobody is to be sent here for what it offers.
        manager.wipe(None, context);
        manager
    }

    fn receive(&mut self, message: ClaimManagerMsg, context: &mut Context<ClaimManagerMsg>) {
        match message {
            ClaimManagerMsg::Plugin(news) => self.take_news(news, context),
            ClaimManagerMsg::Driver(step) => self.driver_step(step, context),
            ClaimManagerMsg::Claim(ClaimStep::FilesRead(read)) => self.take_files(read, context),
            ClaimManagerMsg::Claim(ClaimStep::FilesDue) => {
                self.files_timer = None;
                self.tend_files(context);
            }
            ClaimManagerMsg::Claims(reply) => {
                let book = self.states.as_ref().map(|states| Arc::new(states.book().clone()));
                let _ = reply.send(book); // The asker may have left.
            }
            early if self.states.is_none() => self.hold(early),
            ClaimManagerMsg::Prepare(pod, reply) => self.prepare(&pod, reply, context),
            ClaimManagerMsg::Release(uid, reply) => self.release(&uid, reply, context),
            ClaimManagerMsg::Progress(uid, reply) => {
                let progress = self.states.as_ref().and_then(|states| states.progress(&uid));
                let _ = reply.send(progress); // The asker may have left.
            }
            ClaimManagerMsg::Devices(pod, container, reply) => {
                let _ = reply.send(self.devices_of(&pod, &container)); // The asker may have left.
            }
            ClaimManagerMsg::Follow(uid, followed) => self.follow(uid, followed, context),
            ClaimManagerMsg::Claim(step) => self.claim_step(step, context),
        }
        self.arm(context);
    }
}

impl ClaimManager {
    /// Holds back messages that come before the file was read. An asker without room hears nothing, and asks again.
    fn hold(&mut self, early: ClaimManagerMsg) {
        let is_left = |held: &ClaimManagerMsg| match held {
            ClaimManagerMsg::Prepare(_, reply) | ClaimManagerMsg::Release(_, reply) => reply.is_closed(),
            ClaimManagerMsg::Devices(_, _, reply) => reply.is_closed(),
            ClaimManagerMsg::Progress(_, reply) => reply.is_closed(),
            _ => false,
        };
        if self.held.push(early, is_left).is_err() {
            tracing::warn!("too much waits for the file of claims to be read");
        }
    }

    /// The devices that a container has of its pod's claims. The book says so also after a restart of the agent.
    fn devices_of(&self, pod: &Pod, container: &str) -> Result<Vec<String>, ClaimError> {
        let Some((states, (_, container))) = self.states.as_ref().zip(find_container(pod, container)) else {
            return Ok(vec![]);
        };
        states.book().cdi_devices(&container_requests(pod, &container)?)
    }
}
