//! The numbers that the kernel takes for a container and for a pod: shares, quotas, memory, and the order in which it kills.

mod container;
mod conversions;
mod cpu_burst;
pub(in crate::logic::resources) mod memory_qos;
mod oom_score;
mod pod_cgroup;

pub use container::{
    LinuxResources, container_hugepage_limits, container_resources, overhead_resources, sandbox_resources,
};
pub use conversions::{
    CPU_PERIOD_DEFAULT_US, CPU_SHARES_MAX, CPU_SHARES_MIN, hugepage_capacity, hugepage_limits, hugepage_unit_name,
    milli_cpu_to_quota, milli_cpu_to_shares, quota_to_milli_cpu, shares_to_milli_cpu, shares_to_weight,
    weight_to_shares,
};
pub use cpu_burst::{
    CPU_BURST_ANNOTATION, CpuBurst, CpuBurstNotice, InvalidCpuBurst, asked_cpu_burst, cpu_burst_notice,
};
pub use memory_qos::MemoryQos;
pub use oom_score::{
    AGENT_OOM_SCORE_ADJ, SYSTEM_CRITICAL_PRIORITY, container_oom_score_adj, is_critical, is_node_critical,
};
pub use pod_cgroup::{CgroupSettings, pod_cgroup_settings};
