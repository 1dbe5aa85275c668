//! The file `memory_manager_state`, so that either agent can take over from the other (RES-34).
//!
//! Pure. Upstream: `memorymanager/state/checkpoint.go`. There are two formats. The one of `PodLevelResourceManagers`
//! (V2) has what pods hold as a whole; with the gate on, a file of the older format (V1) is read too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dump::{Format, checksum};
use super::manager::MemoryManager;
use super::state::{Assignments, NodeState, PodEntry, State};
use super::validation::StateError;
use crate::logic::formats::go_json;
use crate::logic::formats::go_text::quoted;

/// The file's name in the root directory.
pub const STATE_FILE: &str = "memory_manager_state";

/// Why a file cannot be read; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No JSON, cut in half say.
    #[error(transparent)]
    Syntax(#[from] go_json::SyntaxError),
    /// JSON of another shape.
    #[error("json: cannot unmarshal state: {0}")]
    Shape(String),
    /// The checksum is that of another content or format.
    #[error("checkpoint is corrupted")]
    Corrupt,
    /// The file was written under another policy.
    #[error(
        "[memorymanager] configured policy {} differs from state checkpoint policy {}",
        quoted(.configured),
        quoted(.stored)
    )]
    OtherPolicy {
        /// By the configuration.
        configured: &'static str,
        /// By the file.
        stored: String,
    },
}

/// Why the manager cannot start; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The file cannot be read.
    #[error(
        "could not restore state from checkpoint: {error}, please drain this node and delete the memory manager \
         checkpoint file {} before restarting Kubelet",
        quoted(.path)
    )]
    File {
        /// The fault.
        error: FileError,
        /// The file.
        path: String,
    },
    /// The content of the file does not fit.
    #[error(transparent)]
    State(#[from] StateError),
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Stored {
    policy_name: String,
    machine_state: BTreeMap<i64, NodeState>,
    entries: Assignments,
    pod_entries: BTreeMap<String, PodEntry>,
    checksum: u64,
}

impl Default for Stored {
    fn default() -> Self {
        let (policy_name, checksum) = (String::new(), 0);
        let (machine_state, entries, pod_entries) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { policy_name, machine_state, entries, pod_entries, checksum }
    }
}

/// In upstream's order of fields. Go writes the keys of a map in the order of their texts, also numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    policy_name: &'a str,
    machine_state: BTreeMap<String, &'a NodeState>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    entries: &'a Assignments,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pod_entries: &'a BTreeMap<String, PodEntry>,
    checksum: u32,
}

impl MemoryManager {
    /// The content of the state file, as upstream would write it.
    pub fn to_file(&self) -> String {
        let none = BTreeMap::new();
        let (format, pod_entries) = match self.gates.pod_level_managers {
            true => (Format::V2, &self.state.pods),
            false => (Format::V1, &none),
        };
        let policy_name = self.policy.name();
        let written = Written {
            policy_name,
            machine_state: self.state.machine.iter().map(|(cell, node)| (cell.to_string(), node)).collect(),
            entries: &self.state.assignments,
            pod_entries,
            checksum: checksum(format, policy_name, &self.state),
        };
        serde_json::to_string(&written).expect("maps with text keys can be written")
    }

    /// Takes over what the state file says. `path` is for the error.
    ///
    /// # Errors
    /// [`RestoreError`]; upstream then refuses to run.
    pub fn restore(&mut self, file: &[u8], path: &str) -> Result<(), RestoreError> {
        self.state = self.read(file).map_err(|error| RestoreError::File { error, path: path.to_owned() })?;
        if self.policy == super::manager::MemoryPolicy::Static {
            self.validate()?;
        }
        Ok(())
    }

    fn read(&self, file: &[u8]) -> Result<State, FileError> {
        go_json::check(file)?;
        let stored: Stored = serde_json::from_slice(file).map_err(|error| FileError::Shape(error.to_string()))?;
        let mut state = State { machine: stored.machine_state, assignments: stored.entries, pods: stored.pod_entries };
        let matches =
            |format: Format, state: &State| u64::from(checksum(format, &stored.policy_name, state)) == stored.checksum;
        let pod_level = self.gates.pod_level_managers;
        // Upstream takes a checksum of nothing for right, and files of versions that named the type otherwise.
        let is_sound = (pod_level && matches(Format::V2, &state))
            || stored.checksum == 0
            || matches(Format::V1, &state)
            || (!pod_level && matches(Format::V1Named, &state));
        if !is_sound {
            return Err(FileError::Corrupt);
        }
        if !pod_level {
            state.pods.clear();
        }
        let configured = self.policy.name();
        if configured == stored.policy_name {
            return Ok(state);
        }
        Err(FileError::OtherPolicy { configured, stored: stored.policy_name })
    }
}
