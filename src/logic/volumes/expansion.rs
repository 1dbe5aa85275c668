//! Growing a volume on the node (VOL-46), as upstream's `NodeExpander` (KEP-1790): whether the driver is called, and what a failure
//! means. The claim's status gets a change before and after the call.
//!
//! Pure. A resizer of today names the size and the state in the claim's status, which the node follows and changes. One of before
//! that protocol changes the volume's size alone; then the driver is called, and the status gets the new size.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::logic::model::quantity::Quantity;
use crate::logic::model::time::Moment;
use crate::logic::plugins::call_error::{CallError, Code};
use crate::logic::resources::resource_list;

/// The resource of claims.
const STORAGE: &str = "storage";
/// The controller grew the volume; the node is to follow.
const PENDING: &str = "NodeResizePending";
/// The node is at it.
const IN_PROGRESS: &str = "NodeResizeInProgress";
/// The node cannot follow; the controller may choose another size.
const INFEASIBLE: &str = "NodeResizeInfeasible";
/// The condition of a claim whose volume the node could not grow.
const NODE_ERROR: &str = "NodeResizeError";
/// Conditions that end with an expansion.
const CONDITIONS: [&str; 4] = ["FileSystemResizePending", "Resizing", "ControllerResizeError", NODE_ERROR];
/// Set on a claim whose volume needs nothing of nodes.
const NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";

/// The agent's knowledge of the size of a volume that a pod has. Lost with the agent; then the claim's status says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSize {
    /// The claim's UID.
    pub claim: String,
    /// The size that the volume has on this node.
    pub size: Quantity,
    /// The driver cannot grow it while it is in use: it is not asked again.
    pub in_use: bool,
    /// The driver refused for good at least once.
    pub refused: bool,
}

impl KnownSize {
    /// The size in the claim's status.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        Self { claim: uid, size: capacity(claim), in_use: false, refused: false }
    }

    /// Whether the volume may be larger by now, as far as the claim shows: then the volume is worth reading. One of another
    /// claim is no longer known.
    pub fn may_have_grown(&self, claim: &PersistentVolumeClaim) -> bool {
        let is_of = claim.metadata.uid.as_deref() == Some(&*self.claim);
        let larger = requested(claim) > self.size || capacity(claim) > self.size || state(claim).is_some();
        is_of && !self.in_use && larger
    }
}

/// When it is looked whether a volume is to be grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It was mounted for the pod just now.
    AtMount,
    /// The pod has had it for a while.
    InUse,
}

/// The order that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, or nothing yet.
    Rest,
    /// It was grown already, and needs nothing of this node.
    Grown(Quantity),
    /// The pod must not write to it, so it cannot be grown: an Event says so.
    ReadOnly,
    /// The driver is to be called.
    Expand(Expansion),
}

/// An expansion to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// The new size.
    pub size: Quantity,
    /// The change of the claim's status before the driver is called.
    pub begin: Option<Value>,
    protocol: Protocol,
}

/// How the claim's status follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// The volume's size is all there is.
    Size,
    /// The status names the state.
    State {
        /// The status has the new size already: another node grew the volume.
        is_told: bool,
        /// A final refusal says that the size cannot be had: the claim's author wants another one by now.
        gives_up: bool,
    },
}

/// Decides about one volume. `known` is the size that it had so far.
pub fn decide(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    known: &KnownSize,
    when: When,
    read_only: bool,
) -> Verdict {
    let wanted = resource_list(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref())).remove(STORAGE);
    let wanted = wanted.unwrap_or_default();
    let has = if when == When::AtMount { capacity(claim) } else { known.size };
    if wanted <= has || (when == When::InUse && (known.in_use || has.is_zero())) {
        return Verdict::Rest;
    }
    if read_only {
        return if when == When::AtMount { Verdict::ReadOnly } else { Verdict::Rest };
    }
    let allocated = status(claim).and_then(|status| status.allocated_resources.as_ref());
    if state(claim).is_none() && allocated.is_none() {
        return Verdict::Expand(Expansion { size: wanted, begin: None, protocol: Protocol::Size });
    }
    let size = resource_list(allocated).remove(STORAGE).unwrap_or(wanted);
    let is_told = capacity(claim) >= size && state(claim).is_none();
    let gives_up = requested(claim) != size && known.refused;
    let protocol = Protocol::State { is_told, gives_up };
    match state(claim) {
        // Every node that has it is asked, because some drivers grow the file system on each.
        None if is_told && is_shared(claim) => Verdict::Expand(Expansion { size, begin: None, protocol }),
        None if is_told => Verdict::Grown(size),
        Some(PENDING) => {
            let change = json!({ "allocatedResourceStatuses": { STORAGE: IN_PROGRESS } });
            Verdict::Expand(Expansion { size, begin: Some(patch(claim, change)), protocol })
        }
        Some(IN_PROGRESS) => Verdict::Expand(Expansion { size, begin: None, protocol }),
        _ => Verdict::Rest,
    }
}

/// How the call of the driver ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The volume has the size.
    Done,
    /// The driver grows no volumes; with its name.
    Unsupported(String),
    /// It failed.
    Failed(CallError),
    /// There was no call, for this reason: its secret cannot be read. It counts as refused, as upstream counts it.
    NoSecret(String),
    /// There was no call, for this reason: the driver is away, and may be back soon.
    NotAsked(String),
    /// The host could not grow a volume that has no driver, for this reason; another try may go well.
    Failing(String),
}

impl CallEnd {
    fn is_final(&self) -> bool {
        match self {
            Self::Failed(error) => error.is_final(),
            Self::Unsupported(_) | Self::NoSecret(_) => true,
            Self::Done | Self::NotAsked(_) | Self::Failing(_) => false,
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            Self::Failed(error) if error.is_final() => Some(error.code()),
            _ => None,
        }
    }

    /// Whether the driver says that this size cannot be had.
    fn is_infeasible(&self) -> bool {
        matches!(self.code(), Some(Code::InvalidArgument | Code::OutOfRange | Code::NotFound))
    }

    /// In upstream's words.
    fn problem(&self) -> String {
        match self {
            Self::Done => String::new(),
            Self::Unsupported(driver) => format!("NodeExpand is not supported by the CSI driver {driver}"),
            Self::NoSecret(why) | Self::NotAsked(why) | Self::Failing(why) => why.clone(),
            Self::Failed(error) if self.is_infeasible() => {
                format!("Expander.NodeExpand failed to expand the volume {error}")
            }
            Self::Failed(error) => format!("Expander.NodeExpand failed to expand the volume : {error}"),
        }
    }
}

/// The consequences of the end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// The driver grew it: Events say so.
    pub has_grown: bool,
    /// The change of the claim's status. Where the volume has grown it must be made, else all is done again.
    pub patch: Option<Value>,
    /// The knowledge of the volume's size, once the status was changed.
    pub known: KnownSize,
    /// Why the pod cannot have the volume yet, or why the volume stays as large as it is.
    pub problem: Option<String>,
}

impl Expansion {
    /// Takes the end of the call. `claim` is the claim as it is after [`Self::begin`].
    pub fn after(&self, end: &CallEnd, claim: &PersistentVolumeClaim, known: &KnownSize, now: Moment) -> After {
        let grown = KnownSize { size: self.size, ..known.clone() };
        let silent = |known| After { has_grown: false, patch: None, known, problem: None };
        let in_use = end.code() == Some(Code::FailedPrecondition);
        match (end, self.protocol) {
            (CallEnd::Done, protocol) => {
                let is_told = match protocol {
                    Protocol::Size => capacity(claim) >= self.size,
                    Protocol::State { is_told, .. } => is_told,
                };
                let patch = (!is_told).then(|| finished(claim, self.size));
                After { has_grown: true, patch, known: KnownSize { refused: false, ..grown }, problem: None }
            }
            (CallEnd::Unsupported(_), Protocol::Size | Protocol::State { is_told: true, .. }) => silent(grown),
            (_, Protocol::Size) if in_use => silent(KnownSize { in_use: true, ..grown }),
            (_, Protocol::Size) => After { problem: Some(end.problem()), ..silent(known.clone()) },
            (_, Protocol::State { gives_up, .. }) => {
                let is_final = end.is_final();
                let gives_up = is_final && (gives_up || end.is_infeasible());
                let patch = if is_final { refused(claim, &end.problem(), gives_up, now) } else { None };
                let refused = known.refused || is_final;
                let known = KnownSize { in_use: known.in_use || in_use, refused, ..known.clone() };
                After { has_grown: false, patch, known, problem: (!in_use).then(|| end.problem()) }
            }
        }
    }
}

/// The message of Events that a volume has grown.
pub fn grown_message(volume: &str, node: &str) -> String {
    format!("MountVolume.NodeExpandVolume succeeded for volume \"{volume}\" {node}")
}

/// The message of Events that a volume cannot be grown because its pod must not write.
pub fn read_only_message(volume: &str) -> String {
    format!("MountVolume.NodeExpandVolume failed for volume \"{volume}\" requested read-only file system")
}

fn status(claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaimStatus> {
    claim.status.as_ref()
}

fn capacity(claim: &PersistentVolumeClaim) -> Quantity {
    resource_list(status(claim).and_then(|status| status.capacity.as_ref())).remove(STORAGE).unwrap_or_default()
}

fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    resource_list(resources.and_then(|resources| resources.requests.as_ref())).remove(STORAGE).unwrap_or_default()
}

/// The state of the expansion, where there is one.
fn state(claim: &PersistentVolumeClaim) -> Option<&str> {
    let states = status(claim)?.allocated_resource_statuses.as_ref()?;
    states.get(STORAGE).map(String::as_str).filter(|state| !state.is_empty())
}

/// Whether several nodes may write to it, and each has to be asked.
fn is_shared(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
    let is_shared = modes.into_iter().flatten().any(|mode| mode == "ReadWriteMany");
    is_shared && !claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(NOT_REQUIRED))
}

/// A change of a status that was read; refused where somebody has changed it since.
fn patch(claim: &PersistentVolumeClaim, status: Value) -> Value {
    json!({ "metadata": { "resourceVersion": claim.metadata.resource_version }, "status": status })
}

/// The status of a claim whose volume has this size: nothing is left of the expansion.
fn finished(claim: &PersistentVolumeClaim, size: Quantity) -> Value {
    let mut change = json!({ "capacity": { STORAGE: size.to_string() } });
    if let Some(states) = status(claim).and_then(|status| status.allocated_resource_statuses.as_ref()) {
        let is_last = states.keys().all(|name| name == STORAGE);
        change["allocatedResourceStatuses"] = if is_last { Value::Null } else { json!({ STORAGE: null }) };
    }
    let conditions = status(claim).and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let ended = conditions.filter(|condition| CONDITIONS.contains(&&*condition.type_));
    let ended: Vec<Value> = ended.map(|condition| json!({ "$patch": "delete", "type": condition.type_ })).collect();
    if !ended.is_empty() {
        change["conditions"] = ended.into();
    }
    patch(claim, change)
}

/// The status of a claim whose volume the driver refused to grow; `None` where it says so already.
fn refused(claim: &PersistentVolumeClaim, why: &str, gives_up: bool, now: Moment) -> Option<Value> {
    let mut change = Map::new();
    if gives_up && state(claim) != Some(INFEASIBLE) {
        change.insert("allocatedResourceStatuses".to_owned(), json!({ STORAGE: INFEASIBLE }));
    }
    let mut conditions = status(claim).and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    if !conditions.any(|condition| condition.type_ == NODE_ERROR && condition.status == "True") {
        let condition = json!({
            "type": NODE_ERROR,
            "status": "True",
            "lastTransitionTime": Time(now.to_timestamp()),
            "message": format!("failed to expand pvc with {why}"),
        });
        change.insert("conditions".to_owned(), json!([condition]));
    }
    // As upstream, whatever changed since: an error is worth telling.
    (!change.is_empty()).then(|| json!({ "status": change }))
}

#[cfg(test)]
mod tests;
