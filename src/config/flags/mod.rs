//! The command line: which flags there are, what they mean, and how they override the configuration.
//!
//! Pure. pflag's habits matter to every unit file and installer out there, so the parser is our own and works on a table;
//! see `table` (the flags), `values` (their syntax), `parse` (the command line) and `help` (the usage text). `shown` is what
//! `/flagz` tells, `suggest` what a mistyped word was meant to be, and `dump` the log at the start.

pub mod dump;
pub mod help;
pub mod parse;
pub mod shown;
pub mod suggest;
pub mod table;
pub mod values;

use super::decode;
use super::duration::GoDuration;
use super::types::Config;
use super::validate::aggregate;
use crate::logic::images::exempt::{ExemptImages, PatternError};
use parse::Parsed;
use serde_json::Value;
use std::collections::BTreeMap;
use table::{FLAGS, Target};

/// Where the agent listens for its subcommands, and where these ask, unless `--socket` says otherwise.
pub const LOCAL_SOCKET: &str = "/run/podwright/podwright.sock";
/// Where device plugins look for the agent, whatever the root directory: the path is part of their protocol.
pub const DEVICE_PLUGIN_DIR: &str = "/var/lib/kubelet/device-plugins";

/// The flags that are not part of KubeletConfiguration: about this node alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flags {
    /// `--config`: the configuration file; empty: none.
    pub config: String,
    /// `--config-dir`: the drop-ins' directory; empty: none.
    pub config_dir: String,
    /// `--kubeconfig`: how to reach the API server; empty: standalone.
    pub kubeconfig: String,
    /// `--bootstrap-kubeconfig`: how to get the first client certificate; empty: not at all.
    pub bootstrap_kubeconfig: String,
    /// `--cert-dir`: where certificates are kept.
    pub cert_dir: String,
    /// `--root-dir`: where the agent keeps its files.
    pub root_dir: String,
    /// `--socket`, ours: where the subcommands reach the agent.
    pub socket: String,
    /// `--device-plugin-dir`, ours: where device plugins register.
    pub device_plugin_dir: String,
    /// `--device-plugin-wait`, ours: how long a pod waits for a device plugin that is late.
    pub device_plugin_wait: GoDuration,
    /// `--hostname-override`: the node's name; empty: the host's.
    pub hostname_override: String,
    /// `--node-ip`: an address, or two between commas; empty: found out.
    pub node_ip: String,
    /// `--node-labels`: labels to register with.
    pub node_labels: BTreeMap<String, String>,
    /// `--cloud-provider`: empty or `external`.
    pub cloud_provider: String,
    /// `--runtime-cgroups`: the container runtime's cgroup.
    pub runtime_cgroups: String,
    /// `--image-credential-provider-config`: file or directory.
    pub image_credential_provider_config: String,
    /// `--image-credential-provider-bin-dir`: the plugins' directory.
    pub image_credential_provider_bin_dir: String,
    /// `--lock-file`: a file that only one agent may hold; empty: none.
    pub lock_file: String,
    /// `--exit-on-lock-contention`: leave when another agent wants it.
    pub exit_on_lock_contention: bool,
    /// `--seccomp-default`: as the field `seccompDefault`; either is enough.
    pub seccomp_default: bool,
    /// `--minimum-container-ttl-duration`: the least age of a dead container.
    pub minimum_container_ttl: GoDuration,
    /// `--maximum-dead-containers-per-container`: dead containers kept for each container.
    pub maximum_dead_containers_per_container: i32,
    /// `--maximum-dead-containers`: dead containers kept on the node; negative: no limit.
    pub maximum_dead_containers: i32,
    /// `--experimental-allocatable-ignore-eviction`: node allocatable leaves out hard eviction thresholds.
    pub allocatable_ignores_eviction: bool,
    /// `--refuse-insecure-defaults`, ours: do not start on what holds without `--config`.
    pub refuse_insecure_defaults: bool,
    /// `offline-store`: what pods of the API server need is kept on the disk, for a boot without it. Not in upstream.
    pub offline_store: bool,
    /// `--local-objects`, ours: the folder of ConfigMaps and Secrets for static pods; empty: none.
    pub local_objects: String,
    /// `--eviction-by-available-memory`, ours: `memory.available` is the kernel's `MemAvailable`.
    pub eviction_by_available_memory: bool,
    /// `--follow-machine-size`, ours: CPUs and memory that come and go while the agent runs count.
    pub follow_machine_size: bool,
    /// `--repair-state-files`, ours: a state file that does not fit is set aside, and ends no start.
    pub repair_state_files: bool,
    /// `--cpu-burst-max-percent`, ours: how much of its CPU quota a container may save up by the annotation.
    pub cpu_burst_max_percent: i32,
    /// `--image-gc-exempt`, ours: patterns of images that garbage collection leaves alone.
    pub image_gc_exempt: Vec<String>,
    /// `--stream-origins`, ours: the only `Origin`s that may open streams; empty for any.
    pub stream_origins: Vec<String>,
    /// `--stream-get-needs-create`, ours: a stream by `GET` needs the right to create, too.
    pub stream_get_needs_create: bool,
    /// `--checkpoints-max`, ours: the most archives of checkpoints; 0 for no limit.
    pub checkpoints_max: i32,
    /// `--version`: `true`, `raw`, or the version to report; empty: not asked.
    pub version: String,
    /// `--help`
    pub help: bool,
}

impl Flags {
    /// The flags of a command line, with defaults for those not given.
    pub fn from_parsed(parsed: &Parsed) -> Self {
        let value = |name: &str| lookup(parsed, name);
        let text = |name: &str| value(name).as_str().unwrap_or_default().to_owned();
        let flag = |name: &str| value(name).as_bool().unwrap_or_default();
        let duration = |name: &str| GoDuration::parse(&text(name)).unwrap_or_default();
        let number =
            |name: &str| value(name).as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default();
        Self {
            config: text("config"),
            config_dir: text("config-dir"),
            kubeconfig: text("kubeconfig"),
            bootstrap_kubeconfig: text("bootstrap-kubeconfig"),
            cert_dir: text("cert-dir"),
            root_dir: text("root-dir"),
            socket: text("socket"),
            device_plugin_dir: text("device-plugin-dir"),
            device_plugin_wait: duration("device-plugin-wait"),
            hostname_override: text("hostname-override"),
            node_ip: text("node-ip"),
            node_labels: serde_json::from_value(value("node-labels")).unwrap_or_default(),
            cloud_provider: text("cloud-provider"),
            runtime_cgroups: text("runtime-cgroups"),
            image_credential_provider_config: text("image-credential-provider-config"),
            image_credential_provider_bin_dir: text("image-credential-provider-bin-dir"),
            lock_file: text("lock-file"),
            exit_on_lock_contention: flag("exit-on-lock-contention"),
            seccomp_default: flag("seccomp-default"),
            minimum_container_ttl: duration("minimum-container-ttl-duration"),
            maximum_dead_containers_per_container: number("maximum-dead-containers-per-container"),
            maximum_dead_containers: number("maximum-dead-containers"),
            allocatable_ignores_eviction: flag("experimental-allocatable-ignore-eviction"),
            refuse_insecure_defaults: flag("refuse-insecure-defaults"),
            offline_store: flag("offline-store"),
            local_objects: text("local-objects"),
            eviction_by_available_memory: flag("eviction-by-available-memory"),
            follow_machine_size: flag("follow-machine-size"),
            repair_state_files: flag("repair-state-files"),
            cpu_burst_max_percent: number("cpu-burst-max-percent"),
            image_gc_exempt: serde_json::from_value(value("image-gc-exempt")).unwrap_or_default(),
            stream_origins: serde_json::from_value(value("stream-origins")).unwrap_or_default(),
            stream_get_needs_create: flag("stream-get-needs-create"),
            checkpoints_max: number("checkpoints-max"),
            version: text("version"),
            help: flag("help"),
        }
    }
}

/// The images that garbage collection leaves alone.
///
/// # Errors
/// Of all patterns that are none, as one text.
pub fn exempt_images(flags: &Flags) -> Result<ExemptImages, String> {
    let texts = |errors: Vec<PatternError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    ExemptImages::new(&flags.image_gc_exempt).map_err(|errors| aggregate(&texts(errors)))
}

/// A flag's value, or its default.
fn lookup(parsed: &Parsed, name: &str) -> Value {
    if let Some(value) = parsed.values.get(name) {
        return value.clone();
    }
    let flag = table::find(name).expect("invariant: only flags of the table are asked for");
    match flag.target {
        Target::Own("") | Target::Configuration(_) => Value::Null,
        Target::Own(default) => {
            values::read(flag.syntax, None, default).expect("invariant: defaults of the table can be read")
        }
    }
}

/// Lays the flags of a command line over a configuration. Feature gates of both count, a flag's over a file's.
pub fn apply(config: &Config, parsed: &Parsed) -> Config {
    let mut document = Value::Object(decode::to_json(config));
    for flag in FLAGS {
        let (Target::Configuration(pointer), Some(value)) = (flag.target, parsed.values.get(flag.name)) else {
            continue;
        };
        let field = document.pointer_mut(pointer).expect("invariant: pointers of the table name fields");
        match (flag.name, field, value) {
            ("feature-gates", Value::Object(gates), Value::Object(more)) => gates.extend(more.clone()),
            // As upstream: its reader appends to what the file says.
            ("vmodule", Value::Array(items), Value::Array(more)) => items.extend(more.iter().cloned()),
            (_, field, value) => *field = value.clone(),
        }
    }
    match document {
        Value::Object(fields) => decode::from_json(fields),
        _ => unreachable!("invariant: a configuration is an object"),
    }
}
