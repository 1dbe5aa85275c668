//! The local socket's words about pods: written by the agent, read by the command line, which may be of another build.
//!
//! Every field has a default, so that either side may know more than the other.

pub(super) mod actors_view;
pub mod changes;
pub mod node_views;
pub mod table;
pub(super) mod trace_view;

use serde::{Deserialize, Serialize};

/// The phase in the row of a manifest that gives no pod: no phase of the API, because it is no pod.
pub const REFUSED: &str = "Refused";

/// One pod in `podwright ps`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodRow {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// `status.phase`.
    pub phase: String,
    /// Why, in one word, as `kubectl get pods` shows it; empty when the phase says it all.
    pub reason: String,
    /// Whether the pod's condition Ready holds.
    pub ready: bool,
    /// Containers that are ready.
    pub ready_containers: usize,
    /// Containers that should be.
    pub containers: usize,
    /// Restarts of all containers together.
    pub restarts: i64,
    /// Since it was started here, or made.
    pub age_seconds: Option<f64>,
    /// `status.podIP`.
    pub ip: String,
    /// `spec.nodeName`.
    pub node: String,
    /// Where it comes from: `file`, `http`, `api`.
    pub source: String,
    /// Why it is not as it should be, newest cause first; empty when it is.
    pub waiting: Vec<String>,
    /// The same without the words that a column's title says already.
    pub waiting_for: Vec<String>,
}

/// One plugin in `podwright plugins`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginRow {
    /// `CSIPlugin`, `DevicePlugin` or `DRAPlugin`; empty before it said so.
    pub kind: String,
    /// The driver's name, or the resource's.
    pub name: String,
    /// Its registration socket.
    pub socket: String,
    /// Where it serves.
    pub endpoint: String,
    /// Versions of its protocol.
    pub versions: Vec<String>,
    /// How far its registration is: `asked`, `judged`, `told`, `registered`, `failed`; of a device plugin that is gone
    /// `stopped`, and five minutes later `forgotten`.
    pub state: String,
    /// Since it is in that state.
    pub age_seconds: Option<f64>,
    /// The last failure, also where all went well since.
    pub last_error: String,
    /// Calls that are open.
    pub calls: Vec<CallShown>,
    /// The devices of a device plugin.
    pub devices: Option<DevicesShown>,
}

/// The devices of one plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevicesShown {
    /// Those that may be given.
    pub healthy: usize,
    /// All of them.
    pub all: usize,
}

/// A call to a plugin that is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallShown {
    /// The method.
    pub method: String,
    /// The volume or the devices that it is about.
    pub about: String,
    /// Since it began.
    pub age_seconds: Option<f64>,
}

/// One pod in `podwright explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    /// As in the list.
    pub pod: PodRow,
    /// `status.message`.
    pub message: String,
    /// Whether it is ready, or has ended as it should.
    pub healthy: bool,
    /// Why it is not, newest cause first.
    pub why: Vec<String>,
    /// `status.conditions`.
    pub conditions: Vec<ConditionShown>,
    /// Init containers first.
    pub containers: Vec<ContainerShown>,
    /// Why it has its CPUs and memory, or was refused for them; a line for each decision.
    pub hardware: Vec<String>,
    /// The cost of its probes; by container and kind.
    pub probes: Vec<ProbeShown>,
    /// Restarts that wait for their back-off's end.
    pub back_offs: Vec<BackOffShown>,
    /// Its worker; `None` when it has none any more.
    pub worker: Option<WorkerShown>,
    /// Oldest first.
    pub events: Vec<EventShown>,
    /// Trouble of the whole node that holds up every pod.
    pub node_problems: Vec<String>,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConditionShown {
    /// Type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Since its last change.
    pub age_seconds: Option<f64>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerShown {
    /// Name.
    pub name: String,
    /// `init`, `sidecar`, `main` or `ephemeral`.
    pub role: String,
    /// `waiting`, `running` or `terminated`.
    pub state: String,
    /// Its reason, exit code and message, as one text.
    pub detail: String,
    /// The state's reason.
    pub reason: String,
    /// The state's message.
    pub message: String,
    /// How it ended; `None` while it has not.
    pub exit_code: Option<i32>,
    /// Since it is in that state.
    pub age_seconds: Option<f64>,
    /// Ready.
    pub ready: bool,
    /// Past its startup probe.
    pub started: bool,
    /// Restarts.
    pub restarts: i64,
    /// How its last instance ended; empty when there was none.
    pub last: String,
}

/// The cost of a probe (PAIN-29).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeShown {
    /// Of which container.
    pub container: String,
    /// `Startup`, `Readiness` or `Liveness`.
    pub probe: String,
    /// `exec`, `httpGet`, `tcpSocket` or `grpc`.
    pub action: String,
    /// From one round to the next.
    pub period_seconds: f64,
    /// Rounds, whatever came of them.
    pub rounds: u64,
    /// That found the container unwell.
    pub failed: u64,
    /// Of these, whose command did not end in time.
    pub timed_out: u64,
    /// That could not be made.
    pub errored: u64,
    /// All rounds together.
    pub spent_seconds: f64,
    /// The wait in force after a command that never ends in time; `None` for the period.
    pub put_off_seconds: Option<f64>,
    /// Whether its command waits for those of other containers.
    pub waits_for_turn: bool,
}

/// A restart that waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackOffShown {
    /// The container's name.
    pub container: String,
    /// RFC 3339.
    pub until: String,
    /// From now; negative when it is over.
    pub in_seconds: f64,
}

/// The actor that looks after the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerShown {
    /// Name.
    pub name: String,
    /// As in `podwright actors`.
    pub state: String,
    /// Turns so far.
    pub turns: u64,
    /// Restarts of the actor.
    pub restarts: u64,
    /// Why it last failed.
    pub last_failure: Option<String>,
    /// The operations under way, oldest first.
    pub operations: Vec<OperationOpen>,
}

/// Work under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationOpen {
    /// Such as `ensure image`.
    pub name: String,
    /// On what.
    pub about: String,
    /// Since it began.
    pub open_seconds: f64,
    /// Whether it should have ended by now.
    pub late: bool,
    /// Its call to the runtime that is open for the longest time, by CRI's name; empty without one.
    pub call: String,
    /// Since that was asked.
    pub call_seconds: f64,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventShown {
    /// `Normal` or `Warning`.
    pub kind: String,
    /// Reason.
    pub reason: String,
    /// The container it is about, as a field path; empty for the pod.
    pub object: String,
    /// Message.
    pub message: String,
    /// How often.
    pub count: u32,
    /// Since the first.
    pub first_seconds: f64,
    /// Since the last.
    pub last_seconds: f64,
}
