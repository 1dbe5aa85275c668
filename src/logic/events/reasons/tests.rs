//! The reasons, held to upstream's list.

use std::collections::BTreeSet;

use super::*;

/// `pkg/kubelet/events/event.go` of Kubernetes 1.36: every word in it, each once.
const UPSTREAM: &[&str] = &[
    "AlreadyMountedVolume",
    "BackOff",
    "CgroupV1",
    "ContainerGCFailed",
    "Created",
    "ErrImageNeverPull",
    "ExceededGracePeriod",
    "FailedAttachVolume",
    "FailedCreatePodContainer",
    "FailedCreatePodSandBox",
    "FailedKillPod",
    "FailedMapVolume",
    "FailedMount",
    "FailedMountOnFilesystemMismatch",
    "FailedNodeAllocatableEnforcement",
    "FailedNodeDeclaredFeaturesCheck",
    "FailedPodSandBoxStatus",
    "FailedPostStartHook",
    "FailedPrepareDynamicResources",
    "FailedPreStopHook",
    "FailedSync",
    "FailedValidation",
    "Failed",
    "FileSystemResizeFailed",
    "FileSystemResizeSuccessful",
    "FreeDiskSpaceFailed",
    "ImageGCFailed",
    "InspectFailed",
    "InvalidDiskCapacity",
    "InvalidImageID",
    "Killing",
    "KubeletSetupFailed",
    "NetworkNotReady",
    "NodeAllocatableEnforced",
    "NodeNotReady",
    "NodeNotSchedulable",
    "NodeReady",
    "NodeSchedulable",
    "PossibleMemoryBackedVolumesOnDisk",
    "Preempting",
    "ProbeWarning",
    "Pulled",
    "Pulling",
    "Rebooted",
    "ResizeCompleted",
    "ResizeDeferred",
    "ResizeError",
    "ResizeInfeasible",
    "ResizeStarted",
    "SandboxChanged",
    "Shutdown",
    "Started",
    "Starting",
    "SuccessfulAttachVolume",
    "SuccessfulMountVolume",
    "Unhealthy",
    "VolumeConditionAbnormal",
    "VolumePermissionChangeInProgress",
    "VolumeResizeFailed",
    "VolumeResizeSuccessful",
];

/// Words of that list that nothing here says yet, each with the feature that will.
const NOT_YET: &[(&str, &str)] = &[
    ("FailedAttachVolume", "CSI volumes"),
    ("InvalidImageID", "none: upstream says it nowhere"),
    ("KubeletSetupFailed", "none: an agent that cannot start ends, and the service manager tells why"),
    ("SuccessfulAttachVolume", "CSI volumes"),
    ("VolumeResizeSuccessful", "none: upstream's controller says it"),
];

/// Words that upstream says without a place in that list, with the package that says them.
const UPSTREAM_ELSEWHERE: &[(&str, &str)] = &[
    ("CertificateExpired", "podcertificate"),
    ("CertificateOverdueForRefresh", "podcertificate"),
    ("CheckLimitsForResolvConf", "network/dns"),
    ("DNSConfigForming", "network/dns"),
    ("DeadlineExceeded", "active_deadline"),
    ("Denied", "podcertificate"),
    ("Evicted", "eviction"),
    ("EvictionThresholdMet", "eviction"),
    ("FailedToRetrieveImagePullSecret", "kubelet_pods"),
    ("HostIPsIPFamilyMismatch", "kubelet_pods"),
    ("LifecycleHTTPFallback", "lifecycle"),
    ("MissingClusterDNS", "network/dns"),
    ("NodeHasDiskPressure", "nodestatus"),
    ("NodeHasInsufficientMemory", "nodestatus"),
    ("NodeHasInsufficientPID", "nodestatus"),
    ("NodeHasNoDiskPressure", "nodestatus"),
    ("NodeHasSufficientMemory", "nodestatus"),
    ("NodeHasSufficientPID", "nodestatus"),
    ("SystemOOM", "oom"),
];

/// Words of our own, each with why there is no word of upstream for it.
const OWN: &[(&str, &str)] = &[
    ("BackOffReset", "the local socket's `reset-back-off`"),
    ("CPUBurstLimited", "the annotation podwright.io/cpu-burst"),
    ("FailedCSIDriverRegistration", "upstream tells it in the log alone"),
    ("MachineSizeChanged", "the flag `--follow-machine-size`"),
    ("RestartRequested", "the local socket's `restart`"),
];

fn words(list: &[(&'static str, &'static str)]) -> BTreeSet<&'static str> {
    list.iter().map(|(word, _)| *word).collect()
}

#[test]
fn every_reason_is_upstreams_or_has_its_own_reason() {
    let upstream: BTreeSet<&str> = UPSTREAM.iter().copied().collect();
    let all = EventReason::ALL.iter().map(EventReason::as_str);
    let used: BTreeSet<&str> = all.chain(words(NOT_YET)).collect();
    let expected: BTreeSet<&str> =
        upstream.iter().copied().chain(words(UPSTREAM_ELSEWHERE)).chain(words(OWN)).collect();
    assert_eq!(used, expected);
    assert_eq!(
        EventReason::ALL.len() + NOT_YET.len(),
        UPSTREAM.len() + UPSTREAM_ELSEWHERE.len() + OWN.len(),
        "a word is in two lists"
    );
    assert!(words(NOT_YET).is_subset(&upstream));
}

#[test]
fn a_reason_is_printed_as_its_word() {
    let refused = EventReason::NotAdmitted("OutOfcpu".to_owned());
    assert_eq!((refused.to_string(), EventReason::BackOff.to_string()), ("OutOfcpu".to_owned(), "BackOff".to_owned()));
    assert_eq!(serde_json::to_value(EventReason::DNSConfigForming).expect("a word"), "DNSConfigForming");
}
