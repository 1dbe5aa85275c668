//! `cpu_manager_state`: upstream's JSON with upstream's checksums, so that either agent goes on from the other's file.
//!
//! Pure: from bytes to [`CpuState`] and back. Three forms exist. V1 knows containers by their ids (before 1.18), V2 by pod
//! and name; V3 has CPUs of whole pods (gate `PodLevelResourceManagers`). Upstream tries the newest first, this too.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::cpu_set::{CpuSet, CpuSetError};
use super::state::CpuState;
use crate::logic::formats::fnv::fnv1a;
use crate::logic::formats::go_json;
use crate::logic::formats::go_text::{json_string, quoted};
use crate::logic::model::ids::{ContainerId, PodUid};

/// The file's name in the root directory.
pub const FILE_NAME: &str = "cpu_manager_state";

/// Pod and name of each container that the runtime has; what V1 is read with.
pub type KnownContainers = BTreeMap<ContainerId, (PodUid, String)>;

/// Why a file is not gone on from; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Not the text that was written.
    #[error("checkpoint is corrupted")]
    Corrupt,
    /// No JSON, or JSON of another shape; Go's words.
    #[error("{0}")]
    Shape(String),
    /// Another policy wrote it.
    #[error("configured policy {} differs from state checkpoint policy {}", quoted(configured), quoted(found))]
    OtherPolicy {
        /// The configuration's policy.
        configured: String,
        /// The file's policy.
        found: String,
    },
    /// The shared CPUs are no list.
    #[error("could not parse default cpu set {}: {error}", quoted(text))]
    Shared {
        /// As the file has them.
        text: String,
        /// The fault.
        error: CpuSetError,
    },
    /// A container's CPUs are no list.
    #[error(
        "could not parse cpuset {} for container {} in pod {}: {error}",
        quoted(text),
        quoted(container),
        quoted(pod)
    )]
    Container {
        /// As the file has them.
        text: String,
        /// The container's name.
        container: String,
        /// The pod's UID.
        pod: String,
        /// The fault.
        error: CpuSetError,
    },
    /// V1: the runtime has no such container.
    #[error("failed to migrate checkpoint from v1 to v2: containerID '{0}' not found in initial containers list")]
    UnknownContainer(String),
}

/// A state that could not be restored, as the agent says it when it ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "could not restore state from checkpoint: {error}, please drain this node and delete the CPU manager checkpoint \
     file {} before restarting Kubelet",
    quoted(path)
)]
pub struct Unrestorable {
    /// The fault.
    pub error: RestoreError,
    /// The file.
    pub path: String,
}

/// A map that Go would know as nil when the file has `null`.
type GoMap<T> = Option<BTreeMap<String, T>>;

/// The fields of all forms, and the entries of one.
struct Checkpoint<E> {
    policy: String,
    shared: String,
    entries: GoMap<E>,
    /// V3: the CPUs of pods.
    pods: GoMap<CpuSet>,
    checksum: u64,
}

/// The file's text. `whole_pods` is the gate `PodLevelResourceManagers`, which decides between V2 and V3.
pub fn print(policy: &str, state: &CpuState, whole_pods: bool) -> Vec<u8> {
    let of_pod = |cpus: &BTreeMap<String, CpuSet>| {
        Some(cpus.iter().map(|(container, cpus)| (container.clone(), cpus.to_string())).collect())
    };
    let entries = state.containers.iter().map(|(pod, cpus)| (pod.as_str().to_owned(), of_pod(cpus)));
    let pods = state.pods.iter().map(|(pod, cpus)| (pod.as_str().to_owned(), cpus.clone()));
    let checkpoint = Checkpoint {
        policy: policy.to_owned(),
        shared: state.shared.to_string(),
        entries: Some(entries.collect()),
        pods: Some(pods.collect()),
        checksum: 0,
    };
    let sum = fnv1a(dump("CPUManagerCheckpoint", &checkpoint, "map[string]map[string]string", whole_pods).as_bytes());
    let mut text =
        format!("{{\"policyName\":{},\"defaultCpuSet\":{}", json_string(policy), json_string(&checkpoint.shared));
    let cpus_of = |cpus: &GoMap<String>| json_map(cpus.iter().flatten(), |cpus| json_string(cpus));
    if let Some(entries) = checkpoint.entries.filter(|entries| !entries.is_empty()) {
        push(&mut text, ",\"entries\":", &json_map(entries.iter(), cpus_of));
    }
    if let Some(pods) = checkpoint.pods.filter(|pods| whole_pods && !pods.is_empty()) {
        let entry = |cpus: &CpuSet| match cpus.is_empty() {
            true => "{}".to_owned(),
            false => format!("{{\"cpuSet\":\"{cpus}\"}}"),
        };
        push(&mut text, ",\"podEntries\":", &json_map(pods.iter(), entry));
    }
    push(&mut text, ",\"checksum\":", &format!("{sum}}}"));
    text.into_bytes()
}

fn push(text: &mut String, key: &str, value: &str) {
    text.push_str(key);
    text.push_str(value);
}

fn json_map<'a, T: 'a>(entries: impl Iterator<Item = (&'a String, &'a T)>, value: impl Fn(&T) -> String) -> String {
    let entries: Vec<_> = entries.map(|(key, entry)| format!("{}:{}", json_string(key), value(entry))).collect();
    format!("{{{}}}", entries.join(","))
}

/// The content of a file. `whole_pods` is the gate `PodLevelResourceManagers`; `known` is needed for V1 alone.
///
/// # Errors
/// Why the agent cannot go on from it: upstream ends then.
pub fn parse(bytes: &[u8], policy: &str, whole_pods: bool, known: &KnownContainers) -> Result<CpuState, RestoreError> {
    let text = String::from_utf8_lossy(bytes);
    go_json::check(text.as_bytes()).map_err(|error| RestoreError::Shape(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| RestoreError::Shape(error.to_string()))?;
    if whole_pods && let Ok(newest) = v3(&value) {
        return state(newest, policy);
    }
    let mut older = match v2(&value, whole_pods) {
        Ok(checkpoint) => checkpoint,
        Err(_) => migrated(v1(&value)?, known)?,
    };
    // Upstream fills in the struct that it began to read V3 into, so that CPUs of pods stay.
    older.pods = whole_pods.then(|| pods(&value)).flatten();
    state(older, policy)
}

type Parsed<E> = Result<Checkpoint<E>, RestoreError>;

fn v3(value: &Value) -> Parsed<GoMap<String>> {
    let mut checkpoint = Fields { form: "CPUManagerCheckpoint", value }.checkpoint(texts_by_name)?;
    let of_pods = value.get("podEntries").and_then(Value::as_object).into_iter().flatten();
    if of_pods.into_iter().any(|(_, entry)| pod_cpus(entry).is_none()) {
        return Err(RestoreError::Corrupt);
    }
    checkpoint.pods = pods(value);
    let dumped = dump("CPUManagerCheckpoint", &checkpoint, "map[string]map[string]string", true);
    verified(checkpoint, &[dumped])
}

/// The CPUs of pods; a pod whose entry cannot be read has none.
fn pods(value: &Value) -> GoMap<CpuSet> {
    match value.get("podEntries") {
        Some(Value::Null) => None,
        Some(Value::Object(pods)) => {
            Some(pods.iter().map(|(pod, entry)| (pod.clone(), pod_cpus(entry).unwrap_or_default())).collect())
        }
        _ => Some(BTreeMap::new()),
    }
}

fn pod_cpus(entry: &Value) -> Option<CpuSet> {
    match (entry, entry.get("cpuSet")) {
        (Value::Null, _) | (Value::Object(_), None | Some(Value::Null)) => Some(CpuSet::default()),
        (_, Some(Value::String(text))) => CpuSet::parse(text).ok(),
        _ => None,
    }
}

fn v2(value: &Value, whole_pods: bool) -> Parsed<GoMap<String>> {
    let checkpoint = Fields { form: "CPUManagerCheckpointV2", value }.checkpoint(texts_by_name)?;
    let dumped = |form| dump(form, &checkpoint, "map[string]map[string]string", false);
    // Early builds of 1.36 signed with the form's own name; upstream takes that as long as the gate is off.
    let own_name = (!whole_pods).then(|| dumped("CPUManagerCheckpointV2"));
    let signed: Vec<_> = [dumped("CPUManagerCheckpoint")].into_iter().chain(own_name).collect();
    if checkpoint.checksum == 0 { Ok(checkpoint) } else { verified(checkpoint, &signed) }
}

fn v1(value: &Value) -> Parsed<String> {
    let checkpoint = Fields { form: "CPUManagerCheckpointV1", value }.checkpoint(text)?;
    let dumped = dump("CPUManagerCheckpoint", &checkpoint, "map[string]string", false);
    if checkpoint.checksum == 0 { Ok(checkpoint) } else { verified(checkpoint, &[dumped]) }
}

/// V1 as V2.
fn migrated(old: Checkpoint<String>, known: &KnownContainers) -> Parsed<GoMap<String>> {
    let mut entries: BTreeMap<String, GoMap<String>> = BTreeMap::new();
    for (id, cpus) in old.entries.into_iter().flatten() {
        let Some((pod, container)) = known.get(&ContainerId::from(id.as_str())) else {
            return Err(RestoreError::UnknownContainer(id));
        };
        let of_pod = entries.entry(pod.as_str().to_owned()).or_default().get_or_insert_default();
        of_pod.insert(container.clone(), cpus);
    }
    let Checkpoint { policy, shared, checksum, .. } = old;
    Ok(Checkpoint { policy, shared, entries: Some(entries), pods: None, checksum })
}

fn verified<E>(checkpoint: Checkpoint<E>, dumps: &[String]) -> Parsed<E> {
    let is_signed = dumps.iter().any(|dump| u64::from(fnv1a(dump.as_bytes())) == checkpoint.checksum);
    if is_signed { Ok(checkpoint) } else { Err(RestoreError::Corrupt) }
}

fn state(checkpoint: Checkpoint<GoMap<String>>, policy: &str) -> Result<CpuState, RestoreError> {
    if checkpoint.policy != policy {
        return Err(RestoreError::OtherPolicy { configured: policy.to_owned(), found: checkpoint.policy });
    }
    let shared = match CpuSet::parse(&checkpoint.shared) {
        Ok(shared) => shared,
        Err(error) => return Err(RestoreError::Shared { text: checkpoint.shared, error }),
    };
    let mut state = CpuState { shared, ..CpuState::default() };
    for (pod, cpus) in checkpoint.entries.into_iter().flatten() {
        let of_pod = state.containers.entry(PodUid::from(pod.as_str())).or_default();
        for (container, text) in cpus.into_iter().flatten() {
            match CpuSet::parse(&text) {
                Ok(cpus) => drop(of_pod.insert(container, cpus)),
                Err(error) => return Err(RestoreError::Container { text, container, pod, error }),
            }
        }
    }
    let pods = checkpoint.pods.into_iter().flatten();
    state.pods = pods.map(|(pod, cpus)| (PodUid::from(pod.as_str()), cpus)).collect();
    Ok(state)
}

/// A JSON value that is read as one of upstream's structs.
struct Fields<'a> {
    form: &'static str,
    value: &'a Value,
}

impl Fields<'_> {
    fn checkpoint<E>(&self, entry: impl Fn(&Value, &str) -> Result<E, RestoreError>) -> Parsed<E> {
        if !matches!(self.value, Value::Object(_) | Value::Null) {
            let (found, form) = (kind(self.value), self.form);
            return Err(RestoreError::Shape(format!(
                "json: cannot unmarshal {found} into Go value of type state.{form}"
            )));
        }
        Ok(Checkpoint {
            policy: self.text("policyName")?,
            shared: self.text("defaultCpuSet")?,
            entries: self.map("entries", entry)?,
            pods: Some(BTreeMap::new()),
            checksum: match self.value.get("checksum") {
                None | Some(Value::Null) => 0,
                Some(value) => {
                    let place = self.place("checksum");
                    value.as_u64().ok_or_else(|| match value {
                        Value::Number(number) => shape(&format!("number {number}"), &place, "checksum.Checksum"),
                        other => wrong_type(other, &place, "checksum.Checksum"),
                    })?
                }
            },
        })
    }

    fn place(&self, field: &str) -> String {
        format!("{}.{field}", self.form)
    }

    fn text(&self, field: &str) -> Result<String, RestoreError> {
        match self.value.get(field) {
            None => Ok(String::new()),
            Some(value) => text(value, &self.place(field)),
        }
    }

    /// A map; `null` is Go's nil map, an absent one the empty map.
    fn map<E>(
        &self,
        field: &str,
        entry: impl Fn(&Value, &str) -> Result<E, RestoreError>,
    ) -> Result<GoMap<E>, RestoreError> {
        let place = self.place(field);
        match self.value.get(field) {
            None => Ok(Some(BTreeMap::new())),
            Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => {
                let entry = |(key, value): (&String, &Value)| Ok((key.clone(), entry(value, &place)?));
                map.iter().map(entry).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(wrong_type(other, &place, "map[string]string")),
        }
    }
}

fn texts_by_name(value: &Value, place: &str) -> Result<GoMap<String>, RestoreError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| Ok((key.clone(), text(value, place)?));
            map.iter().map(entry).collect::<Result<_, _>>().map(Some)
        }
        other => Err(wrong_type(other, place, "map[string]string")),
    }
}

fn text(value: &Value, place: &str) -> Result<String, RestoreError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        other => Err(wrong_type(other, place, "string")),
    }
}

fn wrong_type(found: &Value, place: &str, wanted: &str) -> RestoreError {
    shape(kind(found), place, wanted)
}

fn shape(found: &str, place: &str, wanted: &str) -> RestoreError {
    RestoreError::Shape(format!("json: cannot unmarshal {found} into Go struct field {place} of type {wanted}"))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value that upstream's printer of objects (`dump.ForHash`) can write.
trait Dump {
    fn dump(&self, out: &mut String);
}

impl Dump for String {
    fn dump(&self, out: &mut String) {
        out.push_str(self);
    }
}

/// As the entry of a pod.
impl Dump for CpuSet {
    fn dump(&self, out: &mut String) {
        let cpus: Vec<_> = self.iter().map(|cpu| format!("{cpu}:{{}}")).collect();
        write!(out, "{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{}]}}}}", cpus.join(" "))
            .expect("invariant: a String takes all text");
    }
}

impl<E: Dump> Dump for GoMap<E> {
    fn dump(&self, out: &mut String) {
        let Some(map) = self else {
            out.push_str("<nil>");
            return;
        };
        out.push_str("map[");
        for (at, (key, value)) in map.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { " " });
            out.push_str(key);
            out.push(':');
            value.dump(out);
        }
        out.push(']');
    }
}

/// The text whose hash is the checksum.
fn dump<E: Dump>(form: &str, checkpoint: &Checkpoint<E>, entries: &str, whole_pods: bool) -> String {
    let mut out = format!(
        "(*state.{form}){{PolicyName:(string){} DefaultCPUSet:(string){} Entries:({entries})",
        checkpoint.policy, checkpoint.shared
    );
    checkpoint.entries.dump(&mut out);
    if whole_pods {
        out.push_str(" PodEntries:(state.PodCPUAssignments)");
        checkpoint.pods.dump(&mut out);
    }
    out.push_str(" Checksum:(checksum.Checksum)0}");
    out
}
