//! Why pods are refused, as the label of a metric has it: reasons of a fixed list, whatever a webhook or a resource's name
//! makes of them.

/// Reasons that are told by their name.
const KNOWN: [&str; 21] = [
    "AppArmor",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "InvalidNodeInfo",
    "InitContainerRestartPolicyForbidden",
    "SupplementalGroupsPolicyNotSupported",
    "UnexpectedAdmissionError",
    "UnknownReason",
    "UnexpectedPredicateFailureType",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfpods",
    "PodLevelResourcesNotSupported",
    "PodFeatureUnsupported",
    // As upstream's list has it, whose reason for taints is another word: they count as `Other`.
    "node(s) had taints that the pod didn't tolerate",
    "Evicted",
    "SysctlForbidden",
    "TopologyAffinityError",
    "NodeShutdown",
    "VolumeAttachmentLimitExceeded",
];

/// The label for a reason.
pub fn label_of(reason: &str) -> &'static str {
    match KNOWN.into_iter().find(|known| *known == reason) {
        Some(known) => known,
        None if reason.starts_with("OutOf") => "OutOfExtendedResources",
        None => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_outside_the_list_share_two_names() {
        for (reason, label) in [
            ("OutOfcpu", "OutOfcpu"),
            ("Evicted", "Evicted"),
            ("OutOfexample.com/gpu", "OutOfExtendedResources"),
            ("NodeAffinity", "Other"),
            ("TaintToleration", "Other"),
            ("something new", "Other"),
            ("", "Other"),
        ] {
            assert_eq!(label_of(reason), label, "{reason}");
        }
    }
}
