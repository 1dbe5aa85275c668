//! Every rule of validation: one field off, one text.

use super::super::validate::{Host, aggregate, validate};
use super::super::{Config, FeatureGates};
use super::{decoded, document};

fn errors_on(fields: &str, host: Host) -> Vec<String> {
    let config = decoded(fields);
    let gates = FeatureGates::default().with(&config.feature_gates).expect("the gates fit together");
    validate(&config, &gates, host)
}

fn errors(fields: &str) -> Vec<String> {
    errors_on(fields, Host { cgroup_v1: false })
}

fn expect(cases: &[(&str, &str)]) {
    for (fields, error) in cases {
        assert_eq!(errors(fields), [format!("invalid configuration: {error}")], "{fields}");
    }
}

#[test]
fn what_holds_by_default_is_valid() {
    assert_eq!(errors(""), Vec::<String>::new());
    let gates = FeatureGates::default();
    assert!(validate(&super::super::decode::legacy_defaults(), &gates, Host { cgroup_v1: false }).is_empty());
}

#[test]
fn numbers_have_limits() {
    expect(&[
        ("nodeLeaseDurationSeconds: -1", "nodeLeaseDurationSeconds must be greater than 0"),
        ("eventBurst: -1", "eventBurst (--event-burst) -1 must not be a negative number"),
        ("eventRecordQPS: -1", "eventRecordQPS (--event-qps) -1 must not be a negative number"),
        ("healthzPort: 65536", "healthzPort (--healthz-port) 65536 must be between 1 and 65535, inclusive"),
        (
            "imageGCHighThresholdPercent: 101",
            "imageGCHighThresholdPercent (--image-gc-high-threshold) 101 must be between 0 and 100, inclusive",
        ),
        (
            "imageGCLowThresholdPercent: -1",
            "imageGCLowThresholdPercent (--image-gc-low-threshold) -1 must be between 0 and 100, inclusive",
        ),
        (
            "imageGCLowThresholdPercent: 85",
            "imageGCLowThresholdPercent (--image-gc-low-threshold) 85 must be less than imageGCHighThresholdPercent \
             (--image-gc-high-threshold) 85",
        ),
        ("iptablesDropBit: 32", "iptablesDropBit (--iptables-drop-bit) 32 must be between 0 and 31, inclusive"),
        (
            "iptablesMasqueradeBit: -1",
            "iptablesMasqueradeBit (--iptables-masquerade-bit) -1 must be between 0 and 31, inclusive",
        ),
        ("kubeAPIBurst: -1", "kubeAPIBurst (--kube-api-burst) -1 must not be a negative number"),
        ("kubeAPIQPS: -1", "kubeAPIQPS (--kube-api-qps) -1 must not be a negative number"),
        ("nodeStatusMaxImages: -2", "nodeStatusMaxImages (--node-status-max-images) -2 must be -1 or greater"),
        ("maxOpenFiles: -1", "maxOpenFiles (--max-open-files) -1 must not be a negative number"),
        ("maxPods: -1", "maxPods (--max-pods) -1 must not be a negative number"),
        ("oomScoreAdj: 1001", "oomScoreAdj (--oom-score-adj) 1001 must be between -1000 and 1000, inclusive"),
        ("podsPerCore: -1", "podsPerCore (--pods-per-core) -1 must not be a negative number"),
        ("port: 65536", "port (--port) 65536 must be between 1 and 65535, inclusive"),
        ("readOnlyPort: -1", "readOnlyPort (--read-only-port) -1 must be between 0 and 65535, inclusive"),
        ("registryBurst: -1", "registryBurst (--registry-burst) -1 must not be a negative number"),
        ("registryPullQPS: -1", "registryPullQPS (--registry-qps) -1 must not be a negative number"),
        ("containerLogMaxFiles: 1", "containerLogMaxFiles must be greater than 1"),
        ("containerLogMaxWorkers: 0", "containerLogMaxWorkers must be greater than or equal to 1"),
        ("maxParallelImagePulls: 0", "maxParallelImagePulls 0 must be a positive number"),
        (
            "maxParallelImagePulls: 2\nserializeImagePulls: true",
            "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to \
             false",
        ),
    ]);
}

#[test]
fn durations_have_limits() {
    expect(&[
        (
            "cpuCFSQuotaPeriod: 2s",
            "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {2s} must be between 1ms and 1sec, inclusive",
        ),
        (
            "cpuCFSQuotaPeriod: 200ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: false}",
            "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {200ms} requires feature gate CustomCPUCFSQuotaPeriod",
        ),
        ("imageMinimumGCAge: -1ns", "imageMinimumGCAge -1ns must not be negative"),
        ("imageMaximumGCAge: -1ns", "imageMaximumGCAge -1ns must not be negative"),
        (
            "imageMaximumGCAge: 1ns\nimageMinimumGCAge: 2ns",
            "imageMaximumGCAge 1ns must be greater than imageMinimumGCAge 2ns",
        ),
        (
            "containerLogMonitorInterval: 2999ms",
            "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s",
        ),
        (
            "shutdownGracePeriod: 1s\nshutdownGracePeriodCriticalPods: 2s",
            "shutdownGracePeriodCriticalPods {2s} must be <= shutdownGracePeriod {1s}",
        ),
        ("shutdownGracePeriod: 1ms", "shutdownGracePeriod {1ms} must be either zero or otherwise >= 1 sec"),
        (
            "shutdownGracePeriod: 2s\nshutdownGracePeriodCriticalPods: 1ms",
            "shutdownGracePeriodCriticalPods {1ms} must be either zero or otherwise >= 1 sec",
        ),
        (
            "shutdownGracePeriod: 2s\nfeatureGates: {GracefulNodeShutdown: false, WindowsGracefulNodeShutdown: false, \
             GracefulNodeShutdownBasedOnPodPriority: false}",
            "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown",
        ),
        (
            "shutdownGracePeriod: 2s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 1}]",
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
        ),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 1}]\n\
             featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}",
            "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority",
        ),
    ]);
    for (period, shown) in [("999ms", "0.999"), ("300.9s", "300.9"), ("301s", "301"), ("0s", "0")] {
        let text = format!(
            "CrashLoopBackOff.MaxContainerRestartPeriod (got: {shown} seconds) must be set between 1s and 300s"
        );
        expect(&[(&format!("crashLoopBackOff: {{maxContainerRestartPeriod: {period}}}"), &text)]);
    }
    expect(&[(
        "crashLoopBackOff: {maxContainerRestartPeriod: 5s}\nfeatureGates: {KubeletCrashLoopBackOffMax: false}",
        "FeatureGate KubeletCrashLoopBackOffMax not enabled, CrashLoopBackOff.MaxContainerRestartPeriod must not be set",
    )]);
    let bare = Config { crash_loop_back_off: super::super::CrashLoopBackOff::default(), ..decoded("") };
    assert_eq!(
        validate(&bare, &FeatureGates::default(), Host { cgroup_v1: false }),
        ["invalid configuration: FeatureGate KubeletCrashLoopBackOffMax is enabled, \
          CrashLoopBackOff.MaxContainerRestartPeriod must be set"]
    );
}

#[test]
fn choices_are_closed() {
    expect(&[
        (
            "topologyManagerPolicy: x",
            "topologyManagerPolicy (--topology-manager-policy) \"x\" must be one of: [\"none\" \"best-effort\" \
             \"restricted\" \"single-numa-node\"]",
        ),
        (
            "topologyManagerScope: x",
            "topologyManagerScope (--topology-manager-scope) \"x\" must be one of: \"container\", or \"pod\"",
        ),
        (
            "memorySwap: {swapBehavior: x}",
            "memorySwap.swapBehavior \"x\" must be one of: \"\", \"LimitedSwap\" or \"NoSwap\"",
        ),
        (
            "hairpinMode: x",
            "option \"x\" specified for hairpinMode (--hairpin-mode). Valid options are \"none\", \"hairpin-veth\" or \
             \"promiscuous-bridge\"",
        ),
        (
            "memoryReservationPolicy: x",
            "option \"x\" specified for memoryReservationPolicy. Valid options are \"None\" or \"TieredReservation\"",
        ),
        (
            "memoryReservationPolicy: TieredReservation",
            "memoryReservationPolicy \"TieredReservation\" requires MemoryQoS feature gate to be enabled",
        ),
        (
            "memoryThrottlingFactor: 1.1",
            "memoryThrottlingFactor 1.1 must be greater than 0 and less than or equal to 1.0",
        ),
        ("runOnce: true", "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set"),
        (
            "serverTLSBootstrap: true\nfeatureGates: {RotateKubeletServerCertificate: false}",
            "serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate",
        ),
        (
            "systemCgroups: /a",
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
        ),
        (
            "enableSystemLogQuery: true\nenableSystemLogHandler: false",
            "enableSystemLogHandler is required for enableSystemLogQuery",
        ),
    ]);
    let config = Config { container_runtime_endpoint: String::new(), memory_throttling_factor: None, ..decoded("") };
    let gates = FeatureGates::default().with(&[("MemoryQoS".to_owned(), true)].into()).expect("it is known");
    assert_eq!(
        validate(&config, &gates, Host { cgroup_v1: false }),
        [
            "invalid configuration: memoryThrottlingFactor is required when MemoryQoS feature flag is enabled",
            "invalid configuration: the containerRuntimeEndpoint was not specified or empty",
        ]
    );
}

#[test]
fn taints_are_judged() {
    expect(&[(
        "registerWithTaints: [{key: a, effect: NoSchedule, timeAdded: '2024-01-01T00:00:00Z'}]",
        "taint.TimeAdded is not nil",
    )]);
    for taint in
        ["{key: '', effect: NoSchedule}", "{key: a, value: 'b c', effect: NoSchedule}", "{key: a, effect: Never}"]
    {
        let found = errors(&format!("registerWithTaints: [{taint}]"));
        assert!(matches!(&found[..], [only] if only.starts_with("invalid taint: {")), "{taint}: {found:?}");
    }
}

/// CFG-44.
#[test]
fn node_allocatable_is_judged() {
    const FIELD: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";
    let cgroups = "systemReservedCgroup: /s\nkubeReservedCgroup: /k\n";
    for (fields, error) in [
        (
            "enforceNodeAllocatable: [system-reserved]",
            format!(
                "systemReservedCgroup (--system-reserved-cgroup) must be specified when \"system-reserved\" or \
             \"system-reserved-compressible\" included in {FIELD}"
            ),
        ),
        (
            "enforceNodeAllocatable: [kube-reserved-compressible]",
            format!(
                "kubeReservedCgroup (--kube-reserved-cgroup) must be specified when \"kube-reserved\" or \
             \"kube-reserved-compressible\" included in {FIELD}"
            ),
        ),
        (
            &*format!("{cgroups}enforceNodeAllocatable: [system-reserved, system-reserved-compressible]"),
            format!(
                "both \"system-reserved\" and \"system-reserved-compressible\" cannot be specified together in {FIELD}"
            ),
        ),
        (
            &*format!("{cgroups}enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]"),
            format!(
                "both \"kube-reserved\" and \"kube-reserved-compressible\" cannot be specified together in {FIELD}"
            ),
        ),
        ("enforceNodeAllocatable: [pods, pods]", format!("duplicated enforcements \"pods\" in {FIELD}")),
        (
            "enforceNodeAllocatable: [none, pods]",
            format!("{FIELD} may not contain additional enforcements when \"none\" is specified"),
        ),
        (
            "enforceNodeAllocatable: [x]",
            format!(
                "option \"x\" specified for {FIELD}. Valid options are \"pods\", \"system-reserved\", \
             \"system-reserved-compressible\", \"kube-reserved\", \"kube-reserved-compressible\" or \"none\""
            ),
        ),
        (
            "cgroupsPerQOS: false",
            format!("cgroupsPerQOS (--cgroups-per-qos) must be set to true when \"pods\" contained in {FIELD}"),
        ),
    ] {
        expect(&[(fields, &error)]);
    }
    assert!(errors("cgroupsPerQOS: false\nenforceNodeAllocatable: [none]").is_empty());
    assert!(errors("cgroupsPerQOS: false\nenforceNodeAllocatable: []").is_empty());
}

#[test]
fn reserved_cpus_and_memory_are_judged() {
    expect(&[
        (
            "reservedSystemCPUs: 0-3\nkubeReservedCgroup: /k",
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or \
             kubeReservedCgroup (--kube-reserved-cgroup)",
        ),
        (
            "reservedSystemCPUs: x",
            "unable to parse reservedSystemCPUs (--reserved-cpus) x, error: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "reservedSystemCPUs: 5-3",
            "unable to parse reservedSystemCPUs (--reserved-cpus) 5-3, error: invalid range \"5-3\" (5 > 3)",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
            "the limit type \"cpu\" for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]",
            "reserved memory may not be zero for NUMA node 0 and resource \"memory\"",
        ),
        (
            "reservedMemory: [{numaNode: 1, limits: {memory: 1}}, {numaNode: 1, limits: {memory: 2}}]",
            "the reserved memory has a duplicate value for NUMA node 1 and resource \"memory\"",
        ),
    ]);
    assert!(errors("reservedSystemCPUs: 0-3,8,10-10").is_empty());
}

#[test]
fn image_credentials_are_judged() {
    let allow =
        "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ";
    let invalid = "invalid image pattern in `preloadedImagesVerificationAllowlist`: ";
    expect(&[
        (
            "imagePullCredentialsVerificationPolicy: x",
            "option \"x\" specified for imagePullCredentialsVerificationPolicy. Valid options are \"NeverVerify\", \
             \"NeverVerifyPreloadedImages\", \"NeverVerifyAllowlistedImages\" or \"AlwaysVerify\"",
        ),
        (
            "preloadedImagesVerificationAllowlist: [a]",
            "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not \
             \"NeverVerifyAllowlistedImages\"",
        ),
        (
            "imagePullCredentialsVerificationPolicy: NeverVerify\nfeatureGates: {KubeletEnsureSecretPulledImages: false}",
            "`imagePullCredentialsVerificationPolicy` must not be set if KubeletEnsureSecretPulledImages feature gate is \
             not enabled",
        ),
    ]);
    for (pattern, error) in [
        ("' a'", "leading/trailing spaces are not allowed:  a"),
        ("'/*'", "at least registry hostname is required"),
        ("''", "the supplied pattern is too short: "),
        ("'a*'", "not a valid wildcard pattern, only patterns ending with '/*' are allowed: a*"),
        ("'a/*/b'", "not a valid wildcard pattern, only patterns ending with '/*' are allowed: a/*/b"),
        ("'r.example/a:1'", "neither tag nor digest is accepted in an image reference: r.example/a:1"),
        ("'a//b'", "failed to parse as an image name: invalid reference format"),
        ("'r.example/A'", "failed to parse as an image name: repository name must be lowercase"),
    ] {
        expect(&[(&format!("{allow}[{pattern}]"), &format!("{invalid}{error}"))]);
    }
    for pattern in ["r.example/*", "r.example:5000/a/b-c", "r.example/a__b/*", "busybox", "localhost/a"] {
        assert_eq!(errors(&format!("{allow}[{pattern:?}]")), Vec::<String>::new(), "{pattern}");
    }
}

#[test]
fn logging_and_tracing_are_judged() {
    for (fields, error) in [
        ("logging: {format: x}", "logging.format: Invalid value: \"x\": Unsupported log format"),
        ("logging: {flushFrequency: -1s}", "logging.flushFrequency: Invalid value: \"-1s\": Must be greater than zero"),
        ("logging: {verbosity: 2147483648}", "logging.verbosity: Invalid value: 2147483648: Must be <= 2147483647"),
        (
            "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
            "logging.vmodule: Forbidden: Only supported for text log format",
        ),
        (
            "logging: {vmodule: [{filePattern: '', verbosity: 1}]}",
            "logging.vmodule[0]: Required value: File pattern must not be empty",
        ),
        (
            "logging: {vmodule: [{filePattern: 'a=', verbosity: 1}]}",
            "logging.vmodule[0]: Invalid value: \"a=\": File pattern must not contain equal sign or comma",
        ),
        (
            "logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}",
            "logging.format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature",
        ),
        (
            "logging: {options: {json: {splitStream: true}}}",
            "logging.options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (
            "logging: {options: {text: {infoBufferSize: 1Ki}}}",
            "logging.options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (
            "tracing: {samplingRatePerMillion: -1}",
            "tracing.samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        ),
        (
            "tracing: {samplingRatePerMillion: 1000001}",
            "tracing.samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or equal \
             to one million",
        ),
        (
            "tracing: {endpoint: 'dn%2s://localhost:4317'}",
            "tracing.endpoint: Invalid value: \"dn%2s://localhost:4317\": parse \"dn%2s://localhost:4317\": first path \
             segment in URL cannot contain colon",
        ),
        (
            "tracing: {endpoint: 'http://localhost:4317'}",
            "tracing.endpoint: Invalid value: \"http://localhost:4317\": unsupported scheme: http.  Options are none, \
             dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md",
        ),
        (
            "showHiddenMetricsForVersion: '1.20'",
            "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: \"1.20\": must be omitted \
             or have the value '1.35'; only the previous minor version is allowed",
        ),
    ] {
        assert_eq!(errors(fields), [error], "{fields}");
    }
    for fields in [
        "tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 1000000}",
        "tracing: {endpoint: 'unix:///run/otel.sock'}",
        "logging: {flushFrequency: 5000000000, format: json}",
        "showHiddenMetricsForVersion: '1.35'",
    ] {
        assert_eq!(errors(fields), Vec::<String>::new(), "{fields}");
    }
}

#[test]
fn the_pod_logs_directory_is_judged() {
    expect(&[
        ("podLogsDir: /path/../", "pod logs path \"/path/../\" must be normalized"),
        ("podLogsDir: /🧪", "pod logs path \"/🧪\" mut contains ASCII characters only"),
        ("podLogsDir: test", "pod logs path \"test\" must be absolute path"),
    ]);
    let config = Config { pod_logs_dir: String::new(), ..decoded("") };
    let found = validate(&config, &FeatureGates::default(), Host { cgroup_v1: false });
    assert_eq!(found[0], "invalid configuration: podLogsDir was not specified");
}

#[test]
fn the_operating_system_comes_late_and_once() {
    let v1 = Host { cgroup_v1: true };
    assert_eq!(
        errors_on("userNamespaces: {idsPerPod: 1}", v1),
        ["kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be \
          removed in a future release"]
    );
    assert_eq!(errors_on("failCgroupV1: false", v1), Vec::<String>::new());
    assert_eq!(
        errors_on("failCgroupV1: false\nsingleProcessOOMKill: false", v1),
        ["invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1"]
    );
    for (ids, error) in [
        ("65535", "not be less than 65536"),
        ("65537", "be a multiple of 65536"),
        ("4294967296", "not be more than 4294967295"),
    ] {
        let text = format!("userNamespaces.idsPerPod must {error}");
        expect(&[(&format!("userNamespaces: {{idsPerPod: {ids}}}"), &text)]);
    }
    assert_eq!(decoded("userNamespaces: {idsPerPod: 131072}").user_namespace_ids_per_pod(), 131_072);
    assert_eq!(decoded("").user_namespace_ids_per_pod(), 65_536);
}

/// CFG-16.
#[test]
fn all_broken_rules_are_told_in_order() {
    let found = errors("maxPods: -1\neventBurst: -1\nhairpinMode: x\nfailSwapOn: true\n");
    assert_eq!(found.len(), 3);
    let message = aggregate(&found);
    let order: Vec<usize> =
        ["eventBurst", "maxPods", "hairpinMode"].iter().map(|field| message.find(field).expect("it is told")).collect();
    assert!(order.is_sorted() && message.starts_with('[') && message.ends_with(']'), "{message}");
    assert_eq!(aggregate(&["a".into()]), "a");
    assert_eq!(aggregate(&["a".into(), "b".into(), "a".into()]), "[a, b]");
    assert_eq!(aggregate(&["a".into(), "a".into()]), "a");
    assert!(document("").starts_with("apiVersion"));
}
