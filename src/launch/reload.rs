//! The configuration read again while the agent runs, at SIGHUP.
//!
//! Files are read anew, flags stay as they were given and win as at the start. Only a whole that the agent would start with
//! is taken; with any fault what runs goes on. Which fields count at once, `config::reload` says.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;

use super::{assembly, settings};
use crate::actors::agent::Agent;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::config::reload::{Reload, reload};
use crate::config::{self, Host, Invocation, Startup, review};
use crate::messages::root::{LiveSettings, RootMsg};
use crate::platform::host::blocking;
use crate::platform::host::clock::Clock;
use crate::platform::host::systemd;
use crate::platform::observer::{Observation, Observer};
use crate::server::ShownConfig;
use crate::telemetry;

/// How long the files may take: they may lie on a disk that does not answer.
const READ_LIMIT: Duration = Duration::from_secs(10);
/// How long Root may take to keep new settings.
const ROOT_LIMIT: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Reloader {
    args: Vec<String>,
    /// The configuration in force, and all beside it.
    running: Invocation,
    node_name: String,
    root: Address<RootMsg>,
    configz: ShownConfig,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
}

/// Why what runs goes on unchanged.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error("the files could not be read within {} s", READ_LIMIT.as_secs())]
    Late,
    #[error("{0}")]
    Refused(String),
    #[error("what may change now does not fit what waits for a restart: {0}")]
    Mixed(String),
    #[error("the tree does not answer: {0}")]
    Root(String),
}

impl Reloader {
    pub fn new(
        args: &[String],
        running: Invocation,
        agent: &Agent,
        root: Address<RootMsg>,
        configz: ShownConfig,
    ) -> Self {
        Self {
            args: args.to_vec(),
            running,
            node_name: agent.settings.node_name.clone(),
            root,
            configz,
            observer: Arc::clone(&agent.adapters.observer),
            clock: Arc::clone(agent.trace.clock()),
        }
    }

    /// Reads again at each signal. Signals during a reload make one more.
    pub async fn run(mut self, mut signals: Signal) {
        while signals.recv().await.is_some() {
            if let Err(error) = systemd::notify_reloading() {
                tracing::warn!(%error, "the service manager cannot be told of the reload");
            }
            let outcome = self.reload().await;
            self.observer.observe(Observation::ConfigReloaded { accepted: outcome.is_ok(), at: self.clock.now() });
            match outcome {
                Ok((changed, waiting)) => self.say(&changed, &waiting),
                Err(error) => self.complain(error).await,
            }
            if let Err(error) = systemd::notify_ready() {
                tracing::warn!(%error, "the service manager cannot be told that the reload is over");
            }
        }
        std::future::pending().await // The signal is no more; what runs goes on.
    }

    /// The fields that changed, and those that wait for a restart.
    async fn reload(&mut self) -> Result<(Vec<String>, Vec<String>), ReloadError> {
        let args = self.args.clone();
        let load = blocking::run(move || config::load(&args, Host::detect()));
        let read = match tokio::time::timeout(READ_LIMIT, load).await {
            Err(_) => return Err(ReloadError::Late),
            Ok(Err(error)) => return Err(ReloadError::Refused(error.message)),
            Ok(Ok(Startup::Run(read))) => *read,
            Ok(Ok(Startup::PrintAndExit { .. })) => unreachable!("invariant: an agent runs with these arguments"),
        };
        let (next, live, reload) = next(&self.running, &read, &self.node_name)?;
        let configz = assembly::shown(&next).map_err(ReloadError::Refused)?;
        let kept = self.root.ask(Cause::outside("signal"), ROOT_LIMIT, |reply| RootMsg::Reload(Arc::new(live), reply));
        kept.await.map_err(|error| ReloadError::Root(error.to_string()))?;
        if next.config.logging.verbosity != self.running.config.logging.verbosity {
            telemetry::set_verbosity(next.config.logging.verbosity);
        }
        self.configz.set(configz);
        self.running = next;
        read.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok((reload.changed, reload.waiting))
    }

    fn say(&self, changed: &[String], waiting: &[String]) {
        tracing::info!(changed = changed.join(", "), "the configuration was read again");
        if changed.iter().any(|field| field == "evictionHard") {
            tracing::warn!(
                "evictionHard decides about evictions from now on; the Node's allocatable follows at a restart"
            );
        }
        if !waiting.is_empty() {
            tracing::warn!(fields = waiting.join(", "), "these fields differ from what runs, and need a restart");
        }
    }

    /// Logs every fault at once, not only the first.
    async fn complain(&self, error: ReloadError) {
        tracing::error!(%error, "the configuration was read again and is refused; what runs goes on");
        if !matches!(error, ReloadError::Refused(_)) {
            return;
        }
        let args = self.args.clone();
        let review = blocking::run(move || review::review(&args, Host::detect()));
        if let Ok(report) = tokio::time::timeout(READ_LIMIT, review).await {
            report.errors.iter().for_each(|fault| tracing::error!(%fault, "wrong configuration"));
        }
    }
}

/// The agent's configuration after a reload, and the settings of it.
fn next(
    running: &Invocation,
    read: &Invocation,
    node_name: &str,
) -> Result<(Invocation, LiveSettings, Reload), ReloadError> {
    let reload = reload(&running.config, &read.config);
    let next = Invocation { config: reload.config.clone(), ..running.clone() };
    let Invocation { config, flags, gates, .. } = &next;
    config::check(config, flags, gates, Host::detect()).map_err(ReloadError::Mixed)?;
    let live = settings::live(&next, node_name).map_err(ReloadError::Mixed)?;
    Ok((next, live, reload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(folder: &tempfile::TempDir, fields: &str) -> Invocation {
        let file = folder.path().join("config");
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n{fields}"
        );
        std::fs::write(&file, text).expect("written");
        match config::load(&[format!("--config={}", file.display())], Host::detect()) {
            Ok(Startup::Run(invocation)) => *invocation,
            other => panic!("{fields}: {other:?}"),
        }
    }

    #[test]
    fn settings_follow_the_fields_that_may_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let running = invocation(&folder, "maxPods: 5\n");
        let read = invocation(
            &folder,
            "maxPods: 6\ncontainerLogMaxSize: 1Mi\nimageGCHighThresholdPercent: 90\nregistryPullQPS: 9\n\
             nodeStatusUpdateFrequency: 3s\nevictionSoftGracePeriod: {memory.available: 5s}\n\
             evictionSoft: {memory.available: 1Gi}\nlogging: {verbosity: 3}\n",
        );
        let (next, live, reload) = next(&running, &read, "n").expect("good");
        assert_eq!((next.config.max_pods, reload.waiting), (5, vec!["maxPods".to_owned()]));
        assert_eq!(live.log_rotation.map(|rotation| rotation.bytes_max), Some(1 << 20));
        assert_eq!((live.image_gc.high_percent, live.pulls.rate), (90, Some(9)));
        assert_eq!(live.update_period, Duration::from_secs(3));
        let before = settings::live(&running, "n").expect("good");
        assert_eq!(live.eviction.thresholds.len(), before.eviction.thresholds.len() + 1);
    }

    /// Each is valid by itself; the new limit does not fit the gate of the configuration that runs.
    #[test]
    fn a_mix_that_is_not_valid_is_refused_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let running = invocation(&folder, "featureGates: {AllBeta: true}\nserializeImagePulls: true\n");
        let read = invocation(&folder, "serializeImagePulls: false\nmaxParallelImagePulls: 4\n");
        assert!(next(&running, &read, "n").is_ok());
        let mut running = running;
        running.config.system_reserved.insert("cpu".to_owned(), "x".to_owned());
        let refused = next(&running, &read, "n").map(|_| ()).expect_err("not valid");
        assert!(matches!(refused, ReloadError::Mixed(_)), "{refused}");
    }
}
