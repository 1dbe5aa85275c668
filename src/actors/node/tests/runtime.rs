//! A runtime that knows how it is, its images and the pod CIDRs that it got.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use crate::cri::*;
use crate::logic::model::ids::{ContainerId, SandboxId};

#[derive(Default)]
pub(in crate::actors) struct PlayedRuntime {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    no_network: bool,
    silent: bool,
    hung: bool,
    refused: Vec<&'static str>,
    has_events: bool,
    sandbox: Option<PodSandbox>,
    stats: Option<CriResult<Vec<PodSandboxStats>>>,
    calls: Vec<String>,
}

/// A command whose caller leaves before it has ended.
struct Left<'a> {
    of: &'a PlayedRuntime,
    call: Option<String>,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.of.note(call);
        }
    }
}

impl PlayedRuntime {
    /// Whether pods have no network.
    pub(super) fn set_no_network(&self, no_network: bool) {
        self.state.lock().expect("not poisoned").no_network = no_network;
    }

    /// Whether no status is given.
    pub(super) fn set_silent(&self, silent: bool) {
        self.state.lock().expect("not poisoned").silent = silent;
    }

    /// Whether images and version never come.
    pub(super) fn set_hung(&self, hung: bool) {
        self.state.lock().expect("not poisoned").hung = hung;
    }

    /// From now on there is a stream of events, and none happens.
    pub(in crate::actors) fn set_events(&self) {
        self.state.lock().expect("not poisoned").has_events = true;
    }

    /// From now on there is this sandbox, and each list of sandboxes takes a tenth of a second.
    pub(in crate::actors) fn set_sandbox(&self, sandbox: PodSandbox) {
        self.state.lock().expect("not poisoned").sandbox = Some(sandbox);
    }

    /// From now on this is the answer about figures of pods; before, the runtime has no such call.
    pub(in crate::actors) fn tell_stats(&self, stats: CriResult<Vec<PodSandboxStats>>) {
        self.state.lock().expect("not poisoned").stats = Some(stats);
    }

    /// The next call of this name fails.
    pub(super) fn refuse_once(&self, call: &'static str) {
        self.state.lock().expect("not poisoned").refused.push(call);
    }

    /// Whether this call fails.
    fn refuses(&self, call: &str) -> bool {
        let refused = &mut self.state.lock().expect("not poisoned").refused;
        refused.iter().position(|refused| *refused == call).map(|at| refused.remove(at)).is_some()
    }

    /// Calls that begin with this text, in order.
    pub(in crate::actors) fn calls(&self, like: &str) -> Vec<String> {
        let state = self.state.lock().expect("not poisoned");
        state.calls.iter().filter(|call| call.starts_with(like)).cloned().collect()
    }

    fn note(&self, call: String) -> (bool, bool, bool) {
        let mut state = self.state.lock().expect("not poisoned");
        state.calls.push(call);
        (state.no_network, state.silent, state.hung)
    }
}

fn not_played<T>() -> CriResult<T> {
    Err(CriError::Unimplemented { message: "not played".to_owned() })
}

fn condition(kind: &str, status: bool) -> RuntimeCondition {
    let (reason, message) = if status { ("", "") } else { ("NetworkPluginNotReady", "cni plugin not initialized") };
    RuntimeCondition { kind: kind.to_owned(), status, reason: reason.to_owned(), message: message.to_owned() }
}

#[async_trait]
impl ImageService for PlayedRuntime {
    async fn list_images(&self, _: Option<&ImageSpec>) -> CriResult<Vec<Image>> {
        let (_, _, hung) = self.note("ListImages".to_owned());
        if hung {
            std::future::pending::<()>().await;
        }
        Ok(vec![Image { id: "sha256:1".to_owned(), repo_tags: vec!["a:1".to_owned()], size: 7, ..Image::default() }])
    }
    async fn image_status(&self, _: &ImageSpec) -> CriResult<Option<Image>> {
        not_played()
    }
    async fn pull_image(&self, _: &ImageSpec, _: Option<&AuthConfig>, _: &PodSandboxConfig) -> CriResult<String> {
        not_played()
    }
    async fn remove_image(&self, _: &ImageSpec) -> CriResult<()> {
        not_played()
    }
    async fn image_fs_info(&self) -> CriResult<ImageFsInfo> {
        not_played()
    }
}

#[async_trait]
impl RuntimeService for PlayedRuntime {
    async fn version(&self) -> CriResult<RuntimeVersion> {
        self.note("Version".to_owned());
        if self.refuses("Version") {
            return not_played();
        }
        Ok(RuntimeVersion { runtime_version: "2.1.0".to_owned(), ..RuntimeVersion::default() })
    }
    async fn status(&self) -> CriResult<RuntimeStatus> {
        let (no_network, silent, _) = self.note("Status".to_owned());
        if silent {
            std::future::pending::<()>().await;
        }
        Ok(RuntimeStatus {
            conditions: vec![condition("RuntimeReady", true), condition("NetworkReady", !no_network)],
            handlers: vec![RuntimeHandler { name: "runc".to_owned(), user_namespaces: true, ..Default::default() }],
            features: RuntimeFeatures { supplemental_groups_policy: true, ..RuntimeFeatures::default() },
        })
    }
    async fn runtime_config(&self) -> CriResult<Option<CgroupDriver>> {
        not_played()
    }
    async fn update_runtime_config(&self, pod_cidr: &str) -> CriResult<()> {
        self.note(format!("UpdateRuntimeConfig {pod_cidr}"));
        match self.refuses("UpdateRuntimeConfig") {
            true => Err(CriError::Unavailable { message: "not yet".to_owned() }),
            false => Ok(()),
        }
    }
    async fn run_pod_sandbox(&self, _: &PodSandboxConfig, _: &str) -> CriResult<SandboxId> {
        not_played()
    }
    /// One that begins with `stuck` cannot be stopped.
    async fn stop_pod_sandbox(&self, id: &SandboxId) -> CriResult<()> {
        self.note(format!("StopPodSandbox {id}"));
        match id.as_str().starts_with("stuck") {
            true => Err(CriError::Unavailable { message: format!("{id} is damaged") }),
            false => Ok(()),
        }
    }
    async fn remove_pod_sandbox(&self, _: &SandboxId) -> CriResult<()> {
        not_played()
    }
    async fn pod_sandbox_status(&self, id: &SandboxId) -> CriResult<PodSandboxStatus> {
        self.note(format!("PodSandboxStatus {id}"));
        let sandbox = self.state.lock().expect("not poisoned").sandbox.clone();
        let Some(PodSandbox { id, metadata, state, created_at, labels, annotations, runtime_handler }) = sandbox else {
            return not_played();
        };
        let (ips, lacks_address, network_mode) = (vec![], false, NamespaceMode::Pod);
        Ok(PodSandboxStatus {
            id,
            metadata,
            state,
            created_at,
            ips,
            lacks_address,
            network_mode,
            labels,
            annotations,
            runtime_handler,
        })
    }
    async fn list_pod_sandboxes(&self, _: &PodSandboxFilter) -> CriResult<Vec<PodSandbox>> {
        self.note("ListPodSandbox".to_owned());
        let sandbox = self.state.lock().expect("not poisoned").sandbox.clone();
        if sandbox.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(sandbox.into_iter().collect())
    }
    async fn create_container(
        &self,
        _: &SandboxId,
        _: &ContainerConfig,
        _: &PodSandboxConfig,
    ) -> CriResult<ContainerId> {
        not_played()
    }
    async fn start_container(&self, _: &ContainerId) -> CriResult<()> {
        not_played()
    }
    /// Takes the seconds that the ID ends with: `web-3`. One that begins with `lost` ends, but nobody hears of it the first
    /// time.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> CriResult<()> {
        let call = format!("StopContainer {id} {}", grace.as_secs());
        let first = self.calls(&format!("StopContainer {id} ")).is_empty();
        self.note(call);
        let takes = id.as_str().rsplit_once('-').and_then(|(_, seconds)| seconds.parse().ok()).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(takes).min(grace)).await;
        match id.as_str().starts_with("lost") && first {
            true => Err(CriError::Unavailable { message: "connection lost".to_owned() }),
            false => Ok(()),
        }
    }
    /// One that begins with `kept` cannot be removed.
    async fn remove_container(&self, id: &ContainerId) -> CriResult<()> {
        self.note(format!("RemoveContainer {id}"));
        match id.as_str().starts_with("kept") {
            true => Err(CriError::Unavailable { message: format!("{id} is in use") }),
            false => Ok(()),
        }
    }
    async fn list_containers(&self, _: &ContainerFilter) -> CriResult<Vec<Container>> {
        Ok(vec![])
    }
    async fn container_status(&self, _: &ContainerId) -> CriResult<ContainerStatus> {
        not_played()
    }
    async fn update_container_resources(
        &self,
        _: &ContainerId,
        _: &LinuxContainerResources,
        _: &Labels,
    ) -> CriResult<()> {
        not_played()
    }
    async fn update_pod_sandbox_resources(
        &self,
        _: &SandboxId,
        _: &LinuxContainerResources,
        _: &LinuxContainerResources,
    ) -> CriResult<()> {
        not_played()
    }
    async fn reopen_container_log(&self, _: &ContainerId) -> CriResult<()> {
        not_played()
    }
    async fn checkpoint_container(&self, _: &ContainerId, _: &str, _: Duration) -> CriResult<()> {
        not_played()
    }
    /// `sleep SECONDS`, `hang`, `refuse` (no such container), or any other word for one that fails.
    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> CriResult<ExecOutcome> {
        self.note(format!("ExecSync {id} {}", command.join(" ")));
        match command[0].as_str() {
            "refuse" => return Err(CriError::NotFound { message: "no such container".to_owned() }),
            "hang" => {
                tokio::time::sleep(timeout).await;
                return Err(CriError::Deadline { call: "ExecSync", limit: timeout });
            }
            _ => {}
        }
        let seconds = command.get(1).and_then(|seconds| seconds.parse().ok());
        let mut left = Left { of: self, call: Some(format!("left ExecSync {id}")) };
        tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(0))).await;
        left.call = None;
        Ok(ExecOutcome { stderr: b"no".to_vec(), exit_code: i32::from(seconds.is_none()), ..ExecOutcome::default() })
    }
    async fn exec(&self, _: &ContainerId, _: &[String], _: Streams) -> CriResult<String> {
        not_played()
    }
    async fn attach(&self, _: &ContainerId, _: Streams) -> CriResult<String> {
        not_played()
    }
    async fn port_forward(&self, _: &SandboxId, _: &[u16]) -> CriResult<String> {
        not_played()
    }
    async fn container_stats(&self, _: &ContainerId) -> CriResult<ContainerStats> {
        not_played()
    }
    async fn list_container_stats(&self, _: &StatsFilter) -> CriResult<Vec<ContainerStats>> {
        not_played()
    }
    async fn pod_sandbox_stats(&self, _: &SandboxId) -> CriResult<PodSandboxStats> {
        not_played()
    }
    async fn list_pod_sandbox_stats(&self, _: &StatsFilter) -> CriResult<Vec<PodSandboxStats>> {
        self.note("ListPodSandboxStats".to_owned());
        let stats = self.state.lock().expect("not poisoned").stats.clone();
        stats.unwrap_or_else(not_played)
    }
    async fn list_metric_descriptors(&self) -> CriResult<Vec<MetricDescriptor>> {
        not_played()
    }
    async fn list_pod_sandbox_metrics(&self) -> CriResult<Vec<PodSandboxMetrics>> {
        not_played()
    }
    async fn container_events(&self) -> CriResult<ContainerEvents> {
        match self.state.lock().expect("not poisoned").has_events {
            true => Ok(Box::pin(futures_util::stream::pending())),
            false => not_played(),
        }
    }
}
