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
use super::reconcile::Reconciling;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::resources::allocations::{
    Allocations, ManagerFigures, PlacementRecord, PodPinning, ResourceManagers, StateFiles,
};
use crate::messages::Ended;
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg, PlaceRequest};
use crate::platform::files::checkpoints::Checkpoints;

/// Wait before files that could not be read or written are tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The answer about a pod that has ended while its question waited.
const UNWANTED: &str = "nobody wants the pod any more";

type Answers = BTreeMap<PodUid, Placing>;

/// Answers that wait for the disk.
struct Writing {
    /// The managers as the disk has them still.
    before: ResourceManagers,
    answers: Vec<(RpcReplyPort<Answers>, Answers)>,
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
    /// Questions that wait for the write that is under way.
    queue: Vec<PlaceRequest>,
    /// Containers that were created since that write began.
    started: Vec<(Arc<Pod>, String)>,
    /// Pods that hold hardware, as `PodManager` said last.
    holders: Option<Arc<BTreeSet<PodUid>>>,
    pub(super) reconciling: Reconciling,
}

impl Hardware {
    pub(super) fn new(unused: Arc<ResourceManagers>) -> Self {
        Self {
            unused,
            managers: Err("the files of state are not read yet".to_owned()),
            writing: None,
            must_write: false,
            is_due: false,
            queue: vec![],
            started: vec![],
            holders: None,
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
        self.managers.as_ref().ok()?.record(uid).cloned()
    }
}

impl AllocationManager {
    pub(super) fn receive_hardware(&mut self, message: HardwareMsg, context: &mut Context<AllocationManagerMsg>) {
        match message {
            HardwareMsg::Place(request) => {
                self.hardware.take_holders(request.holders.as_ref());
                self.hardware.queue.push(request);
                self.serve(context);
            }
            HardwareMsg::Holders(holders) => {
                self.hardware.take_holders(Some(&holders));
                self.serve(context);
            }
            HardwareMsg::Find { pod, starting, reply } => self.find(pod, starting, reply, context),
            HardwareMsg::Devices(_) => {}
            HardwareMsg::Explain(uid, reply) => drop(reply.send(self.hardware.record(&uid))), // The asker may have left.
            HardwareMsg::Figures(reply) => self.hardware.tell_figures(reply),
            HardwareMsg::StateRead(outcome) => self.begin_hardware(outcome.into_result(), context),
            HardwareMsg::StateWritten(outcome) => self.take_state_written(outcome, context),
            HardwareMsg::RetryDue => match &self.hardware.managers {
                Ok(_) => self.serve(context),
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
        self.serve(context);
    }

    fn read_state(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let files = Arc::clone(&self.args.files);
        context.start("read hardware", "checkpoints", async move { read(&*files).await }, |read| {
            AllocationManagerMsg::Hardware(HardwareMsg::StateRead(read.into()))
        });
    }

    fn retry_later(&mut self, context: &mut Context<AllocationManagerMsg>) {
        context.after(RETRY, AllocationManagerMsg::Hardware(HardwareMsg::RetryDue));
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
            Err(why) => return refuse_all(&mut hardware.queue, why),
        };
        let before = managers.clone();
        for (pod, container) in hardware.started.drain(..) {
            managers.container_starts(&pod, &container);
        }
        let holders = hardware.holders.as_deref();
        if let Some(holders) = holders {
            managers.keep_only(holders);
        }
        let mut decide = |pod: &Pod| match holders.is_none_or(|holders| holders.contains(&uid_of(pod))) {
            true => place(managers, pod, context),
            false => Placing::NotYet(UNWANTED.to_owned()),
        };
        let answers: Vec<_> = std::mem::take(&mut hardware.queue)
            .into_iter()
            .map(|PlaceRequest { pods, reply, .. }| {
                (reply, pods.iter().map(|pod| (uid_of(pod), decide(pod))).collect())
            })
            .collect();
        hardware.is_due = false;
        if managers.has_state_of(&before) && !hardware.must_write {
            return answers.into_iter().for_each(|(reply, answer)| drop(reply.send(answer)));
        }
        hardware.must_write = false;
        let files = managers.files();
        hardware.writing = Some(Writing { before, answers });
        self.write_state(files, context);
    }

    fn write_state(&mut self, state: StateFiles, context: &mut Context<AllocationManagerMsg>) {
        let files = Arc::clone(&self.args.files);
        let work = async move {
            let StateFiles { cpus, memory, .. } = state;
            for (name, bytes) in [(StateFiles::CPUS, cpus), (StateFiles::MEMORY, memory)] {
                if let Some(bytes) = bytes {
                    files.write(name, bytes).await.map_err(|error| error.to_string())?;
                }
            }
            Ok(())
        };
        context.start("keep hardware", "checkpoints", work, |written| {
            AllocationManagerMsg::Hardware(HardwareMsg::StateWritten(written.into()))
        });
    }

    fn take_state_written(&mut self, outcome: Ended<()>, context: &mut Context<AllocationManagerMsg>) {
        let Some(Writing { before, answers }) = self.hardware.writing.take() else { return };
        match outcome.into_result() {
            Ok(()) => {
                let are_cpus_other =
                    self.hardware.managers.as_ref().is_ok_and(|managers| managers.cpu_state() != before.cpu_state());
                answers.into_iter().for_each(|(reply, answer)| drop(reply.send(answer)));
                if are_cpus_other {
                    self.reconcile(context);
                }
            }
            Err(why) => {
                tracing::error!(why, "CPUs and memory of pods are not kept, pods wait for that");
                let why = format!("the state cannot be kept: {why}");
                for (reply, answer) in answers {
                    let not_yet = answer.into_keys().map(|uid| (uid, Placing::NotYet(why.clone())));
                    let _ = reply.send(not_yet.collect()); // The asker may have left.
                }
                self.hardware.managers = Ok(before);
                // One of the two files may be written, and the other not.
                self.hardware.must_write = true;
                return self.retry_later(context);
            }
        }
        self.serve(context);
    }
}

impl Hardware {
    /// The newest word about who holds hardware counts, also for questions that still wait.
    fn take_holders(&mut self, holders: Option<&Arc<BTreeSet<PodUid>>>) {
        if let Some(holders) = holders {
            self.holders = Some(Arc::clone(holders));
            self.is_due = true;
        }
    }

    /// A container is created now. Without managers its worker has no answer, does not create it, and asks again.
    fn note_start(&mut self, pod: Arc<Pod>, container: String) {
        if self.managers.is_ok() {
            self.started.push((pod, container));
        }
    }

    fn has_work(&self) -> bool {
        self.must_write || self.is_due || !self.queue.is_empty() || !self.started.is_empty()
    }
}

/// Nothing can be decided now.
fn refuse_all(queue: &mut Vec<PlaceRequest>, why: &str) {
    for PlaceRequest { pods, reply, .. } in queue.drain(..) {
        let not_yet = |pod: &Arc<Pod>| (uid_of(pod), Placing::NotYet(why.to_owned()));
        let _ = reply.send(pods.iter().map(not_yet).collect()); // The asker may have left.
    }
}

fn place(managers: &mut ResourceManagers, pod: &Pod, context: &Context<AllocationManagerMsg>) -> Placing {
    let began = context.clock().uptime();
    let placed = managers.place(pod);
    managers.note_length(context.clock().uptime().saturating_sub(began));
    match placed {
        Ok(()) => Placing::Given,
        Err(refusal) => Placing::Refused { reason: refusal.reason(), message: refusal.to_string() },
    }
}

fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

/// Both files of state.
///
/// # Errors
/// Says why one cannot be read.
pub(super) async fn read(files: &dyn Checkpoints) -> Result<StateFiles, String> {
    let cpus = files.read(StateFiles::CPUS).await.map_err(|error| error.to_string())?;
    let memory = files.read(StateFiles::MEMORY).await.map_err(|error| error.to_string())?;
    Ok(StateFiles { cpus, memory, devices: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_noted_only_where_managers_can_take_them() {
        let mut hardware = Hardware::new(Arc::default());
        hardware.note_start(Arc::default(), "main".to_owned());
        assert!(hardware.started.is_empty(), "nobody would ever take it");
        hardware.managers = Ok(ResourceManagers::default());
        hardware.note_start(Arc::default(), "main".to_owned());
        assert_eq!(hardware.started.len(), 1);
    }
}
