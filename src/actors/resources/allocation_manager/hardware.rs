//! Hardware that containers own: decided here, on the disk before anybody hears of it.
//!
//! One write at a time; questions that come meanwhile wait, and are decided and written together. A write that fails
//! undoes all that it was about, and the pods that it was about are not decided yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;

use super::AllocationManager;
use super::placing::{Answers, Deciding, Placings};
use super::reconcile::Reconciling;
use super::state_files::{self, read};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::node::node_status::DeviceResources;
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::resources::allocations::{
    Allocations, ManagerFigures, PlacementRecord, PodPinning, ResourceManagers, StateFiles,
};
use crate::logic::resources::device_manager::devices::{Health, Inventory, gained};
use crate::logic::status::device_health::DevicesOfPods;
use crate::messages::Ended;
use crate::messages::node::node_status::{NodeNews, NodeStatusMsg};
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg, StateStep};
use crate::messages::status::status_manager::{PodNews, StatusManagerMsg};

/// Wait before files that could not be read or written are tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Answers that wait for the disk.
struct Writing {
    /// The managers as the disk has them still.
    before: ResourceManagers,
    decided: Answers,
}

/// See the module.
pub(super) struct Hardware {
    /// As they are before any pod.
    unused: Arc<ResourceManagers>,
    /// Going on from the files; or why the files cannot be gone on from.
    pub(super) managers: Result<ResourceManagers, String>,
    writing: Option<Writing>,
    /// The disk lacks a file, or could not take the last one.
    must_write: bool,
    /// Holders are to be compared with the state, although nobody asks for hardware.
    is_due: bool,
    placings: Placings,
    /// The devices, as their plugins tell of them; `None` until `DevicePlugins` was heard. Nothing is decided before: a
    /// resource that the file does not name yet would pass as one that no plugin has. Its pod would start without devices.
    inventory: Option<Arc<Inventory>>,
    /// The devices that the managers go by, and those that `NodeStatus` was told of: never ones that the disk does not name,
    /// or the next agent would not know why a pod was placed here.
    placed: Arc<Inventory>,
    told_node: Option<Arc<Inventory>>,
    /// Containers that were created since that write began.
    started: Vec<(Arc<Pod>, String)>,
    /// Pods that hold hardware, as `PodManager` said last.
    holders: Option<Arc<BTreeSet<PodUid>>>,
    /// Since when devices are unhealthy, by resource and name.
    unhealthy_since: BTreeMap<(String, String), Moment>,
    /// The health of pods' devices, as `StatusManager` heard it.
    told_health: Arc<DevicesOfPods>,
    pub(super) reconciling: Reconciling,
}

impl Hardware {
    pub(super) fn new(
        unused: Arc<ResourceManagers>,
        device_plugins: Address<DevicePluginsMsg>,
        patience: Duration,
    ) -> Self {
        Self {
            unused,
            managers: Err("the files of state are not read yet".to_owned()),
            writing: None,
            must_write: false,
            is_due: false,
            placings: Placings::new(device_plugins, patience),
            inventory: None,
            placed: Arc::default(),
            told_node: None,
            started: vec![],
            holders: None,
            unhealthy_since: BTreeMap::new(),
            told_health: Arc::default(),
            reconciling: Reconciling::default(),
        }
    }

    /// All that containers own.
    pub(super) fn allocations(&self) -> Arc<Allocations> {
        self.managers.as_ref().map(|managers| Arc::new(managers.allocations())).unwrap_or_default()
    }

    pub(super) fn tell_figures(&self, reply: RpcReplyPort<Option<Box<ManagerFigures>>>) {
        let figures = self.managers.as_ref().ok().map(|managers| Box::new(managers.figures()));
        let _ = reply.send(figures); // The asker may have left.
    }

    fn record(&self, uid: &PodUid) -> Option<PlacementRecord> {
        self.managers.as_ref().ok()?.explained(uid, &self.unhealthy_since)
    }

    fn note_unhealthy(&mut self, now: Moment) {
        let before = std::mem::take(&mut self.unhealthy_since);
        for (resource, devices) in self.inventory.iter().flat_map(|inventory| inventory.iter()) {
            for (id, _) in devices.devices.iter().filter(|(_, device)| device.health == Health::Unhealthy) {
                let key = (resource.clone(), id.clone());
                let since = before.get(&key).copied().unwrap_or(now);
                self.unhealthy_since.insert(key, since);
            }
        }
    }
}

impl AllocationManager {
    pub(super) fn receive_hardware(&mut self, message: HardwareMsg, context: &mut Context<AllocationManagerMsg>) {
        match message {
            HardwareMsg::Place(request) => {
                self.hardware.take_holders(request.holders.clone());
                self.hardware.placings.push(request);
                self.serve(context);
            }
            HardwareMsg::Holders(holders) => {
                self.hardware.take_holders(Some(holders));
                self.serve(context);
            }
            HardwareMsg::Find { pod, starting, reply } => self.find(pod, starting, reply, context),
            HardwareMsg::Devices(inventory) => self.take_devices(inventory, context),
            HardwareMsg::Device(step) => {
                self.hardware.placings.take_step(step, context);
                self.serve(context);
            }
            HardwareMsg::Explain(uid, reply) => drop(reply.send(self.hardware.record(&uid))), // The asker may have left.
            HardwareMsg::Figures(reply) => self.hardware.tell_figures(reply),
            HardwareMsg::State(StateStep::Read(outcome)) => self.begin_hardware(outcome.into_result(), context),
            HardwareMsg::State(StateStep::Written(outcome)) => self.take_state_written(outcome, context),
            HardwareMsg::State(StateStep::RetryDue) => match &self.hardware.managers {
                Ok(_) => {
                    self.ask_for_devices(context);
                    self.hardware.is_due |= self.hardware.told_node.as_ref() != Some(&self.hardware.placed);
                    self.serve(context);
                }
                Err(_) => self.read_state(context),
            },
            HardwareMsg::ReconcileDue => self.reconcile_by_time(context),
            HardwareMsg::Reconciled(outcome) => self.take_reconciled(outcome, context),
        }
    }

    /// The files of state were read, or could not be.
    pub(super) fn begin_hardware(
        &mut self,
        files: Result<StateFiles, String>,
        context: &mut Context<AllocationManagerMsg>,
    ) {
        let restored = files.and_then(|files| {
            self.hardware.must_write = files.cpus.is_none() || files.memory.is_none();
            match self.hardware.unused.restored(&files, ToOwned::to_owned) {
                Ok(restored) => Ok(restored),
                // Nothing is lost with them: nobody was given anything.
                Err(error) if self.hardware.unused.is_idle() => {
                    tracing::warn!(%error, "files of state are written anew");
                    self.hardware.must_write = true;
                    Ok(ResourceManagers::clone(&self.hardware.unused))
                }
                Err(error) => Err(error.to_string()),
            }
        });
        // The agent's start checks the files. Someone has changed one since, and has to put it right.
        if let Err(why) = &restored {
            tracing::error!(why, "no pod is given CPUs or memory of its own");
            self.retry_later(context);
        }
        let note = restored.as_ref().err().map(|why| format!("no hardware is given: {why}"));
        context.address().record().set_note(note);
        self.hardware.managers = restored;
        self.arm_reconcile(context);
        self.tell_remembered(context);
        self.serve(context);
    }

    /// Tells of the resources that earlier runs of the agent knew: they stay listed until their plugins come. The answer is
    /// the inventory.
    pub(super) fn tell_remembered(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let Ok(managers) = &self.hardware.managers else { return };
        let known = DevicePluginsMsg::Remembered(managers.known_resources());
        if !context.try_tell(&self.args.device_plugins, known) {
            self.retry_later(context);
        }
    }

    /// Asks again where there was no room for the question.
    fn ask_for_devices(&mut self, context: &mut Context<AllocationManagerMsg>) {
        if self.hardware.inventory.is_none() {
            self.tell_remembered(context);
        }
    }

    /// Tells of the health of the devices that pods own, where that has changed; `anew`: `StatusManager` may have forgotten.
    pub(super) fn tell_health(&mut self, anew: bool, context: &Context<AllocationManagerMsg>) {
        let Ok(managers) = &self.hardware.managers else { return };
        if !self.args.shows_device_health {
            return;
        }
        let health = managers.health_of_devices();
        let is_known = *self.hardware.told_health == health && (!anew || health.is_empty());
        if is_known {
            return;
        }
        let health = Arc::new(health);
        let message = StatusManagerMsg::Pods(PodNews::Devices(Arc::clone(&health)));
        if context.try_tell(&self.args.status_manager, message) {
            self.hardware.told_health = health;
        }
    }

    /// Tells how many devices the Node has, where that is not known yet.
    fn tell_node(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let Hardware { placed, told_node, .. } = &mut self.hardware;
        if told_node.as_ref() == Some(placed) {
            return;
        }
        let message = NodeStatusMsg::News(NodeNews::Devices(DeviceResources::of(placed)));
        match context.try_tell(&self.args.node_status, message) {
            true => *told_node = Some(Arc::clone(placed)),
            false => self.retry_later(context),
        }
    }

    /// Another actor has begun anew and knows nothing of devices.
    pub(super) fn tell_of_devices_again(&mut self, context: &mut Context<AllocationManagerMsg>) {
        self.tell_remembered(context);
        self.tell_health(true, context);
        let is_written = self.hardware.writing.is_none() && !self.hardware.must_write;
        if self.hardware.told_node.take().is_some() && is_written {
            self.tell_node(context);
        }
    }

    fn take_devices(&mut self, inventory: Arc<Inventory>, context: &mut Context<AllocationManagerMsg>) {
        let has_gained = gained(self.hardware.inventory.as_deref().unwrap_or(&Inventory::new()), &inventory);
        self.hardware.inventory = Some(inventory);
        self.hardware.note_unhealthy(context.now());
        self.hardware.is_due = true;
        self.serve(context);
        if has_gained || self.hardware.placings.has_late() {
            // Lost, it costs seconds: they are asked about again by time.
            context.tell(&self.args.pod_manager, PodManagerMsg::Admission(AdmissionMsg::DevicesCame));
        }
    }

    fn read_state(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let (files, devices) = (Arc::clone(&self.args.files), Arc::clone(&self.args.device_files));
        context.start("read hardware", "checkpoints", async move { read(&*files, &*devices).await }, |read| {
            AllocationManagerMsg::Hardware(HardwareMsg::State(StateStep::Read(read.into())))
        });
    }

    fn retry_later(&mut self, context: &mut Context<AllocationManagerMsg>) {
        context.after(RETRY, AllocationManagerMsg::Hardware(HardwareMsg::State(StateStep::RetryDue)));
    }

    /// Says where a pod's containers run. Without managers nobody answers, and the worker asks again.
    fn find(
        &mut self,
        pod: Arc<Pod>,
        starting: Option<String>,
        reply: RpcReplyPort<PodPinning>,
        context: &mut Context<AllocationManagerMsg>,
    ) {
        if let Ok(managers) = &self.hardware.managers {
            let _ = reply.send(managers.pinning_of(&pod)); // The asker may have left.
        }
        if let Some(container) = starting {
            self.hardware.note_start(pod, container);
            self.serve(context);
        }
    }

    /// Decides all that waits, unless a write is under way, and has the outcome written.
    fn serve(&mut self, context: &mut Context<AllocationManagerMsg>) {
        if self.hardware.writing.is_some() || !self.hardware.has_work() {
            return;
        }
        let hardware = &mut self.hardware;
        let managers = match &mut hardware.managers {
            Ok(managers) => managers,
            Err(why) => return hardware.placings.refuse_all(why),
        };
        let Some(inventory) = &hardware.inventory else { return };
        let before = managers.clone();
        managers.set_inventory(Arc::clone(inventory));
        hardware.placed = Arc::clone(inventory);
        for (pod, container) in hardware.started.drain(..) {
            managers.container_starts(&pod, &container);
        }
        let holders = hardware.holders.as_deref();
        if let Some(holders) = holders {
            managers.keep_only(holders);
        }
        let decided = hardware.placings.decide(Deciding { managers, holders, context });
        hardware.is_due = false;
        if managers.has_state_of(&before) && !hardware.must_write {
            hardware.placings.answer(&decided);
            self.tell_node(context);
            return self.tell_health(false, context);
        }
        hardware.must_write = false;
        let files = managers.files();
        hardware.writing = Some(Writing { before, decided });
        self.write_state(files, context);
    }

    fn write_state(&mut self, state: StateFiles, context: &mut Context<AllocationManagerMsg>) {
        let (files, devices) = (Arc::clone(&self.args.files), Arc::clone(&self.args.device_files));
        let work = async move { state_files::write(state, &*files, &*devices).await };
        context.start("keep hardware", "checkpoints", work, |written| {
            AllocationManagerMsg::Hardware(HardwareMsg::State(StateStep::Written(written.into())))
        });
    }

    fn take_state_written(&mut self, outcome: Ended<()>, context: &mut Context<AllocationManagerMsg>) {
        let Some(Writing { mut before, mut decided }) = self.hardware.writing.take() else { return };
        match outcome.into_result() {
            Ok(()) => {
                let are_cpus_other =
                    self.hardware.managers.as_ref().is_ok_and(|managers| managers.cpu_state() != before.cpu_state());
                self.hardware.placings.answer(&decided);
                self.tell_node(context);
                self.tell_health(false, context);
                if are_cpus_other {
                    self.reconcile(context);
                }
            }
            Err(why) => {
                tracing::error!(why, "hardware of pods is not kept, pods wait for that");
                let why = format!("the state cannot be kept: {why}");
                decided.values_mut().for_each(|placing| *placing = Placing::NotYet(why.clone()));
                decided.extend(self.hardware.placings.abandon(&mut before, &why, context));
                self.hardware.placings.answer(&decided);
                self.hardware.managers = Ok(before);
                // Some of the files may be written, and others not.
                self.hardware.must_write = true;
                return self.retry_later(context);
            }
        }
        self.serve(context);
    }
}

impl Hardware {
    /// The newest word about who holds hardware counts, also for questions that still wait. A `PodManager` that has begun anew
    /// does not know them yet.
    fn take_holders(&mut self, holders: Option<Arc<BTreeSet<PodUid>>>) {
        self.is_due |= holders.is_some();
        self.holders = holders;
    }

    /// A container is created now. Without managers its worker has no answer, does not create it, and asks again.
    pub(super) fn note_start(&mut self, pod: Arc<Pod>, container: String) {
        if self.managers.is_ok() {
            self.started.push((pod, container));
        }
    }

    #[cfg(test)]
    pub(super) fn starts_noted(&self) -> usize {
        self.started.len()
    }

    fn has_work(&self) -> bool {
        self.must_write || self.is_due || self.placings.has_work() || !self.started.is_empty()
    }
}
