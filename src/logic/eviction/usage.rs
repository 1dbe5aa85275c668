//! A pod's use of the resource that runs short, from its statistics. An unknown figure counts as nothing.

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::layout::Measured;
use crate::logic::statistics::summary::{FsStats, MemoryStats, PodStats};
use crate::logic::statistics::volumes::is_ephemeral;

/// Bytes of memory that cannot simply be given back.
pub fn memory(stats: Option<&MemoryStats>) -> u64 {
    stats.and_then(|memory| memory.working_set_bytes).unwrap_or(0)
}

/// Processes.
pub fn processes(stats: &PodStats) -> u64 {
    stats.process_stats.map_or(0, |processes| processes.process_count)
}

/// Bytes on disks, of the files that count.
pub fn bytes(stats: &PodStats, pod: &Pod, measured: Measured) -> u64 {
    sum(stats, pod, measured, |space| space.used_bytes)
}

/// The number of the files that count.
pub fn inodes(stats: &PodStats, pod: &Pod, measured: Measured) -> u64 {
    sum(stats, pod, measured, |space| space.inodes_used)
}

fn sum(stats: &PodStats, pod: &Pod, measured: Measured, of: impl Fn(&FsStats) -> Option<u64>) -> u64 {
    let of = |space: Option<&FsStats>| space.and_then(&of).unwrap_or(0);
    let mut sum = 0_u64;
    for container in &stats.containers {
        if measured.rootfs {
            sum = sum.saturating_add(of(container.rootfs.as_ref()));
        }
        if measured.logs {
            sum = sum.saturating_add(of(container.logs.as_ref()));
        }
    }
    if measured.volumes {
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).filter(|volume| is_local(volume)) {
            let found = stats.volumes.iter().find(|stats| stats.name == volume.name);
            sum = sum.saturating_add(of(found.map(|found| &found.space)));
        }
    }
    sum
}

/// Whether a volume's files are on the node's disk: upstream's `localVolumeNames`.
fn is_local(volume: &Volume) -> bool {
    volume.host_path.is_some() || is_ephemeral(volume)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logic::eviction::testing::{container, pod, space, stats, volume};

    /// EVI-18.
    #[test]
    fn evi_18_the_files_that_count_are_added_up() {
        let volumes = json!([
            {"name": "scratch", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "unmeasured", "hostPath": {"path": "/x"}},
        ]);
        let pod = pod("p", 0, json!({"volumes": volumes}));
        let mut stats = stats("p");
        stats.containers = vec![container("a", space(1, 10), space(2, 20)), container("b", space(4, 40), space(8, 80))];
        let names = ["scratch", "memory", "config", "secret"];
        stats.volumes = names.iter().enumerate().map(|(at, name)| volume(name, space(16 << at, 160 << at))).collect();
        for (rootfs, logs, volumes, expected) in [
            (true, false, false, 1 + 4),
            (false, true, false, 2 + 8),
            (false, false, true, 16 + 64),
            (true, true, true, 15 + 80),
            (false, false, false, 0),
        ] {
            let measured = Measured { rootfs, logs, volumes };
            assert_eq!(bytes(&stats, &pod, measured), expected, "{measured:?}");
            assert_eq!(inodes(&stats, &pod, measured), 10 * expected, "{measured:?}");
        }
    }
}
