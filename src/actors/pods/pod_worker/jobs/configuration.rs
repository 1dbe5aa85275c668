//! A pod worker's configurations of sandboxes and containers: what the mapping needs to know is gathered here.
//!
//! Part of the jobs; decides nothing.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::site::{JobSite, find};
use super::starting::{Given, target};
use crate::actors::kit::trace::Cause;
use crate::cri::pod_mapping::{
    ContainerFacts, DeviceFacts, ImageUser, MappingError, SandboxFacts, container_config, needs_hosts_file,
    sandbox_config,
};
use crate::cri::{ContainerConfig, Device, LinuxContainerResources, Mount, PodSandboxConfig, UserNamespace};
use crate::logic::environment::field_path::Addresses;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::runtime_pod::RuntimeSandbox;
use crate::logic::network::dns::{DnsWarning, NodeDns, Resolver};
use crate::logic::network::hostname::PodHostname;
use crate::logic::network::hosts_file::{host_network_hosts_file, pod_network_hosts_file};
use crate::logic::pods::container_actions::StartContainer;
use crate::logic::pods::hooks::stop_signal;
use crate::logic::resources::device_manager::devices::{DeviceGrant, DeviceMount, DeviceNode};
use crate::logic::resources::{
    LinuxResources, container_hugepage_limits, container_resources, cpu_burst_notice, overhead_resources, pod_qos,
    sandbox_resources,
};
use crate::messages::event_recorder::EventSubject;
use crate::platform::cluster::objects::{ObjectError, patiently};
use crate::platform::files::FileError;
use crate::platform::pods::pod_files::{ContainerFiles, MadeContainerFiles};

impl JobSite {
    /// The runtime's handler for the pod's runtime class; empty without one (CRI-37).
    pub(super) async fn runtime_handler(&self, pod: &Pod) -> Result<String, String> {
        let class = pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.as_deref()).unwrap_or_default();
        if class.is_empty() {
            return Ok(String::new());
        }
        let found = patiently("runtimeclass", class, self.tools.adapters.objects.runtime_class(class)).await;
        found.map(|class| class.handler.clone()).map_err(|error| match error {
            ObjectError::NotFound(text) => text,
            other => format!("failed to lookup RuntimeClass {class}: {other}"),
        })
    }

    /// The handler that the pod's images are for; empty where all handlers have the same images.
    pub(super) async fn image_handler(&self, pod: &Pod) -> Result<String, String> {
        match self.tools.settings.containers.image_handlers {
            true => self.runtime_handler(pod).await,
            false => Ok(String::new()),
        }
    }

    /// The configuration of a sandbox that is to be made, by what the node's resolver configuration says now. Its warnings
    /// become Events, those about the node too.
    pub(super) async fn new_sandbox(&self, pod: &Pod, attempt: u32, cause: &Cause) -> Result<PodSandboxConfig, String> {
        let dns = self.dns().await?;
        self.sandbox_dns.set(dns.clone());
        let no_quota = self.pinning(pod, None, cause).await?.no_quota;
        let user_namespace = self.user_namespace(pod, cause).await?;
        let made = self.sandbox_config(pod, attempt, dns, no_quota, user_namespace);
        let (config, warnings) = made.map_err(|error| error.to_string())?;
        let node = EventSubject::node(&self.tools.settings.node.name);
        for DnsWarning { reason, pod_message, node_message } in warnings {
            if let Some(message) = node_message {
                self.tell(cause, node.warning(reason.clone(), message));
            }
            self.tell(cause, self.subject(String::new()).warning(reason, pod_message));
        }
        if let Some(notice) = cpu_burst_notice(pod, self.tools.settings.resources.options.cpu_burst) {
            let event = self.subject(String::new()).warning(EventReason::CPUBurstLimited, notice.to_string());
            self.tell(cause, event);
        }
        Ok(config)
    }

    /// That of a sandbox that is there, or on its way, to go with its images and containers. After a restart of the agent
    /// the node's resolver configuration may not be what it was; runtimes do not look at a sandbox's again, so one that
    /// cannot be read keeps none of them from starting. `users` is the pod's user namespace.
    pub(super) async fn made_sandbox(
        &self,
        pod: &Pod,
        attempt: u32,
        users: Option<UserNamespace>,
        cause: &Cause,
    ) -> Result<PodSandboxConfig, String> {
        let dns = match self.sandbox_dns.get() {
            Some(dns) => dns,
            None => {
                let settings = &self.tools.settings.node.dns;
                self.dns().await.unwrap_or_else(|_| settings.with_host(Some(Resolver::default())))
            }
        };
        let no_quota = self.pinning(pod, None, cause).await?.no_quota;
        let made = self.sandbox_config(pod, attempt, dns, no_quota, users);
        made.map(|(config, _)| config).map_err(|error| error.to_string())
    }

    /// The node's facts about names, its resolver configuration read anew (CRI-06).
    async fn dns(&self) -> Result<NodeDns, String> {
        let settings = &self.tools.settings.node.dns;
        let Some(path) = &settings.resolv_conf else { return Ok(settings.with_host(None)) };
        let text = self.tools.adapters.files.node_resolv_conf(path).await.map_err(|error| error.to_string())?;
        let resolver = Resolver::parse(&text).map_err(|error| error.to_string())?;
        Ok(settings.with_host(Some(resolver)))
    }

    fn sandbox_config(
        &self,
        pod: &Pod,
        attempt: u32,
        dns: NodeDns,
        no_quota: bool,
        user_namespace: Option<UserNamespace>,
    ) -> Result<(PodSandboxConfig, Vec<DnsWarning>), MappingError> {
        let settings = &self.tools.settings;
        let qos = pod_qos(pod, settings.resources.options.pod_level_resources);
        let driver = self.tools.adapters.cgroups.driver();
        let cgroup_parent = settings.resources.cgroup_tree.cgroup_parent(&self.uid, qos, driver).unwrap_or_default();
        let facts = SandboxFacts {
            attempt,
            pod_logs: settings.node.pod_logs_dir.clone(),
            cgroup_parent,
            dns,
            resources: sandbox_resources(pod, no_quota, &settings.resources.options).into(),
            overhead: overhead_resources(pod, &settings.resources.options).into(),
            user_namespace,
            ..SandboxFacts::default()
        };
        sandbox_config(pod, &facts)
    }

    /// The configuration of a container, its log directory, hosts file and termination log made. `users` is its pod's user
    /// namespace.
    pub(super) async fn container_config(
        &self,
        pod: &Pod,
        start: &StartContainer,
        sandbox: &RuntimeSandbox,
        given: &Given,
        users: Option<UserNamespace>,
        cause: &Cause,
    ) -> Result<ContainerConfig, String> {
        let Given { image, volumes, .. } = given;
        let settings = &self.tools.settings;
        let (container, _) = find(pod, &start.name);
        let container = container.as_ref();
        let target = target(pod, start, given.runtime.as_deref())?;
        let own = |ip: std::net::IpAddr| ip.to_string();
        let pod_ips = if sandbox.host_network { self.host.reported().map(own).collect() } else { sandbox.ips.clone() };
        let pinning = self.pinning(pod, Some(&start.name), cause).await?.of(&start.name);
        if let Some(resource) = pinning.lacks {
            return Err(self.lacks_devices(&resource, cause));
        }
        self.announce(pinning.devices.announced, cause).await?;
        let resources = LinuxContainerResources {
            cpuset_cpus: pinning.cpus,
            cpuset_mems: pinning.mems,
            ..self.resources(pod, container, pinning.no_quota).into()
        };
        let prefer_ipv6 = settings.node.prefer_ipv6;
        let addresses = Addresses { pod_ips: pod_ips.clone(), host: self.host.clone(), prefer_ipv6 };
        // Side by side: each waits for another thread or actor, and the pod's start for both of them.
        let (files, environment) = futures_util::join!(
            self.make_files(pod, container, start.restart_count, sandbox.host_network, &pod_ips),
            self.environment_sources(pod, container, addresses, volumes),
        );
        let MadeContainerFiles { restart_count, termination_log, etc_hosts } = files?;
        let volume_mounts = self.volume_mounts(pod, container, &environment, given).await?;
        let mut devices = device_facts(pinning.devices.grant, Self::volume_devices(pod, container, given)?);
        devices.cdi_devices.extend(self.claimed_devices(pod, container, cause).await?);
        let facts = ContainerFacts {
            devices,
            restart_count,
            image_ref: image.reference.clone(),
            image_user: ImageUser::new(image.user_uid, &image.username),
            environment,
            volume_mounts,
            volume_groups: volumes.volumes.values().filter_map(|volume| volume.group).collect(),
            resources,
            etc_hosts_path: etc_hosts,
            termination_log_path: termination_log.and_then(|made| self.without_fail(made)),
            selinux_enabled: settings.containers.selinux,
            seccomp_default: settings.containers.seccomp_default,
            seccomp_root: settings.containers.seccomp_root.clone(),
            thermal_throttle_paths: settings.containers.thermal_throttle_paths.clone(),
            user_namespace: users,
            target,
        };
        let config = container_config(pod, container, &facts).map_err(|error| error.to_string())?;
        Ok(ContainerConfig { stop_signal: stop_signal(container, settings.containers.stop_signals), ..config })
    }

    /// The runtime's own share of the pod.
    pub(super) fn overhead(&self, pod: &Pod) -> LinuxContainerResources {
        overhead_resources(pod, &self.tools.settings.resources.options).into()
    }

    /// A container's amounts, for the kernel; `no_quota`: its CPUs are its own (RES-31).
    pub(super) fn resources(&self, pod: &Pod, container: &Container, no_quota: bool) -> LinuxResources {
        let settings = &self.tools.settings;
        let options = &self.options();
        LinuxResources {
            hugepage_limits: container_hugepage_limits(pod, container, &settings.resources.hugepage_sizes, options),
            ..container_resources(pod, container, &self.node_memory(), no_quota, options)
        }
    }

    /// Makes the files that the container needs before it is created.
    async fn make_files(
        &self,
        pod: &Pod,
        container: &Container,
        restart_count: u32,
        host_network: bool,
        pod_ips: &[String],
    ) -> Result<MadeContainerFiles, String> {
        let etc_hosts = if needs_hosts_file(pod, container, pod_ips) {
            Some(self.hosts_file(pod, host_network, pod_ips).await?)
        } else {
            None
        };
        let wanted = ContainerFiles {
            container: container.name.clone(),
            restart_count,
            termination_log: container.termination_message_path.as_deref().is_some_and(|path| !path.is_empty()),
            etc_hosts,
        };
        let made = self.tools.adapters.files.make_container_files(&self.place(), wanted).await;
        made.map_err(|error| error.to_string())
    }

    /// Without it the container only cannot leave a message; that is no reason not to start it.
    fn without_fail(&self, termination_log: Result<String, FileError>) -> Option<String> {
        termination_log.inspect_err(|error| tracing::warn!(pod = %self.full_name, %error, "no termination log")).ok()
    }

    /// The content of the pod's hosts file.
    async fn hosts_file(&self, pod: &Pod, host_network: bool, pod_ips: &[String]) -> Result<Vec<u8>, String> {
        let spec = pod.spec.as_ref().ok_or("the pod has no spec")?;
        let aliases = spec.host_aliases.as_deref().unwrap_or_default();
        if host_network {
            let node = self.tools.adapters.files.node_hosts().await.map_err(|error| error.to_string())?;
            return Ok(host_network_hosts_file(&node, aliases));
        }
        let (name, namespace) = (&self.full_name.name, &self.full_name.namespace);
        let naming = self.tools.settings.node.dns.naming();
        let host = PodHostname::of(name, namespace, spec, naming).map_err(|error| error.to_string())?;
        Ok(pod_network_hosts_file(pod_ips, &host.hostname, &host.domain, aliases).into_bytes())
    }
}

/// The parts of a container that plugins of its devices and block volumes bring (RES-41).
fn device_facts(grant: DeviceGrant, block_volumes: Vec<Device>) -> DeviceFacts {
    let device = |node: DeviceNode| Device {
        container_path: node.container_path,
        host_path: node.host_path,
        permissions: node.permissions,
    };
    let mount = |mount: DeviceMount| Mount {
        container_path: mount.container_path,
        host_path: mount.host_path,
        readonly: mount.read_only,
        ..Mount::default()
    };
    DeviceFacts {
        devices: grant.devices.into_iter().map(device).chain(block_volumes).collect(),
        cdi_devices: grant.cdi_devices,
        mounts: grant.mounts.into_iter().map(mount).collect(),
        variables: grant.envs.into_iter().collect(),
        annotations: grant.annotations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RES-41: a container has all that its plugin gives, and its block volumes beside that.
    #[test]
    fn a_container_has_what_its_plugins_give() {
        let text = |text: &str| text.to_owned();
        let node = |path: &str| DeviceNode {
            container_path: format!("/dev/{path}"),
            host_path: format!("/host/{path}"),
            permissions: text("rw"),
        };
        let grant = DeviceGrant {
            envs: [(text("GPU"), text("g0"))].into(),
            mounts: vec![DeviceMount { container_path: text("/lib"), host_path: text("/opt"), read_only: true }],
            devices: vec![node("gpu")],
            annotations: [(text("a"), text("b"))].into(),
            cdi_devices: vec![text("vendor.com/gpu=g0")],
        };
        let volume =
            Device { container_path: text("/dev/disk"), host_path: text("/dev/loop1"), permissions: text("rwm") };
        let facts = device_facts(grant, vec![volume]);
        let paths: Vec<_> =
            facts.devices.iter().map(|one| (one.container_path.as_str(), one.host_path.as_str())).collect();
        assert_eq!(paths, [("/dev/gpu", "/host/gpu"), ("/dev/disk", "/dev/loop1")]);
        assert_eq!(facts.cdi_devices, ["vendor.com/gpu=g0"]);
        assert_eq!((facts.mounts[0].host_path.as_str(), facts.mounts[0].readonly), ("/opt", true));
        assert_eq!(facts.variables, [(text("GPU"), text("g0"))]);
        assert_eq!(facts.annotations, [(text("a"), text("b"))].into());
    }
}
