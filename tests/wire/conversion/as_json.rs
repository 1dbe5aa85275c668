//! Requests as they came through the socket, as JSON: what is not set, or is the protocol's zero, is left out; enums are
//! always there, by name. A message that is there and empty is `{}`.

use podwright::cri::wire;
use serde_json::{Map, Value, json};

/// A message under construction.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    /// A field that is left out when it is the protocol's zero.
    fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let is_zero = match &value {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_i64() == Some(0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        };
        if !is_zero {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// A field that is left out only when it is absent.
    fn message(mut self, name: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

fn list<T>(items: &[T], show: impl Fn(&T) -> Value) -> Vec<Value> {
    items.iter().map(show).collect()
}

/// The whole request for a sandbox.
pub fn run_sandbox(request: &wire::RunPodSandboxRequest) -> Value {
    Fields::default()
        .field("runtime_handler", request.runtime_handler.as_str())
        .message("config", request.config.as_ref().map(sandbox))
        .done()
}

/// The whole request for a container, the sandbox's configuration apart.
pub fn create_container(request: &wire::CreateContainerRequest) -> Value {
    request.config.as_ref().map(container).unwrap_or_default()
}

/// A sandbox's configuration.
pub fn sandbox(config: &wire::PodSandboxConfig) -> Value {
    assert_eq!(config.windows, None);
    let metadata = config.metadata.as_ref().map(|metadata| {
        Fields::default()
            .field("name", metadata.name.as_str())
            .field("uid", metadata.uid.as_str())
            .field("namespace", metadata.namespace.as_str())
            .field("attempt", metadata.attempt)
            .done()
    });
    let dns = config.dns_config.as_ref().map(|dns| {
        Fields::default()
            .field("servers", dns.servers.clone())
            .field("searches", dns.searches.clone())
            .field("options", dns.options.clone())
            .done()
    });
    let port = |port: &wire::PortMapping| {
        Fields::default()
            .field("protocol", port.protocol().as_str_name())
            .field("container_port", port.container_port)
            .field("host_port", port.host_port)
            .field("host_ip", port.host_ip.as_str())
            .done()
    };
    Fields::default()
        .message("metadata", metadata)
        .field("hostname", config.hostname.as_str())
        .field("log_directory", config.log_directory.as_str())
        .message("dns_config", dns)
        .field("port_mappings", list(&config.port_mappings, port))
        .field("labels", json!(config.labels))
        .field("annotations", json!(config.annotations))
        .message("linux", config.linux.as_ref().map(linux_sandbox))
        .done()
}

#[expect(deprecated, reason = "what is deprecated must be empty")]
fn linux_sandbox(linux: &wire::LinuxPodSandboxConfig) -> Value {
    let context = linux.security_context.as_ref().map(|context| {
        assert_eq!(context.seccomp_profile_path, "");
        Fields::default()
            .message("namespace_options", context.namespace_options.as_ref().map(namespaces))
            .message("selinux_options", context.selinux_options.as_ref().map(selinux))
            .message("run_as_user", context.run_as_user.map(|user| user.value.into()))
            .message("run_as_group", context.run_as_group.map(|group| group.value.into()))
            .field("readonly_rootfs", context.readonly_rootfs)
            .field("supplemental_groups", context.supplemental_groups.clone())
            .field("supplemental_groups_policy", context.supplemental_groups_policy().as_str_name())
            .field("privileged", context.privileged)
            .message("seccomp", context.seccomp.as_ref().map(profile))
            .message("apparmor", context.apparmor.as_ref().map(profile))
            .done()
    });
    Fields::default()
        .field("cgroup_parent", linux.cgroup_parent.as_str())
        .message("security_context", context)
        .field("sysctls", json!(linux.sysctls))
        .message("overhead", linux.overhead.as_ref().map(resources))
        .message("resources", linux.resources.as_ref().map(resources))
        .done()
}

fn namespaces(options: &wire::NamespaceOption) -> Value {
    let ids = |mapping: &wire::IdMapping| json!([mapping.container_id, mapping.host_id, mapping.length]);
    let users = options.userns_options.as_ref().map(|users| {
        Fields::default()
            .field("mode", users.mode().as_str_name())
            .field("uids", list(&users.uids, ids))
            .field("gids", list(&users.gids, ids))
            .done()
    });
    Fields::default()
        .field("network", options.network().as_str_name())
        .field("pid", options.pid().as_str_name())
        .field("ipc", options.ipc().as_str_name())
        .field("target_id", options.target_id.as_str())
        .message("userns_options", users)
        .done()
}

fn selinux(options: &wire::SeLinuxOption) -> Value {
    Fields::default()
        .field("user", options.user.as_str())
        .field("role", options.role.as_str())
        .field("type", options.r#type.as_str())
        .field("level", options.level.as_str())
        .done()
}

fn profile(profile: &wire::SecurityProfile) -> Value {
    Fields::default()
        .field("profile_type", profile.profile_type().as_str_name())
        .field("localhost_ref", profile.localhost_ref.as_str())
        .done()
}

fn resources(resources: &wire::LinuxContainerResources) -> Value {
    let pages = |limit: &wire::HugepageLimit| json!([limit.page_size, limit.limit]);
    Fields::default()
        .field("cpu_period", resources.cpu_period)
        .field("cpu_quota", resources.cpu_quota)
        .field("cpu_shares", resources.cpu_shares)
        .field("memory_limit_in_bytes", resources.memory_limit_in_bytes)
        .field("memory_swap_limit_in_bytes", resources.memory_swap_limit_in_bytes)
        .field("oom_score_adj", resources.oom_score_adj)
        .field("cpuset_cpus", resources.cpuset_cpus.as_str())
        .field("cpuset_mems", resources.cpuset_mems.as_str())
        .field("hugepage_limits", list(&resources.hugepage_limits, pages))
        .field("unified", json!(resources.unified))
        .done()
}

fn image(image: &wire::ImageSpec) -> Value {
    Fields::default()
        .field("image", image.image.as_str())
        .field("user_specified_image", image.user_specified_image.as_str())
        .field("runtime_handler", image.runtime_handler.as_str())
        .field("image_ref", image.image_ref.as_str())
        .field("annotations", json!(image.annotations))
        .done()
}

fn container(config: &wire::ContainerConfig) -> Value {
    assert_eq!(config.windows, None);
    let metadata = config.metadata.as_ref().map(|metadata| {
        Fields::default().field("name", metadata.name.as_str()).field("attempt", metadata.attempt).done()
    });
    // Their order says nothing; a name twice would.
    let envs: Map<String, Value> = config
        .envs
        .iter()
        .map(|env| (env.key.clone(), String::from_utf8_lossy(&env.value).into_owned().into()))
        .collect();
    assert_eq!(envs.len(), config.envs.len(), "a variable is told once: {:?}", config.envs);
    let mount = |mount: &wire::Mount| {
        assert!(mount.uid_mappings.is_empty() && mount.gid_mappings.is_empty());
        Fields::default()
            .field("container_path", mount.container_path.as_str())
            .field("host_path", mount.host_path.as_str())
            .field("readonly", mount.readonly)
            .field("recursive_read_only", mount.recursive_read_only)
            .field("selinux_relabel", mount.selinux_relabel)
            .field("propagation", mount.propagation().as_str_name())
            .message("image", mount.image.as_ref().map(image))
            .field("image_sub_path", mount.image_sub_path.as_str())
            .done()
    };
    let device = |device: &wire::Device| json!([device.container_path, device.host_path, device.permissions]);
    Fields::default()
        .message("metadata", metadata)
        .message("image", config.image.as_ref().map(image))
        .field("command", config.command.clone())
        .field("args", config.args.clone())
        .field("working_dir", config.working_dir.as_str())
        .field("envs", Value::Object(envs))
        .field("mounts", list(&config.mounts, mount))
        .field("devices", list(&config.devices, device))
        .field("cdi_devices", list(&config.cdi_devices, |device| json!(device.name)))
        .field("labels", json!(config.labels))
        .field("annotations", json!(config.annotations))
        .field("log_path", config.log_path.as_str())
        .field("stdin", config.stdin)
        .field("stdin_once", config.stdin_once)
        .field("tty", config.tty)
        .field("stop_signal", config.stop_signal)
        .message("linux", config.linux.as_ref().map(linux_container))
        .done()
}

#[expect(deprecated, reason = "what is deprecated must be empty")]
fn linux_container(linux: &wire::LinuxContainerConfig) -> Value {
    let capabilities = |capability: &wire::Capability| {
        Fields::default()
            .field("add_capabilities", capability.add_capabilities.clone())
            .field("drop_capabilities", capability.drop_capabilities.clone())
            .field("add_ambient_capabilities", capability.add_ambient_capabilities.clone())
            .done()
    };
    let context = linux.security_context.as_ref().map(|context| {
        assert_eq!(context.seccomp_profile_path, "");
        Fields::default()
            .field("capabilities", context.capabilities.as_ref().map(capabilities).unwrap_or_default())
            .field("privileged", context.privileged)
            .message("namespace_options", context.namespace_options.as_ref().map(namespaces))
            .message("selinux_options", context.selinux_options.as_ref().map(selinux))
            .message("run_as_user", context.run_as_user.map(|user| user.value.into()))
            .message("run_as_group", context.run_as_group.map(|group| group.value.into()))
            .field("run_as_username", context.run_as_username.as_str())
            .field("readonly_rootfs", context.readonly_rootfs)
            .field("supplemental_groups", context.supplemental_groups.clone())
            .field("supplemental_groups_policy", context.supplemental_groups_policy().as_str_name())
            .field("no_new_privs", context.no_new_privs)
            .field("masked_paths", context.masked_paths.clone())
            .field("readonly_paths", context.readonly_paths.clone())
            .message("seccomp", context.seccomp.as_ref().map(profile))
            .message("apparmor", context.apparmor.as_ref().map(profile))
            .field("apparmor_profile", context.apparmor_profile.as_str())
            .done()
    });
    Fields::default()
        .message("resources", linux.resources.as_ref().map(resources))
        .message("security_context", context)
        .done()
}
