//! Which settings may change while the agent runs, and what follows when files were read again.
//!
//! Pure; keeps nothing. Fields are named by the path to them (`logging.verbosity`). Every field of the configuration is in one
//! of the two lists, which a test holds: so nobody adds a field without a decision.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::fields::CONFIGURATION;
use crate::config::fields::kinds::{Field, Kind};
use crate::config::{Config, decode};

/// Fields whose change counts at a reload.
pub const RELOADED: &[&str] = &[
    "registryPullQPS",
    "registryBurst",
    "serializeImagePulls",
    "maxParallelImagePulls",
    "nodeStatusUpdateFrequency",
    "nodeStatusReportFrequency",
    "imageMinimumGCAge",
    "imageMaximumGCAge",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionPressureTransitionPeriod",
    "evictionMaxPodGracePeriod",
    "evictionMinimumReclaim",
    "mergeDefaultEvictionSettings",
    "containerLogMaxSize",
    "containerLogMaxFiles",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "logging.verbosity",
];

/// Fields whose change counts at the next start alone.
#[rustfmt::skip]
pub const AT_RESTART: &[&str] = &[
    // Sources, addresses and files: sockets are bound and files are opened at the start.
    "enableServer", "staticPodPath", "podLogsDir", "fileCheckFrequency", "httpCheckFrequency", "staticPodURL",
    "staticPodURLHeader", "address", "port", "readOnlyPort", "healthzPort", "healthzBindAddress", "tlsCertFile",
    "tlsPrivateKeyFile", "tlsCipherSuites", "tlsCurvePreferences", "tlsMinVersion", "rotateCertificates",
    "serverTLSBootstrap", "authentication.x509.clientCAFile", "authentication.webhook.enabled",
    "authentication.webhook.cacheTTL", "authentication.anonymous.enabled", "authorization.mode",
    "authorization.webhook.cacheAuthorizedTTL", "authorization.webhook.cacheUnauthorizedTTL",
    "enableDebuggingHandlers", "enableContentionProfiling", "enableProfilingHandler", "enableDebugFlagsHandler",
    "enableSystemLogHandler", "enableSystemLogQuery", "streamingConnectionIdleTimeout",
    // The runtime and the API server: clients are made at the start.
    "containerRuntimeEndpoint", "imageServiceEndpoint", "runtimeRequestTimeout", "contentType", "kubeAPIQPS",
    "kubeAPIBurst", "eventRecordQPS", "eventBurst", "configMapAndSecretChangeDetectionStrategy",
    // Images: what was recorded follows from these.
    "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist",
    // The Node object.
    "nodeLeaseDurationSeconds", "nodeStatusMaxImages", "registerNode", "registerWithTaints", "providerID", "podCIDR",
    "maxPods", "podsPerCore", "enableControllerAttachDetach",
    // Names of pods.
    "clusterDomain", "clusterDNS", "resolvConf", "hairpinMode",
    // Cgroups and resources: pods were given their own by these.
    "kubeletCgroups", "systemCgroups", "cgroupRoot", "cgroupsPerQOS", "cgroupDriver", "cpuManagerPolicy",
    "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "memoryManagerPolicy", "topologyManagerPolicy",
    "topologyManagerScope", "topologyManagerPolicyOptions", "qosReserved", "reservedMemory", "reservedSystemCPUs",
    "systemReserved", "kubeReserved", "systemReservedCgroup", "kubeReservedCgroup", "enforceNodeAllocatable",
    "podPidsLimit", "cpuCFSQuota", "cpuCFSQuotaPeriod", "singleProcessOOMKill", "memorySwap.swapBehavior",
    "memoryThrottlingFactor", "memoryReservationPolicy", "localStorageCapacityIsolation", "kernelMemcgNotification",
    "oomScoreAdj", "maxOpenFiles",
    // Pods and their containers.
    "syncFrequency", "crashLoopBackOff.maxContainerRestartPeriod", "seccompDefault", "allowedUnsafeSysctls",
    "userNamespaces.idsPerPod", "volumeStatsAggPeriod", "volumePluginDir",
    // The host, and the process itself.
    "failSwapOn", "failCgroupV1", "protectKernelDefaults", "makeIPTablesUtilChains", "iptablesMasqueradeBit",
    "iptablesDropBit", "runOnce", "featureGates", "showHiddenMetricsForVersion", "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority", "logging.format",
    "logging.flushFrequency", "logging.vmodule", "logging.options.text.splitStream",
    "logging.options.text.infoBufferSize", "logging.options.json.splitStream",
    "logging.options.json.infoBufferSize", "tracing.endpoint", "tracing.samplingRatePerMillion",
];

/// The difference that another configuration makes to one that runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Reload {
    /// The configuration in force from now on.
    pub config: Config,
    /// The fields that changed in it.
    pub changed: Vec<String>,
    /// The fields that differ and wait for a restart.
    pub waiting: Vec<String>,
}

/// Lays what may change of `read` over `running`.
pub fn reload(running: &Config, read: &Config) -> Reload {
    let (mut in_force, read) = (Value::Object(decode::to_json(running)), Value::Object(decode::to_json(read)));
    let (mut changed, mut waiting) = (vec![], vec![]);
    for (path, pointer) in settings() {
        let (before, now) = (in_force.pointer(&pointer), read.pointer(&pointer));
        if is_same(before, now) {
            continue;
        }
        if !RELOADED.contains(&path.as_str()) {
            waiting.push(path);
            continue;
        }
        if let (Some(place), Some(now)) = (in_force.pointer_mut(&pointer), now) {
            *place = now.clone();
            changed.push(path);
        }
    }
    let config = match in_force {
        Value::Object(fields) => decode::from_json(fields),
        _ => unreachable!("invariant: a configuration is an object"),
    };
    Reload { config, changed, waiting }
}

/// A setting that is not set may be absent, with all that is around it.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    one.filter(|value| !value.is_null()) == other.filter(|value| !value.is_null())
}

/// Every setting of the configuration: its path, and its JSON pointer.
fn settings() -> BTreeMap<String, String> {
    fn enter(fields: &[Field], path: &str, pointer: &str, all: &mut BTreeMap<String, String>) {
        for field in fields {
            let dot = if path.is_empty() { "" } else { "." };
            let (path, pointer) = (format!("{path}{dot}{}", field.key), format!("{pointer}/{}", field.key));
            match field.kind {
                Kind::Object(_, inner) => enter(inner, &path, &pointer, all),
                _ => drop(all.insert(path, pointer)),
            }
        }
    }
    let mut all = BTreeMap::new();
    enter(CONFIGURATION, "", "", &mut all);
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::FeatureGates;
    use crate::config::tests::properties::{object_of, with_type};

    #[test]
    fn every_field_is_in_one_of_the_lists() {
        let mut listed: Vec<&str> = RELOADED.iter().chain(AT_RESTART).copied().collect();
        listed.sort_unstable();
        let all = settings();
        assert_eq!(listed, all.keys().map(String::as_str).collect::<Vec<_>>());
    }

    fn config(document: Value) -> Config {
        let document = with_type(document).to_string();
        decode::main_file(document.as_bytes(), &FeatureGates::default()).expect("it fits the table").config
    }

    #[test]
    fn what_may_change_does_and_the_rest_waits() {
        let running =
            config(serde_json::json!({"maxPods": 5, "logging": {"verbosity": 1}, "tracing": {"endpoint": "a:1"}}));
        let read = config(
            serde_json::json!({"maxPods": 6, "logging": {"verbosity": 4, "format": "json"}, "imageGCLowThresholdPercent": 10}),
        );
        let Reload { config: now, changed, waiting } = reload(&running, &read);
        assert_eq!((now.max_pods, now.logging.verbosity, now.image_gc_low_threshold_percent), (5, 4, 10));
        assert_eq!(now.logging.format, "text");
        assert_eq!(changed, ["imageGCLowThresholdPercent", "logging.verbosity"]);
        assert_eq!(waiting, ["logging.format", "maxPods", "tracing.endpoint"]);
        assert_eq!(reload(&now, &read).changed, Vec::<String>::new(), "it is in force already");
    }

    proptest! {
        /// No difference is forgotten: what is in force and what waits make up all that was read.
        #[test]
        fn every_difference_is_named(before in object_of(CONFIGURATION), after in object_of(CONFIGURATION)) {
            let (running, read) = (config(before), config(after));
            let Reload { config: now, changed, waiting } = reload(&running, &read);
            let [running, read, now] = [running, read, now].map(|config| Value::Object(decode::to_json(&config)));
            for (path, pointer) in settings() {
                let (old, new, held) = (running.pointer(&pointer), read.pointer(&pointer), now.pointer(&pointer));
                prop_assert_eq!(!is_same(old, new), changed.contains(&path) || waiting.contains(&path), "{}", path);
                prop_assert_eq!(held, if changed.contains(&path) { new } else { old }, "{}", path);
            }
        }
    }
}
