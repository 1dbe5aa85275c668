//! Running containers follow the state of the CPU manager: the shared CPUs change with each pod that owns some (RES-25).
//!
//! Upstream: `reconcileState`. It runs by time, and here also as soon as the state has changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ContainerStatus;

use super::AllocationManager;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::single_flight::SingleFlight;
use crate::actors::kit::trace::Cause;
use crate::cri::{Labels, LinuxContainerResources, RuntimeService};
use crate::logic::model::ids::ContainerId;
use crate::logic::resources::cpu_manager::reconcile::{RunningContainer, plan};
use crate::logic::resources::cpu_manager::{CpuSet, CpuState};
use crate::messages::Ended;
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg};
use crate::messages::status::status_manager::{PodView, StatusManagerMsg};

/// Patience with `StatusManager`.
const LIST_PATIENCE: Duration = Duration::from_secs(10);
/// The shortest period: a configuration of zero is no reason to do nothing else.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// CPUs that the runtime has for running containers.
type Applied = BTreeMap<ContainerId, CpuSet>;

/// See the module.
#[derive(Default)]
pub(super) struct Reconciling {
    applied: Applied,
    comparing: SingleFlight<()>,
    is_armed: bool,
}

impl AllocationManager {
    /// Sets the timer of the next comparison, where there are CPUs to follow.
    pub(super) fn arm_reconcile(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let has_shared = self.hardware.managers.as_ref().is_ok_and(|managers| !managers.cpu_state().shared.is_empty());
        if has_shared && !std::mem::replace(&mut self.hardware.reconciling.is_armed, true) {
            let period = self.args.reconcile_period.max(PERIOD_MIN);
            context.after(period, AllocationManagerMsg::Hardware(HardwareMsg::ReconcileDue));
        }
    }

    pub(super) fn reconcile_by_time(&mut self, context: &mut Context<AllocationManagerMsg>) {
        self.hardware.reconciling.is_armed = false;
        self.arm_reconcile(context);
        self.reconcile(context);
    }

    /// Compares running containers with the state, as the disk has it.
    pub(super) fn reconcile(&mut self, context: &mut Context<AllocationManagerMsg>) {
        let reconciling = &mut self.hardware.reconciling;
        let Ok(managers) = &self.hardware.managers else { return };
        if reconciling.comparing.want(()).is_none() {
            return;
        }
        let (state, applied) = (managers.cpu_state().clone(), reconciling.applied.clone());
        let (statuses, runtime) = (self.args.status_manager.clone(), Arc::clone(&self.args.runtime));
        let cause = context.cause();
        let work = async move {
            let pods = list(&statuses, cause).await?;
            Ok(follow(&*runtime, &state, &pods, applied).await)
        };
        context.start("reconcile CPUs", "containers", work, |outcome| {
            AllocationManagerMsg::Hardware(HardwareMsg::Reconciled(outcome.into()))
        });
    }

    pub(super) fn take_reconciled(&mut self, outcome: Ended<Applied>, context: &mut Context<AllocationManagerMsg>) {
        let reconciling = &mut self.hardware.reconciling;
        let (_, wanted) = reconciling.comparing.end();
        match outcome.into_result() {
            Ok(applied) => reconciling.applied = applied,
            Err(why) => tracing::warn!(why, "CPUs of running containers cannot be compared with the state"),
        }
        if wanted.is_some() {
            self.reconcile(context);
        }
    }
}

async fn list(statuses: &Address<StatusManagerMsg>, cause: Cause) -> Result<Vec<PodView>, String> {
    statuses.ask(cause, LIST_PATIENCE, StatusManagerMsg::List).await.map_err(|error| error.to_string())
}

/// Tells the runtime of CPUs that differ from those that it got last. Returns what it knows of running containers then.
async fn follow(runtime: &dyn RuntimeService, state: &CpuState, pods: &[PodView], applied: Applied) -> Applied {
    let running: Vec<RunningContainer> = pods.iter().flat_map(|pod| running(pod, &applied)).collect();
    let told = |one: &RunningContainer| Some((one.id.clone(), one.applied.clone()?));
    let mut now: Applied = running.iter().filter_map(told).collect();
    for update in plan(state, &running) {
        let resources =
            LinuxContainerResources { cpuset_cpus: update.cpus.to_string(), ..LinuxContainerResources::default() };
        match runtime.update_container_resources(&update.id, &resources, &Labels::new()).await {
            Ok(()) => drop(now.insert(update.id, update.cpus)),
            // It may have ended meanwhile. If not, the next comparison finds it again.
            Err(error) => {
                let (pod, container) = (&update.pod, &update.name);
                tracing::warn!(%pod, container, cpus = %update.cpus, %error, "a container stays on its old CPUs");
            }
        }
    }
    now
}

/// The containers of a pod that run by its status.
fn running(pod: &PodView, applied: &Applied) -> Vec<RunningContainer> {
    let of = |status: &ContainerStatus| {
        status.state.as_ref()?.running.as_ref()?;
        let id = ContainerId::of_full(status.container_id.as_deref()?);
        let applied = applied.get(&id).cloned();
        Some(RunningContainer { pod: pod.uid.clone(), name: status.name.clone(), id, applied })
    };
    let first = pod.status.init_container_statuses.iter().flatten();
    first.chain(pod.status.container_statuses.iter().flatten()).filter_map(of).collect()
}
