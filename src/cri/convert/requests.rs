//! Requests of the agent to the runtime, as wire messages. Total: all that our types can say, the wire can.

use super::signals::signal_number;
use crate::cri::types as own;
use crate::cri::wire;

impl From<&own::PodSandboxConfig> for wire::PodSandboxConfig {
    fn from(config: &own::PodSandboxConfig) -> Self {
        Self {
            metadata: Some((&config.metadata).into()),
            hostname: config.hostname.clone(),
            log_directory: config.log_directory.clone(),
            dns_config: config.dns.as_ref().map(Into::into),
            port_mappings: config.port_mappings.iter().map(Into::into).collect(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            linux: Some((&config.linux).into()),
            windows: None,
        }
    }
}

impl From<&own::PodSandboxMetadata> for wire::PodSandboxMetadata {
    fn from(metadata: &own::PodSandboxMetadata) -> Self {
        Self {
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            namespace: metadata.namespace.clone(),
            attempt: metadata.attempt,
        }
    }
}

impl From<&own::DnsConfig> for wire::DnsConfig {
    fn from(dns: &own::DnsConfig) -> Self {
        Self { servers: dns.servers.clone(), searches: dns.searches.clone(), options: dns.options.clone() }
    }
}

impl From<&own::PortMapping> for wire::PortMapping {
    fn from(port: &own::PortMapping) -> Self {
        let protocol = match port.protocol {
            own::Protocol::Tcp => wire::Protocol::Tcp,
            own::Protocol::Udp => wire::Protocol::Udp,
            own::Protocol::Sctp => wire::Protocol::Sctp,
        };
        Self {
            protocol: protocol.into(),
            container_port: port.container_port,
            host_port: port.host_port,
            host_ip: port.host_ip.clone(),
        }
    }
}

impl From<&own::LinuxPodSandboxConfig> for wire::LinuxPodSandboxConfig {
    fn from(linux: &own::LinuxPodSandboxConfig) -> Self {
        Self {
            cgroup_parent: linux.cgroup_parent.clone(),
            security_context: Some((&linux.security_context).into()),
            sysctls: linux.sysctls.clone(),
            overhead: Some((&linux.overhead).into()),
            resources: Some((&linux.resources).into()),
        }
    }
}

impl From<&own::LinuxSandboxSecurityContext> for wire::LinuxSandboxSecurityContext {
    #[expect(deprecated, reason = "the old seccomp field is named so that a new field cannot be forgotten")]
    fn from(context: &own::LinuxSandboxSecurityContext) -> Self {
        Self {
            namespace_options: Some((&context.namespace_options).into()),
            selinux_options: context.selinux_options.as_ref().map(Into::into),
            run_as_user: context.run_as_user.map(int64),
            run_as_group: context.run_as_group.map(int64),
            readonly_rootfs: context.readonly_rootfs,
            supplemental_groups: context.supplemental_groups.clone(),
            supplemental_groups_policy: groups_policy(context.supplemental_groups_policy),
            privileged: context.privileged,
            seccomp: context.seccomp.as_ref().map(Into::into),
            apparmor: context.apparmor.as_ref().map(Into::into),
            seccomp_profile_path: String::new(),
        }
    }
}

fn int64(value: i64) -> wire::Int64Value {
    wire::Int64Value { value }
}

fn groups_policy(policy: own::SupplementalGroupsPolicy) -> i32 {
    match policy {
        own::SupplementalGroupsPolicy::Merge => wire::SupplementalGroupsPolicy::Merge.into(),
        own::SupplementalGroupsPolicy::Strict => wire::SupplementalGroupsPolicy::Strict.into(),
    }
}

fn namespace_mode(mode: own::NamespaceMode) -> i32 {
    let mode = match mode {
        own::NamespaceMode::Pod => wire::NamespaceMode::Pod,
        own::NamespaceMode::Container => wire::NamespaceMode::Container,
        own::NamespaceMode::Node => wire::NamespaceMode::Node,
        own::NamespaceMode::Target => wire::NamespaceMode::Target,
    };
    mode.into()
}

impl From<&own::NamespaceOptions> for wire::NamespaceOption {
    fn from(options: &own::NamespaceOptions) -> Self {
        Self {
            network: namespace_mode(options.network),
            pid: namespace_mode(options.pid),
            ipc: namespace_mode(options.ipc),
            target_id: options.target_id.clone(),
            userns_options: options.userns.as_ref().map(|userns| wire::UserNamespace {
                mode: namespace_mode(userns.mode),
                uids: id_mappings(&userns.uids),
                gids: id_mappings(&userns.gids),
            }),
        }
    }
}

fn id_mappings(mappings: &[own::IdMapping]) -> Vec<wire::IdMapping> {
    let one = |mapping: &own::IdMapping| wire::IdMapping {
        host_id: mapping.host_id,
        container_id: mapping.container_id,
        length: mapping.length,
    };
    mappings.iter().map(one).collect()
}

impl From<&own::SecurityProfile> for wire::SecurityProfile {
    fn from(profile: &own::SecurityProfile) -> Self {
        use wire::security_profile::ProfileType;
        let (kind, localhost_ref) = match profile {
            own::SecurityProfile::RuntimeDefault => (ProfileType::RuntimeDefault, String::new()),
            own::SecurityProfile::Unconfined => (ProfileType::Unconfined, String::new()),
            own::SecurityProfile::Localhost(name) => (ProfileType::Localhost, name.clone()),
        };
        Self { profile_type: kind.into(), localhost_ref }
    }
}

impl From<&own::SeLinuxOption> for wire::SeLinuxOption {
    fn from(option: &own::SeLinuxOption) -> Self {
        Self {
            user: option.user.clone(),
            role: option.role.clone(),
            r#type: option.kind.clone(),
            level: option.level.clone(),
        }
    }
}

impl From<&own::LinuxContainerResources> for wire::LinuxContainerResources {
    fn from(resources: &own::LinuxContainerResources) -> Self {
        let hugepage = |(size, limit): &(String, u64)| wire::HugepageLimit { page_size: size.clone(), limit: *limit };
        Self {
            cpu_period: resources.cpu_period,
            cpu_quota: resources.cpu_quota,
            cpu_shares: resources.cpu_shares,
            memory_limit_in_bytes: resources.memory_limit_in_bytes,
            oom_score_adj: resources.oom_score_adj,
            cpuset_cpus: resources.cpuset_cpus.clone(),
            cpuset_mems: resources.cpuset_mems.clone(),
            hugepage_limits: resources.hugepage_limits.iter().map(hugepage).collect(),
            unified: resources.unified.clone(),
            memory_swap_limit_in_bytes: resources.memory_swap_limit_in_bytes,
        }
    }
}

impl From<&own::ContainerConfig> for wire::ContainerConfig {
    fn from(config: &own::ContainerConfig) -> Self {
        let variable = |(key, value): &(String, Vec<u8>)| wire::KeyValue { key: key.clone(), value: value.clone() };
        Self {
            metadata: Some(wire::ContainerMetadata {
                name: config.metadata.name.clone(),
                attempt: config.metadata.attempt,
            }),
            image: Some((&config.image).into()),
            command: config.command.clone(),
            args: config.args.clone(),
            working_dir: config.working_dir.clone(),
            envs: config.envs.iter().map(variable).collect(),
            mounts: config.mounts.iter().map(Into::into).collect(),
            devices: config.devices.iter().map(Into::into).collect(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            log_path: config.log_path.clone(),
            stdin: config.stdin,
            stdin_once: config.stdin_once,
            tty: config.tty,
            linux: Some(wire::LinuxContainerConfig {
                resources: Some((&config.resources).into()),
                security_context: Some((&config.security_context).into()),
            }),
            windows: None,
            cdi_devices: config.cdi_devices.iter().map(|name| wire::CdiDevice { name: name.clone() }).collect(),
            stop_signal: signal_number(config.stop_signal.as_deref()),
        }
    }
}

impl From<&own::ImageSpec> for wire::ImageSpec {
    fn from(image: &own::ImageSpec) -> Self {
        Self {
            image: image.image.clone(),
            annotations: image.annotations.clone(),
            user_specified_image: image.user_specified_image.clone(),
            runtime_handler: image.runtime_handler.clone(),
            image_ref: image.image_ref.clone(),
        }
    }
}

impl From<&own::Mount> for wire::Mount {
    fn from(mount: &own::Mount) -> Self {
        let propagation = match mount.propagation {
            own::MountPropagation::Private => wire::MountPropagation::PropagationPrivate,
            own::MountPropagation::HostToContainer => wire::MountPropagation::PropagationHostToContainer,
            own::MountPropagation::Bidirectional => wire::MountPropagation::PropagationBidirectional,
        };
        Self {
            container_path: mount.container_path.clone(),
            host_path: mount.host_path.clone(),
            readonly: mount.readonly,
            selinux_relabel: mount.selinux_relabel,
            propagation: propagation.into(),
            uid_mappings: id_mappings(&mount.uid_mappings),
            gid_mappings: id_mappings(&mount.gid_mappings),
            recursive_read_only: mount.recursive_read_only,
            image: mount.image.as_ref().map(Into::into),
            image_sub_path: mount.image_sub_path.clone(),
        }
    }
}

impl From<&own::Device> for wire::Device {
    fn from(device: &own::Device) -> Self {
        Self {
            container_path: device.container_path.clone(),
            host_path: device.host_path.clone(),
            permissions: device.permissions.clone(),
        }
    }
}

/// Nothing where nothing is asked for, as upstream.
fn capabilities(context: &own::LinuxContainerSecurityContext) -> Option<wire::Capability> {
    let asked = wire::Capability {
        add_capabilities: context.add_capabilities.clone(),
        drop_capabilities: context.drop_capabilities.clone(),
        add_ambient_capabilities: context.add_ambient_capabilities.clone(),
    };
    (asked != wire::Capability::default()).then_some(asked)
}

impl From<&own::LinuxContainerSecurityContext> for wire::LinuxContainerSecurityContext {
    #[expect(deprecated, reason = "the old profile fields are named so that a new field cannot be forgotten")]
    fn from(context: &own::LinuxContainerSecurityContext) -> Self {
        Self {
            capabilities: capabilities(context),
            privileged: context.privileged,
            namespace_options: Some((&context.namespace_options).into()),
            selinux_options: context.selinux_options.as_ref().map(Into::into),
            run_as_user: context.run_as_user.map(int64),
            run_as_group: context.run_as_group.map(int64),
            run_as_username: context.run_as_username.clone(),
            readonly_rootfs: context.readonly_rootfs,
            supplemental_groups: context.supplemental_groups.clone(),
            supplemental_groups_policy: groups_policy(context.supplemental_groups_policy),
            no_new_privs: context.no_new_privs,
            masked_paths: context.masked_paths.clone(),
            readonly_paths: context.readonly_paths.clone(),
            seccomp: context.seccomp.as_ref().map(Into::into),
            apparmor: context.apparmor.as_ref().map(Into::into),
            apparmor_profile: context.apparmor.as_ref().map(old_profile_name).unwrap_or_default(),
            seccomp_profile_path: String::new(),
        }
    }
}

/// A profile as the deprecated field has it, which old runtimes read; upstream fills both.
fn old_profile_name(profile: &own::SecurityProfile) -> String {
    match profile {
        own::SecurityProfile::RuntimeDefault => "runtime/default".to_owned(),
        own::SecurityProfile::Unconfined => "unconfined".to_owned(),
        own::SecurityProfile::Localhost(name) => format!("localhost/{name}"),
    }
}

impl From<&own::PodSandboxFilter> for wire::PodSandboxFilter {
    fn from(filter: &own::PodSandboxFilter) -> Self {
        let state = |state: own::SandboxState| match state {
            own::SandboxState::Ready => wire::PodSandboxState::SandboxReady,
            own::SandboxState::NotReady => wire::PodSandboxState::SandboxNotready,
        };
        Self {
            id: filter.id.as_ref().map(ToString::to_string).unwrap_or_default(),
            state: filter.state.map(|wanted| wire::PodSandboxStateValue { state: state(wanted).into() }),
            label_selector: filter.label_selector.clone(),
        }
    }
}

impl From<&own::ContainerFilter> for wire::ContainerFilter {
    fn from(filter: &own::ContainerFilter) -> Self {
        let state = |state: own::ContainerState| match state {
            own::ContainerState::Created => wire::ContainerState::ContainerCreated,
            own::ContainerState::Running => wire::ContainerState::ContainerRunning,
            own::ContainerState::Exited => wire::ContainerState::ContainerExited,
            own::ContainerState::Unknown => wire::ContainerState::ContainerUnknown,
        };
        Self {
            id: filter.id.as_ref().map(ToString::to_string).unwrap_or_default(),
            state: filter.state.map(|wanted| wire::ContainerStateValue { state: state(wanted).into() }),
            pod_sandbox_id: filter.sandbox_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            label_selector: filter.label_selector.clone(),
        }
    }
}

impl From<&own::AuthConfig> for wire::AuthConfig {
    fn from(auth: &own::AuthConfig) -> Self {
        Self {
            username: auth.username.clone(),
            password: auth.password.clone(),
            auth: auth.auth.clone(),
            server_address: auth.server_address.clone(),
            identity_token: auth.identity_token.clone(),
            registry_token: auth.registry_token.clone(),
        }
    }
}
