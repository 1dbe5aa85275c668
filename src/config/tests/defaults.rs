//! Defaults, what is printed of them, and that the tables fit each other.

use super::super::flags::parse::Parsed;
use super::super::flags::table::{FLAGS, Target};
use super::super::{Config, Configz, FeatureGates, Flags, decode, fields::CONFIGURATION};
use super::{Folder, decoded, document, run};
use crate::config::GoDuration;
use crate::config::fields::kinds::{self, Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn flags() -> Flags {
    Flags::from_parsed(&Parsed::default())
}

fn configz(config: &Config) -> Value {
    serde_json::to_value(Configz(config, &flags())).expect("it is plain data")["kubeletconfig"].clone()
}

/// PAIN-28: without a setting of our own `GET /configz` has upstream's form alone.
#[test]
fn configz_names_our_own_settings_where_they_change_decisions() {
    let shown = |flags: &Flags| serde_json::to_value(Configz(&Config::default(), flags)).expect("it is plain data");
    let plain = shown(&flags());
    assert_eq!(
        plain.as_object().map(|object| object.keys().cloned().collect()),
        Some(vec!["kubeletconfig".to_owned()])
    );
    let set = Flags { eviction_by_available_memory: true, ..flags() };
    assert_eq!(shown(&set)["podwright"], json!({ "evictionByAvailableMemory": true }));
    let set = Flags { cpu_burst_max_percent: 50, follow_machine_size: true, repair_state_files: true, ..flags() };
    let expected = json!({ "cpuBurstMaxPercent": 50, "followMachineSize": true, "repairStateFiles": true });
    assert_eq!(shown(&set)["podwright"], expected);
    let set = Flags { device_plugin_wait: GoDuration::parse("90s").expect("a duration"), ..flags() };
    assert_eq!(shown(&set)["podwright"], json!({ "devicePluginWait": "1m30s" }));
    let exempt = vec!["docker.io/library/nginx".to_owned()];
    let set = Flags { image_gc_exempt: exempt.clone(), ..flags() };
    assert_eq!(shown(&set)["podwright"], json!({ "imageGCExempt": exempt }));
}

/// Every default of KubeletConfiguration v1beta1 at 1.36, as `GET /configz` shows it.
fn golden() -> Value {
    let text = r#"{
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "enableServer": true,
        "podLogsDir": "/var/log/pods",
        "syncFrequency": "1m0s",
        "fileCheckFrequency": "20s",
        "httpCheckFrequency": "20s",
        "address": "0.0.0.0",
        "port": 10250,
        "authentication": {
            "x509": {},
            "webhook": {"enabled": true, "cacheTTL": "2m0s"},
            "anonymous": {"enabled": false}
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}
        },
        "registryPullQPS": 5,
        "registryBurst": 10,
        "imagePullCredentialsVerificationPolicy": "NeverVerifyPreloadedImages",
        "eventRecordQPS": 50,
        "eventBurst": 100,
        "enableDebuggingHandlers": true,
        "healthzPort": 10248,
        "healthzBindAddress": "127.0.0.1",
        "oomScoreAdj": -999,
        "streamingConnectionIdleTimeout": "4h0m0s",
        "nodeStatusUpdateFrequency": "10s",
        "nodeStatusReportFrequency": "5m0s",
        "nodeLeaseDurationSeconds": 40,
        "imageMinimumGCAge": "2m0s",
        "imageMaximumGCAge": "0s",
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "volumeStatsAggPeriod": "1m0s",
        "cgroupsPerQOS": true,
        "cgroupDriver": "cgroupfs",
        "cpuManagerPolicy": "none",
        "cpuManagerReconcilePeriod": "10s",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": "none",
        "topologyManagerScope": "container",
        "runtimeRequestTimeout": "2m0s",
        "hairpinMode": "promiscuous-bridge",
        "maxPods": 110,
        "podPidsLimit": -1,
        "resolvConf": "/etc/resolv.conf",
        "cpuCFSQuota": true,
        "cpuCFSQuotaPeriod": "100ms",
        "nodeStatusMaxImages": 50,
        "maxOpenFiles": 1000000,
        "contentType": "application/vnd.kubernetes.protobuf",
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
        "serializeImagePulls": true,
        "evictionHard": {
            "imagefs.available": "15%",
            "imagefs.inodesFree": "5%",
            "memory.available": "100Mi",
            "nodefs.available": "10%",
            "nodefs.inodesFree": "5%"
        },
        "evictionPressureTransitionPeriod": "5m0s",
        "mergeDefaultEvictionSettings": false,
        "enableControllerAttachDetach": true,
        "makeIPTablesUtilChains": true,
        "iptablesMasqueradeBit": 14,
        "iptablesDropBit": 15,
        "failSwapOn": true,
        "memorySwap": {},
        "containerLogMaxSize": "10Mi",
        "containerLogMaxFiles": 5,
        "containerLogMaxWorkers": 1,
        "containerLogMonitorInterval": "10s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "enforceNodeAllocatable": ["pods"],
        "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "logging": {
            "format": "text",
            "flushFrequency": "5s",
            "verbosity": 0,
            "options": {"text": {"infoBufferSize": "0"}, "json": {"infoBufferSize": "0"}}
        },
        "enableSystemLogHandler": true,
        "enableSystemLogQuery": false,
        "shutdownGracePeriod": "0s",
        "shutdownGracePeriodCriticalPods": "0s",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5m0s"},
        "enableProfilingHandler": true,
        "enableDebugFlagsHandler": true,
        "seccompDefault": false,
        "memoryThrottlingFactor": 0.9,
        "memoryReservationPolicy": "None",
        "registerNode": true,
        "localStorageCapacityIsolation": true,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failCgroupV1": true
    }"#;
    serde_json::from_str(text).expect("it is JSON")
}

/// CFG-09, CFG-15, EVI-01.
#[test]
fn an_empty_file_gives_every_default() {
    assert_eq!(configz(&decoded("")), golden());
}

/// CFG-08, CFG-09, EVI-02.
#[test]
fn without_a_file_the_old_open_defaults_hold() {
    let mut expected = golden();
    expected["authentication"]["anonymous"]["enabled"] = json!(true);
    expected["authentication"]["webhook"]["enabled"] = json!(false);
    expected["authorization"]["mode"] = json!("AlwaysAllow");
    expected["readOnlyPort"] = json!(10_255);
    expected.as_object_mut().expect("it is an object").remove("evictionHard");
    assert_eq!(configz(&run(&[]).config), expected);
}

#[test]
fn a_whole_number_is_printed_without_a_fraction_as_go_does() {
    let factor = |text: &str| configz(&decoded(text))["memoryThrottlingFactor"].to_string();
    assert_eq!(["memoryThrottlingFactor: 1.0", "memoryThrottlingFactor: 0.85"].map(factor), ["1", "0.85"]);
}

#[test]
fn shutdown_periods_are_shown_by_priority() {
    let text = "shutdownGracePeriodByPodPriority:\n- { priority: 100, shutdownGracePeriodSeconds: 30 }\n\
                - { priority: 0, shutdownGracePeriodSeconds: 60 }\n";
    let shown = configz(&decoded(text))["shutdownGracePeriodByPodPriority"].clone();
    assert_eq!([0, 1].map(|place| shown[place]["priority"].as_i64()), [Some(0), Some(100)]);
}

/// CFG-53, CFG-11.
#[test]
fn zero_values_of_kubeadm_count_as_unset() {
    let zeros = "syncFrequency: 0s\nfileCheckFrequency: 0s\nnodeStatusReportFrequency: 0s\nmaxPods: 0\naddress: ''\n\
                 nodeStatusUpdateFrequency: 0s\nevictionPressureTransitionPeriod: 0s\nlogging:\n  flushFrequency: 0\n\
                 authentication:\n  webhook:\n    cacheTTL: 0s\n  x509: {}\nmemorySwap: {}\ncontainerRuntimeEndpoint: ''\n\
                 maxOpenFiles: 0\nregistryBurst: 0\ncgroupDriver: ''\nstaticPodPath: ''\nport: 0\n";
    assert_eq!(configz(&decoded(zeros)), golden());
}

#[test]
fn zero_values_of_pointers_are_values() {
    let config = decoded(
        "registryPullQPS: 0\nhealthzPort: 0\nresolvConf: ''\nenableServer: false\noomScoreAdj: 0\n\
         kubeAPIQPS: 0\nenforceNodeAllocatable: []\nevictionHard: {}\nnodeStatusMaxImages: 0\n",
    );
    assert_eq!((config.registry_pull_qps, config.healthz_port, config.oom_score_adj), (0, 0, 0));
    assert_eq!((config.kube_api_qps, config.node_status_max_images), (0, 0));
    assert!(config.resolv_conf.is_empty() && !config.enable_server);
    assert!(config.enforce_node_allocatable.is_empty() && config.eviction_hard.is_empty());
}

/// CFG-12, CFG-13.
#[test]
fn some_defaults_follow_other_fields() {
    assert_eq!(decoded("nodeStatusUpdateFrequency: 5s").node_status_report_frequency.to_string(), "5s");
    let both = decoded("nodeStatusUpdateFrequency: 5s\nnodeStatusReportFrequency: 1m");
    assert_eq!(both.node_status_report_frequency.to_string(), "1m0s");
    assert!(!decoded("maxParallelImagePulls: 5").serialize_image_pulls);
    assert!(decoded("maxParallelImagePulls: 1").serialize_image_pulls);
    assert!(decoded("maxParallelImagePulls: 5\nserializeImagePulls: true").serialize_image_pulls);
    assert_eq!(decoded("podPidsLimit: -7").pod_pids_limit, -1);
    let gates_off = "featureGates:\n  KubeletCrashLoopBackOffMax: false\n  KubeletEnsureSecretPulledImages: false\n";
    let config = decoded(gates_off);
    assert_eq!(config.crash_loop_back_off.max_container_restart_period, None);
    assert!(config.image_pull_credentials_verification_policy.is_empty());
}

/// CFG-10.
#[test]
fn partial_eviction_thresholds_stay_partial_unless_merged() {
    let partial = "evictionHard:\n  memory.available: 250Mi\n";
    assert_eq!(decoded(partial).eviction_hard.len(), 1);
    let merged = decoded(&format!("{partial}mergeDefaultEvictionSettings: true\n"));
    assert_eq!(merged.eviction_hard.len(), 5);
    assert_eq!(merged.eviction_hard["memory.available"], "250Mi");
}

#[test]
fn secrets_in_headers_are_not_in_debug() {
    let config = decoded("staticPodURLHeader:\n  Authorization: ['Bearer hunter2']\n");
    assert_eq!(config.static_pod_url_header.0["Authorization"], ["Bearer hunter2"]);
    let shown = format!("{config:?}");
    assert!(shown.contains("Authorization") && shown.contains("<masked>") && !shown.contains("hunter2"));
}

#[test]
fn the_table_of_fields_and_the_type_have_the_same_keys() {
    let whole = decode::to_json(&filled());
    let mut missing = Vec::new();
    compare("", CONFIGURATION, &Value::Object(whole), &mut missing);
    assert_eq!(missing, Vec::<String>::new());
}

/// A configuration with something in every list and option that holds structs.
fn filled() -> Config {
    decoded(
        "logging: {vmodule: [{filePattern: a, verbosity: 1}]}\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n\
         shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 2}]\ntracing: {}\n\
         registerWithTaints: [{key: a, effect: NoSchedule}]\nuserNamespaces: {}\n",
    )
}

fn compare(path: &str, fields: &[kinds::Field], value: &Value, missing: &mut Vec<String>) {
    let table: BTreeSet<&str> = fields.iter().map(|field| field.key).collect();
    let typed: BTreeSet<&str> = value.as_object().expect("a struct").keys().map(String::as_str).collect();
    missing.extend(table.symmetric_difference(&typed).map(|key| format!("{path}.{key}")));
    for field in fields {
        let path = format!("{path}.{}", field.key);
        match field.kind {
            Kind::Object(_, inner) => compare(&path, inner, &value[field.key], missing),
            Kind::ObjectList(_, inner) => compare(&path, inner, &value[field.key][0], missing),
            _ => {}
        }
    }
}

#[test]
fn every_configuration_flag_names_a_field() {
    let whole = Value::Object(decode::to_json(&Config::default()));
    let mut names = BTreeSet::new();
    for flag in FLAGS {
        assert!(names.insert(flag.name), "{} is there twice", flag.name);
        if let Target::Configuration(pointer) = flag.target {
            assert!(whole.pointer(pointer).is_some(), "--{} points at nothing: {pointer}", flag.name);
        }
    }
}

/// CFG-02, CFG-03.
#[test]
fn drop_ins_apply_over_the_complete_base() {
    let folder = Folder::new();
    let main = folder.config("config.yaml", "nodeStatusUpdateFrequency: 5s\nclusterDNS: [10.0.0.1, 10.0.0.2]\n");
    folder.config(
        "conf.d/10-a.conf",
        "clusterDNS: [10.9.9.9]\nmaxPods: 50\nmaxParallelImagePulls: 3\nnodeStatusUpdateFrequency: 7s\n\
         evictionHard: {memory.available: 1Gi}\nstaticPodPath: manifests\nnonsense: true\nreadOnlyPort: 10255\n",
    );
    folder.config("conf.d/20-b/x.conf", "maxPods: 60\nreadOnlyPort: null\nfeatureGates: {MemoryQoS: true}\n");
    folder.write("conf.d/30-c.yaml", "not: read");
    let directory = folder.path("conf.d").to_string_lossy().into_owned();
    let line = ["--config", &main, "--config-dir", &directory, "--serialize-image-pulls=false"];
    let invocation = run(&line);
    let config = invocation.config;
    assert_eq!(config.cluster_dns, ["10.9.9.9"], "lists are replaced");
    assert_eq!(config.max_pods, 60, "the later file counts");
    assert_eq!(config.read_only_port, 0, "null brings the default back");
    assert_eq!(config.node_status_report_frequency.to_string(), "5s", "it no longer follows");
    assert_eq!(config.eviction_hard.len(), 5, "maps merge, defaults included");
    assert_eq!(config.static_pod_path, "manifests", "paths in drop-ins are not rooted");
    assert!(invocation.gates.enabled("MemoryQoS"));
    assert!(invocation.warnings.iter().any(|warning| warning.contains("30-c.yaml")), "{:?}", invocation.warnings);
}

#[test]
fn a_default_that_followed_is_fixed_before_drop_ins() {
    let patch = serde_json::json!({"maxParallelImagePulls": 3});
    let merged = decode::merge(&decoded(""), &[patch], &FeatureGates::default()).expect("it fits");
    assert!(merged.serialize_image_pulls, "upstream refuses this combination later");
}

/// CFG-03.
#[test]
fn merge_patches_follow_the_examples_of_rfc_7386() {
    for (target, patch, result) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let mut merged = target.clone();
        decode::merge_patch(&mut merged, &patch);
        assert_eq!(merged, result, "{target} with {patch}");
    }
}

/// CFG-01.
#[test]
fn a_document_reads_the_same_in_json() {
    let yaml = document("maxPods: 5\nclusterDNS: [10.0.0.10]\n");
    let json = r#"{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":5,
                   "clusterDNS":["10.0.0.10"]}"#;
    let read = |text: &str| decode::main_file(text.as_bytes(), &FeatureGates::default()).expect("it is valid").config;
    assert_eq!(read(&yaml), read(json));
}
