//! From arguments to an invocation: the order of steps and what each refuses.

use super::super::{acted, decode};
use super::{Folder, decoded, failure, run, start};

/// CFG-16.
#[test]
fn a_bad_configuration_names_every_broken_rule() {
    assert_eq!(
        failure(&["--max-pods=-1"]),
        "failed to validate kubelet configuration, error: invalid configuration: maxPods (--max-pods) -1 must not be a \
         negative number, path: &TypeMeta{Kind:,APIVersion:,}"
    );
    assert_eq!(
        failure(&["--max-pods=-1", "--port=0"]),
        "failed to validate kubelet configuration, error: [invalid configuration: maxPods (--max-pods) -1 must not be a \
         negative number, invalid configuration: port (--port) 0 must be between 1 and 65535, inclusive], path: \
         &TypeMeta{Kind:,APIVersion:,}"
    );
}

/// CFG-20, CFG-21, CFG-22.
#[test]
fn gates_are_refused_from_flags_and_files() {
    let folder = Folder::new();
    let prefix = "failed to set feature gates from initial flags-based config: ";
    for (gates, error) in [
        ("Foo: true", "unrecognized feature gate: Foo"),
        ("NodeSwap: false", "cannot set feature gate NodeSwap to false, feature is locked to true"),
        (
            "ResourceHealthStatus: false",
            "ResourceHealthStatusMessage is enabled, but depends on features that are disabled: [ResourceHealthStatus]",
        ),
    ] {
        let flag = format!("--feature-gates={}", gates.replace(": ", "="));
        assert_eq!(failure(&[&flag]), format!("{prefix}{error}"));
        let path = folder.config("config.yaml", &format!("featureGates: {{{gates}}}\n"));
        assert_eq!(failure(&["--config", &path]), format!("{prefix}{error}"));
    }
    assert_eq!(
        failure(&["--feature-gates=A=true,B=true"]),
        format!("{prefix}[unrecognized feature gate: A, unrecognized feature gate: B]")
    );
}

#[test]
fn gates_of_a_file_fit_those_of_the_command_line() {
    let folder = Folder::new();
    let path = folder.config("config.yaml", "featureGates: {ResourceHealthStatusMessage: false}\n");
    // Upstream sets the command line's gates before it knows the file's.
    assert!(failure(&["--config", &path, "--feature-gates=ResourceHealthStatus=false"]).contains("is enabled, but"));
    let invocation = run(&["--config", &path, "--feature-gates=MemoryQoS=true"]);
    assert!(invocation.gates.enabled("MemoryQoS") && !invocation.gates.enabled("ResourceHealthStatusMessage"));
}

#[test]
fn gates_of_the_command_line_matter_to_defaults() {
    let folder = Folder::new();
    let path = folder.config("config.yaml", "");
    let config = run(&["--config", &path, "--feature-gates=KubeletCrashLoopBackOffMax=false"]).config;
    assert_eq!(config.crash_loop_back_off.max_container_restart_period, None);
}

/// CFG-25.
#[test]
fn labels_of_kubernetes_are_refused_before_files_are_read() {
    let error = failure(&["--node-labels=kubernetes.io/foo=1", "--config=/no/such/file"]);
    assert!(
        error.starts_with(
            "failed to validate kubelet flags: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: \
             [kubernetes.io/foo]\n--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix"
        ),
        "{error}"
    );
}

#[test]
fn bad_logging_is_told_before_the_rest() {
    assert_eq!(
        failure(&["--logging-format=x", "--max-pods=-1"]),
        "initialize logging: logging.format: Invalid value: \"x\": Unsupported log format"
    );
}

/// CFG-28.
#[test]
fn late_checks_end_the_start_one_at_a_time() {
    for (line, error) in [
        (
            &["--exit-on-lock-contention"][..],
            "failed to run Kubelet: cannot exit on lock file contention: no lock file specified",
        ),
        (
            &["--cloud-provider=aws"],
            "failed to run Kubelet: failed to create kubelet: cloud provider \"aws\" was specified, but built-in cloud \
             providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider",
        ),
        (&["--sync-frequency=0s"], "failed to run Kubelet: failed to create kubelet: invalid sync frequency 0"),
        (
            &["--kube-reserved=gpu=1"],
            "failed to run Kubelet: --kube-reserved value failed to parse: cannot reserve \"gpu\" resource",
        ),
        (
            &["--system-reserved=cpu=-1"],
            "failed to run Kubelet: --system-reserved value failed to parse: resource quantity for \"cpu\" cannot be \
             negative: -1",
        ),
        (&["--authorization-mode=RBAC"], "failed to run Kubelet: unknown authorization mode RBAC"),
        (&["--authorization-mode="], "failed to run Kubelet: no authorization mode specified"),
        (&["--cpu-manager-policy=x"], "failed to run Kubelet: unknown policy: \"x\""),
        (&["--memory-manager-policy=static"], "failed to run Kubelet: unknown policy: \"static\""),
        (
            &["--memory-manager-policy=BestEffort"],
            "failed to run Kubelet: policy \"BestEffort\" is not available for platform \"linux\"",
        ),
        (
            &["--qos-reserved=memory=50"],
            "failed to run Kubelet: --qos-reserved value failed to parse: failed to parse percentage \"50\" for \
             \"memory\" resource: percentage expected, got '50'",
        ),
        (
            &["--qos-reserved=memory=101%"],
            "failed to run Kubelet: --qos-reserved value failed to parse: failed to parse percentage \"101%\" for \
             \"memory\" resource: percentage must be between 0 and 100",
        ),
        (
            &["--qos-reserved=cpu=1%"],
            "failed to run Kubelet: --qos-reserved value failed to parse: cannot reserve \"cpu\" resource",
        ),
        (&["--root-dir="], "failed to run Kubelet: failed to create kubelet: invalid root directory \"\""),
        (
            &["--container-log-max-size=big"],
            "failed to run Kubelet: failed to create kubelet: failed to initialize container log manager: failed to parse \
             container log max size \"big\": quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            &["--tls-cipher-suites=X"],
            "failed to construct kubelet dependencies: Cipher suite X not supported or doesn't exist",
        ),
        (&["--tls-min-version=1.2"], "failed to construct kubelet dependencies: unknown tls version \"1.2\""),
    ] {
        assert_eq!(failure(line), error, "{line:?}");
    }
    run(&["--cloud-provider=external", "--exit-on-lock-contention", "--lock-file=/l"]);
}

#[test]
fn a_wrong_strategy_ends_the_start() {
    let folder = Folder::new();
    let path = folder.config("config.yaml", "configMapAndSecretChangeDetectionStrategy: Poll\n");
    assert_eq!(
        failure(&["--config", &path]),
        "failed to run Kubelet: failed to create kubelet: unknown configmap and secret manager mode: Poll"
    );
}

/// CFG-17.
#[test]
fn the_last_line_is_logged_as_upstream_does() {
    let error = start(&["--foo"]).map(|_| ()).expect_err("it is unknown");
    assert_eq!(error.as_log_text(), "\"command failed\" err=\"failed to parse kubelet flag: unknown flag: --foo\"");
    let error = start(&["--node-labels=kubernetes.io/foo=1"]).map(|_| ()).expect_err("it is Kubernetes' own");
    let text = error.as_log_text();
    assert!(text.starts_with("\"command failed\" err=<\n\tfailed to validate kubelet flags: unknown"), "{text}");
    assert!(text.contains("[kubernetes.io/foo]\n\t--node-labels in the") && text.ends_with("\n >"), "{text}");
}

/// SEC-27: a warning names what upstream has open without a configuration file, or the agent does not start.
#[test]
fn sec_27_old_defaults_warn_once_or_stop_the_start() {
    let folder = Folder::new();
    let loud = |line: &[&str]| run(line).warnings.iter().filter(|text| text.starts_with("INSECURE: ")).count();
    assert_eq!(loud(&[]), 1);
    let path = folder.config("config.yaml", "readOnlyPort: 10255\n");
    assert_eq!(loud(&["--config", &path, "--refuse-insecure-defaults"]), 0, "what a file says was meant");
    let closed = ["--anonymous-auth=false", "--authorization-mode=Webhook", "--read-only-port=0"];
    assert_eq!(loud(&closed), 0);
    let error = failure(&["--refuse-insecure-defaults", "--anonymous-auth=false"]);
    assert_eq!(
        error,
        "refusing to start with insecure defaults: every call is allowed (authorization.mode: AlwaysAllow); pods are \
         shown without authentication (readOnlyPort: 10255); give a configuration file with --config, or set these \
         fields in one of --config-dir or by flags"
    );
    run(&[&["--refuse-insecure-defaults"][..], &closed].concat());
}

/// CFG-08, SRV-58.
/// SEC-27: who may call is closed as soon as there is a file, be it empty; without one upstream's old defaults are in force.
#[test]
fn an_empty_file_closes_the_server_and_no_file_does_not() {
    let folder = Folder::new();
    let path = folder.config("config.yaml", "");
    for (line, is_open) in [(&["--config", &path][..], false), (&[], true)] {
        let config = run(line).config;
        let access = (config.authentication.anonymous.enabled, config.authentication.webhook.enabled);
        assert_eq!(access, (is_open, !is_open), "{line:?}");
        let (mode, port) = if is_open { ("AlwaysAllow", 10255) } else { ("Webhook", 0) };
        assert_eq!((config.authorization.mode.as_str(), config.read_only_port), (mode, port), "{line:?}");
    }
}

#[test]
fn odd_but_legal_settings_warn() {
    let folder = Folder::new();
    let path = folder.config(
        "config.yaml",
        "kubeReservedCgroup: /k\nkubeletCgroups: /other\ntlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]\n\
         tlsMinVersion: VersionTLS13\nfeatureGates: {NodeSwap: true}\n",
    );
    let invocation = run(&["--config", &path]);
    assert!(invocation.config_from_file);
    assert_eq!(
        invocation.warnings,
        [
            "Setting GA feature gate NodeSwap=true. It will be removed in a future release.",
            "unsupported configuration:KubeletCgroups is not within KubeReservedCgroup",
            "Use of insecure cipher detected. cipher=\"TLS_RSA_WITH_RC4_128_SHA\"",
            "Warning: TLS 1.3 cipher suites are not configurable, ignoring --tls-cipher-suites",
        ]
    );
}

/// The warnings about settings that change nothing, of these arguments and this file.
fn ignored(fields: &str, more: &[&str]) -> Vec<String> {
    let folder = Folder::new();
    let path = folder.config("config.yaml", fields);
    let warnings = run(&[&["--config", &path][..], more].concat()).warnings;
    let is_told = |text: &String| text.contains("does not act on it") || text.contains("behaves as with");
    warnings.into_iter().filter(is_told).collect()
}

#[test]
fn settings_without_effect_are_told_when_somebody_makes_them() {
    let names = acted::IGNORED_FIELDS.iter().map(|(name, _)| *name);
    assert!(names.is_sorted() && acted::IGNORED_FLAGS.is_sorted() && acted::IGNORED_GATES.is_sorted());
    assert!(ignored("", &[]).is_empty());
    assert_eq!(
        ignored("maxPods: 5\nenableContentionProfiling: true\nlogging: {flushFrequency: 1s}\n", &[]),
        [
            "enableContentionProfiling is set, but the agent does not act on it",
            "logging.flushFrequency is set, but the agent does not act on it",
        ]
    );
    let in_force = "enableSystemLogQuery: true\nkernelMemcgNotification: true\nlogging: {flushFrequency: 5s}\n";
    assert!(ignored(in_force, &[]).is_empty(), "defaults, and what the agent does anyway");
    assert_eq!(
        ignored("", &["--housekeeping-interval=10s", "--experimental-mounter-path=/m", "--v=1"]),
        [
            "--experimental-mounter-path is set, but the agent does not act on it",
            "--housekeeping-interval is set, but the agent does not act on it",
        ]
    );
    assert!(acted::fields(&decode::legacy_defaults()).is_empty());
}

#[test]
fn gates_without_effect_are_told_when_somebody_sets_them_to_what_is_not_done() {
    assert_eq!(
        ignored("featureGates: {ClientsAllowCBOR: true, WatchListClient: false, MemoryQoS: true}\n", &[]),
        [
            "feature gate ClientsAllowCBOR=true is set, but the agent behaves as with ClientsAllowCBOR=false",
            "feature gate WatchListClient=false is set, but the agent behaves as with WatchListClient=true",
        ]
    );
    let by_name = ["--feature-gates=PodCertificateRequest=false,EventedPLEG=true"];
    assert_eq!(
        ignored("", &by_name),
        ["feature gate PodCertificateRequest=false is set, but the agent behaves as with PodCertificateRequest=true"]
    );
    let by_group = ignored("featureGates: {AllAlpha: true}\n", &[]);
    assert!(by_group.iter().any(|text| text.contains("ClientsAllowCBOR=true")), "{by_group:#?}");
    assert!(!by_group.iter().any(|text| text.contains("ContextualLogging")), "{by_group:#?}");
}

/// CFG-49: JSON is spoken, whatever is asked for; who asks for it gets what they want.
#[test]
fn another_content_type_than_json_is_told_of() {
    for (content_type, told) in [
        ("application/json", &[][..]),
        ("application/vnd.kubernetes.protobuf", &[]),
        ("application/cbor", &["contentType"]),
    ] {
        let config = decoded(&format!("contentType: {content_type}\n"));
        assert_eq!(acted::fields(&config), told, "{content_type}");
    }
}

/// CFG-53, CFG-55.
#[test]
fn command_lines_of_installers_are_understood() {
    let folder = Folder::new();
    let main = folder.config(
        "config.yaml",
        "staticPodPath: /etc/kubernetes/manifests\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n\
         authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}, anonymous: {enabled: false}}\n\
         rotateCertificates: true\ncgroupDriver: systemd\ncgroupRoot: /kubelet\nfailSwapOn: false\n\
         resolvConf: /run/systemd/resolve/resolv.conf\nimageGCHighThresholdPercent: 100\n\
         evictionHard: {imagefs.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%}\n\
         containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\nshutdownGracePeriod: 0s\n",
    );
    let kubeadm = run(&[
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config",
        &main,
        "--hostname-override=kind-control-plane",
        "--node-ip=172.18.0.2",
        "--node-labels=",
        "--runtime-cgroups=/system.slice/containerd.service",
        "--provider-id=kind://docker/kind/kind-control-plane",
    ]);
    assert!(kubeadm.notices.is_empty() && kubeadm.warnings.is_empty(), "{kubeadm:?}");
    assert_eq!(kubeadm.config.provider_id, "kind://docker/kind/kind-control-plane");
    folder
        .config("k3s.d/00-k3s.conf", "authentication: {anonymous: {enabled: false}}\nauthorization: {mode: Webhook}\n");
    let drop_ins = folder.path("k3s.d").to_string_lossy().into_owned();
    let k3s = run(&[
        "--cloud-provider=external",
        "--config-dir",
        &drop_ins,
        "--feature-gates=KubeletInUserNamespace=true",
        "--kubeconfig=/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "--node-labels=",
        "--read-only-port=0",
    ]);
    assert!(k3s.warnings.is_empty(), "{:?}", k3s.warnings);
    assert!(k3s.gates.enabled("KubeletInUserNamespace") && !k3s.config_from_file);
}
