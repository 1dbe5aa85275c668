//! Events on the node, told as they happen to the observer that counts them.
//!
//! The seam between those who do something and the metrics: an [`Observation`] says in the node's own words what was done,
//! and an [`Observer`] makes figures of it. Telling costs a call; nobody waits, and nothing is kept here.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::node::shutdown::times::ShutdownTimes;
use crate::logic::status::pod_status::EndedContainer;

/// The subject of a question about a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// The user of this token.
    Identity,
    /// Whether the caller has a right.
    Right,
}

/// News of the label of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelNews {
    /// The pod has one for it.
    Admitted,
    /// The pod's options make none.
    NoLabel,
    /// The pod's containers have several.
    SeveralInPod,
    /// Another pod on the node has another one.
    OtherPod,
}

/// Something that happened. Texts are label values: of a fixed set, or names that the configuration or the cluster gives;
/// nothing that a client of the agent could multiply.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A pod's worker was at work, and has nothing under way any more.
    PassEnded {
        /// Upstream's `operation_type`: `create`, `update`, `sync`, `kill`, `terminated`.
        operation: &'static str,
        /// From its first message to the end of its last job.
        took: Duration,
    },
    /// A pod has its worker, which is about to begin.
    PodTaken {
        /// Containers of its specification, init containers left out.
        containers: usize,
        /// Since the agent first saw the pod, where that is known.
        waited: Option<Duration>,
    },
    /// A pod that was pending runs, this long after the agent first saw it.
    PodRuns {
        /// See the variant.
        after: Duration,
    },
    /// The API server showed a pod.
    PodShown {
        /// As the observer saw it.
        pod: &'a Pod,
        /// When.
        at: Moment,
    },
    /// A pod is no more.
    PodGone(&'a PodUid),
    /// A pod was refused, for this reason.
    PodRefused {
        /// As in its status.
        reason: &'a AdmissionReason,
    },
    /// A pod has to make room for a critical one.
    PodPreempted {
        /// The resource that there was too little of; empty where it was the number of pods or unknown.
        resource: &'a str,
    },
    /// A pod has to end so that the node stays alive, or because it is beyond a limit of its own.
    PodEvicted {
        /// The signal or the limit.
        signal: &'static str,
    },
    /// The configuration was read again while the agent runs.
    ConfigReloaded {
        /// Whether it holds now; else what ran goes on.
        accepted: bool,
        /// When.
        at: Moment,
    },
    /// When the last shutdown of the node began and ended.
    NodeShutdown(ShutdownTimes),
    /// The figures of a signal were used to choose a pod to evict.
    EvictionStatsUsed {
        /// The signal.
        signal: &'static str,
        /// How old they were.
        age: Duration,
    },
    /// The runtime holds a pod that nobody wants, and that had no worker.
    OrphanFound,
    /// A pod came back under the UID of one that had ended.
    PodCameBack {
        /// From a file or a URL.
        is_static: bool,
    },
    /// The API server has a pod's newest status, this long after it changed.
    StatusSent {
        /// See the variant.
        took: Duration,
    },
    /// The API server keeps another status of a pod than the agent sends: it answered the patch, or `refused` it.
    StatusNotTaken {
        /// See the variant.
        refused: bool,
    },
    /// A sandbox is about to be made.
    SandboxBegun {
        /// The pod has users of its own.
        own_users: bool,
    },
    /// The sandbox could not be made.
    SandboxFailed {
        /// The pod has users of its own.
        own_users: bool,
    },
    /// In a sandbox of a pod with users of its own that was just made something failed.
    OwnUsersFailed,
    /// The runtime answered the order to run a sandbox.
    SandboxRun {
        /// Its handler; empty for the default.
        handler: &'a str,
        /// How long it took.
        took: Duration,
        /// Whether it failed.
        failed: bool,
    },
    /// A container was tried to be started, from its image on.
    ContainerTried {
        /// `container`, `init_container` or `ephemeral_container`.
        container_type: &'static str,
        /// Why it does not run, in one word such as `ErrImagePull`.
        error: Option<&'a str>,
    },
    /// Claims of a pod were prepared or released, or could not be.
    ClaimsHandled {
        /// Upstream's `operation_name`.
        operation: &'static str,
        /// Whether it failed.
        failed: bool,
        /// How long it took.
        took: Duration,
    },
    /// A driver of resource claims was called.
    ClaimDriverCalled {
        /// Its name.
        driver: &'a str,
        /// The method, with its service.
        method: &'a str,
        /// How it ended, as gRPC names it.
        code: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// A container has ended, and its pod's status says so.
    ContainerEnded(EndedContainer<'a>),
    /// A preStop hook that sleeps was cut short by the grace period.
    SleepCutShort,
    /// A hook that asked for https was answered over http.
    HookFellBack,
    /// All pods were listed at the runtime.
    Relisted {
        /// When it ended.
        ended: Moment,
        /// How long it took.
        took: Duration,
        /// Since the one before began; `None` for the first.
        interval: Option<Duration>,
    },
    /// One pod was looked at, at the runtime.
    PodInspected {
        /// How long it took.
        took: Duration,
    },
    /// News of a pod found no room; it is looked at again.
    NewsDropped,
    /// A watcher of pods was too slow for a change, and lost its watch.
    WatchEventDropped,
    /// The runtime's event stream was opened.
    StreamOpened,
    /// It could not be opened, or ended.
    StreamFailed,
    /// An event of the stream, this old.
    EventTaken {
        /// See the variant.
        age: Duration,
    },
    /// Someone asked for an image, and was answered.
    ImageEnsured {
        /// `always`, `never` or `ifnotpresent`.
        policy: &'static str,
        /// Whether it was on the node, where that was looked for.
        present: Option<bool>,
        /// Whether it had to be pulled, as far as that came to be known.
        pull_required: Option<bool>,
    },
    /// Whether a pod may use an image on the node was looked up.
    ImageChecked {
        /// `credentialPolicyAllowed`, `credentialRecordFound`, `mustAuthenticate` or `error`.
        result: &'static str,
    },
    /// An image was pulled for a pod.
    ImagePulled {
        /// For whom.
        uid: &'a PodUid,
        /// Its size in bytes; zero where nobody knows.
        bytes: u64,
        /// When the pull began: waits in the queue count.
        began: Moment,
        /// How long it took.
        took: Duration,
    },
    /// An image that nobody uses was removed.
    ImageRemoved {
        /// `age` or `space`.
        reason: &'static str,
    },
    /// Volumes that are images were asked for, and are there or not.
    ImageVolumes {
        /// How many.
        asked: usize,
        /// Of these, how many are not there.
        failed: usize,
    },
    /// A program was asked for credentials of a registry.
    ProviderAsked {
        /// Its name.
        name: &'a str,
        /// How long it took.
        took: Duration,
        /// Whether it failed.
        failed: bool,
    },
    /// A cgroup was made, set or removed, or that failed.
    CgroupDone {
        /// `create`, `update` or `destroy`.
        operation: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// The memory that the kernel keeps for pods was written (gate `MemoryQoS`).
    MemoryKept {
        /// For guaranteed pods, in bytes: never taken back.
        hard: i64,
        /// For burstable pods, in bytes: taken back last.
        soft: i64,
    },
    /// A device plugin registered, or tried to.
    DevicePluginRegistered {
        /// Its resource.
        resource: &'a str,
    },
    /// A device plugin was asked to give devices to a container.
    DevicesAllocated {
        /// Its resource.
        resource: &'a str,
        /// How long it took.
        took: Duration,
    },
    /// A driver was asked for the figures of a volume.
    DriverMeasured {
        /// Its name.
        driver: &'a str,
        /// How long it took, whatever came of it.
        took: Duration,
    },
    /// A storage driver was called.
    DriverCalled {
        /// Its name.
        driver: &'a str,
        /// The method, with its service.
        method: &'a str,
        /// How it ended, as gRPC names it.
        code: &'static str,
        /// How long it took.
        took: Duration,
        /// Whether the call was for a volume that the API has as one of an in-tree kind.
        migrated: bool,
    },
    /// Something was done for a volume.
    VolumeDone {
        /// Such as `kubernetes.io/empty-dir`, or `kubernetes.io/csi:` with a driver's name.
        plugin: &'a str,
        /// Upstream's `operation_name`, such as `volume_mount`.
        operation: &'static str,
        /// Whether the API has it as a volume of an in-tree kind that a driver took over.
        migrated: bool,
        /// How long it took.
        took: Duration,
        /// Whether it failed.
        failed: bool,
    },
    /// A volume that a pod was to have is there.
    VolumeThere {
        /// Such as `kubernetes.io/empty-dir`.
        plugin: &'a str,
        /// How long ago it was asked for first; tries that failed are within.
        took: Duration,
    },
    /// A persistent volume met SELinux.
    Labelled {
        /// Which.
        news: LabelNews,
        /// Whether the pod waits for that reason.
        refused: bool,
        /// The volume's widest access mode, such as `RWOP`.
        access_mode: &'static str,
        /// Such as `kubernetes.io/csi/` with a driver's name; empty where that is not known yet.
        plugin: &'a str,
    },
    /// A pod's volumes were found on the disk after a start.
    VolumesFound {
        /// How many.
        count: usize,
        /// Whether they could not be read.
        failed: bool,
    },
    /// A pass over what nobody knows on the node ended.
    OrphansSwept {
        /// Pods that had files there.
        found: usize,
        /// Those whose files are still there.
        failed: usize,
    },
    /// The API server answered a request, or did not.
    ApiAnswered {
        /// The request's verb in HTTP, such as `GET`.
        method: &'a str,
        /// Name or address of the server, and its port.
        host: &'a str,
        /// The answer's status; `None` for none.
        code: Option<u16>,
        /// Until the head of the answer.
        took: Duration,
        /// Of the body that was sent.
        request_bytes: u64,
    },
    /// The body of an answer of the API server was read.
    ApiRead {
        /// The request's verb in HTTP.
        method: &'a str,
        /// Name or address of the server, and its port.
        host: &'a str,
        /// How much.
        bytes: u64,
    },
    /// A request to the API server is made again.
    ApiRetried {
        /// The request's verb in HTTP.
        method: &'a str,
        /// Name or address of the server, and its port.
        host: &'a str,
        /// The status that led to it.
        code: u16,
    },
    /// A request to the API server waited for its turn.
    ApiHeldBack {
        /// The request's verb in HTTP.
        method: &'a str,
        /// Name or address of the server, and its port.
        host: &'a str,
        /// How long.
        took: Duration,
    },
    /// The API server was asked about a caller of the agent's.
    CallerReviewed {
        /// The kind of the question.
        kind: Review,
        /// The answer's status; `None` for none.
        code: Option<u16>,
        /// How long it took, retries included.
        took: Duration,
    },
    /// A check of the agent's health was made.
    HealthChecked {
        /// Its name, such as `syncloop`.
        name: &'static str,
        /// Whether all was well.
        healthy: bool,
    },
}

/// Is told what happens. Called in turns and in operations: it must not wait for anybody.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, what: Observation<'_>);

    /// The headers to send along with a request that the current span leads to, such as W3C's `traceparent`.
    fn context(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: Observation<'_>) {}
}
