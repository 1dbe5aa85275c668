//! Every flag: name, syntax, where its value goes. Data alone; `parse` and `help` work on it.
//!
//! Names, defaults and deprecation texts as of Kubernetes 1.36 (`cmd/kubelet/app/options`); flags of our own say so.

use super::values::Syntax;

/// Where the value of a flag goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Into the configuration, at this JSON pointer.
    Configuration(&'static str),
    /// Into [`super::Flags`], with this default as text.
    Own(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name after two dashes.
    pub name: &'static str,
    /// How its value is read.
    pub syntax: Syntax,
    /// Where the value goes.
    pub target: Target,
    /// The notice to a user of the flag, if it should no longer be used.
    pub deprecated: Option<&'static str>,
    /// One line for the usage text.
    pub help: &'static str,
}

const BY_FILE: &str = "This parameter should be set via the config file specified by the Kubelet's --config flag. See \
                       https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/ for more information.";
const GARBAGE: &str = "Use --eviction-hard or --eviction-soft instead. Will be removed in a future version.";
const CADVISOR: &str = "This is a cadvisor flag that was mistakenly registered with the Kubelet. Due to legacy concerns, \
                        it will follow the standard CLI deprecation timeline before being removed.";

/// A flag of the node, not of its configuration.
const fn own(name: &'static str, syntax: Syntax, default: &'static str, help: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Own(default), deprecated: None, help }
}

/// A flag for a field of the configuration that stays.
const fn current(name: &'static str, syntax: Syntax, pointer: &'static str, help: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Configuration(pointer), deprecated: None, help }
}

/// A flag for a field of the configuration, better set there.
const fn configured(name: &'static str, syntax: Syntax, pointer: &'static str, help: &'static str) -> Flag {
    Flag { name, syntax, target: Target::Configuration(pointer), deprecated: Some(BY_FILE), help }
}

/// A flag that is still understood.
const fn retired(
    name: &'static str,
    syntax: Syntax,
    default: &'static str,
    deprecated: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, syntax, target: Target::Own(default), deprecated: Some(deprecated), help }
}

/// All flags, those of the node first.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    own("config", Syntax::Text, "", "The configuration file."),
    own("config-dir", Syntax::Text, "", "Directory of drop-ins (*.conf) merged into it."),
    own("kubeconfig", Syntax::Text, "", "How to reach the API server; without it the node is standalone."),
    own("bootstrap-kubeconfig", Syntax::Text, "", "How to get the first client certificate."),
    own("cert-dir", Syntax::Text, "/var/lib/kubelet/pki", "Where certificates are kept."),
    own("root-dir", Syntax::Text, "/var/lib/kubelet", "Where the agent keeps its files."),
    own("socket", Syntax::Text, super::LOCAL_SOCKET, "The agent's socket for its subcommands, for root on the node alone. (Not in upstream.)"),
    own("device-plugin-dir", Syntax::Text, super::DEVICE_PLUGIN_DIR, "Where device plugins register, and where their sockets are. (Not in upstream, whose place this is.)"),
    own("device-plugin-wait", Syntax::Duration, "0s", "How long a pod waits for a device plugin that has not registered yet, or has no healthy device, before it fails; 0: it fails at once, as upstream. (Not in upstream.)"),
    own("hostname-override", Syntax::Text, "", "The node's name, if it is not the host's."),
    own("node-ip", Syntax::Text, "", "The node's address, or one of each family."),
    own("node-labels", Syntax::Labels, "", "Labels to register with, as key=value."),
    own("cloud-provider", Syntax::Text, "", "Empty, or external."),
    own("runtime-cgroups", Syntax::Text, "", "Cgroup of the container runtime."),
    own("image-credential-provider-config", Syntax::Text, "", "Configuration of credential provider plugins."),
    own("image-credential-provider-bin-dir", Syntax::Text, "", "Directory of their executables."),
    own("lock-file", Syntax::Text, "", "File that only one agent may hold."),
    own("exit-on-lock-contention", Syntax::Bool, "", "Leave when another agent wants that file."),
    own("seccomp-default", Syntax::Bool, "", "RuntimeDefault for pods that name no seccomp profile."),
    own("housekeeping-interval", Syntax::Duration, "10s", "No effect: figures are as old as the question."),
    own("max-housekeeping-interval", Syntax::Duration, "15s", "No effect: figures are as old as the question."),
    own("refuse-insecure-defaults", Syntax::Bool, "", "Do not start on the insecure defaults that hold without --config. (Not in upstream.)"),
    own("offline-store", Syntax::Bool, "", "Keep on the disk what pods of the API server need, and start them after a boot without it. (Not in upstream.)"),
    own("local-objects", Syntax::Text, "", "Directory of ConfigMaps and Secrets for the static pods of a node without API server: root's, and writable by nobody else. (Not in upstream.)"),
    own("stream-origins", Syntax::TextList, "", "The only Origins of web pages that may open exec, attach and port-forward streams; repeat or list. Empty: any. (Not in upstream.)"),
    own("eviction-by-available-memory", Syntax::Bool, "", "The eviction signal memory.available is the kernel's MemAvailable, to which page cache counts, and not what the working set leaves. (Not in upstream.)"),
    own("follow-machine-size", Syntax::Bool, "", "The Node and the limits of all pods follow CPUs and memory that are added to the running machine, or taken away. (Not in upstream.)"),
    own("repair-state-files", Syntax::Bool, "", "A state file of the CPU or memory manager that does not fit is set aside at the start, as <name>.unfit, and begun anew. (Not in upstream.)"),
    own("cpu-burst-max-percent", Syntax::Integer(32), "0", "The most CPU time that containers may save up by the annotation podwright.io/cpu-burst, in percent of their CPU limit, 0 to 100 (cgroup v2); 0: none. (Not in upstream.)"),
    own("image-gc-exempt", Syntax::TextList, "", "Patterns of image names that image garbage collection, also before an eviction, leaves alone, such as docker.io/library/nginx or reg.example/infra/*; repeat or list. (Not in upstream.)"),
    own("stream-get-needs-create", Syntax::Bool, "", "Exec, attach and port-forward by GET, as WebSocket begins, need the right to create nodes/proxy, too. (Not in upstream.)"),
    own("checkpoints-max", Syntax::Integer(32), "64", "The most checkpoint archives that may lie on the node; 0: no limit. (Not in upstream.)"),
    own("version", Syntax::Version, "", "Print the version and exit; raw for all of it."),
    own("help", Syntax::Bool, "", "Print this and exit."),
    configured("enable-server", Syntax::Bool, "/enableServer", "Serve the HTTPS API."),
    configured("fail-swap-on", Syntax::Bool, "/failSwapOn", "Refuse to run on a host with swap."),
    configured("pod-manifest-path", Syntax::Text, "/staticPodPath", "File or directory of static pod manifests."),
    configured("sync-frequency", Syntax::Duration, "/syncFrequency", "Longest time between two looks at a running pod."),
    configured("file-check-frequency", Syntax::Duration, "/fileCheckFrequency", "How often static pod files are read again."),
    configured("http-check-frequency", Syntax::Duration, "/httpCheckFrequency", "How often the manifest URL is asked again."),
    configured("manifest-url", Syntax::Text, "/staticPodURL", "URL of more static pods."),
    configured("manifest-url-header", Syntax::HeaderMap, "/staticPodURLHeader", "Headers for the manifest URL, as a:b,c:d; may be repeated."),
    configured("address", Syntax::Address, "/address", "Address to serve on."),
    configured("port", Syntax::Integer(32), "/port", "Port of the HTTPS API."),
    configured("read-only-port", Syntax::Integer(32), "/readOnlyPort", "Port without authentication; 0: off."),
    current("fail-cgroupv1", Syntax::Bool, "/failCgroupV1", "Refuse to run on cgroup v1."),
    configured("container-runtime-endpoint", Syntax::Text, "/containerRuntimeEndpoint", "Endpoint of the container runtime, as unix:///path."),
    configured("image-service-endpoint", Syntax::Text, "/imageServiceEndpoint", "Endpoint of the image service, if it is another."),
    configured("anonymous-auth", Syntax::Bool, "/authentication/anonymous/enabled", "Let callers in that prove nothing, as system:anonymous."),
    configured("authentication-token-webhook", Syntax::Bool, "/authentication/webhook/enabled", "Ask the API server about bearer tokens."),
    configured("authentication-token-webhook-cache-ttl", Syntax::Duration, "/authentication/webhook/cacheTTL", "How long its answers are kept."),
    configured("client-ca-file", Syntax::Text, "/authentication/x509/clientCAFile", "Authorities that sign client certificates."),
    configured("authorization-mode", Syntax::Text, "/authorization/mode", "AlwaysAllow or Webhook."),
    configured("authorization-webhook-cache-authorized-ttl", Syntax::Duration, "/authorization/webhook/cacheAuthorizedTTL", "How long \"allowed\" is kept."),
    configured("authorization-webhook-cache-unauthorized-ttl", Syntax::Duration, "/authorization/webhook/cacheUnauthorizedTTL", "How long \"not allowed\" is kept."),
    configured("tls-cert-file", Syntax::Text, "/tlsCertFile", "Serving certificate."),
    configured("tls-private-key-file", Syntax::Text, "/tlsPrivateKeyFile", "Its private key."),
    configured("rotate-server-certificates", Syntax::Bool, "/serverTLSBootstrap", "Request serving certificates from the API server."),
    configured("tls-cipher-suites", Syntax::TextList, "/tlsCipherSuites", "Cipher suites by Go's names."),
    configured("tls-min-version", Syntax::Text, "/tlsMinVersion", "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13."),
    configured("rotate-certificates", Syntax::Bool, "/rotateCertificates", "Rotate the client certificate."),
    configured("registry-qps", Syntax::Integer(32), "/registryPullQPS", "Image pulls a second; 0: unlimited."),
    configured("registry-burst", Syntax::Integer(32), "/registryBurst", "Image pulls at once."),
    configured("event-qps", Syntax::Integer(32), "/eventRecordQPS", "Events a second; 0: unlimited."),
    configured("event-burst", Syntax::Integer(32), "/eventBurst", "Events at once."),
    configured("enable-debugging-handlers", Syntax::Bool, "/enableDebuggingHandlers", "Serve logs, exec, attach and port-forward."),
    configured("contention-profiling", Syntax::Bool, "/enableContentionProfiling", "Profile lock contention."),
    configured("healthz-port", Syntax::Integer(32), "/healthzPort", "Port of the health endpoint; 0: off."),
    configured("healthz-bind-address", Syntax::Address, "/healthzBindAddress", "Address of the health endpoint."),
    configured("oom-score-adj", Syntax::Integer(32), "/oomScoreAdj", "The agent's own oom_score_adj."),
    configured("cluster-domain", Syntax::Text, "/clusterDomain", "The cluster's DNS domain."),
    configured("volume-plugin-dir", Syntax::Text, "/volumePluginDir", "Where flexvolume drivers lie."),
    configured("cluster-dns", Syntax::TextList, "/clusterDNS", "The cluster's DNS servers."),
    configured("streaming-connection-idle-timeout", Syntax::Duration, "/streamingConnectionIdleTimeout", "How long a stream may idle; 0: for ever."),
    configured("node-status-update-frequency", Syntax::Duration, "/nodeStatusUpdateFrequency", "How often the node's status is computed."),
    configured("minimum-image-ttl-duration", Syntax::Duration, "/imageMinimumGCAge", "Youngest age an unused image is removed at."),
    configured("image-gc-high-threshold", Syntax::Integer(32), "/imageGCHighThresholdPercent", "Disk use in percent that starts image garbage collection."),
    configured("image-gc-low-threshold", Syntax::Integer(32), "/imageGCLowThresholdPercent", "Disk use in percent it aims at."),
    configured("volume-stats-agg-period", Syntax::Duration, "/volumeStatsAggPeriod", "How long volume statistics are reused; negative: none are taken."),
    configured("feature-gates", Syntax::BoolMap, "/featureGates", "Feature gates, as Gate=true,Other=false."),
    configured("kubelet-cgroups", Syntax::Text, "/kubeletCgroups", "Cgroup the agent moves itself to."),
    configured("system-cgroups", Syntax::Text, "/systemCgroups", "Cgroup for everything else on the host."),
    current("provider-id", Syntax::Text, "/providerID", "The node's spec.providerID."),
    configured("cgroups-per-qos", Syntax::Bool, "/cgroupsPerQOS", "Build the QoS cgroup tree."),
    configured("cgroup-driver", Syntax::Text, "/cgroupDriver", "cgroupfs or systemd."),
    configured("cgroup-root", Syntax::Text, "/cgroupRoot", "Cgroup below which pods live."),
    configured("cpu-manager-policy", Syntax::Text, "/cpuManagerPolicy", "none or static."),
    configured("cpu-manager-policy-options", Syntax::SinglePair, "/cpuManagerPolicyOptions", "One option as key=value; may be repeated."),
    configured("cpu-manager-reconcile-period", Syntax::Duration, "/cpuManagerReconcilePeriod", "How often CPU assignments are written again."),
    configured("qos-reserved", Syntax::Map('='), "/qosReserved", "Shares reserved for better QoS classes, as memory=50%."),
    configured("topology-manager-policy", Syntax::Text, "/topologyManagerPolicy", "none, best-effort, restricted or single-numa-node."),
    configured("topology-manager-scope", Syntax::Text, "/topologyManagerScope", "container or pod."),
    configured("topology-manager-policy-options", Syntax::Map('='), "/topologyManagerPolicyOptions", "Options as key=value."),
    configured("runtime-request-timeout", Syntax::Duration, "/runtimeRequestTimeout", "Limit of a runtime call."),
    configured("hairpin-mode", Syntax::Text, "/hairpinMode", "No effect with CRI runtimes."),
    configured("max-pods", Syntax::Integer(32), "/maxPods", "Pods on the node at most."),
    configured("pod-cidr", Syntax::Text, "/podCIDR", "Pod addresses, standalone only."),
    configured("pod-max-pids", Syntax::Integer(64), "/podPidsLimit", "Processes in a pod; -1: no limit."),
    configured("resolv-conf", Syntax::Text, "/resolvConf", "The host's resolver configuration."),
    configured("runonce", Syntax::Bool, "/runOnce", "No longer supported."),
    configured("cpu-cfs-quota", Syntax::Bool, "/cpuCFSQuota", "Enforce CPU limits."),
    configured("cpu-cfs-quota-period", Syntax::Duration, "/cpuCFSQuotaPeriod", "Period of the CPU quota."),
    configured("enable-controller-attach-detach", Syntax::Bool, "/enableControllerAttachDetach", "The controller attaches volumes."),
    configured("make-iptables-util-chains", Syntax::Bool, "/makeIPTablesUtilChains", "Create the hint and canary chains."),
    configured("container-log-max-size", Syntax::Text, "/containerLogMaxSize", "Size of a container log at rotation."),
    configured("container-log-max-files", Syntax::Integer(32), "/containerLogMaxFiles", "Log files kept for a container."),
    configured("allowed-unsafe-sysctls", Syntax::TextList, "/allowedUnsafeSysctls", "Unsafe sysctls that pods may set."),
    configured("node-status-max-images", Syntax::Integer(32), "/nodeStatusMaxImages", "Images in the node's status; -1: all."),
    configured("kernel-memcg-notification", Syntax::Bool, "/kernelMemcgNotification", "Only had an effect with cgroup v1."),
    configured("local-storage-capacity-isolation", Syntax::Bool, "/localStorageCapacityIsolation", "Watch and limit ephemeral storage."),
    configured("max-open-files", Syntax::Integer(64), "/maxOpenFiles", "The agent's own limit of open files."),
    configured("kube-api-content-type", Syntax::Text, "/contentType", "Content type spoken to the API server."),
    configured("kube-api-qps", Syntax::Integer(32), "/kubeAPIQPS", "Requests a second to the API server."),
    configured("kube-api-burst", Syntax::Integer(32), "/kubeAPIBurst", "Requests at once."),
    configured("serialize-image-pulls", Syntax::Bool, "/serializeImagePulls", "One image pull at a time."),
    configured("eviction-hard", Syntax::Map('<'), "/evictionHard", "Hard eviction thresholds, as memory.available<100Mi."),
    configured("eviction-soft", Syntax::Map('<'), "/evictionSoft", "Soft eviction thresholds."),
    configured("eviction-soft-grace-period", Syntax::Map('='), "/evictionSoftGracePeriod", "Their grace periods, as memory.available=1m30s."),
    configured("eviction-pressure-transition-period", Syntax::Duration, "/evictionPressureTransitionPeriod", "How long pressure outlives its cause."),
    configured("eviction-max-pod-grace-period", Syntax::Integer(32), "/evictionMaxPodGracePeriod", "Grace in seconds for soft evictions at most."),
    configured("eviction-minimum-reclaim", Syntax::Map('='), "/evictionMinimumReclaim", "What an eviction must win back, as imagefs.available=2Gi."),
    configured("pods-per-core", Syntax::Integer(32), "/podsPerCore", "Pods for each CPU at most; 0: no such limit."),
    configured("protect-kernel-defaults", Syntax::Bool, "/protectKernelDefaults", "A wrong kernel setting is fatal."),
    configured("reserved-cpus", Syntax::Text, "/reservedSystemCPUs", "CPUs kept for host and agent."),
    configured("system-reserved", Syntax::Map('='), "/systemReserved", "Resources kept for the host, as cpu=200m,memory=500Mi."),
    configured("kube-reserved", Syntax::Map('='), "/kubeReserved", "Resources kept for agent and runtime."),
    configured("enforce-node-allocatable", Syntax::TextList, "/enforceNodeAllocatable", "What is enforced by cgroup limits."),
    configured("system-reserved-cgroup", Syntax::Text, "/systemReservedCgroup", "Cgroup that system-reserved is enforced on."),
    configured("kube-reserved-cgroup", Syntax::Text, "/kubeReservedCgroup", "Cgroup that kube-reserved is enforced on."),
    configured("memory-manager-policy", Syntax::Text, "/memoryManagerPolicy", "None or Static."),
    configured("reserved-memory", Syntax::ReservedMemory, "/reservedMemory", "Memory kept on NUMA nodes, as 0:memory=1Gi,hugepages-1M=2Gi; may be repeated."),
    configured("register-node", Syntax::Bool, "/registerNode", "Register the node with the API server."),
    configured("register-with-taints", Syntax::Taints, "/registerWithTaints", "Taints to register with, as key=value:Effect."),
    configured("logging-format", Syntax::Text, "/logging/format", "text or json."),
    configured("log-text-split-stream", Syntax::Bool, "/logging/options/text/splitStream", "Errors to standard error, the rest to standard output."),
    configured("log-text-info-buffer-size", Syntax::Quantity, "/logging/options/text/infoBufferSize", "Bytes buffered of the latter."),
    configured("log-json-split-stream", Syntax::Bool, "/logging/options/json/splitStream", "The same in JSON format."),
    configured("log-json-info-buffer-size", Syntax::Quantity, "/logging/options/json/infoBufferSize", "The same in JSON format."),
    current("log-flush-frequency", Syntax::Duration, "/logging/flushFrequency", "Longest time between flushes of the log."),
    current("v", Syntax::Verbosity, "/logging/verbosity", "Detail of the log."),
    current("vmodule", Syntax::VModule, "/logging/vmodule", "Detail by source file, as pattern=N."),
    retired("minimum-container-ttl-duration", Syntax::Duration, "0s", GARBAGE, "Least age of a dead container."),
    retired("maximum-dead-containers-per-container", Syntax::Integer(32), "1", GARBAGE, "Dead containers kept for each container."),
    retired("maximum-dead-containers", Syntax::Integer(32), "-1", GARBAGE, "Dead containers kept on the node; negative: no limit."),
    retired("experimental-mounter-path", Syntax::Text, "", "will be removed in 1.25 or later. in favor of using CSI.", "No effect."),
    retired("experimental-allocatable-ignore-eviction", Syntax::Bool, "", "will be removed in 1.25 or later.", "Leave eviction thresholds out of node allocatable."),
    retired("application-metrics-count-limit", Syntax::Integer(64), "100", CADVISOR, "No effect."),
    retired("boot-id-file", Syntax::Text, "/proc/sys/kernel/random/boot_id", CADVISOR, "No effect."),
    retired("container-hints", Syntax::Text, "/etc/cadvisor/container_hints.json", CADVISOR, "No effect."),
    retired("containerd", Syntax::Text, "/run/containerd/containerd.sock", CADVISOR, "No effect."),
    retired("containerd-namespace", Syntax::Text, "k8s.io", CADVISOR, "No effect."),
    retired("enable-load-reader", Syntax::Bool, "", CADVISOR, "No effect."),
    retired("event-storage-age-limit", Syntax::Text, "default=0", CADVISOR, "No effect."),
    retired("event-storage-event-limit", Syntax::Text, "default=0", CADVISOR, "No effect."),
    retired("global-housekeeping-interval", Syntax::Duration, "1m0s", CADVISOR, "No effect."),
    retired("log-cadvisor-usage", Syntax::Bool, "", CADVISOR, "No effect."),
    retired("machine-id-file", Syntax::Text, "/etc/machine-id,/var/lib/dbus/machine-id", CADVISOR, "No effect."),
    retired("storage-driver-user", Syntax::Text, "root", CADVISOR, "No effect."),
    retired("storage-driver-password", Syntax::Text, "root", CADVISOR, "No effect."),
    retired("storage-driver-host", Syntax::Text, "localhost:8086", CADVISOR, "No effect."),
    retired("storage-driver-db", Syntax::Text, "cadvisor", CADVISOR, "No effect."),
    retired("storage-driver-table", Syntax::Text, "stats", CADVISOR, "No effect."),
    retired("storage-driver-secure", Syntax::Bool, "", CADVISOR, "No effect."),
    retired("storage-driver-buffer-duration", Syntax::Duration, "1m0s", CADVISOR, "No effect."),
];

/// The flags that also have a letter.
pub const SHORTHANDS: &[(char, &str)] = &[('v', "v"), ('h', "help")];

/// The row of a name, in which underscores count as dashes.
pub fn find(name: &str) -> Option<&'static Flag> {
    let name = name.replace('_', "-");
    FLAGS.iter().find(|flag| flag.name == name)
}
