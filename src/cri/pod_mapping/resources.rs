//! Computed resources in the runtime's own form.

use crate::cri::types::LinuxContainerResources;
use crate::logic::resources::LinuxResources;

impl From<LinuxResources> for LinuxContainerResources {
    /// Field by field. CPU and memory sets are decided elsewhere and stay "not set".
    fn from(computed: LinuxResources) -> Self {
        Self {
            cpu_period: computed.cpu_period,
            cpu_quota: computed.cpu_quota,
            cpu_shares: computed.cpu_shares,
            memory_limit_in_bytes: computed.memory_limit_in_bytes,
            memory_swap_limit_in_bytes: computed.memory_swap_limit_in_bytes,
            oom_score_adj: computed.oom_score_adj,
            unified: computed.unified,
            cpuset_cpus: String::new(),
            cpuset_mems: String::new(),
            hugepage_limits: computed.hugepage_limits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_keeps_its_place() {
        let unified = std::collections::BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]);
        let computed = LinuxResources {
            cpu_period: 1,
            cpu_quota: 2,
            cpu_shares: 3,
            memory_limit_in_bytes: 4,
            memory_swap_limit_in_bytes: 5,
            oom_score_adj: 6,
            unified: unified.clone(),
            hugepage_limits: vec![("2MB".to_owned(), 7)],
        };
        let expected = LinuxContainerResources {
            cpu_period: 1,
            cpu_quota: 2,
            cpu_shares: 3,
            memory_limit_in_bytes: 4,
            memory_swap_limit_in_bytes: 5,
            oom_score_adj: 6,
            unified,
            hugepage_limits: vec![("2MB".to_owned(), 7)],
            ..LinuxContainerResources::default()
        };
        assert_eq!(LinuxContainerResources::from(computed), expected);
    }
}
