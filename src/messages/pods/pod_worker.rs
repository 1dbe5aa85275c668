//! To a `PodWorker`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;

use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::network::host_ips::HostIps;
use crate::logic::plugins::claims::report::HealthByContainer;
use crate::logic::pods::pod_lifecycle::{Demand, JobEnd};
use crate::logic::pods::pod_resize::{PendingResize, PodResources};
use crate::logic::probes::probe_kind::ProbeKind;
use crate::logic::resources::node_cgroups::MachineNow;
use crate::messages::runtime::runtime_monitor::RuntimeHealth;
use crate::messages::{Ended, describe};

/// See the module.
///
/// More than ten variants, because one actor carries one pod: each variant is an input of the pod's one state, from the five
/// actors that know something about the pod. No two of them concern another part of the worker.
#[derive(Debug, strum::IntoStaticStr)]
pub enum PodWorkerMsg {
    /// From `PodManager`: the newest desired pod.
    SpecChanged(Arc<Pod>),
    /// From `PodManager`: stop the pod for good; nobody wants it any more.
    Terminate {
        /// Time for its containers to end; `None` leaves the pod's own.
        grace: Option<Duration>,
    },
    /// From `PodManager`: what the runtime holds of the pod.
    Observed(Arc<RuntimePod>),
    /// From `PodManager`: whether the runtime can be worked with.
    HealthChanged(RuntimeHealth),
    /// From `PodManager`: the host's addresses are others than its last word, or those that the worker began with.
    HostChanged {
        /// The addresses.
        ips: HostIps,
        /// The machine, once it is of another size than at the start.
        machine: Option<Arc<MachineNow>>,
    },
    /// From `Prober`: a probe's threshold was reached.
    Probed {
        /// Of which container.
        container: ContainerId,
        /// Which probe.
        kind: ProbeKind,
        /// The probe's result.
        healthy: bool,
    },
    /// From `PodManager`: someone on this machine asks something of the pod (PAIN-34, PAIN-36).
    Demanded {
        /// The demand.
        demand: Demand,
        /// The containers that it is about, or why it cannot be met.
        reply: RpcReplyPort<Option<Result<Vec<String>, String>>>,
    },
    /// From `PodManager`: whether the pod asks for other resources than it was given, and why it does not get them.
    ResizeJudged(Option<PendingResize>),
    /// From itself: the pod's resources as the runtime had them before were to be read.
    Recalled(Ended<PodResources>),
    /// From `VolumeManager`: the cause that kept the pod's volumes away, or from going, may be over.
    VolumesChanged,
    /// From `ClaimManager`: how the devices of its containers' claims are.
    DevicesToldOf(HealthByContainer),
    /// From itself: a job ended, also by a panic.
    JobEnded(JobEnd),
    /// From itself: a back-off ran out, or a resync is due.
    RetryDue,
    /// From `PodManager`: tell everyone everything once more.
    Repeat,
}

describe!(PodWorkerMsg, message => match message {
    PodWorkerMsg::Observed(pod) => Some(&pod.uid),
    _ => None,
});
