//! The objects of the simulated runtime: sandboxes and containers, with containerd's rules for them. No waiting here.
//!
//! Owned by the node. Survives restarts of the runtime and of the agent, as containers do.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::clock::Date;
use super::pods::behaviour::{Behaviour, Life};
use crate::cri::pod_mapping::labels::POD_UID;
use crate::cri::{
    Container, ContainerConfig, ContainerFilter, ContainerMetadata, ContainerState, ContainerStatus, CriError,
    CriResult, Labels, LinuxContainerResources, LinuxContainerUser, Mount, NamespaceMode, PodSandbox, PodSandboxConfig,
    PodSandboxFilter, PodSandboxMetadata, PodSandboxStatus, SandboxState, UserNamespace,
};
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::model::time::Moment;

/// A sandbox.
#[derive(Debug)]
pub struct SimSandbox {
    /// ID.
    pub id: SandboxId,
    /// The identity of the sandbox.
    pub metadata: PodSandboxMetadata,
    /// State.
    pub state: SandboxState,
    /// Its cgroup's path.
    pub cgroup_parent: String,
    /// Its address; `None` on the node's network or once stopped.
    pub ip: Option<String>,
    /// The name servers that it was given.
    pub name_servers: Vec<String>,
    log_directory: String,
    created_at: Moment,
    network: NamespaceMode,
    /// Its user namespace.
    pub users: Option<UserNamespace>,
    labels: Labels,
    annotations: Labels,
}

/// A container.
#[derive(Debug)]
pub struct SimContainer {
    /// ID.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod's name.
    pub pod: String,
    /// Name and attempt.
    pub metadata: ContainerMetadata,
    /// State.
    pub state: ContainerState,
    /// Its behaviour.
    pub behaviour: Behaviour,
    /// How it ended.
    pub exit_code: i32,
    /// When it was started, by a clock that nobody sets.
    pub began: Moment,
    /// When it ended, by the same.
    pub over: Moment,
    /// Its image, as asked for.
    pub image: String,
    /// Its log; absolute.
    pub log_path: String,
    /// Its resources in force.
    pub resources: LinuxContainerResources,
    /// Bytes of memory that it uses.
    pub memory: u64,
    /// Bytes of it that are swapped out.
    pub swap: u64,
    /// Wakes whoever waits for its end.
    pub ended: Arc<Notify>,
    /// CDI devices that it was made with.
    pub devices: Vec<String>,
    /// The paths of the host's devices that it was made with.
    pub host_devices: Vec<String>,
    /// The runtime lost track of it once.
    pub was_unknown: bool,
    /// The image's name in the pod, by which it is shown.
    image_name: String,
    created_at: Moment,
    started_at: Moment,
    finished_at: Moment,
    /// Why it ended, as the runtime says.
    pub reason: &'static str,
    message: String,
    labels: Labels,
    annotations: Labels,
    /// Mounts.
    pub mounts: Vec<Mount>,
    stop_signal: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Containers {
    /// By ID.
    pub sandboxes: BTreeMap<SandboxId, SimSandbox>,
    /// By ID.
    pub containers: BTreeMap<ContainerId, SimContainer>,
    made: u64,
}

/// The fault in a container's user namespace: runtimes want the sandbox's own, and each mount mapped as it is.
fn foreign_users(home: &SimSandbox, config: &ContainerConfig) -> Option<String> {
    let (sandbox, own) = (&home.users, &config.security_context.namespace_options.userns);
    if sandbox != own {
        return Some(format!(
            "user namespaces config for sandbox is different from container. Sandbox userns config: {sandbox:?} - \
             Container userns config: {own:?}"
        ));
    }
    let UserNamespace { uids, gids, .. } = own.clone().unwrap_or_default();
    let mount = config.mounts.iter().find(|mount| mount.uid_mappings != uids || mount.gid_mappings != gids)?;
    Some(format!("mount {} has other mappings than its container", mount.container_path))
}

fn other(message: String) -> CriError {
    CriError::Other { code: "Unknown", message }
}

fn absent(what: &str, id: &str) -> CriError {
    CriError::NotFound { message: format!("an error occurred when try to find {what} \"{id}\": not found") }
}

/// Whether what carries these labels, of the pod with this UID, is among the selected. Most questions are about one pod,
/// and its UID is compared before labels are searched: a node of a thousand pods is asked about each of them.
fn matches(uid: &str, labels: &Labels, selector: &Labels) -> bool {
    selector.get(POD_UID).is_none_or(|wanted| wanted == uid)
        && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl Containers {
    /// `RunPodSandbox`.
    pub fn run_sandbox(&mut self, config: &PodSandboxConfig, now: Moment) -> CriResult<SandboxId> {
        let metadata = &config.metadata;
        if let Some(holder) = self.sandboxes.values().find(|sandbox| sandbox.metadata == *metadata) {
            let PodSandboxMetadata { name, uid, namespace, attempt } = metadata;
            let reserved = format!("{name}_{namespace}_{uid}_{attempt}");
            let id = &holder.id;
            return Err(other(format!(
                "failed to reserve sandbox name \"{reserved}\": name \"{reserved}\" is reserved for \"{id}\""
            )));
        }
        self.made += 1;
        let id = SandboxId::from(format!("sandbox{:06}", self.made));
        let network = config.linux.security_context.namespace_options.network;
        let host = (self.made / 250, self.made % 250 + 1);
        let ip =
            (network != NamespaceMode::Node).then(|| format!("10.{}.{}.{}", 88 + host.0 / 250, host.0 % 250, host.1));
        let sandbox = SimSandbox {
            id: id.clone(),
            metadata: metadata.clone(),
            state: SandboxState::Ready,
            cgroup_parent: config.linux.cgroup_parent.clone(),
            ip,
            name_servers: config.dns.iter().flat_map(|dns| dns.servers.iter().cloned()).collect(),
            log_directory: config.log_directory.clone(),
            created_at: now,
            network,
            users: config.linux.security_context.namespace_options.userns.clone(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
        };
        self.sandboxes.insert(id.clone(), sandbox);
        Ok(id)
    }

    /// The sandbox that a runtime was making when it was killed, as it is when the runtime is back: one that never worked,
    /// without a time.
    pub fn cut_off_sandbox(&mut self, config: &PodSandboxConfig) -> CriResult<()> {
        let id = self.run_sandbox(config, Moment::EPOCH)?;
        self.stop_sandbox(&id);
        Ok(())
    }

    /// Some running container of a pod.
    pub fn running_of(&self, uid: &PodUid) -> Option<String> {
        let mut running = self.containers.values().filter(|one| one.uid == *uid && one.may_run());
        running.next().map(SimContainer::label)
    }

    /// Some running container with this CDI device.
    pub fn user_of(&self, device: &str) -> Option<String> {
        let mut running = self.containers.values().filter(|one| one.may_run());
        running.find(|one| one.devices.iter().any(|own| own == device)).map(SimContainer::label)
    }

    /// Some running container with this path of the host, or one below it.
    pub fn user_of_path(&self, path: &str) -> Option<String> {
        let mut running = self.containers.values().filter(|one| one.may_run());
        running.find(|one| one.mounts.iter().any(|mount| mount.host_path.starts_with(path))).map(SimContainer::label)
    }

    /// A container that may run and has this device of the host.
    pub fn user_of_host_device(&self, path: &str) -> Option<String> {
        let mut running = self.containers.values().filter(|one| one.may_run());
        running.find(|one| one.host_devices.iter().any(|device| device == path)).map(SimContainer::label)
    }

    /// Whether a container's sandbox works.
    pub fn is_in_ready_sandbox(&self, container: &SimContainer) -> bool {
        self.sandboxes.get(&container.sandbox).is_some_and(|sandbox| sandbox.state == SandboxState::Ready)
    }

    /// Containers that run in a sandbox.
    pub fn running_in(&self, id: &SandboxId) -> Vec<ContainerId> {
        let running = self.containers.values().filter(|container| container.sandbox == *id);
        running.filter(|container| container.may_run()).map(|one| one.id.clone()).collect()
    }

    /// The sandbox is over; its network is given back. Its containers were ended before.
    pub fn stop_sandbox(&mut self, id: &SandboxId) {
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.state = SandboxState::NotReady;
            sandbox.ip = None;
        }
    }

    /// `RemovePodSandbox`, of one that was stopped; gives the containers that went with it.
    pub fn remove_sandbox(&mut self, id: &SandboxId) -> Vec<SimContainer> {
        self.sandboxes.remove(id);
        let inside: Vec<ContainerId> =
            self.containers.values().filter(|one| one.sandbox == *id).map(|one| one.id.clone()).collect();
        inside.iter().filter_map(|id| self.containers.remove(id)).collect()
    }

    /// `PodSandboxStatus`.
    pub fn sandbox_status(&self, id: &SandboxId) -> CriResult<PodSandboxStatus> {
        let sandbox = self.sandboxes.get(id).ok_or_else(|| absent("sandbox", id.as_str()))?;
        Ok(PodSandboxStatus {
            id: sandbox.id.clone(),
            metadata: sandbox.metadata.clone(),
            state: sandbox.state,
            created_at: sandbox.created_at,
            ips: sandbox.ip.iter().cloned().collect(),
            lacks_address: sandbox.network != NamespaceMode::Node && sandbox.ip.is_none(),
            network_mode: sandbox.network,
            labels: sandbox.labels.clone(),
            annotations: sandbox.annotations.clone(),
            runtime_handler: String::new(),
        })
    }

    /// `ListPodSandbox`.
    pub fn list_sandboxes(&self, filter: &PodSandboxFilter) -> Vec<PodSandbox> {
        let wanted = self.sandboxes.values().filter(|sandbox| {
            filter.id.as_ref().is_none_or(|id| *id == sandbox.id)
                && filter.state.is_none_or(|state| state == sandbox.state)
                && matches(&sandbox.metadata.uid, &sandbox.labels, &filter.label_selector)
        });
        wanted
            .map(|sandbox| PodSandbox {
                id: sandbox.id.clone(),
                metadata: sandbox.metadata.clone(),
                state: sandbox.state,
                created_at: sandbox.created_at,
                labels: sandbox.labels.clone(),
                annotations: sandbox.annotations.clone(),
                runtime_handler: String::new(),
            })
            .collect()
    }

    /// `CreateContainer`.
    pub fn create(&mut self, sandbox: &SandboxId, config: &ContainerConfig, now: Moment) -> CriResult<ContainerId> {
        let home = self.sandboxes.get(sandbox).ok_or_else(|| absent("sandbox", sandbox.as_str()))?;
        if home.state != SandboxState::Ready {
            return Err(other(format!("sandbox container \"{sandbox}\" is not running")));
        }
        if let Some(problem) = foreign_users(home, config) {
            return Err(other(problem));
        }
        let uid = PodUid::from(home.metadata.uid.as_str());
        let same = |one: &&SimContainer| one.uid == uid && one.metadata == config.metadata;
        if let Some(holder) = self.containers.values().find(same) {
            let (name, attempt, id) = (&config.metadata.name, config.metadata.attempt, &holder.id);
            let reserved = format!("{name}_{}_{}_{uid}_{attempt}", home.metadata.name, home.metadata.namespace);
            return Err(other(format!(
                "failed to reserve container name \"{reserved}\": name \"{reserved}\" is reserved for \"{id}\""
            )));
        }
        self.made += 1;
        let id = ContainerId::from(format!("container{:06}", self.made));
        let container = SimContainer {
            id: id.clone(),
            sandbox: sandbox.clone(),
            uid,
            pod: home.metadata.name.clone(),
            metadata: config.metadata.clone(),
            state: ContainerState::Created,
            behaviour: Behaviour::parse(&config.args),
            exit_code: 0,
            began: Moment::EPOCH,
            over: Moment::EPOCH,
            started_at: Moment::EPOCH,
            finished_at: Moment::EPOCH,
            image: config.image.image.clone(),
            image_name: config.image.user_specified_image.clone(),
            log_path: format!("{}/{}", home.log_directory, config.log_path),
            resources: config.resources.clone(),
            memory: 1 << 20,
            swap: 0,
            ended: Arc::default(),
            devices: config.cdi_devices.clone(),
            host_devices: config.devices.iter().map(|device| device.host_path.clone()).collect(),
            was_unknown: false,
            created_at: now,
            reason: "",
            message: String::new(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            mounts: config.mounts.clone(),
            stop_signal: config.stop_signal.clone(),
        };
        self.containers.insert(id.clone(), container);
        Ok(id)
    }

    /// `StartContainer`.
    pub fn start(&mut self, id: &ContainerId, now: Date) -> CriResult<()> {
        let container = self.containers.get_mut(id).ok_or_else(|| absent("container", id.as_str()))?;
        if container.state != ContainerState::Created {
            return Err(other(format!(
                "failed to set starting state for container \"{id}\": container is not created"
            )));
        }
        if self.sandboxes.get(&container.sandbox).is_none_or(|sandbox| sandbox.state != SandboxState::Ready) {
            return Err(other(format!("sandbox container \"{}\" is not running", container.sandbox)));
        }
        if container.behaviour.life == Life::CannotStart {
            let message = "failed to create containerd task: exec: \"/nothing\": no such file or directory";
            container.finish(128, "StartError", message, now);
            return Err(other(format!(
                "rpc error: code = Unknown desc = failed to start container \"{id}\": {message}"
            )));
        }
        container.state = ContainerState::Running;
        (container.started_at, container.began) = (now.shown, now.truly);
        Ok(())
    }

    /// `UpdateContainerResources`: what is 0 stays. A limit of memory below its use is refused, as by a kernel.
    pub fn update(&mut self, id: &ContainerId, to: &LinuxContainerResources) -> CriResult<()> {
        let container = self.containers.get_mut(id).ok_or_else(|| absent("container", id.as_str()))?;
        if container.state != ContainerState::Running {
            return Err(other(format!("failed to update resources: container \"{id}\" is not running")));
        }
        let limit = u64::try_from(to.memory_limit_in_bytes).unwrap_or(0);
        if limit > 0 && limit < container.memory {
            return Err(other(format!("failed to write {limit} to memory.max: device or resource busy")));
        }
        let has = &mut container.resources;
        for (has, to) in [
            (&mut has.cpu_shares, to.cpu_shares),
            (&mut has.cpu_quota, to.cpu_quota),
            (&mut has.cpu_period, to.cpu_period),
            (&mut has.memory_limit_in_bytes, to.memory_limit_in_bytes),
        ] {
            *has = if to == 0 { *has } else { to };
        }
        for (has, to) in [(&mut has.cpuset_cpus, &to.cpuset_cpus), (&mut has.cpuset_mems, &to.cpuset_mems)] {
            if !to.is_empty() {
                has.clone_from(to);
            }
        }
        Ok(())
    }

    /// The container's process is over. False when it did not run.
    pub fn end(&mut self, id: &ContainerId, code: i32, reason: &'static str, now: Date) -> bool {
        let Some(container) = self.containers.get_mut(id) else { return false };
        if !container.may_run() {
            return false;
        }
        container.finish(code, reason, "", now);
        true
    }

    /// The runtime loses track of a container that runs.
    pub fn lose_track(&mut self, id: &ContainerId) {
        if let Some(container) = self.containers.get_mut(id).filter(|one| one.state == ContainerState::Running) {
            (container.state, container.was_unknown) = (ContainerState::Unknown, true);
        }
    }

    /// `ListContainers`.
    pub fn list(&self, filter: &ContainerFilter) -> Vec<Container> {
        let wanted = self.containers.values().filter(|container| {
            filter.id.as_ref().is_none_or(|id| *id == container.id)
                && filter.state.is_none_or(|state| state == container.state)
                && filter.sandbox_id.as_ref().is_none_or(|id| *id == container.sandbox)
                && matches(container.uid.as_str(), &container.labels, &filter.label_selector)
        });
        wanted
            .map(|container| Container {
                id: container.id.clone(),
                sandbox_id: container.sandbox.clone(),
                metadata: container.metadata.clone(),
                image: container.image.clone(),
                image_handler: String::new(),
                image_ref: container.image.clone(),
                image_id: container.image.clone(),
                state: container.state,
                created_at: container.created_at,
                labels: container.labels.clone(),
                annotations: container.annotations.clone(),
            })
            .collect()
    }

    /// `ContainerStatus`.
    pub fn status(&self, id: &ContainerId) -> CriResult<ContainerStatus> {
        let container = self.containers.get(id).ok_or_else(|| absent("container", id.as_str()))?;
        Ok(ContainerStatus {
            id: container.id.clone(),
            metadata: container.metadata.clone(),
            state: container.state,
            created_at: container.created_at,
            started_at: container.started_at,
            finished_at: container.finished_at,
            exit_code: container.exit_code,
            image: container.image_name.clone(),
            image_ref: container.image.clone(),
            image_id: container.image.clone(),
            reason: container.reason.to_owned(),
            message: container.message.clone(),
            labels: container.labels.clone(),
            annotations: container.annotations.clone(),
            mounts: container.mounts.clone(),
            log_path: container.log_path.clone(),
            resources: Some(container.resources.clone()),
            user: Some(LinuxContainerUser { supplemental_groups: vec![0], ..LinuxContainerUser::default() }),
            stop_signal: container.stop_signal.clone(),
        })
    }

    /// Instances of a container of a pod, in the order of their making.
    pub fn instances<'a>(&'a self, uid: &'a PodUid, name: &'a str) -> impl Iterator<Item = &'a SimContainer> {
        // IDs count up, so their order is that of creation.
        self.containers.values().filter(move |one| one.uid == *uid && one.metadata.name == name)
    }

    /// The newest instance of a container of a pod.
    pub fn newest(&self, uid: &PodUid, name: &str) -> Option<&SimContainer> {
        self.containers.values().rev().find(|one| one.uid == *uid && one.metadata.name == name)
    }
}

impl SimContainer {
    /// `pod/name#attempt`.
    pub fn label(&self) -> String {
        format!("{}/{}#{}", self.pod, self.metadata.name, self.metadata.attempt)
    }

    /// Whether its process may be there.
    pub fn may_run(&self) -> bool {
        matches!(self.state, ContainerState::Running | ContainerState::Unknown)
    }

    fn finish(&mut self, code: i32, reason: &'static str, message: &str, now: Date) {
        self.state = ContainerState::Exited;
        (self.finished_at, self.over) = (now.shown, now.truly);
        self.exit_code = code;
        self.reason = reason;
        message.clone_into(&mut self.message);
        self.ended.notify_waiters();
    }
}
