//! The runtime service: containerd's manners over what [`crate::sim::containers`] holds.

pub mod events;
pub mod images;
pub mod lists;
pub mod probes;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;

use super::Node;
use super::outlet::{Call, Outlet};
use super::runtime::probes::{answer, slowness};
use crate::actors::kit::trace::lock;
use crate::cri::{
    CgroupDriver, Container, ContainerConfig, ContainerEventKind, ContainerEvents, ContainerFilter, ContainerState,
    ContainerStats, ContainerStatus, CriError, CriResult, ExecOutcome, Labels, LinuxContainerResources, MemoryUsage,
    MetricDescriptor, PodSandbox, PodSandboxConfig, PodSandboxFilter, PodSandboxMetrics, PodSandboxStats,
    PodSandboxStatus, REOPEN_LIMIT, RuntimeCondition, RuntimeHandler, RuntimeService, RuntimeStatus, RuntimeVersion,
    SandboxState, StatsFilter, Streams,
};
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::sim::faults::Fault;
use crate::sim::invariants::VOLUMES_OUTLIVE;
use crate::sim::node::plugins::Plugins;

/// The memory of a sandbox's own process.
const SANDBOX_BYTES: u64 = 1 << 20;
/// Added to a stop's grace period for its deadline (CRI-02).
const STOP_MARGIN: Duration = Duration::from_secs(120);

fn unimplemented<T>(method: &str) -> CriResult<T> {
    Err(CriError::Unimplemented { message: format!("method {method} not implemented") })
}

fn conditions(told: &BTreeMap<&'static str, String>) -> Vec<RuntimeCondition> {
    let all = ["RuntimeReady", "NetworkReady"].into_iter();
    all.map(|kind| match told.get(kind) {
        None => RuntimeCondition { kind: kind.to_owned(), status: true, ..RuntimeCondition::default() },
        Some(message) => RuntimeCondition {
            kind: kind.to_owned(),
            status: false,
            reason: format!("{}NotReady", kind.trim_end_matches("Ready")),
            message: message.clone(),
        },
    })
    .collect()
}

fn run_sandbox(node: &Node, config: &PodSandboxConfig) -> CriResult<SandboxId> {
    if let Some(why) = lock(&node.conditions).get("NetworkReady") {
        let message = format!("failed to setup network for sandbox: {why}");
        return Err(CriError::Other { code: "Unknown", message });
    }
    if node.faults.strikes(Fault::Networks, 0.15) {
        if node.faults.dice().chance(0.5) {
            cut_off_sandbox(node, config);
        }
        let text = "failed to setup network for sandbox: plugin type=\"bridge\" failed (add): no addresses are left";
        node.story.tell("fault", format!("sandbox of {} gets no network", config.metadata.name));
        return Err(CriError::Other { code: "Unknown", message: text.to_owned() });
    }
    node.may_step_clock(0.05);
    let id = lock(&node.containers).run_sandbox(config, node.time.now())?;
    node.sandbox_began(&id);
    if node.faults.strikes(Fault::Sandboxes, 0.15) {
        let (delay, id) = (node.faults.dice().between(Duration::ZERO, Duration::from_secs(20)), id.clone());
        node.later(delay, move |node| {
            if node.faults.has(Fault::Sandboxes) {
                node.lose_sandbox(&id, "dies by itself");
            }
        });
    }
    Ok(id)
}

/// The sandbox's containers are killed, but its network stays, and so it does itself.
fn keep_network(node: &Node, id: &SandboxId) -> CriResult<()> {
    let running = lock(&node.containers).running_in(id);
    running.iter().for_each(|container| node.end_container(container, 137, "killed with its sandbox"));
    node.story.tell("fault", format!("the network of {id} stays"));
    let text = "failed to destroy network for sandbox: plugin type=\"bridge\" failed (delete): device is busy";
    Err(CriError::Other { code: "Unknown", message: text.to_owned() })
}

/// The runtime was killed while it made a sandbox. Nothing happens where it was ready before.
fn cut_off_sandbox(node: &Node, config: &PodSandboxConfig) {
    if lock(&node.containers).cut_off_sandbox(config).is_ok() {
        node.story.tell("runtime", format!("sandbox {}#{} was cut off", config.metadata.name, config.metadata.attempt));
    }
}

pub(in crate::sim) fn remove_sandbox(node: &Node, id: &SandboxId) {
    node.stop_sandbox(id, "is stopped for its removal");
    let known =
        lock(&node.containers).sandboxes.get(id).map(|one| (one.metadata.uid.clone(), one.metadata.name.clone()));
    let Some((uid, name)) = known else { return };
    let inside = lock(&node.containers).remove_sandbox(id);
    for container in &inside {
        node.container_went(container);
    }
    node.changed();
    node.story.tell("runtime", format!("sandbox of {name} is removed"));
    node.tell_event(id.as_str(), ContainerEventKind::Deleted, &PodUid::from(uid));
}

fn create(node: &Node, sandbox: &SandboxId, config: &ContainerConfig) -> CriResult<ContainerId> {
    let image = &config.image.image;
    let is_there = lock(&node.images).present.iter().any(|(name, one)| name == image || one.id == *image);
    if !is_there {
        node.story.tell("runtime", format!("{} is not made: its image {image} is gone", config.metadata.name));
        return Err(CriError::NotFound {
            message: format!("failed to get image from containerd \"{image}\": not found"),
        });
    }
    node.invariants.container_wanted(sandbox, &config.metadata.name);
    node.may_step_clock(0.1);
    let made = lock(&node.containers).create(sandbox, config, node.time.now());
    let id = match made {
        Ok(id) => id,
        Err(error) => {
            node.story.tell("runtime", format!("{} is not made: {error}", config.metadata.name));
            return Err(error);
        }
    };
    node.changed();
    let uid = {
        let containers = lock(&node.containers);
        let container = &containers.containers[&id];
        node.story.tell("runtime", format!("{} is made", container.label()));
        node.invariants.container_made(&containers, container);
        container.uid.clone()
    };
    node.tell_event(id.as_str(), ContainerEventKind::Created, &uid);
    Ok(id)
}

fn start(node: &Node, id: &ContainerId) -> CriResult<()> {
    let started = lock(&node.containers).start(id, node.time.date());
    node.changed();
    match started {
        Ok(()) => node.container_began(id),
        Err(ref error) => {
            node.story.tell("runtime", format!("{id} does not start: {error}"));
            let containers = lock(&node.containers);
            let ended = containers.containers.get(id).filter(|one| one.state == ContainerState::Exited);
            ended.into_iter().for_each(|one| node.invariants.container_ended(one));
        }
    }
    started
}

fn update(node: &Node, id: &ContainerId, to: &LinuxContainerResources) -> CriResult<()> {
    let updated = lock(&node.containers).update(id, to);
    node.changed();
    let label = lock(&node.containers).containers.get(id).map(crate::sim::containers::SimContainer::label);
    let what = match &updated {
        Ok(()) => format!("gets shares {}, quota {}, memory {}", to.cpu_shares, to.cpu_quota, to.memory_limit_in_bytes),
        Err(error) => format!("is not updated: {error}"),
    };
    node.story.tell("runtime", format!("{} {what}", label.unwrap_or_else(|| id.to_string())));
    updated
}

fn remove(node: &Node, id: &ContainerId) {
    node.end_container(id, 137, "killed for its removal");
    let gone = lock(&node.containers).containers.remove(id);
    if let Some(container) = gone {
        node.container_went(&container);
    }
}

impl Outlet {
    /// Signals, waits for the grace period, kills. A caller that leaves takes the kill with it, as in containerd.
    async fn stop(&self, id: &ContainerId, grace: Duration) -> CriResult<()> {
        let (call, about) = (Call { limit: Some(grace + STOP_MARGIN), ..Call::changing("StopContainer") }, id.clone());
        let epoch = self.node().runtime_epoch.load(Ordering::Relaxed);
        // The order counts, also where its call hangs.
        let uid = lock(&self.node().containers).containers.get(id).map(|one| one.uid.clone());
        uid.iter().for_each(|uid| self.node().invariants.relief_asked(uid));
        let asked = self.call(call, move |node| {
            let containers = lock(&node.containers);
            let Some(container) = containers.containers.get(&about) else { return Ok(None) };
            if !container.may_run() {
                return Ok(None);
            }
            let is_known = container.state == ContainerState::Running;
            if node.faults.runtime_was_well() && is_known && containers.is_in_ready_sandbox(container) {
                node.invariants.kept_stopped(&containers, container);
            }
            if !node.is_late() {
                // A stop whose caller left may come after the pod is wanted again.
                node.invariants.stop_asked(container, grace);
            }
            let (stops_in, code) = (container.behaviour.stops_in, container.behaviour.stop_code);
            let ended = container.ended.clone();
            node.story.tell("runtime", format!("{} is asked to stop within {}s", container.label(), grace.as_secs()));
            if let Some(delay) = stops_in {
                node.later(delay, move |node| node.end_container(&about, code, "stops as asked"));
            }
            Ok(Some(ended))
        });
        let Some(ended) = asked.await? else { return Ok(()) };
        let is_over = |node: &Node| {
            let containers = lock(&node.containers);
            containers.containers.get(id).is_none_or(|container| !container.may_run())
        };
        let signal = ended.notified();
        if !is_over(self.node()) && tokio::time::timeout(grace, signal).await.is_err() {
            self.wait(epoch, Duration::from_millis(1)).await?;
            self.node().end_container(id, 137, "is killed");
        }
        self.wait(epoch, Duration::from_millis(1)).await
    }
}

/// The caller leaves before a call about this container has ended: a runtime kills a command then, and gives up a start.
struct LeftCall<'a> {
    outlet: &'a Outlet,
    /// Where that is noted.
    noted: &'a Mutex<Vec<ContainerId>>,
    id: Option<&'a ContainerId>,
}

impl Drop for LeftCall<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.filter(|_| self.outlet.is_alive()) {
            lock(self.noted).push(id.clone());
        }
    }
}

impl Outlet {
    /// Runs a command of [`super::runtime::probes`]'s words in a container, until it ends, its time is over or the container ends.
    async fn run_command(&self, id: &ContainerId, command: String, timeout: Duration) -> CriResult<ExecOutcome> {
        let (about, word) = (id.clone(), command.split(' ').next().unwrap_or_default().to_owned());
        let begun = self.ask("ExecSync", move |node| {
            let containers = lock(&node.containers);
            let status = containers.status(&about)?;
            let container = &containers.containers[&about];
            if status.state != ContainerState::Running {
                return Err(CriError::Other { code: "Unknown", message: format!("container {about} is not running") });
            }
            node.story.tell("runtime", format!("{} runs {command}", container.label()));
            Ok((container.ended.clone(), answer(&word, node.time.truly().since(container.began)), slowness(&word)))
        });
        let (ended, well, takes) = begun.await?;
        let limit = if timeout.is_zero() { Duration::MAX } else { timeout };
        let in_time = takes.min(limit);
        let mut left = LeftCall { outlet: self, noted: &self.node().commands_left, id: Some(id) };
        let container_ended = tokio::time::timeout(in_time, ended.notified()).await.is_ok() && !in_time.is_zero();
        left.id = None;
        if container_ended {
            return Err(CriError::Other { code: "Unknown", message: format!("container {id} ended") });
        }
        if takes > limit {
            return Err(CriError::Deadline { call: "ExecSync", limit: timeout });
        }
        Ok(ExecOutcome { exit_code: i32::from(!well), ..ExecOutcome::default() })
    }
}

#[async_trait]
impl RuntimeService for Outlet {
    async fn version(&self) -> CriResult<RuntimeVersion> {
        let version = RuntimeVersion {
            runtime_name: "containerd".to_owned(),
            runtime_version: "2.1.0".to_owned(),
            runtime_api_version: "v1".to_owned(),
        };
        self.ask("Version", move |_| Ok(version)).await
    }

    async fn status(&self) -> CriResult<RuntimeStatus> {
        self.ask("Status", |node| {
            let able = RuntimeHandler { user_namespaces: true, ..RuntimeHandler::default() };
            let conditions = conditions(&lock(&node.conditions));
            Ok(RuntimeStatus { conditions, handlers: vec![able], ..RuntimeStatus::default() })
        })
        .await
    }

    async fn runtime_config(&self) -> CriResult<Option<CgroupDriver>> {
        self.ask("RuntimeConfig", |_| Ok(Some(CgroupDriver::Cgroupfs))).await
    }

    async fn update_runtime_config(&self, _: &str) -> CriResult<()> {
        self.ask("UpdateRuntimeConfig", |_| Ok(())).await
    }

    async fn run_pod_sandbox(&self, config: &PodSandboxConfig, _: &str) -> CriResult<SandboxId> {
        let work = self.node().faults.dice().between(Duration::from_millis(50), Duration::from_millis(400));
        let call = Call { work, limit: Some(Duration::from_secs(240)), ..Call::changing("RunPodSandbox") };
        let (epoch, made) = (self.node().runtime_epoch.load(Ordering::Relaxed), config.clone());
        let outcome = self.call(call, move |node| run_sandbox(node, &made)).await;
        let was_cut_off = outcome.is_err() && self.node().runtime_epoch.load(Ordering::Relaxed) != epoch;
        if was_cut_off && self.node().faults.dice().chance(0.5) {
            cut_off_sandbox(self.node(), config);
        }
        outcome
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> CriResult<()> {
        let id = id.clone();
        self.call(Call::changing("StopPodSandbox"), move |node| {
            let uid = lock(&node.containers).sandboxes.get(&id).map(|one| PodUid::from(one.metadata.uid.as_str()));
            uid.iter().for_each(|uid| node.invariants.relief_asked(uid));
            if uid.is_some() && node.faults.strikes(Fault::Networks, 0.15) {
                return keep_network(node, &id);
            }
            node.stop_sandbox(&id, "is stopped");
            Ok(())
        })
        .await
    }

    async fn remove_pod_sandbox(&self, id: &SandboxId) -> CriResult<()> {
        self.removal_call("RemovePodSandbox", id.as_str()).await?;
        let id = id.clone();
        self.call(Call::changing("RemovePodSandbox"), move |node| {
            remove_sandbox(node, &id);
            Ok(())
        })
        .await
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> CriResult<PodSandboxStatus> {
        let id = id.clone();
        self.ask("PodSandboxStatus", move |node| lock(&node.containers).sandbox_status(&id)).await
    }

    async fn list_pod_sandboxes(&self, filter: &PodSandboxFilter) -> CriResult<Vec<PodSandbox>> {
        let filter = filter.clone();
        self.ask("ListPodSandbox", move |node| Ok(super::runtime::lists::sandboxes(node, &filter))).await
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        _: &PodSandboxConfig,
    ) -> CriResult<ContainerId> {
        let (sandbox, config) = (sandbox.clone(), config.clone());
        let node = self.node();
        for missing in lock(&node.disk).missing_volumes(&config.mounts).iter().filter(|_| self.is_alive()) {
            node.invariants.broken(VOLUMES_OUTLIVE, format!("{} is made without {missing}", config.metadata.name));
        }
        for missing in node.plugins.unpublished(&config.mounts).iter().filter(|_| self.is_alive()) {
            node.invariants.broken(VOLUMES_OUTLIVE, format!("{} is made without {missing}", config.metadata.name));
        }
        for missing in Plugins::unmapped(&lock(&node.disk), &config.devices).iter().filter(|_| self.is_alive()) {
            node.invariants.broken(VOLUMES_OUTLIVE, format!("{} is made without {missing}", config.metadata.name));
        }
        self.call(Call::changing("CreateContainer"), move |node| create(node, &sandbox, &config)).await
    }

    async fn start_container(&self, id: &ContainerId) -> CriResult<()> {
        let mut left = LeftCall { outlet: self, noted: &self.node().starts_left, id: Some(id) };
        let id = id.clone();
        let work = self.node().faults.dice().between(Duration::from_millis(10), Duration::from_millis(100));
        let outcome = self.call(Call { work, ..Call::changing("StartContainer") }, move |node| start(node, &id)).await;
        left.id = None;
        outcome
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> CriResult<()> {
        self.stop(id, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> CriResult<()> {
        self.removal_call("RemoveContainer", id.as_str()).await?;
        let id = id.clone();
        self.call(Call::changing("RemoveContainer"), move |node| {
            remove(node, &id);
            Ok(())
        })
        .await
    }

    async fn list_containers(&self, filter: &ContainerFilter) -> CriResult<Vec<Container>> {
        let filter = filter.clone();
        self.ask("ListContainers", move |node| Ok(super::runtime::lists::containers(node, &filter))).await
    }

    async fn container_status(&self, id: &ContainerId) -> CriResult<ContainerStatus> {
        let id = id.clone();
        let pod = lock(&self.node().containers).containers.get(&id).map(|one| one.pod.clone());
        self.wait_if_stuck("ContainerStatus", pod).await?;
        self.ask("ContainerStatus", move |node| lock(&node.containers).status(&id)).await
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxContainerResources,
        _: &Labels,
    ) -> CriResult<()> {
        let (id, to) = (id.clone(), resources.clone());
        let call = Call::changing("UpdateContainerResources");
        self.call(call, move |node| update(node, &id, &to)).await
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        _: &LinuxContainerResources,
        _: &LinuxContainerResources,
    ) -> CriResult<()> {
        let id = id.clone();
        let call = Call::changing("UpdatePodSandboxResources");
        self.call(call, move |node| lock(&node.containers).sandbox_status(&id).map(drop)).await
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> CriResult<()> {
        let id = id.clone();
        let reopen = move |node: &Node| {
            let path = lock(&node.containers).status(&id)?.log_path;
            lock(&node.disk).reopen_log(&path, node.time.truly());
            Ok(())
        };
        self.call(Call { limit: Some(REOPEN_LIMIT), ..Call::changing("ReopenContainerLog") }, reopen).await
    }

    async fn checkpoint_container(&self, _: &ContainerId, _: &str, _: Duration) -> CriResult<()> {
        unimplemented("CheckpointContainer")
    }

    async fn exec_sync(&self, id: &ContainerId, command: &[String], timeout: Duration) -> CriResult<ExecOutcome> {
        self.run_command(id, command.join(" "), timeout).await
    }

    async fn exec(&self, id: &ContainerId, _: &[String], _: Streams) -> CriResult<String> {
        let id = id.clone();
        self.ask("Exec", move |node| lock(&node.containers).status(&id).map(|_| "http://127.0.0.1:1/exec".to_owned()))
            .await
    }

    async fn attach(&self, id: &ContainerId, _: Streams) -> CriResult<String> {
        let id = id.clone();
        self.ask("Attach", move |node| {
            lock(&node.containers).status(&id).map(|_| "http://127.0.0.1:1/attach".to_owned())
        })
        .await
    }

    async fn port_forward(&self, id: &SandboxId, _: &[u16]) -> CriResult<String> {
        let id = id.clone();
        let url = "http://127.0.0.1:1/portforward".to_owned();
        self.ask("PortForward", move |node| lock(&node.containers).sandbox_status(&id).map(|_| url)).await
    }

    async fn container_stats(&self, id: &ContainerId) -> CriResult<ContainerStats> {
        let id = id.clone();
        self.ask("ContainerStats", move |node| {
            let containers = lock(&node.containers);
            let status = containers.status(&id)?;
            let memory = MemoryUsage { usage_bytes: Some(containers.containers[&id].memory), ..MemoryUsage::default() };
            let (id, metadata) = (id.to_string(), status.metadata);
            Ok(ContainerStats { id, metadata, memory: Some(memory), ..ContainerStats::default() })
        })
        .await
    }

    async fn list_container_stats(&self, _: &StatsFilter) -> CriResult<Vec<ContainerStats>> {
        self.ask("ListContainerStats", |_| Ok(vec![])).await
    }

    async fn pod_sandbox_stats(&self, id: &SandboxId) -> CriResult<PodSandboxStats> {
        let id = id.clone();
        self.ask("PodSandboxStats", move |node| {
            let containers = lock(&node.containers);
            let status = containers.sandbox_status(&id)?;
            let inside = containers.containers.values().filter(|one| one.sandbox == id);
            let running = inside.filter(|one| one.state == ContainerState::Running);
            let usage_bytes = Some(SANDBOX_BYTES + running.map(|one| one.memory).sum::<u64>());
            let memory = Some(MemoryUsage { usage_bytes, ..MemoryUsage::default() });
            Ok(PodSandboxStats { id: id.to_string(), metadata: status.metadata, memory, ..PodSandboxStats::default() })
        })
        .await
    }

    async fn list_pod_sandbox_stats(&self, _: &StatsFilter) -> CriResult<Vec<PodSandboxStats>> {
        self.ask("ListPodSandboxStats", |_| Ok(vec![])).await
    }

    async fn list_metric_descriptors(&self) -> CriResult<Vec<MetricDescriptor>> {
        self.ask("ListMetricDescriptors", |_| Ok(vec![])).await
    }

    async fn list_pod_sandbox_metrics(&self) -> CriResult<Vec<PodSandboxMetrics>> {
        self.ask("ListPodSandboxMetrics", |_| Ok(vec![])).await
    }

    async fn container_events(&self) -> CriResult<ContainerEvents> {
        self.ask("GetContainerEvents", |node| Ok(node.events.listen())).await
    }
}

/// The runtime goes away, and comes back after `away`. Containers go on.
pub fn restart(node: &Node, away: Duration) {
    node.story.tell("fault", format!("the runtime is away for {away:?}"));
    node.runtime_epoch.fetch_add(1, Ordering::Relaxed);
    node.runtime_up.store(false, Ordering::Relaxed);
    node.events.break_off("transport is closing");
    let epoch = node.runtime_epoch.load(Ordering::Relaxed);
    node.later(away, move |node| {
        if node.runtime_epoch.load(Ordering::Relaxed) == epoch {
            node.runtime_up.store(true, Ordering::Relaxed);
            node.story.tell("runtime", "is back");
        }
    });
}

/// The machine is reset: every sandbox and container is dead.
pub fn reset(node: &Node) {
    for id in sandboxes(node, |state| state == SandboxState::Ready) {
        node.lose_sandbox(&id, "is gone with the machine");
    }
}

/// The runtime is away for `away`, and comes back without its state: it killed what it knew of, and knows of nothing.
pub fn lose_all(node: &Node, away: Duration) {
    node.story.tell("fault", "the runtime loses its state");
    restart(node, away);
    for id in sandboxes(node, |_| true) {
        node.lose_sandbox(&id, "is gone with the runtime's state");
        remove_sandbox(node, &id);
    }
    node.invariants.instances_forgotten();
}

fn sandboxes(node: &Node, which: impl Fn(SandboxState) -> bool) -> Vec<SandboxId> {
    let containers = lock(&node.containers);
    containers.sandboxes.values().filter(|one| which(one.state)).map(|one| one.id.clone()).collect()
}
