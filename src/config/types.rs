//! The configuration as one typed value: KubeletConfiguration v1beta1, defaulted.
//!
//! Owned by nobody: made once at start-up and shared read-only. It keeps what files and flags said, never what the
//! agent derived from them. Field names and meanings are upstream's (`staging/src/k8s.io/kubelet/config/v1beta1/types.go`).
//! `Default` is Go's zero value, not the defaulted configuration: see `decode::legacy_defaults`.

use super::duration::GoDuration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Every setting of KubeletConfiguration v1beta1. Serialised it is complete; as upstream prints it: [`super::Configz`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Config {
    /// false: no HTTPS server at all.
    pub enable_server: bool,
    /// A file or directory of static pod manifests; empty: none.
    pub static_pod_path: String,
    /// Where the runtime writes pod logs: absolute, clean, ASCII.
    pub pod_logs_dir: String,
    /// The longest time between two looks at a running pod.
    pub sync_frequency: GoDuration,
    /// How often `staticPodPath` is read again.
    pub file_check_frequency: GoDuration,
    /// How often `staticPodURL` is asked again.
    pub http_check_frequency: GoDuration,
    /// Where more static pods are fetched from; empty: nowhere.
    #[serde(rename = "staticPodURL")]
    pub static_pod_url: String,
    /// Headers sent to `staticPodURL`; masked in `Debug`, for they carry credentials.
    #[serde(rename = "staticPodURLHeader")]
    pub static_pod_url_header: SecretHeaders,
    /// The address the servers listen on.
    pub address: String,
    /// The HTTPS server's port, 1 to 65535.
    pub port: i32,
    /// The port without authentication; 0: off.
    pub read_only_port: i32,
    /// The serving certificate's file; empty: self-signed or bootstrapped.
    pub tls_cert_file: String,
    /// The serving key's file.
    pub tls_private_key_file: String,
    /// Cipher suites by Go's names; empty: the library's own choice.
    pub tls_cipher_suites: Vec<String>,
    /// Key exchanges by Go's CurveID; empty: the library's own choice.
    pub tls_curve_preferences: Vec<i32>,
    /// `VersionTLS10` to `VersionTLS13`; empty: 1.2.
    pub tls_min_version: String,
    /// Rotate the client certificate.
    pub rotate_certificates: bool,
    /// Request the serving certificate from the API server.
    #[serde(rename = "serverTLSBootstrap")]
    pub server_tls_bootstrap: bool,
    /// The callers that may speak to the server.
    pub authentication: Authentication,
    /// Their rights there.
    pub authorization: Authorization,
    /// Image pulls a second; 0: unlimited.
    #[serde(rename = "registryPullQPS")]
    pub registry_pull_qps: i32,
    /// Image pulls at once, above `registryPullQPS`.
    pub registry_burst: i32,
    /// When an image on disk needs the pod's own credentials.
    pub image_pull_credentials_verification_policy: String,
    /// Images that never need them, under `NeverVerifyAllowlistedImages`.
    pub preloaded_images_verification_allowlist: Vec<String>,
    /// Events a second; 0: unlimited.
    #[serde(rename = "eventRecordQPS")]
    pub event_record_qps: i32,
    /// Events at once, above `eventRecordQPS`.
    pub event_burst: i32,
    /// Serve logs, exec, attach, port-forward and the like.
    pub enable_debugging_handlers: bool,
    /// Profile lock contention.
    pub enable_contention_profiling: bool,
    /// The health server's port; 0: off.
    pub healthz_port: i32,
    /// The health server's address.
    pub healthz_bind_address: String,
    /// The agent's own `oom_score_adj`, -1000 to 1000.
    pub oom_score_adj: i32,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// The cluster's DNS servers.
    #[serde(rename = "clusterDNS")]
    pub cluster_dns: Vec<String>,
    /// How long a stream may idle; 0: for ever.
    pub streaming_connection_idle_timeout: GoDuration,
    /// How often the node's status is computed.
    pub node_status_update_frequency: GoDuration,
    /// How often an unchanged node status is sent.
    pub node_status_report_frequency: GoDuration,
    /// The node lease's duration in seconds.
    pub node_lease_duration_seconds: i32,
    /// The youngest age an unused image is removed at.
    #[serde(rename = "imageMinimumGCAge")]
    pub image_minimum_gc_age: GoDuration,
    /// The age an unused image is removed at in any case; 0: never.
    #[serde(rename = "imageMaximumGCAge")]
    pub image_maximum_gc_age: GoDuration,
    /// Disk use in percent that starts image garbage collection; 100: never.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: i32,
    /// Disk use in percent that image garbage collection aims at.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: i32,
    /// How long volume statistics are reused; negative: none are taken.
    pub volume_stats_agg_period: GoDuration,
    /// The cgroup the agent moves itself to.
    pub kubelet_cgroups: String,
    /// The cgroup for everything else on the host.
    pub system_cgroups: String,
    /// The cgroup below which pods live.
    pub cgroup_root: String,
    /// Build the QoS cgroup tree.
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: bool,
    /// `cgroupfs` or `systemd`; the runtime's own answer wins.
    pub cgroup_driver: String,
    /// `none` or `static`.
    pub cpu_manager_policy: String,
    /// Kill single processes rather than the whole container; `None`: by cgroup version.
    #[serde(rename = "singleProcessOOMKill")]
    pub single_process_oom_kill: Option<bool>,
    /// Options of the CPU manager's policy.
    pub cpu_manager_policy_options: BTreeMap<String, String>,
    /// How often CPU assignments are written again.
    pub cpu_manager_reconcile_period: GoDuration,
    /// `None` or `Static`.
    pub memory_manager_policy: String,
    /// `none`, `best-effort`, `restricted` or `single-numa-node`.
    pub topology_manager_policy: String,
    /// `container` or `pod`.
    pub topology_manager_scope: String,
    /// Options of the topology manager's policy.
    pub topology_manager_policy_options: BTreeMap<String, String>,
    /// Shares reserved for better QoS classes, as `memory: 50%`.
    pub qos_reserved: BTreeMap<String, String>,
    /// The limit of a runtime call, except pull, exec, attach and logs.
    pub runtime_request_timeout: GoDuration,
    /// No effect with CRI runtimes; checked all the same.
    pub hairpin_mode: String,
    /// Pods on the node at most.
    pub max_pods: i32,
    /// Pod addresses, standalone only.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// Processes in a pod; -1: no limit.
    pub pod_pids_limit: i64,
    /// The host's resolver configuration; empty: none.
    pub resolv_conf: String,
    /// No longer supported: true is refused.
    pub run_once: bool,
    /// Enforce CPU limits by CFS quota.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: bool,
    /// The quota's period, 1ms to 1s.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: GoDuration,
    /// Images listed in the node's status; -1: all.
    pub node_status_max_images: i32,
    /// The agent's own limit of open files.
    pub max_open_files: i64,
    /// The content type spoken to the API server.
    pub content_type: String,
    /// Requests a second to the API server.
    #[serde(rename = "kubeAPIQPS")]
    pub kube_api_qps: i32,
    /// Requests at once, above `kubeAPIQPS`.
    #[serde(rename = "kubeAPIBurst")]
    pub kube_api_burst: i32,
    /// One image pull at a time.
    pub serialize_image_pulls: bool,
    /// Image pulls side by side; `None`: no limit of its own.
    pub max_parallel_image_pulls: Option<i32>,
    /// Hard eviction thresholds by signal.
    pub eviction_hard: BTreeMap<String, String>,
    /// Soft eviction thresholds by signal.
    pub eviction_soft: BTreeMap<String, String>,
    /// How long a soft threshold must be crossed, by signal.
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// How long a pressure condition outlives its cause.
    pub eviction_pressure_transition_period: GoDuration,
    /// Grace in seconds for soft evictions at most.
    pub eviction_max_pod_grace_period: i32,
    /// The least amount that an eviction must win back, by signal.
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// Complete a partial `evictionHard` with the defaults.
    pub merge_default_eviction_settings: bool,
    /// Pods for each CPU at most; 0: no such limit.
    pub pods_per_core: i32,
    /// The controller, not the node, attaches volumes.
    pub enable_controller_attach_detach: bool,
    /// A wrong kernel setting is fatal rather than corrected.
    pub protect_kernel_defaults: bool,
    /// Create the hint and canary chains.
    #[serde(rename = "makeIPTablesUtilChains")]
    pub make_iptables_util_chains: bool,
    /// Unused; checked, 0 to 31.
    pub iptables_masquerade_bit: i32,
    /// Unused; checked, 0 to 31.
    pub iptables_drop_bit: i32,
    /// Feature gates set in files and flags; what they add up to is in `FeatureGates`.
    pub feature_gates: BTreeMap<String, bool>,
    /// Refuse to run on a host with swap.
    pub fail_swap_on: bool,
    /// How pods may use swap.
    pub memory_swap: MemorySwap,
    /// A container log's size at rotation, a quantity.
    pub container_log_max_size: String,
    /// Log files kept for a container, more than 1.
    pub container_log_max_files: i32,
    /// Log rotations side by side.
    pub container_log_max_workers: i32,
    /// How often log sizes are looked at, at least 3s.
    pub container_log_monitor_interval: GoDuration,
    /// `Get`, `Cache` or `Watch`.
    pub config_map_and_secret_change_detection_strategy: String,
    /// Resources kept for the host.
    pub system_reserved: BTreeMap<String, String>,
    /// Resources kept for the agent and the runtime.
    pub kube_reserved: BTreeMap<String, String>,
    /// CPUs kept for host and agent, as a list of ranges.
    #[serde(rename = "reservedSystemCPUs")]
    pub reserved_system_cpus: String,
    /// Show metrics hidden since the previous minor release.
    pub show_hidden_metrics_for_version: String,
    /// The cgroup that `systemReserved` is enforced on.
    pub system_reserved_cgroup: String,
    /// The cgroup that `kubeReserved` is enforced on.
    pub kube_reserved_cgroup: String,
    /// The groups that are enforced by cgroup limits.
    pub enforce_node_allocatable: Vec<String>,
    /// Unsafe sysctls that pods may set; a `*` may end a name.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Where flexvolume drivers lie.
    pub volume_plugin_dir: String,
    /// The node's `spec.providerID`.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Only had an effect with cgroup v1.
    pub kernel_memcg_notification: bool,
    /// Format and detail of the log.
    pub logging: Logging,
    /// Serve `/logs/`.
    pub enable_system_log_handler: bool,
    /// Serve queries of system logs.
    pub enable_system_log_query: bool,
    /// The delay of a node shutdown; 0: none.
    pub shutdown_grace_period: GoDuration,
    /// The part of it that belongs to critical pods.
    pub shutdown_grace_period_critical_pods: GoDuration,
    /// The same by pod priority.
    pub shutdown_grace_period_by_pod_priority: Vec<ShutdownGracePeriodByPodPriority>,
    /// Limits of the restart back-off.
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Memory kept for the host on each NUMA node.
    pub reserved_memory: Vec<MemoryReservation>,
    /// Serve `/debug/pprof/`.
    pub enable_profiling_handler: bool,
    /// Serve `/debug/flags/v`.
    pub enable_debug_flags_handler: bool,
    /// `RuntimeDefault` is the seccomp profile of pods that name none.
    pub seccomp_default: bool,
    /// `memory.high` as a share of the limit, under MemoryQoS.
    pub memory_throttling_factor: Option<f64>,
    /// `None` or `TieredReservation`.
    pub memory_reservation_policy: String,
    /// Taints the node registers with.
    pub register_with_taints: Vec<Taint>,
    /// Register the node with the API server.
    pub register_node: bool,
    /// Where spans are exported to.
    pub tracing: Option<Tracing>,
    /// Watch and limit ephemeral storage.
    pub local_storage_capacity_isolation: bool,
    /// The runtime's endpoint.
    pub container_runtime_endpoint: String,
    /// The image service's endpoint; empty: the runtime's.
    pub image_service_endpoint: String,
    /// Refuse to run on cgroup v1.
    pub fail_cgroup_v1: bool,
    /// Sizes of pods' user namespaces.
    pub user_namespaces: Option<UserNamespaces>,
}

/// HTTP headers by name; their values never appear in `Debug`.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHeaders(pub BTreeMap<String, Vec<String>>);

impl fmt::Debug for SecretHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|name| (name, "<masked>"))).finish()
    }
}

/// How callers of the server prove who they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Authentication {
    /// By client certificate.
    pub x509: X509Authentication,
    /// By bearer token.
    pub webhook: WebhookAuthentication,
    /// Not at all.
    pub anonymous: AnonymousAuthentication,
}

/// Client certificates.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct X509Authentication {
    /// The authorities that sign client certificates; empty: none are accepted.
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: String,
}

/// Bearer tokens, by TokenReview.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebhookAuthentication {
    /// Ask the API server about tokens.
    pub enabled: bool,
    /// How long an answer is kept.
    #[serde(rename = "cacheTTL")]
    pub cache_ttl: GoDuration,
}

/// Callers that prove nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnonymousAuthentication {
    /// Let them in as `system:anonymous`.
    pub enabled: bool,
}

/// The rights of the server's callers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Authorization {
    /// `AlwaysAllow` or `Webhook`.
    pub mode: String,
    /// Settings of `Webhook`, by SubjectAccessReview.
    pub webhook: WebhookAuthorization,
}

/// How long answers of the API server are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebhookAuthorization {
    /// For "allowed".
    #[serde(rename = "cacheAuthorizedTTL")]
    pub cache_authorized_ttl: GoDuration,
    /// For "not allowed".
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub cache_unauthorized_ttl: GoDuration,
}

/// Swap for pods.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemorySwap {
    /// Empty or `NoSwap`: none; `LimitedSwap`: in proportion to the memory request.
    pub swap_behavior: String,
}

/// The log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Logging {
    /// `text` or `json`.
    pub format: String,
    /// How often buffers are flushed.
    pub flush_frequency: GoDuration,
    /// Detail, from 0 up.
    pub verbosity: u32,
    /// Detail by source file.
    pub vmodule: Vec<VModuleItem>,
    /// Settings of each format.
    pub options: LoggingOptions,
}

/// The detail of some source files.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VModuleItem {
    /// A file's base name without its ending, or a glob.
    pub file_pattern: String,
    /// Its detail.
    pub verbosity: u32,
}

/// Settings of the log's formats.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoggingOptions {
    /// Of `text`.
    pub text: OutputRouting,
    /// Of `json`.
    pub json: OutputRouting,
}

/// Where messages go.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OutputRouting {
    /// Errors to standard error, the rest to standard output.
    pub split_stream: bool,
    /// Buffered bytes of the latter, a quantity.
    pub info_buffer_size: String,
}

/// The part of a node shutdown that pods from some priority on get.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ShutdownGracePeriodByPodPriority {
    /// The least priority.
    pub priority: i32,
    /// Its time in seconds.
    pub shutdown_grace_period_seconds: i64,
}

/// Limits of the restart back-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CrashLoopBackOff {
    /// The longest wait, 1s to 300s (KEP-4603).
    pub max_container_restart_period: Option<GoDuration>,
}

/// Memory kept for the host on one NUMA node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryReservation {
    /// The NUMA node's number.
    pub numa_node: i32,
    /// Quantities by resource: `memory`, `hugepages-…`.
    pub limits: BTreeMap<String, String>,
}

/// A taint the node registers with.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// Must not be set here.
    pub time_added: Option<String>,
}

/// Where spans go.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Tracing {
    /// The collector; `None`: `localhost:4317`.
    pub endpoint: Option<String>,
    /// Spans out of a million; `None`: as the parent span says.
    pub sampling_rate_per_million: Option<i32>,
}

/// Sizes of pods' user namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UserNamespaces {
    /// IDs of each pod, a multiple of 65536.
    #[serde(rename = "idsPerPod")]
    pub ids_per_pod: Option<i64>,
}

impl Config {
    /// IDs in each pod's user namespace: 65536 unless set.
    pub fn user_namespace_ids_per_pod(&self) -> i64 {
        self.user_namespaces.and_then(|namespaces| namespaces.ids_per_pod).unwrap_or(65_536)
    }

    /// Where images are asked for: the runtime, unless `imageServiceEndpoint` says otherwise.
    pub fn image_endpoint(&self) -> &str {
        if self.image_service_endpoint.is_empty() {
            &self.container_runtime_endpoint
        } else {
            &self.image_service_endpoint
        }
    }
}
