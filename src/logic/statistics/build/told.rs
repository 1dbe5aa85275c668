//! Pods whose figures the runtime tells (gate `PodAndContainerStatsFromCRI`), as upstream derives them.
//!
//! No figure of a control group takes the place of one that the runtime leaves out. Of a container, upstream shows zeros
//! for a kind of figures that is missing as a whole; in the short answer, zeros for each missing figure.

use super::{Builder, named, plus};
use crate::logic::statistics::sample::{ContainerSample, PodSample};
use crate::logic::statistics::summary::{
    ContainerStats, CpuStats, IoStats, MemoryStats, PodStats, ProcessStats, PsiStats, SwapStats, Time,
};
use crate::logic::statistics::told::{ToldContainer, ToldPod};

impl Builder<'_> {
    pub(super) fn told_pod(&self, pod: &PodSample, told: &ToldPod) -> PodStats {
        let there =
            pod.containers.iter().filter_map(|container| Some((container, told.containers.get(&container.id)?)));
        let containers: Vec<_> = there.map(|(container, told)| self.told_container(container, told)).collect();
        let mut stats = named(pod);
        stats.cpu = told.cpu.map(|cpu| CpuStats { psi: self.told_psi(cpu.psi), ..cpu });
        stats.memory = told.memory.map(|memory| MemoryStats { psi: self.told_psi(memory.psi), ..memory });
        if self.whole {
            stats.io = told.io.filter(|_| self.pressure);
            stats.network = told.network.clone();
            stats.process_stats = told.processes.map(|process_count| ProcessStats { process_count });
            self.add_storage(&mut stats, pod, &containers);
        } else {
            // The runtime has no word for the swap of a pod; upstream adds it up in the short answer alone.
            stats.swap = containers.iter().filter_map(|container| container.swap).reduce(|sum, one| SwapStats {
                time: one.time,
                swap_available_bytes: plus(sum.swap_available_bytes, one.swap_available_bytes),
                swap_usage_bytes: plus(sum.swap_usage_bytes, one.swap_usage_bytes),
            });
        }
        stats.containers = containers;
        stats
    }

    fn told_container(&self, container: &ContainerSample, told: &ToldContainer) -> ContainerStats {
        let zero = Some(0);
        let now = Time(self.snapshot.sample.at);
        let or_zero = |value: Option<u64>| if self.whole { value } else { value.or(zero) };
        let cpu = match told.cpu {
            Some(cpu) => CpuStats {
                usage_nano_cores: cpu.usage_nano_cores.or_else(|| self.rate_of(container)),
                usage_core_nano_seconds: or_zero(cpu.usage_core_nano_seconds),
                psi: self.told_psi(cpu.psi),
                ..cpu
            },
            None => CpuStats { time: now, usage_nano_cores: zero, usage_core_nano_seconds: zero, psi: None },
        };
        let memory = match told.memory {
            Some(memory) => MemoryStats {
                time: memory.time,
                available_bytes: or_zero(memory.available_bytes),
                usage_bytes: or_zero(memory.usage_bytes),
                working_set_bytes: or_zero(memory.working_set_bytes),
                rss_bytes: or_zero(memory.rss_bytes),
                page_faults: or_zero(memory.page_faults),
                major_page_faults: or_zero(memory.major_page_faults),
                psi: self.told_psi(memory.psi),
            },
            None => MemoryStats {
                time: now,
                usage_bytes: zero,
                working_set_bytes: zero,
                rss_bytes: zero,
                available_bytes: or_zero(None),
                page_faults: or_zero(None),
                major_page_faults: or_zero(None),
                psi: None,
            },
        };
        let swap = match told.swap {
            Some(swap) => SwapStats {
                swap_available_bytes: or_zero(swap.swap_available_bytes),
                swap_usage_bytes: or_zero(swap.swap_usage_bytes),
                ..swap
            },
            None => SwapStats { time: now, swap_available_bytes: zero, swap_usage_bytes: zero },
        };
        let mut stats = ContainerStats {
            name: container.name.clone(),
            start_time: Time(container.created),
            cpu: Some(cpu),
            memory: Some(memory),
            swap: Some(swap),
            ..ContainerStats::default()
        };
        if self.whole && self.pressure {
            stats.io = told.io.or(Some(IoStats { time: now, psi: None }));
        }
        self.add_disks(&mut stats, container, told.layer);
        stats
    }

    /// The rate that two answers of the runtime tell.
    fn rate_of(&self, container: &ContainerSample) -> Option<u64> {
        self.snapshot.nano_cores.get(container.id.as_str()).copied()
    }

    fn told_psi(&self, psi: Option<PsiStats>) -> Option<PsiStats> {
        psi.filter(|_| self.pressure)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::logic::model::ids::{ContainerId, SandboxId};
    use crate::logic::model::time::Moment;
    use crate::logic::statistics::build::tests::snapshot;
    use crate::logic::statistics::build::{Facts, cpu_and_memory, summary};
    use crate::logic::statistics::resource_metrics;
    use crate::logic::statistics::sample::Snapshot;
    use crate::logic::statistics::summary::NetworkStats;
    use crate::logic::statistics::told::LayerUse;

    const AT: Time = Time(Moment(1_767_323_000_000_000_000));

    fn told_pod() -> ToldPod {
        let cpu = CpuStats {
            time: AT,
            usage_core_nano_seconds: Some(50),
            psi: Some(PsiStats::default()),
            ..CpuStats::default()
        };
        let memory = MemoryStats { time: AT, working_set_bytes: Some(60), ..MemoryStats::default() };
        let layer = Some(LayerUse { at: AT.0, bytes: Some(70), inodes: None });
        let web = ToldContainer { cpu: Some(cpu), memory: Some(memory), layer, ..ToldContainer::default() };
        let swap = Some(SwapStats { time: AT, swap_usage_bytes: Some(5), ..SwapStats::default() });
        let ended = ToldContainer { cpu: Some(cpu), ..ToldContainer::default() };
        ToldPod {
            cpu: Some(CpuStats { usage_core_nano_seconds: Some(90), ..cpu }),
            network: Some(NetworkStats { time: AT, ..NetworkStats::default() }),
            processes: Some(4),
            containers: BTreeMap::from([
                (ContainerId::from("c1"), web),
                (ContainerId::from("c2"), ToldContainer { swap, ..ToldContainer::default() }),
                (ContainerId::from("ended"), ended),
            ]),
            ..ToldPod::default()
        }
    }

    fn told_by_the_runtime(pod: ToldPod) -> Snapshot {
        let mut snapshot = snapshot();
        snapshot.told = Some(BTreeMap::from([(SandboxId::from("s1"), pod)]));
        snapshot
    }

    /// CRI-34: control groups fill in nothing, and the agent's own figures of disks stay.
    #[test]
    fn figures_of_pods_are_those_that_the_runtime_tells() {
        let mut snapshot = told_by_the_runtime(told_pod());
        snapshot.nano_cores.insert("c1".to_owned(), 33);
        let with = summary(&snapshot, &Facts { pressure: true, ..Facts::default() });
        let pod = &with.pods[0];
        assert_eq!(pod.cpu.expect("told").usage_core_nano_seconds, Some(90));
        assert_eq!((pod.memory, pod.swap, pod.io), (None, None, None), "the runtime does not tell them");
        assert_eq!(pod.process_stats, Some(ProcessStats { process_count: 4 }));
        assert_eq!(pod.network.as_ref().expect("told").time, AT);
        let names: Vec<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["web", "side"], "the one that ended is left out");
        let [web, side] = &pod.containers[..] else { panic!("two containers") };
        let cpu = web.cpu.expect("told");
        assert_eq!((cpu.usage_core_nano_seconds, cpu.usage_nano_cores), (Some(50), Some(33)));
        assert!(cpu.psi.is_some() && pod.cpu.expect("told").psi.is_some());
        let memory = web.memory.expect("told");
        assert_eq!((memory.working_set_bytes, memory.usage_bytes), (Some(60), None));
        let rootfs = web.rootfs.expect("on a disk");
        assert_eq!((rootfs.time, rootfs.used_bytes, rootfs.inodes_used), (AT, Some(70), None));
        assert_eq!((rootfs.capacity_bytes, web.logs.expect("looked at").used_bytes), (Some(1_000_000), Some(8192)));
        let nothing = side.memory.expect("zeros");
        assert_eq!((nothing.working_set_bytes, nothing.page_faults), (Some(0), None));
        assert_eq!(side.cpu.expect("zeros").usage_nano_cores, Some(0));
        assert_eq!(web.swap.expect("zeros").swap_usage_bytes, Some(0));
        assert!(side.io.is_some_and(|io| io.psi.is_none()));
        let without = summary(&snapshot, &Facts::default());
        let web = &without.pods[0].containers[0];
        assert!(web.io.is_none() && web.cpu.is_some_and(|cpu| cpu.psi.is_none()));
    }

    #[test]
    fn the_short_answer_has_zeros_for_each_figure_and_the_sum_of_swap() {
        let snapshot = told_by_the_runtime(told_pod());
        let short = cpu_and_memory(&snapshot, &Facts::default());
        let pod = &short.pods[0];
        assert_eq!(pod.swap.expect("a sum").swap_usage_bytes, Some(5));
        assert!(pod.network.is_none() && pod.containers[0].rootfs.is_none());
        let memory = pod.containers[0].memory.expect("told");
        assert_eq!((memory.working_set_bytes, memory.usage_bytes, memory.page_faults), (Some(60), Some(0), Some(0)));
        let text = resource_metrics::text(Some(&snapshot));
        let line =
            "container_memory_working_set_bytes{container=\"web\",namespace=\"ns\",pod=\"p\"} 60 1767323000000\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_pod_that_the_runtime_does_not_tell_of_is_left_out() {
        let mut snapshot = told_by_the_runtime(told_pod());
        snapshot.told = Some(BTreeMap::from([(SandboxId::from("other"), told_pod())]));
        assert!(summary(&snapshot, &Facts::default()).pods.is_empty());
        snapshot.told = Some(BTreeMap::from([(SandboxId::from("s1"), ToldPod::default())]));
        let bare = summary(&snapshot, &Facts::default());
        assert_eq!((bare.pods[0].cpu, bare.pods[0].containers.len()), (None, 0));
    }
}
