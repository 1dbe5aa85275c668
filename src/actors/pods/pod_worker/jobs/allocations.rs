//! A pod worker's questions to `AllocationManager` and `UserNamespaces`: the pod's resources as the runtime has them from the
//! agent, notes of them, where its containers run, and its range of IDs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use super::site::JobSite;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::cri::{IdMapping, NamespaceMode, UserNamespace};
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_resize::ContainerResources;
use crate::logic::resources::allocations::PodPinning;
use crate::logic::resources::asks_extended;
use crate::logic::resources::device_manager::calls::DeviceUse;
use crate::logic::resources::user_namespaces::{IdRange, handlers, has_own_users};
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::messages::resources::allocation_manager::{Actuated, AllocationManagerMsg, HardwareMsg};

/// Patience with both where they wait for the disk.
const KEEP_PATIENCE: Duration = Duration::from_secs(60);

/// Patience with an answer about hardware, which waits for nothing.
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

    /// A container may not start without its devices: they are asked for once more. Returns the reason of its wait.
    pub(super) fn lacks_devices(&self, resource: &str, cause: &Cause) -> String {
        let news = PodManagerMsg::Admission(AdmissionMsg::LacksDevices(self.uid.clone()));
        let _ = self.tools.to.pod_manager.tell(cause.clone(), news); // Lost, it comes with the next try.
        format!("no device of {resource} is allocated to it yet")
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

impl JobSite {
    /// The pod's user namespace; `None` for one in the host's. A pod without a range is given one, and the disk has it then.
    pub(super) async fn user_namespace(&self, pod: &Pod, cause: &Cause) -> Result<Option<UserNamespace>, String> {
        if !has_own_users(pod) {
            return Ok(None);
        }
        let handler = self.runtime_handler(pod).await?;
        handlers::check(&self.user_namespaces, &handler).map_err(|error| error.to_string())?;
        let ask = |reply| UserNamespacesMsg::Assign(self.uid.clone(), reply);
        let asked = self.tools.to.user_namespaces.ask(cause.clone(), KEEP_PATIENCE, ask).await;
        let range = asked.map_err(|error| format!("its user namespace is not known: {error}"))?;
        range.map(|range| Some(mapped(range))).map_err(|error| error.to_string())
    }
}

/// The runtime's form: users and groups alike, the pod's root the first of them.
fn mapped(range: IdRange) -> UserNamespace {
    let ids = vec![IdMapping { host_id: range.first, container_id: 0, length: range.length }];
    UserNamespace { mode: NamespaceMode::Pod, uids: ids.clone(), gids: ids }
}

/// Has the range of a pod free that has ended. A file that stays holds no pod up: housekeeping comes by again. Of a pod that
/// only the runtime knew nothing is known.
pub(in crate::actors) async fn release_user_namespace(
    to: &Address<UserNamespacesMsg>,
    uid: &PodUid,
    pod: Option<&Pod>,
    cause: Cause,
) {
    if pod.is_some_and(|pod| !has_own_users(pod)) {
        return;
    }
    let ask = |reply| UserNamespacesMsg::Release(uid.clone(), reply);
    if let Err(error) = to.ask(cause, KEEP_PATIENCE, ask).await {
        tracing::warn!(pod = %uid, %error, "the user namespace of a pod that has ended is not free yet");
    }
}
