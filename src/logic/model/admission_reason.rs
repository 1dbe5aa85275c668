//! Why the node refuses a pod.

/// See the module. `Display` is the reason in the pod's status and of its Event, as upstream has it.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display)]
pub enum AdmissionReason {
    /// The host enforces no AppArmor profiles.
    AppArmor,
    /// Containers of a pod with resources of its own would share no CPU.
    EmptyPodSharedPoolError,
    /// The node is short of something, or the pod exceeds a limit of its own.
    Evicted,
    /// An annotation of ours cannot be read.
    #[strum(to_string = "InvalidCPUBurst")]
    InvalidCpuBurst,
    /// The Node's labels are not as the pod wants them.
    NodeAffinity,
    /// The pod is for another node.
    NodeName,
    /// Others have the ports of the host that it asks for.
    NodePorts,
    /// The machine goes down, and takes no pod any more.
    NodeShutdown,
    /// Too little is left of a resource of this name.
    #[strum(to_string = "OutOf{0}")]
    OutOf(String),
    /// This version, or this node, cannot do what it asks for.
    PodFeatureUnsupported,
    /// A gate is off.
    PodLevelResourcesNotSupported,
    /// It is for another operating system.
    #[strum(to_string = "PodOSNotSupported")]
    PodOsNotSupported,
    /// Its labels are for another operating system.
    #[strum(to_string = "PodOSSelectorNodeLabelDoesNotMatch")]
    PodOsSelectorNodeLabelDoesNotMatch,
    /// It makes room for a critical pod.
    Preempting,
    /// Its CPUs would not be whole cores.
    #[strum(to_string = "SMTAlignmentError")]
    SmtAlignmentError,
    /// The runtime does not keep to the policy.
    SupplementalGroupsPolicyNotSupported,
    /// It sets a kernel parameter that pods may not set.
    SysctlForbidden,
    /// It does not tolerate a taint.
    TaintToleration,
    /// It ended because the machine goes down.
    Terminated,
    /// The topology manager's policy does not let it have its hardware.
    TopologyAffinityError,
    /// An error that upstream gives no reason of its own.
    UnexpectedAdmissionError,
    /// The node has no room for another attached volume of a driver.
    VolumeAttachmentLimitExceeded,
}

impl AdmissionReason {
    /// The label of `kubelet_admission_rejections_total`: upstream has a fixed list, whatever a webhook or a resource's name
    /// makes of a reason.
    pub fn label(&self) -> &'static str {
        match self {
            Self::AppArmor => "AppArmor",
            Self::Evicted => "Evicted",
            Self::OutOf(resource) => match resource.as_str() {
                "cpu" => "OutOfcpu",
                "memory" => "OutOfmemory",
                "ephemeral-storage" => "OutOfephemeral-storage",
                "pods" => "OutOfpods",
                _ => "OutOfExtendedResources",
            },
            Self::PodFeatureUnsupported => "PodFeatureUnsupported",
            Self::PodLevelResourcesNotSupported => "PodLevelResourcesNotSupported",
            Self::PodOsNotSupported => "PodOSNotSupported",
            Self::PodOsSelectorNodeLabelDoesNotMatch => "PodOSSelectorNodeLabelDoesNotMatch",
            Self::SupplementalGroupsPolicyNotSupported => "SupplementalGroupsPolicyNotSupported",
            Self::SysctlForbidden => "SysctlForbidden",
            Self::TopologyAffinityError => "TopologyAffinityError",
            Self::UnexpectedAdmissionError => "UnexpectedAdmissionError",
            Self::VolumeAttachmentLimitExceeded => "VolumeAttachmentLimitExceeded",
            // Upstream's list names taints by their sentence, which is no reason: they count as others.
            Self::EmptyPodSharedPoolError
            | Self::InvalidCpuBurst
            | Self::NodeAffinity
            | Self::NodeName
            | Self::NodePorts
            | Self::NodeShutdown
            | Self::Preempting
            | Self::SmtAlignmentError
            | Self::TaintToleration
            | Self::Terminated => "Other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out_of(resource: &str) -> AdmissionReason {
        AdmissionReason::OutOf(resource.to_owned())
    }

    #[test]
    fn reasons_are_upstreams_and_those_outside_its_list_share_two_labels() {
        for (reason, text, label) in [
            (out_of("cpu"), "OutOfcpu", "OutOfcpu"),
            (out_of("ephemeral-storage"), "OutOfephemeral-storage", "OutOfephemeral-storage"),
            (out_of("example.com/gpu"), "OutOfexample.com/gpu", "OutOfExtendedResources"),
            (AdmissionReason::Evicted, "Evicted", "Evicted"),
            (AdmissionReason::Preempting, "Preempting", "Other"),
            (AdmissionReason::NodeAffinity, "NodeAffinity", "Other"),
            (AdmissionReason::TaintToleration, "TaintToleration", "Other"),
            (AdmissionReason::PodOsNotSupported, "PodOSNotSupported", "PodOSNotSupported"),
            (AdmissionReason::SmtAlignmentError, "SMTAlignmentError", "Other"),
            (AdmissionReason::InvalidCpuBurst, "InvalidCPUBurst", "Other"),
        ] {
            assert_eq!((reason.to_string().as_str(), reason.label()), (text, label));
        }
    }
}
