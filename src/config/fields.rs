//! The fields of KubeletConfiguration v1beta1: key, type and default of each. Data alone; `schema` works on it.
//!
//! Facts as of Kubernetes 1.36 (`pkg/kubelet/apis/config/v1beta1/defaults.go`). Defaults are JSON texts; an empty one
//! stands for Go's zero value. The two defaults that hang on other fields or gates are in `schema`.

pub(super) mod kinds;

use kinds::Kind::{
    self, Bool, BoolMap, Duration, DurationOrNumber, Float, HeaderMap, Int32, Int32List, Int64, Object, ObjectList,
    Quantity, QuantityMap, Text, TextList, TextMap, Time, Unsigned,
};
use kinds::{Field, Printed};

/// A Go field with `omitempty`: zero means unset, in and out.
const fn plain(key: &'static str, kind: Kind, default: &'static str) -> Field {
    Field { key, kind, default, printed: Printed::UnlessZero }
}

/// A Go pointer: zero is a value; printed once it has one.
const fn pointer(key: &'static str, kind: Kind, default: &'static str) -> Field {
    Field { key, kind, default, printed: Printed::UnlessNull }
}

/// A Go field without `omitempty`: zero means unset when read, and is printed.
const fn always(key: &'static str, kind: Kind, default: &'static str) -> Field {
    Field { key, kind, default, printed: Printed::Always }
}

/// The document itself, in the order of upstream's struct.
#[rustfmt::skip]
pub const CONFIGURATION: &[Field] = &[
    pointer("enableServer", Bool, "true"),
    plain("staticPodPath", Text("string"), ""),
    plain("podLogsDir", Text("string"), "\"/var/log/pods\""),
    plain("syncFrequency", Duration, "\"1m0s\""),
    plain("fileCheckFrequency", Duration, "\"20s\""),
    plain("httpCheckFrequency", Duration, "\"20s\""),
    plain("staticPodURL", Text("string"), ""),
    plain("staticPodURLHeader", HeaderMap, ""),
    plain("address", Text("string"), "\"0.0.0.0\""),
    plain("port", Int32, "10250"),
    plain("readOnlyPort", Int32, ""),
    plain("tlsCertFile", Text("string"), ""),
    plain("tlsPrivateKeyFile", Text("string"), ""),
    plain("tlsCipherSuites", TextList, ""),
    plain("tlsCurvePreferences", Int32List, ""),
    plain("tlsMinVersion", Text("string"), ""),
    plain("rotateCertificates", Bool, ""),
    plain("serverTLSBootstrap", Bool, ""),
    always("authentication", Object("v1beta1.KubeletAuthentication", AUTHENTICATION), ""),
    always("authorization", Object("v1beta1.KubeletAuthorization", AUTHORIZATION), ""),
    pointer("registryPullQPS", Int32, "5"),
    plain("registryBurst", Int32, "10"),
    plain("imagePullCredentialsVerificationPolicy", Text("v1beta1.ImagePullCredentialsVerificationPolicy"), "\"NeverVerifyPreloadedImages\""),
    plain("preloadedImagesVerificationAllowlist", TextList, ""),
    pointer("eventRecordQPS", Int32, "50"),
    plain("eventBurst", Int32, "100"),
    pointer("enableDebuggingHandlers", Bool, "true"),
    plain("enableContentionProfiling", Bool, ""),
    pointer("healthzPort", Int32, "10248"),
    plain("healthzBindAddress", Text("string"), "\"127.0.0.1\""),
    pointer("oomScoreAdj", Int32, "-999"),
    plain("clusterDomain", Text("string"), ""),
    plain("clusterDNS", TextList, ""),
    plain("streamingConnectionIdleTimeout", Duration, "\"4h0m0s\""),
    plain("nodeStatusUpdateFrequency", Duration, "\"10s\""),
    plain("nodeStatusReportFrequency", Duration, "\"5m0s\""),
    plain("nodeLeaseDurationSeconds", Int32, "40"),
    plain("imageMinimumGCAge", Duration, "\"2m0s\""),
    plain("imageMaximumGCAge", Duration, ""),
    pointer("imageGCHighThresholdPercent", Int32, "85"),
    pointer("imageGCLowThresholdPercent", Int32, "80"),
    plain("volumeStatsAggPeriod", Duration, "\"1m0s\""),
    plain("kubeletCgroups", Text("string"), ""),
    plain("systemCgroups", Text("string"), ""),
    plain("cgroupRoot", Text("string"), ""),
    pointer("cgroupsPerQOS", Bool, "true"),
    plain("cgroupDriver", Text("string"), "\"cgroupfs\""),
    plain("cpuManagerPolicy", Text("string"), "\"none\""),
    pointer("singleProcessOOMKill", Bool, ""),
    plain("cpuManagerPolicyOptions", TextMap, ""),
    plain("cpuManagerReconcilePeriod", Duration, "\"10s\""),
    plain("memoryManagerPolicy", Text("string"), "\"None\""),
    plain("topologyManagerPolicy", Text("string"), "\"none\""),
    plain("topologyManagerScope", Text("string"), "\"container\""),
    plain("topologyManagerPolicyOptions", TextMap, ""),
    plain("qosReserved", TextMap, ""),
    plain("runtimeRequestTimeout", Duration, "\"2m0s\""),
    plain("hairpinMode", Text("string"), "\"promiscuous-bridge\""),
    plain("maxPods", Int32, "110"),
    plain("podCIDR", Text("string"), ""),
    pointer("podPidsLimit", Int64, "-1"),
    pointer("resolvConf", Text("string"), "\"/etc/resolv.conf\""),
    plain("runOnce", Bool, ""),
    pointer("cpuCFSQuota", Bool, "true"),
    pointer("cpuCFSQuotaPeriod", Duration, "\"100ms\""),
    pointer("nodeStatusMaxImages", Int32, "50"),
    plain("maxOpenFiles", Int64, "1000000"),
    plain("contentType", Text("string"), "\"application/vnd.kubernetes.protobuf\""),
    pointer("kubeAPIQPS", Int32, "50"),
    plain("kubeAPIBurst", Int32, "100"),
    pointer("serializeImagePulls", Bool, "true"),
    pointer("maxParallelImagePulls", Int32, ""),
    plain("evictionHard", TextMap, ""),
    plain("evictionSoft", TextMap, ""),
    plain("evictionSoftGracePeriod", TextMap, ""),
    plain("evictionPressureTransitionPeriod", Duration, "\"5m0s\""),
    plain("evictionMaxPodGracePeriod", Int32, ""),
    plain("evictionMinimumReclaim", TextMap, ""),
    pointer("mergeDefaultEvictionSettings", Bool, "false"),
    plain("podsPerCore", Int32, ""),
    pointer("enableControllerAttachDetach", Bool, "true"),
    plain("protectKernelDefaults", Bool, ""),
    pointer("makeIPTablesUtilChains", Bool, "true"),
    pointer("iptablesMasqueradeBit", Int32, "14"),
    pointer("iptablesDropBit", Int32, "15"),
    plain("featureGates", BoolMap, ""),
    pointer("failSwapOn", Bool, "true"),
    plain("memorySwap", Object("v1beta1.MemorySwapConfiguration", MEMORY_SWAP), ""),
    plain("containerLogMaxSize", Text("string"), "\"10Mi\""),
    pointer("containerLogMaxFiles", Int32, "5"),
    pointer("containerLogMaxWorkers", Int32, "1"),
    pointer("containerLogMonitorInterval", Duration, "\"10s\""),
    plain("configMapAndSecretChangeDetectionStrategy", Text("v1beta1.ResourceChangeDetectionStrategy"), "\"Watch\""),
    plain("systemReserved", TextMap, ""),
    plain("kubeReserved", TextMap, ""),
    plain("reservedSystemCPUs", Text("string"), ""),
    plain("showHiddenMetricsForVersion", Text("string"), ""),
    plain("systemReservedCgroup", Text("string"), ""),
    plain("kubeReservedCgroup", Text("string"), ""),
    plain("enforceNodeAllocatable", TextList, "[\"pods\"]"),
    plain("allowedUnsafeSysctls", TextList, ""),
    plain("volumePluginDir", Text("string"), "\"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/\""),
    plain("providerID", Text("string"), ""),
    plain("kernelMemcgNotification", Bool, ""),
    plain("logging", Object("v1.LoggingConfiguration", LOGGING), ""),
    pointer("enableSystemLogHandler", Bool, "true"),
    pointer("enableSystemLogQuery", Bool, ""),
    plain("shutdownGracePeriod", Duration, ""),
    plain("shutdownGracePeriodCriticalPods", Duration, ""),
    plain("shutdownGracePeriodByPodPriority", ObjectList("v1beta1.ShutdownGracePeriodByPodPriority", SHUTDOWN_BY_PRIORITY), ""),
    plain("crashLoopBackOff", Object("v1beta1.CrashLoopBackOffConfig", CRASH_LOOP_BACK_OFF), ""),
    plain("reservedMemory", ObjectList("v1beta1.MemoryReservation", MEMORY_RESERVATION), ""),
    pointer("enableProfilingHandler", Bool, "true"),
    pointer("enableDebugFlagsHandler", Bool, "true"),
    pointer("seccompDefault", Bool, "false"),
    pointer("memoryThrottlingFactor", Float, "0.9"),
    plain("memoryReservationPolicy", Text("v1beta1.MemoryReservationPolicy"), "\"None\""),
    plain("registerWithTaints", ObjectList("v1.Taint", TAINT), ""),
    pointer("registerNode", Bool, "true"),
    pointer("tracing", Object("v1.TracingConfiguration", TRACING), ""),
    pointer("localStorageCapacityIsolation", Bool, "true"),
    always("containerRuntimeEndpoint", Text("string"), "\"unix:///run/containerd/containerd.sock\""),
    plain("imageServiceEndpoint", Text("string"), ""),
    pointer("failCgroupV1", Bool, "true"),
    pointer("userNamespaces", Object("v1beta1.UserNamespaces", USER_NAMESPACES), ""),
];

const AUTHENTICATION: &[Field] = &[
    always("x509", Object("v1beta1.KubeletX509Authentication", &[plain("clientCAFile", Text("string"), "")]), ""),
    always("webhook", Object("v1beta1.KubeletWebhookAuthentication", WEBHOOK_AUTHENTICATION), ""),
    always("anonymous", Object("v1beta1.KubeletAnonymousAuthentication", &[pointer("enabled", Bool, "false")]), ""),
];

const WEBHOOK_AUTHENTICATION: &[Field] = &[pointer("enabled", Bool, "true"), plain("cacheTTL", Duration, "\"2m0s\"")];

const AUTHORIZATION: &[Field] = &[
    plain("mode", Text("v1beta1.KubeletAuthorizationMode"), "\"Webhook\""),
    always("webhook", Object("v1beta1.KubeletWebhookAuthorization", WEBHOOK_AUTHORIZATION), ""),
];

const WEBHOOK_AUTHORIZATION: &[Field] =
    &[plain("cacheAuthorizedTTL", Duration, "\"5m0s\""), plain("cacheUnauthorizedTTL", Duration, "\"30s\"")];

const MEMORY_SWAP: &[Field] = &[plain("swapBehavior", Text("string"), "")];

const LOGGING: &[Field] = &[
    plain("format", Text("string"), "\"text\""),
    always("flushFrequency", DurationOrNumber, "\"5s\""),
    always("verbosity", Unsigned, ""),
    plain("vmodule", ObjectList("v1.VModuleItem", VMODULE_ITEM), ""),
    plain("options", Object("v1.FormatOptions", FORMAT_OPTIONS), ""),
];

const VMODULE_ITEM: &[Field] = &[always("filePattern", Text("string"), ""), always("verbosity", Unsigned, "")];

const FORMAT_OPTIONS: &[Field] = &[
    plain("text", Object("v1.TextOptions", OUTPUT_ROUTING), ""),
    plain("json", Object("v1.JSONOptions", OUTPUT_ROUTING), ""),
];

const OUTPUT_ROUTING: &[Field] = &[plain("splitStream", Bool, ""), always("infoBufferSize", Quantity, "\"0\"")];

const SHUTDOWN_BY_PRIORITY: &[Field] =
    &[always("priority", Int32, ""), always("shutdownGracePeriodSeconds", Int64, "")];

const CRASH_LOOP_BACK_OFF: &[Field] = &[pointer("maxContainerRestartPeriod", Duration, "\"5m0s\"")];

const MEMORY_RESERVATION: &[Field] = &[always("numaNode", Int32, ""), always("limits", QuantityMap, "")];

const TAINT: &[Field] = &[
    always("key", Text("string"), ""),
    plain("value", Text("string"), ""),
    always("effect", Text("v1.TaintEffect"), ""),
    pointer("timeAdded", Time, ""),
];

const TRACING: &[Field] = &[pointer("endpoint", Text("string"), ""), pointer("samplingRatePerMillion", Int32, "")];

const USER_NAMESPACES: &[Field] = &[pointer("idsPerPod", Int64, "")];
