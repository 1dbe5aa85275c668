//! Rules about what is kept for the host: node allocatable, CPUs, memory. Part of `validate`.

use super::Review;
use crate::config::quantity_text::QuantityText;
use crate::logic::formats::cpu_list::CpuList;
use std::collections::BTreeSet;

const FIELD: &str = "enforceNodeAllocatable (--enforce-node-allocatable)";
const OPTIONS: &str = "\"pods\", \"system-reserved\", \"system-reserved-compressible\", \"kube-reserved\", \
                       \"kube-reserved-compressible\" or \"none\"";

impl Review<'_> {
    pub(super) fn node_allocatable(&mut self) {
        let options = &self.config.enforce_node_allocatable;
        for whole in ["system-reserved", "kube-reserved"] {
            let part = format!("{whole}-compressible");
            let both = options.iter().any(|option| option == whole) && options.contains(&part);
            self.refuse_if(both, || format!("both \"{whole}\" and \"{part}\" cannot be specified together in {FIELD}"));
        }
        let mut seen = BTreeSet::new();
        for option in options {
            if seen.insert(option) {
                self.allocatable_option(option, options.len());
            } else {
                self.refuse_if(true, || format!("duplicated enforcements {option:?} in {FIELD}"));
            }
        }
    }

    fn allocatable_option(&mut self, option: &str, options: usize) {
        let (cgroup, owner) = match option {
            "pods" => (None, ""),
            "system-reserved" | "system-reserved-compressible" => (Some(&self.config.system_reserved_cgroup), "system"),
            "kube-reserved" | "kube-reserved-compressible" => (Some(&self.config.kube_reserved_cgroup), "kube"),
            "none" => {
                self.refuse_if(options > 1, || {
                    format!("{FIELD} may not contain additional enforcements when \"none\" is specified")
                });
                return;
            }
            _ => {
                self.refuse_if(true, || {
                    format!("option {option:?} specified for {FIELD}. Valid options are {OPTIONS}")
                });
                return;
            }
        };
        self.refuse_if(cgroup.is_some_and(String::is_empty), || {
            format!(
                "{owner}ReservedCgroup (--{owner}-reserved-cgroup) must be specified when \"{owner}-reserved\" or \
                 \"{owner}-reserved-compressible\" included in {FIELD}"
            )
        });
        self.refuse_if(!self.config.cgroups_per_qos, || {
            format!("cgroupsPerQOS (--cgroups-per-qos) must be set to true when {option:?} contained in {FIELD}")
        });
    }

    pub(super) fn reserved_cpus(&mut self) {
        let c = self.config;
        let cpus = &c.reserved_system_cpus;
        if cpus.is_empty() {
            return;
        }
        self.refuse_if(!c.system_reserved_cgroup.is_empty() || !c.kube_reserved_cgroup.is_empty(), || {
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or \
             kubeReservedCgroup (--kube-reserved-cgroup)"
                .into()
        });
        if let Err(error) = CpuList::read(cpus) {
            self.refuse_if(true, || {
                format!("unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {error}")
            });
        }
    }

    pub(super) fn reserved_memory(&mut self) {
        let mut seen = BTreeSet::new();
        for reservation in &self.config.reserved_memory {
            let node = reservation.numa_node;
            for (resource, amount) in &reservation.limits {
                self.refuse_if(resource != "memory" && !resource.starts_with("hugepages-"), || {
                    format!(
                        "the limit type {resource:?} for NUMA node {node} is not supported, only \
                         [memory hugepages-<HugePageSize>] is accepted"
                    )
                });
                self.refuse_if(QuantityText::parse(amount).is_ok_and(|amount| amount.is_zero), || {
                    format!("reserved memory may not be zero for NUMA node {node} and resource {resource:?}")
                });
                self.refuse_if(!seen.insert((node, resource)), || {
                    format!("the reserved memory has a duplicate value for NUMA node {node} and resource {resource:?}")
                });
            }
        }
    }
}
