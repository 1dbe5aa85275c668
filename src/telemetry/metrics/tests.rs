//! Tests of what `/metrics` says as a whole: names, types, labels and levels against upstream's list, what is there
//! before anything happened, and what dashboards ask for.

mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::cri::instrumented::CallObserver;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::node::shutdown::times::ShutdownTimes;
use crate::logic::status::pod_status::EndedContainer;
use crate::platform::observer::{LabelNews, Observation, Observer, Review};
use crate::server::tests::Node;
use crate::telemetry::{Metrics, PodResourcesCall, Port};

/// Upstream's names: type, name, labels beside `le`. `always` ones are there before anything happened.
const CATALOGUE: &str = "
always gauge     kubelet_active_pods static
always gauge     kubelet_desired_pods static
always gauge     kubelet_working_pods config,lifecycle,static
       counter   kubelet_restarted_pods_total static
always gauge     kubelet_mirror_pods
always counter   kubelet_orphaned_runtime_pods_total
always gauge     kubelet_managed_ephemeral_containers
always gauge     kubelet_running_pods
always counter   kubelet_pod_watch_events_dropped_total
       counter   kubelet_pod_resources_endpoint_requests_total server_api_version
       counter   kubelet_pod_resources_endpoint_requests_list server_api_version
       counter   kubelet_pod_resources_endpoint_requests_get server_api_version
       counter   kubelet_pod_resources_endpoint_requests_get_allocatable server_api_version
       counter   kubelet_pod_resources_endpoint_errors_list server_api_version
       counter   kubelet_pod_resources_endpoint_errors_get server_api_version
       counter   kubelet_pod_resources_endpoint_errors_get_allocatable server_api_version
always counter   kubelet_cpu_manager_pinning_requests_total
always counter   kubelet_cpu_manager_pinning_errors_total
always gauge     kubelet_cpu_manager_shared_pool_size_millicores
always gauge     kubelet_cpu_manager_exclusive_cpu_allocation_count
always counter   kubelet_memory_manager_pinning_requests_total
always counter   kubelet_memory_manager_pinning_errors_total
always counter   kubelet_topology_manager_admission_requests_total
always counter   kubelet_topology_manager_admission_errors_total
always histogram kubelet_topology_manager_admission_duration_ms
always gauge     dra_resource_claims_in_use driver_name
       histogram dra_operations_duration_seconds is_error,operation_name
       histogram dra_grpc_operations_duration_seconds driver_name,grpc_status_code,method_name
always gauge     kubelet_pod_in_progress_resizes
always gauge     kubelet_running_containers container_state
always histogram kubelet_containers_per_pod_count
always histogram kubelet_pod_start_duration_seconds
       histogram kubelet_pod_start_sli_duration_seconds
       histogram kubelet_pod_start_total_duration_seconds
       histogram kubelet_pod_worker_duration_seconds operation_type
always histogram kubelet_pod_worker_start_duration_seconds
always histogram kubelet_pod_status_sync_duration_seconds
       counter   kubelet_admission_rejections_total reason
always counter   kubelet_started_pods_total
always counter   kubelet_started_pods_errors_total
always counter   kubelet_started_user_namespaced_pods_total
always counter   kubelet_started_user_namespaced_pods_errors_total
       counter   kubelet_started_containers_total container_type
       counter   kubelet_started_containers_errors_total code,container_type
       counter   kubelet_terminated_containers_total container_type,exit_code,reason
always counter   kubelet_sleep_action_terminated_early_total
always counter   kubelet_lifecycle_handler_http_fallbacks_total
       counter   kubelet_preemptions preemption_signal
       counter   kubelet_evictions eviction_signal
       histogram kubelet_eviction_stats_age_seconds eviction_signal
       gauge     kubelet_graceful_shutdown_start_time_seconds
       gauge     kubelet_graceful_shutdown_end_time_seconds
       counter   kubelet_device_plugin_registration_total resource_name
       histogram kubelet_device_plugin_alloc_duration_seconds resource_name
always histogram kubelet_pleg_relist_duration_seconds
always histogram kubelet_pleg_relist_interval_seconds
always histogram kubelet_pleg_pod_relist_duration_seconds
always gauge     kubelet_pleg_last_seen_seconds
always counter   kubelet_pleg_discard_events
always counter   kubelet_evented_pleg_connection_error_count
always counter   kubelet_evented_pleg_connection_success_count
always histogram kubelet_evented_pleg_connection_latency_seconds
       counter   kubelet_runtime_operations_total operation_type
       counter   kubelet_runtime_operations_errors_total operation_type
       histogram kubelet_runtime_operations_duration_seconds operation_type
       histogram kubelet_run_podsandbox_duration_seconds runtime_handler
       counter   kubelet_run_podsandbox_errors_total runtime_handler
       histogram kubelet_image_pull_duration_seconds image_size_in_bytes
       counter   kubelet_image_garbage_collected_total reason
       counter   kubelet_image_manager_ensure_image_requests_total present_locally,pull_policy,pull_required
       counter   kubelet_imagemanager_image_mustpull_checks_total result
always counter   kubelet_image_volume_requested_total
always counter   kubelet_image_volume_mounted_succeed_total
always counter   kubelet_image_volume_mounted_errors_total
       histogram kubelet_credential_provider_plugin_duration plugin_name
       counter   kubelet_credential_provider_plugin_errors_total plugin_name
       gauge     kubelet_credential_provider_config_info hash
       histogram kubelet_cgroup_manager_duration_seconds operation_type
always gauge     kubelet_cgroup_version
always gauge     kubelet_metrics_provider provider
       gauge     kubelet_memory_qos_node_memory_min_bytes
       gauge     kubelet_memory_qos_node_memory_low_bytes
       gauge     kubelet_cri_losing_support version
always gauge     kubelet_node_name node
always gauge     kubelet_node_startup_duration_seconds
always gauge     kubelet_node_startup_pre_kubelet_duration_seconds
always gauge     kubelet_node_startup_pre_registration_duration_seconds
always gauge     kubelet_node_startup_registration_duration_seconds
always gauge     kubelet_node_startup_post_registration_duration_seconds
always gauge     kubelet_first_network_pod_start_sli_duration_seconds
       counter   kubelet_http_requests_total long_running,method,path,server_type
       gauge     kubelet_http_inflight_requests long_running,method,path,server_type
       histogram kubelet_http_requests_duration_seconds long_running,method,path,server_type
       counter   kubelet_websocket_streaming_requests_total subresource
       histogram storage_operation_duration_seconds migrated,operation_name,status,volume_plugin
       histogram csi_operations_seconds driver_name,grpc_status_code,method_name,migrated
       histogram volume_operation_total_seconds operation_name,plugin_name
       histogram kubelet_volume_metric_collection_duration_seconds metric_source
       gauge     volume_manager_selinux_container_errors_total access_mode
       gauge     volume_manager_selinux_container_warnings_total access_mode
       gauge     volume_manager_selinux_pod_context_mismatch_errors_total access_mode
       gauge     volume_manager_selinux_pod_context_mismatch_warnings_total access_mode
       gauge     volume_manager_selinux_volume_context_mismatch_errors_total access_mode,volume_plugin
       gauge     volume_manager_selinux_volume_context_mismatch_warnings_total access_mode,volume_plugin
       gauge     volume_manager_selinux_volumes_admitted_total access_mode,volume_plugin
always counter   reconstruct_volume_operations_total
always counter   reconstruct_volume_operations_errors_total
always counter   force_cleaned_failed_volume_operations_total
always counter   force_cleaned_failed_volume_operation_errors_total
always gauge     kubelet_orphan_pod_cleaned_volumes
always gauge     kubelet_orphan_pod_cleaned_volumes_errors
       counter   rest_client_requests_total code,host,method
       counter   rest_client_request_retries_total code,host,verb
       histogram rest_client_request_duration_seconds host,verb
       histogram rest_client_rate_limiter_duration_seconds host,verb
       histogram rest_client_request_size_bytes host,verb
       histogram rest_client_response_size_bytes host,verb
       counter   apiserver_delegated_authn_request_total code
       histogram apiserver_delegated_authn_request_duration_seconds code
       counter   apiserver_delegated_authz_request_total code
       histogram apiserver_delegated_authz_request_duration_seconds code
always gauge     kubernetes_build_info build_date,compiler,git_commit,git_tree_state,git_version,go_version,major,minor,platform
always gauge     kubernetes_feature_enabled name,stage
always counter   registered_metrics_total deprecated_version,stability_level
always counter   hidden_metrics_total
always counter   disabled_metrics_total
always gauge     go_goroutines
always counter   process_cpu_seconds_total
always gauge     process_max_fds
always gauge     process_open_fds
always gauge     process_resident_memory_bytes
always gauge     process_start_time_seconds
always gauge     process_virtual_memory_bytes
always gauge     process_virtual_memory_max_bytes
always counter   process_network_receive_bytes_total
always counter   process_network_transmit_bytes_total
";

/// The metrics that the public kubelet dashboard, its alerts and its rules ask of `/metrics`, as far as they exist
/// upstream.
const MIXIN: [&str; 23] = [
    "kubelet_node_name",
    "kubelet_running_pods",
    "kubelet_running_containers",
    "kubelet_runtime_operations_total",
    "kubelet_runtime_operations_errors_total",
    "kubelet_runtime_operations_duration_seconds_bucket",
    "kubelet_pod_start_duration_seconds_count",
    "kubelet_pod_start_duration_seconds_bucket",
    "kubelet_pod_worker_duration_seconds_count",
    "kubelet_pod_worker_duration_seconds_bucket",
    "storage_operation_duration_seconds_count",
    "storage_operation_duration_seconds_bucket",
    "kubelet_cgroup_manager_duration_seconds_count",
    "kubelet_cgroup_manager_duration_seconds_bucket",
    "kubelet_pleg_relist_duration_seconds_count",
    "kubelet_pleg_relist_duration_seconds_bucket",
    "kubelet_pleg_relist_interval_seconds_bucket",
    "rest_client_requests_total",
    "rest_client_request_duration_seconds_bucket",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "go_goroutines",
    "process_start_time_seconds",
];

/// A family as the text tells it.
#[derive(Default)]
struct Told {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    series: BTreeSet<String>,
}

/// Takes the text form apart; fails where it is not well-formed.
fn families(text: &str) -> BTreeMap<String, Told> {
    let mut found: BTreeMap<String, Told> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            current = name.to_owned();
            let is_new = found.insert(current.clone(), Told { help: help.to_owned(), ..Told::default() }).is_none();
            assert!(is_new, "{name} is told twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, current);
            found.get_mut(name).expect("its help came first").kind = kind.to_owned();
        } else {
            let family = found.get_mut(&current).expect("its head came first");
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.starts_with(&current), "{line} in {current}");
            let (name, labels) = series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest));
            family.series.insert(name.to_owned());
            let names = labels.trim_end_matches('}').split("\",").filter_map(|pair| pair.split_once("=\""));
            family.labels.extend(names.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
        }
    }
    found
}

const SECOND: Duration = Duration::from_secs(1);

/// One of everything.
fn everything() -> Vec<Observation<'static>> {
    let (method, host) = ("GET", "10.0.0.1:6443");
    vec![
        Observation::PassEnded { operation: "create", took: SECOND },
        Observation::PodTaken { containers: 2, waited: Some(SECOND) },
        Observation::PodRuns { after: SECOND },
        Observation::PodRefused { reason: &AdmissionReason::TaintToleration },
        Observation::PodPreempted { resource: "cpu" },
        Observation::PodEvicted { signal: "memory.available" },
        Observation::ConfigReloaded { accepted: true, at: Moment(1_500_000_000) },
        Observation::NodeShutdown(ShutdownTimes { began: Some(Moment(1_500_000_000)), ended: None }),
        Observation::EvictionStatsUsed { signal: "memory.available", age: SECOND },
        Observation::DevicePluginRegistered { resource: "vendor.com/gpu" },
        Observation::DevicesAllocated { resource: "vendor.com/gpu", took: SECOND },
        Observation::OrphanFound,
        Observation::PodCameBack { is_static: true },
        Observation::StatusSent { took: SECOND },
        Observation::StatusNotTaken { refused: true },
        Observation::SandboxBegun { own_users: true },
        Observation::SandboxFailed { own_users: false },
        Observation::OwnUsersFailed,
        Observation::SandboxRun { handler: "", took: SECOND, failed: true },
        Observation::ContainerTried { container_type: "container", error: Some("ErrImagePull") },
        Observation::ContainerEnded(EndedContainer {
            container_type: "container",
            exit_code: 137,
            reason: "OOMKilled",
        }),
        Observation::ClaimsHandled { operation: "PrepareResources", failed: true, took: SECOND },
        Observation::ClaimDriverCalled { driver: "gpu.example.com", method: "/m", code: "OK", took: SECOND },
        Observation::SleepCutShort,
        Observation::HookFellBack,
        Observation::Relisted { ended: Moment(0).plus(3 * SECOND), took: SECOND, interval: Some(SECOND) },
        Observation::PodInspected { took: SECOND },
        Observation::NewsDropped,
        Observation::WatchEventDropped,
        Observation::StreamOpened,
        Observation::StreamFailed,
        Observation::EventTaken { age: SECOND },
        Observation::ImageEnsured { policy: "never", present: None, pull_required: Some(true) },
        Observation::ImageChecked { result: "mustAuthenticate" },
        Observation::ImageRemoved { reason: "age" },
        Observation::ImageVolumes { asked: 3, failed: 1 },
        Observation::ProviderAsked { name: "ecr", took: SECOND, failed: true },
        Observation::CgroupDone { operation: "create", took: SECOND },
        Observation::MemoryKept { hard: 2, soft: 1 },
        Observation::DriverMeasured { driver: "d", took: SECOND },
        Observation::DriverCalled { driver: "d", method: "/m", code: "OK", took: SECOND, migrated: false },
        Observation::VolumeDone {
            plugin: "kubernetes.io/nfs",
            operation: "volume_mount",
            migrated: false,
            took: SECOND,
            failed: false,
        },
        Observation::VolumeThere { plugin: "kubernetes.io/nfs", took: SECOND },
        Observation::VolumesFound { count: 2, failed: false },
        Observation::OrphansSwept { found: 2, failed: 1 },
        Observation::ApiAnswered { method, host, code: None, took: SECOND, request_bytes: 10 },
        Observation::ApiRead { method, host, bytes: 10 },
        Observation::ApiRetried { method, host, code: 429 },
        Observation::ApiHeldBack { method, host, took: SECOND },
        Observation::HealthChecked { name: "ping", healthy: true },
    ]
}

fn live_through(node: &Node) {
    let metrics = &node.metrics;
    everything().into_iter().for_each(|what| metrics.observe(what));
    let uid = PodUid::from("u");
    metrics.observe(Observation::ImagePulled { uid: &uid, bytes: 1 << 20, began: Moment(0), took: SECOND });
    let shown = |status: Value| {
        let pod = serde_json::json!({"metadata": {"uid": "u", "name": "web", "namespace": "shop",
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": [{"name": "c"}]}, "status": status});
        let pod = serde_json::from_value(pod).expect("a pod");
        metrics.observe(Observation::PodShown { pod: &pod, at: Moment(0) });
    };
    shown(serde_json::json!({}));
    shown(serde_json::json!({"startTime": "2026-01-01T00:00:01Z", "containerStatuses": [{"name": "c", "image": "",
        "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}}}]}));
    metrics.observe(Observation::PodGone(&uid));
    metrics.runtime().called("version", SECOND, true);
    for news in [LabelNews::Admitted, LabelNews::NoLabel, LabelNews::SeveralInPod, LabelNews::OtherPod] {
        for refused in [false, true] {
            let (access_mode, plugin) = ("RWOP", "kubernetes.io/fc");
            metrics.observe(Observation::Labelled { news, refused, access_mode, plugin });
        }
    }
    for kind in [Review::Identity, Review::Right] {
        metrics.observe(Observation::CallerReviewed { kind, code: None, took: SECOND });
    }
    metrics.http().stream_opened("exec");
    for call in [PodResourcesCall::List, PodResourcesCall::Get, PodResourcesCall::GetAllocatable] {
        metrics.rpc().asked(call, "v1");
        metrics.rpc().failed(call);
    }
    metrics.runtime_loses_support("1.37.0");
    metrics.providers_configured("sha256:00");
    drop(metrics.http().begin(node.agent.trace.clock(), Port::ReadWrite, "POST", "/exec/ns/pod/c"));
}

fn catalogue() -> impl Iterator<Item = (bool, &'static str, &'static str, BTreeSet<String>)> {
    CATALOGUE.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let (always, rest) = line.strip_prefix("always").map_or((false, line), |rest| (true, rest));
        let mut words = rest.split_whitespace();
        let (kind, name) = (words.next().expect("a type"), words.next().expect("a name"));
        (always, kind, name, words.next().into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect())
    })
}

async fn node() -> Node {
    let node = Node::plain();
    node.start().await;
    node
}

/// OBS-01, OBS-03, OBS-04, OBS-05, OBS-06, OBS-12, OBS-13, OBS-14, OBS-15, POD-39, RES-54, VOL-52, EVI-35, EVI-36: what there
/// is to tell has upstream's name, type, labels and level.
#[tokio::test]
async fn metrics_have_upstreams_names_types_labels_and_levels() {
    let node = node().await;
    live_through(&node);
    let told = families(&node.metrics.all(&node.backend.sources).await.text());
    for (_, kind, name, labels) in catalogue() {
        let family = told.get(name).unwrap_or_else(|| panic!("{name} is not told"));
        assert_eq!((family.kind.as_str(), &family.labels), (kind, &labels), "{name}");
        let levels = ["[ALPHA] ", "[BETA] ", "[STABLE] ", "[INTERNAL] "];
        let is_upstreams_own = !name.starts_with("go_") && !name.starts_with("process_");
        assert!(
            !is_upstreams_own || levels.iter().any(|level| family.help.starts_with(level)),
            "{name}: {}",
            family.help
        );
    }
    let known: BTreeSet<&str> = catalogue().map(|(_, _, name, _)| name).collect();
    let unknown: Vec<&String> = told.keys().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.iter().all(|name| name.starts_with("podwright_")), "not upstream's: {unknown:?}");
}

/// OBS-02, POD-39: a vector without observations has neither series nor head, plain counters begin at zero.
#[tokio::test]
async fn before_anything_happened_only_plain_metrics_are_there() {
    let node = node().await;
    let told = families(&node.metrics.all(&node.backend.sources).await.text());
    let expected: BTreeSet<&str> = catalogue().filter(|(always, ..)| *always).map(|(_, _, name, _)| name).collect();
    let ours = |name: &&str| !name.starts_with("podwright_");
    let first_look = [
        "kubelet_runtime_operations_total",
        "kubelet_runtime_operations_errors_total",
        "kubelet_runtime_operations_duration_seconds",
        "kubelet_cgroup_manager_duration_seconds",
    ];
    let told: BTreeSet<&str> =
        told.keys().map(String::as_str).filter(ours).filter(|name| !first_look.contains(name)).collect();
    assert_eq!(told, expected);
}

/// OBS-24: everything that dashboards, alerts and rules ask for can be had.
#[tokio::test]
async fn what_dashboards_ask_for_is_there() {
    let node = node().await;
    live_through(&node);
    let metrics: &Metrics = &node.metrics;
    let texts = [metrics.all(&node.backend.sources).await.text(), metrics.slis().text()];
    let series: BTreeSet<String> =
        texts.iter().flat_map(|text| families(text).into_values().flat_map(|told| told.series)).collect();
    for name in MIXIN {
        assert!(series.contains(name), "the public dashboard asks for {name}");
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana");
    let mut dashboards = 0;
    for file in std::fs::read_dir(folder).expect("the dashboards").map(|file| file.expect("a file").path()) {
        let text = std::fs::read_to_string(&file).expect("a dashboard");
        let file = file.display().to_string();
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        let mut names = BTreeSet::new();
        asked(&dashboard, &mut names);
        assert!(!names.is_empty(), "{file} asks for nothing");
        for name in names {
            assert!(series.contains(&name), "{file} asks for {name}, which is not told");
        }
        dashboards += 1;
    }
    assert!(dashboards >= 3);
}

/// Told under conditions of their own, which other tests make: with certificates that are renewed, and for claims' volumes.
const CONDITIONAL: [&str; 10] = [
    "kubelet_certificate_manager_client_ttl_seconds",
    "kubelet_certificate_manager_server_ttl_seconds",
    "kubelet_certificate_manager_client_expiration_renew_errors",
    "kubelet_server_expiration_renew_errors",
    "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_capacity_bytes",
    "kubelet_volume_stats_used_bytes",
    "kubelet_volume_stats_inodes",
    "kubelet_volume_stats_inodes_free",
    "kubelet_volume_stats_inodes_used",
];

/// OBS-24: an alert on a metric that nobody tells would never fire.
#[tokio::test]
async fn what_alerts_ask_for_is_there() {
    let node = node().await;
    live_through(&node);
    let mut series: BTreeSet<String> = families(&node.metrics.all(&node.backend.sources).await.text())
        .into_values()
        .flat_map(|told| told.series)
        .collect();
    series.extend(CONDITIONAL.map(str::to_owned));
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/rules.yaml");
    let text = std::fs::read_to_string(file).expect("the rules");
    let rules: Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut names = BTreeSet::new();
    asked(&rules, &mut names);
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(series.contains(&name), "an alert asks for {name}, which is not told");
    }
}

/// Names of metrics in the expressions of a dashboard or an alert: words that stand before a selector, a range or a bracket.
fn asked(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(expression)) = object.get("expr") {
                let words =
                    expression.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
                let is_metric = |word: &&str| {
                    [
                        "kubelet_",
                        "podwright_",
                        "process_",
                        "go_",
                        "rest_",
                        "storage_",
                        "volume_",
                        "kubernetes_",
                        "prober_",
                    ]
                    .iter()
                    .any(|prefix| word.starts_with(prefix))
                };
                let labels = ["volume_plugin"];
                names.extend(words.filter(is_metric).filter(|word| !labels.contains(word)).map(str::to_owned));
            }
            object.values().for_each(|inner| asked(inner, names));
        }
        Value::Array(items) => items.iter().for_each(|inner| asked(inner, names)),
        _ => {}
    }
}

#[tokio::test]
async fn bounds_are_upstreams() {
    let node = node().await;
    live_through(&node);
    let text = node.metrics.all(&node.backend.sources).await.text();
    for (name, bounds) in [
        (
            "kubelet_pod_start_duration_seconds",
            "0.5 1 2 3 4 5 6 8 10 20 30 45 60 120 180 240 300 360 480 600 900 1200 1800 2700 3600",
        ),
        ("kubelet_pod_worker_duration_seconds", "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10"),
        ("kubelet_image_pull_duration_seconds", "1 5 10 20 30 60 120 180 240 300 360 480 600 900 1200 1800 2700 3600"),
        ("kubelet_pod_status_sync_duration_seconds", "0.01 0.05 0.1 0.5 1 5 10 20 30 45 60"),
        ("storage_operation_duration_seconds", "0.1 0.25 0.5 1 2.5 5 10 15 25 50 120 300 600"),
        ("rest_client_request_duration_seconds", "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60"),
        ("rest_client_request_size_bytes", "64 256 512 1024 4096 16384 65536 262144 1048576 4194304 16777216"),
        ("kubelet_containers_per_pod_count", "1 2 4 8 16"),
    ] {
        let head = format!("{name}_bucket{{");
        let lines = text.lines().filter(|line| line.starts_with(&head));
        let told: Vec<&str> =
            lines.filter_map(|line| line.split_once("le=\"")?.1.split('"').next()).filter(|le| *le != "+Inf").collect();
        assert_eq!(told.join(" "), bounds, "{name}");
    }
}

/// OBS-19.
#[tokio::test]
async fn health_checks_are_counted_until_someone_begins_anew() {
    let metrics = Metrics::default();
    let names = |metrics: &Metrics| families(&metrics.slis().text()).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&metrics), ["process_start_time_seconds"]);
    for healthy in [true, true, false] {
        metrics.observe(Observation::HealthChecked { name: "syncloop", healthy });
    }
    let text = metrics.slis().text();
    for line in [
        r#"kubernetes_healthcheck{name="syncloop",type="healthz"} 0"#,
        r#"kubernetes_healthchecks_total{name="syncloop",status="success",type="healthz"} 2"#,
        r#"kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 1"#,
    ] {
        assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
    }
    metrics.reset_slis();
    assert_eq!(names(&metrics), ["process_start_time_seconds"]);
}
