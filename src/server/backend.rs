//! The sources of answers: the actors that are asked, the adapters that are read, and the settings that endpoints obey.
//!
//! One for all listeners, made when the agent is wired. It is wide, because the endpoints show the whole node: actors and
//! trace are what `/debug/actors`, `/pods`, `/explain` and `/stats` ask; runtime, logs and streams serve exec and logs; its
//! metrics, their sources and its pages.

pub(super) mod open_streams;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::backend::open_streams::Streams;
use crate::actors::agent::{Agent, PluginAdapters};
use crate::actors::kit::trace::Trace;
use crate::actors::tree::Directory;
use crate::cri::RuntimeService;
use crate::logic::model::time::Moment;
use crate::logic::serving::{ServedLogs, StreamSettings};
use crate::logic::statistics::build::Facts;
use crate::platform::host::chance::Chance;
use crate::platform::logs::log_reader::LogReader;
use crate::platform::logs::node_logs::NodeLogs;
use crate::telemetry::{Metrics, Sources};

/// See the module.
pub struct Backend {
    /// Actors that are asked.
    pub(super) directory: Directory,
    /// The record of what actors did.
    pub(super) trace: Arc<Trace>,
    /// The node, as statistics name it.
    pub(super) facts: Facts,
    /// `syncFrequency`: a sync loop that is silent for longer is not healthy.
    pub(super) sync_period: Duration,
    /// The logs that are answered.
    pub(super) served_logs: ServedLogs,
    /// Exec, attach, port forward, checkpoints.
    pub(super) stream_settings: StreamSettings,
    /// The runtime.
    pub(super) runtime: Arc<dyn RuntimeService>,
    /// Logs of containers.
    pub(super) log_reader: Arc<dyn LogReader>,
    /// The node's own logs.
    pub(super) node_logs: Arc<dyn NodeLogs>,
    /// Plugins: the pages have their calls while they are open.
    pub(super) plugins: PluginAdapters,
    /// Chance.
    pub(super) chance: Arc<dyn Chance>,
    /// Counts requests, and has a page.
    pub(super) metrics: Arc<Metrics>,
    /// The other sources of a scrape.
    pub(crate) sources: Sources,
    /// The pages of decisions at the start.
    pub(super) pages: Arc<Pages>,
    /// The streams that are open, on all listeners.
    pub(super) streams: Arc<Streams>,
}

impl Backend {
    /// Takes from the agent what endpoints need.
    pub fn of(agent: &Agent, metrics: Arc<Metrics>, pages: Pages) -> Self {
        let Agent { settings, adapters, directory, trace, .. } = agent;
        Self {
            directory: directory.clone(),
            trace: Arc::clone(trace),
            facts: Facts {
                node_name: settings.node_name.clone(),
                booted: settings.node.booted.unwrap_or(Moment::EPOCH),
                agent_started: settings.agent_started,
                pressure: settings.statistics.pressure,
            },
            sync_period: settings.pods.sync_period,
            served_logs: settings.serving.logs,
            stream_settings: settings.serving.streams.clone(),
            runtime: Arc::clone(&adapters.runtime),
            log_reader: Arc::clone(&adapters.logs.reader),
            node_logs: Arc::clone(&adapters.logs.node),
            plugins: adapters.plugins.clone(),
            chance: Arc::clone(&adapters.chance),
            metrics,
            sources: sources(agent),
            pages: Arc::new(pages),
            streams: Arc::default(),
        }
    }
}

fn sources(agent: &Agent) -> Sources {
    let Agent { settings, adapters, directory, trace, .. } = agent;
    Sources {
        node_name: settings.node_name.clone(),
        cgroup_version: adapters.cgroups.version(),
        from_runtime: settings.statistics.from_runtime,
        has_api_server: adapters.cluster.api.is_some(),
        directory: directory.clone(),
        trace: Arc::clone(trace),
        certificates: Arc::clone(&adapters.cluster.certificates),
        image_records: settings.images.verification.records().then(|| Arc::clone(&adapters.image_host)),
    }
}

/// The configuration in force as JSON, for `/configz`. A reload exchanges it; clones share it.
#[derive(Clone, Debug, Default)]
pub struct ShownConfig(Arc<RwLock<Arc<str>>>);

impl ShownConfig {
    /// Shows this one from now on.
    pub fn set(&self, json: String) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = json.into();
    }

    /// The configuration in force.
    pub fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl From<String> for ShownConfig {
    fn from(json: String) -> Self {
        Self(Arc::new(RwLock::new(json.into())))
    }
}

/// Decisions at the start, for the pages.
#[derive(Debug, Default)]
pub struct Pages {
    /// The body of `/configz`.
    pub configz: ShownConfig,
    /// The release whose behaviour this is, such as `v1.36.0`.
    pub version: String,
    /// Every flag with its value as text; secrets are not in it.
    pub flags: BTreeMap<String, String>,
    /// The words of the command line, the program's first; secrets are not in them.
    pub command_line: Vec<String>,
}
