//! The last part of the page: the machine, who tells, and whether something went wrong.

use crate::logic::statistics::exposition::{Exposition, Kind, labels};
use crate::logic::statistics::sample::Snapshot;

/// Versions, then the machine.
pub(super) fn text(snapshot: &Snapshot) -> String {
    versions(snapshot) + &machine(snapshot)
}

fn versions(snapshot: &Snapshot) -> String {
    let machine = &snapshot.sample.node.machine;
    let mut out = Exposition::default();
    let help = "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor \
                version & cadvisor revision.";
    out.family("cadvisor_version_info", help, Kind::Gauge);
    let versions = [
        ("cadvisorRevision", ""),
        ("cadvisorVersion", ""),
        ("dockerVersion", ""),
        ("kernelVersion", machine.kernel_version.as_str()),
        ("osVersion", &machine.os_version),
    ];
    out.sample("", &versions, 1, None);
    let help = "1 if there was an error while getting container metrics, 0 otherwise";
    out.family("container_scrape_error", help, Kind::Gauge);
    out.sample("", &[], 0, None);
    out.into_text()
}

/// All families of the machine.
pub(super) fn machine(snapshot: &Snapshot) -> String {
    let machine = &snapshot.sample.node.machine;
    let mut out = Exposition::default();
    let base = labels(&[
        ("boot_id", &machine.boot_id),
        ("machine_id", &machine.machine_id),
        ("system_uuid", &machine.system_uuid),
    ]);
    let at = Some(snapshot.sample.at);
    for (name, help, value) in [
        ("machine_cpu_cores", "Number of logical CPU cores.", machine.cpus),
        ("machine_cpu_physical_cores", "Number of physical CPU cores.", machine.cores),
        ("machine_cpu_sockets", "Number of CPU sockets.", machine.sockets),
        ("machine_memory_bytes", "Amount of memory installed on the machine.", machine.memory),
    ] {
        out.family(name, help, Kind::Gauge);
        out.sample(&base, &[], value, at);
    }
    // Persistent memory as a memory of its own is nothing that is looked for here.
    out.family("machine_nvm_avg_power_budget_watts", "NVM power budget.", Kind::Gauge);
    out.sample(&base, &[], 0, at);
    let help = "NVM capacity value labeled by NVM mode (memory mode or app direct mode).";
    out.family("machine_nvm_capacity", help, Kind::Gauge);
    for mode in ["app_direct_mode", "memory_mode"] {
        out.sample(&base, &[("mode", mode)], 0, at);
    }
    let help = "1 if there was an error while getting machine metrics, 0 otherwise.";
    out.family("machine_scrape_error", help, Kind::Gauge);
    out.sample("", &[], 0, None);
    out.family("machine_swap_bytes", "Amount of swap memory available on the machine.", Kind::Gauge);
    out.sample(&base, &[], machine.swap, at);
    out.into_text()
}
