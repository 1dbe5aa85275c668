//! A pod worker's questions to `AllocationManager`: the pod's resources as the runtime has them from the agent, notes of
//! them, and where its containers run.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use super::site::JobSite;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_resize::ContainerResources;
use crate::logic::resources::allocations::PodPinning;
use crate::logic::resources::asks_extended;
use crate::logic::resources::device_manager::calls::DeviceUse;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::resources::allocation_manager::{Actuated, AllocationManagerMsg, HardwareMsg};

/// Patience with `AllocationManager`, which waits for the disk.
const KEEP_PATIENCE: Duration = Duration::from_secs(60);

/// Patience with its answer about hardware, which waits for nothing.
const PINNING_PATIENCE: Duration = Duration::from_secs(10);

/// Patience with a plugin before a container starts: that of `DevicePlugins` with the call, and a little.
const PRE_START_PATIENCE: Duration = Duration::from_secs(35);

/// Asks for the pod's resources as the runtime had them before.
pub(in super::super) fn recall(
    to: &Address<AllocationManagerMsg>,
    uid: &PodUid,
    delay: Duration,
    context: &mut Context<PodWorkerMsg>,
) {
    let (to, cause, about) = (to.clone(), context.cause(), uid.clone());
    let work = async move {
        tokio::time::sleep(delay).await;
        let ask = |reply| AllocationManagerMsg::Recall(about, reply);
        let asked = to.ask(cause, KEEP_PATIENCE, ask).await;
        asked.map_err(|error| error.to_string())
    };
    context.start("recall resources", uid.to_string(), work, |outcome| PodWorkerMsg::Recalled(outcome.into()));
}

/// Notes the resources that the runtime gets.
pub(super) async fn note(
    to: &Address<AllocationManagerMsg>,
    uid: &PodUid,
    containers: ContainerResources,
    pod: Option<ResourceRequirements>,
    cause: &Cause,
) -> Result<(), String> {
    let actuated = Actuated { uid: uid.clone(), containers, pod };
    let ask = |reply| AllocationManagerMsg::Actuate(actuated, reply);
    let asked = to.ask(cause.clone(), KEEP_PATIENCE, ask).await;
    asked.map_err(|error| error.to_string()).and_then(|kept| kept)
}

impl JobSite {
    /// Where the pod's containers run, and with which devices; `starting` is about to be created. Where no policy gives anything
    /// nobody is asked about a pod without devices.
    pub(super) async fn pinning(&self, pod: &Pod, starting: Option<&str>, cause: &Cause) -> Result<PodPinning, String> {
        if !self.tools.settings.resources.owns_hardware && !asks_extended(pod) {
            return Ok(PodPinning::default());
        }
        let (pod, starting) = (Arc::new(pod.clone()), starting.map(ToOwned::to_owned));
        let ask = |reply| AllocationManagerMsg::Hardware(HardwareMsg::Find { pod, starting, reply });
        let asked = self.tools.to.allocation_manager.ask(cause.clone(), PINNING_PATIENCE, ask).await;
        asked.map_err(|error| format!("its hardware is not known: {error}"))
    }

    /// Announces the start of a container to the plugins of its devices that want it (`PreStartContainer`).
    pub(super) async fn announce(&self, devices: Vec<DeviceUse>, cause: &Cause) -> Result<(), String> {
        for device in devices {
            let ask = |reply| DevicePluginsMsg::PreStart(device, reply);
            let asked = self.tools.to.device_plugins.ask(cause.clone(), PRE_START_PATIENCE, ask).await;
            let answered = asked.map_err(|error| error.to_string());
            let answered = answered.and_then(|answer| answer.map_err(|error| error.to_string()));
            answered.map_err(|error| format!("device plugin PreStartContainer rpc failed with err: {error}"))?;
        }
        Ok(())
    }
}
