//! A pod's waits, as data. `Display` here is the one place that words them: the debug socket, conditions and logs print
//! it, and nobody reads the words back.

use std::fmt;
use std::time::Duration;

use crate::logic::model::backoff::CrashLoopWait;
use crate::logic::model::time::Moment;

/// A thing that a pod's stage cannot go on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A runtime that can be worked with; with what is wrong.
    WellRuntime(String),
    /// The network of the node; with what is wrong.
    Network(String),
    /// A look at the pod.
    Look,
    /// An answer about what the last list lacked.
    Absence,
    /// The pod's cgroup.
    Cgroup,
    /// The pod's claims of resources, before its sandbox.
    Claims,
    /// The release of its claims.
    ClaimsReleased,
    /// The sandbox, with its network.
    Sandbox,
    /// The first try to mount the volumes.
    VolumesMounted,
    /// Volumes that could not be mounted.
    Volumes,
    /// Another size of the pod.
    Resize,
    /// Starts that have begun, before all containers start over.
    StartsBeforeReset,
    /// Starts that have begun, before the sandbox is replaced.
    StartsBeforeReplacement,
    /// Starts that have begun, before the pod is stopped.
    StartsBeforeEnd,
    /// The image of this container.
    Image(String),
    /// The start of this container.
    Start(String),
    /// The end of this container's start: it is to be stopped then.
    StartBeforeStop(String),
    /// A start of this container, which was made, that an earlier call may still bring.
    LateStart(String),
    /// The next start of a container that crashes.
    Restart(CrashLoopWait),
    /// The end of an init container.
    InitEnd {
        /// The container's name.
        container: String,
        /// Its place, from one.
        position: usize,
        /// Of how many.
        count: usize,
    },
    /// A success of this container's startup probe.
    StartupProbe(String),
    /// A success of this container's readiness probe.
    ReadinessProbe(String),
    /// The end of some container that is to be stopped.
    ContainerStop,
    /// The end of this container.
    ContainerStopWithin(String, Duration),
    /// The end of all containers.
    Stop,
    /// The same, with the time that they have.
    StopWithin(Duration),
    /// The removal of all containers, which start over then.
    Reset,
    /// The removal of containers that ended.
    DeadContainers,
    /// The age at which containers that ended are removed.
    AgeOfDeadContainers,
    /// The release of what others may need: volumes and cgroup.
    Release,
    /// The removal of the rest.
    Remains,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WellRuntime(problem) => write!(f, "the container runtime: {problem}"),
            Self::Network(problem) => write!(f, "network is not ready: {problem}"),
            Self::Look => f.write_str("the runtime's account of the pod"),
            Self::Absence => f.write_str("the runtime to confirm that what its list lacks is gone"),
            Self::Cgroup => f.write_str("the pod's cgroup"),
            Self::Claims => f.write_str("its ResourceClaims to be prepared"),
            Self::ClaimsReleased => f.write_str("its ResourceClaims to be released"),
            Self::Sandbox => f.write_str("the pod's sandbox and network"),
            Self::VolumesMounted => f.write_str("its volumes to be mounted"),
            Self::Volumes => f.write_str("its volumes"),
            Self::Resize => f.write_str("its resources to be changed"),
            Self::StartsBeforeReset => f.write_str("what is being started, before all starts over"),
            Self::StartsBeforeReplacement => f.write_str("what is being started, before all is replaced"),
            Self::StartsBeforeEnd => f.write_str("what is being started, before all is stopped"),
            Self::Image(container) => write!(f, "the image of container {container}"),
            Self::Start(container) => write!(f, "container {container} to start"),
            Self::StartBeforeStop(container) => {
                write!(f, "container {container} to have started, before it is stopped")
            }
            Self::LateStart(container) => write!(f, "container {container}, which was made, to start after all"),
            Self::Restart(wait) => wait.fmt(f),
            Self::InitEnd { container, position, count } => {
                write!(f, "init container {container} ({position} of {count}) to end")
            }
            Self::StartupProbe(container) => write!(f, "the startup probe of {container}"),
            Self::ReadinessProbe(container) => write!(f, "the readiness probe of {container}"),
            Self::ContainerStop => f.write_str("a container to stop"),
            Self::ContainerStopWithin(container, grace) => {
                write!(f, "container {container} to stop, within {}s", grace.as_secs())
            }
            Self::Stop => f.write_str("its containers to stop"),
            Self::StopWithin(grace) => write!(f, "its containers to stop, within {}s", grace.as_secs()),
            Self::Reset => f.write_str("its containers to be removed, to start over"),
            Self::DeadContainers => f.write_str("dead containers to be removed"),
            Self::AgeOfDeadContainers => f.write_str("its dead containers to be old enough to go"),
            Self::Release => f.write_str("its volumes and its cgroup to be released"),
            Self::Remains => f.write_str("what is left of it to be removed"),
        }
    }
}

/// The wait of a pod's stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageWait {
    /// The subject.
    pub what: Awaited,
    /// How the last try of it failed.
    pub problem: Option<String>,
    /// Whether nothing is under way until it is tried again.
    pub to_be_tried_again: bool,
}

impl From<Awaited> for StageWait {
    fn from(what: Awaited) -> Self {
        Self { what, problem: None, to_be_tried_again: false }
    }
}

impl fmt::Display for StageWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)?;
        if let Some(problem) = &self.problem {
            write!(f, ": {problem}")?;
        }
        f.write_str(if self.to_be_tried_again { ", to be tried again" } else { "" })
    }
}

/// A failure that is tried again; the same from try to try, so that it is reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The pod has no cgroup; with why.
    Cgroup(String),
    /// Its claims of resources are not prepared; with why.
    Claims(String),
    /// They are not released; with why.
    ClaimsReleased(String),
    /// It has no sandbox; with why.
    Sandbox(String),
    /// It lacks volumes; with why.
    Volumes(String),
    /// Its containers do not stop; with why.
    Stop(String),
    /// Its volumes or its cgroup are not released; with why.
    Release(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup(problem) => write!(f, "waits for its cgroup: {problem}"),
            Self::Claims(problem) => write!(f, "waits for its ResourceClaims to be prepared: {problem}"),
            Self::ClaimsReleased(problem) => {
                write!(f, "ends, waits for its ResourceClaims to be released: {problem}")
            }
            Self::Sandbox(problem) => write!(f, "waits for its sandbox and network: {problem}"),
            Self::Volumes(problem) => write!(f, "waits for its volumes: {problem}"),
            Self::Stop(problem) => write!(f, "ends, waits for its containers to stop: {problem}"),
            Self::Release(problem) => {
                write!(f, "has ended, waits for its volumes and its cgroup to be released: {problem}")
            }
        }
    }
}

/// The wait of the node's decision about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionWait {
    /// The Node object.
    Node,
    /// A newer Node object than the one that refuses the pod.
    NewerNode,
    /// The runtime's features.
    RuntimeFeatures,
    /// The first list of what the runtime holds.
    Relist,
    /// Pods that are preempted for it, which was just decided.
    Preempted,
    /// Room that other pods hold, although nothing else keeps it away.
    Room,
    /// The managers of CPUs and memory, which are asked, or cannot decide for this reason.
    Hardware(Option<String>),
}

impl fmt::Display for AdmissionWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hardware(Some(why)) => return write!(f, "CPUs and memory of its own to be chosen: {why}"),
            Self::Hardware(None) => "CPUs and memory of its own to be chosen",
            Self::Node => "the Node object to be known",
            Self::NewerNode => "the Node to be read once more",
            Self::RuntimeFeatures => "the runtime to say what it can do",
            Self::Relist => "the runtime's account of its pods",
            Self::Preempted => "the pods to end that make room for it",
            Self::Room => "room that other pods still take",
        })
    }
}

/// The obstacle in the API server to a pod's status, or to the end of the pod's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiWait {
    /// The server answered a patch of the status with success, and has this field otherwise.
    NotTaken {
        /// The field's path, from `status`.
        field: String,
    },
    /// The server refuses the status.
    Refused {
        /// The server's words.
        why: String,
    },
    /// The agent has deleted the object, which stays until these finalizers are removed.
    Finalizers(Vec<String>),
}

impl fmt::Display for ApiWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken { field } => {
                write!(f, "the API server to take over {field}, although it answered the patch of the status")
            }
            Self::Refused { why } => write!(f, "the API server to take the status, which it refuses: {why}"),
            Self::Finalizers(names) => {
                write!(f, "the removal of its finalizers from the API server's object: {}", names.join(", "))
            }
        }
    }
}

/// A pod's wait, from any part of the agent. `{:#}` leaves out the words that a column's title says already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodWait {
    /// From its worker, while the pod is to run.
    ToRun(StageWait),
    /// From its worker, while its containers end.
    ToEnd(StageWait),
    /// From its worker, once nothing of it runs.
    ToBeGone(StageWait),
    /// From its worker: a call to the runtime hangs. It names a point in time, not a span, so that one message is enough.
    Call {
        /// By CRI's name.
        method: &'static str,
        /// When it was asked.
        since: Moment,
    },
    /// From admission: it is not decided yet.
    Admission(AdmissionWait, Option<Moment>),
    /// From `StatusManager`: the API server keeps another status, or the object of a pod that has ended.
    Api(ApiWait),
    /// From admission: a static pod that the node does not take yet; with why.
    NotYet(String),
    /// A manifest that gives no pod.
    Correction {
        /// The file or the URL.
        place: String,
        /// The fault in it.
        why: String,
    },
}

impl PodWait {
    /// The container whose image is awaited, while that is under way.
    pub fn image_of(&self) -> Option<&str> {
        match self {
            Self::ToRun(StageWait { what: Awaited::Image(container), to_be_tried_again: false, .. }) => Some(container),
            _ => None,
        }
    }

    /// The crash loop whose next start is awaited.
    pub fn crash_loop(&self) -> Option<&CrashLoopWait> {
        match self {
            Self::ToRun(StageWait { what: Awaited::Restart(wait), .. }) => Some(wait),
            _ => None,
        }
    }
}

impl fmt::Display for PodWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits_for = if f.alternate() { "" } else { "waits for " };
        match self {
            Self::ToRun(wait) => write!(f, "{waits_for}{wait}"),
            Self::ToEnd(wait) => write!(f, "ends, waits for {wait}"),
            Self::ToBeGone(wait) => write!(f, "has ended, waits for {wait}"),
            Self::Call { method, since } => {
                write!(f, "{waits_for}the runtime, which has not answered {method} since {}", since.to_timestamp())
            }
            Self::Admission(what, None) => write!(f, "{waits_for}{what}"),
            Self::Admission(what, Some(until)) => write!(f, "{waits_for}{what}, until {}", until.to_timestamp()),
            Self::Api(ApiWait::Finalizers(names)) => {
                write!(f, "has ended, waits for {}", ApiWait::Finalizers(names.clone()))
            }
            Self::Api(wait) => write!(f, "{waits_for}{wait}"),
            Self::NotYet(why) => write!(f, "not yet: {why}"),
            Self::Correction { place, why } => write!(f, "{waits_for}{place} to be corrected: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(again: bool) -> StageWait {
        StageWait { problem: Some("no".to_owned()), to_be_tried_again: again, ..Awaited::Image("a".to_owned()).into() }
    }

    /// The debug socket and tools of users show these words.
    #[test]
    fn waits_are_worded_by_who_waits() {
        let since = Moment(1_000_000_000);
        for (wait, long, short) in [
            (PodWait::ToRun(image(true)), "waits for the image of container a: no, to be tried again", 10),
            (PodWait::ToEnd(image(false)), "ends, waits for the image of container a: no", 0),
            (PodWait::ToBeGone(Awaited::Remains.into()), "has ended, waits for what is left of it to be removed", 0),
            (
                PodWait::Call { method: "StopContainer", since },
                "waits for the runtime, which has not answered StopContainer since 1970-01-01T00:00:01Z",
                10,
            ),
            (
                PodWait::Admission(AdmissionWait::Room, Some(since)),
                "waits for room that other pods still take, until 1970-01-01T00:00:01Z",
                10,
            ),
            (PodWait::Admission(AdmissionWait::Node, None), "waits for the Node object to be known", 10),
            (PodWait::NotYet("no room".to_owned()), "not yet: no room", 0),
            (
                PodWait::Api(ApiWait::NotTaken { field: "status.resources".to_owned() }),
                "waits for the API server to take over status.resources, although it answered the patch of the status",
                10,
            ),
            (
                PodWait::Api(ApiWait::Finalizers(vec!["a/b".to_owned()])),
                "has ended, waits for the removal of its finalizers from the API server's object: a/b",
                0,
            ),
            (
                PodWait::Correction { place: "/m/a.yaml".to_owned(), why: "no name".to_owned() },
                "waits for /m/a.yaml to be corrected: no name",
                10,
            ),
        ] {
            assert_eq!((wait.to_string().as_str(), format!("{wait:#}").as_str()), (long, &long[short..]), "{wait:?}");
        }
    }

    #[test]
    fn an_image_that_is_to_be_tried_again_is_not_on_its_way() {
        assert_eq!(PodWait::ToRun(image(false)).image_of(), Some("a"));
        assert_eq!(PodWait::ToRun(image(true)).image_of(), None);
        assert_eq!(PodWait::NotYet("the image of container a".to_owned()).image_of(), None);
    }
}
