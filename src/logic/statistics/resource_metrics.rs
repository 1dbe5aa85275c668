//! `/metrics/resource`: what metrics-server reads (OBS-17). Times are those of the measurements, container by container.

use super::build::{self, Facts};
use super::exposition::{Exposition, Kind, labels, seconds};
use super::sample::Snapshot;
use super::summary::{ContainerStats, PodStats, Summary, SwapStats, Time};

/// The whole answer; without a snapshot, that there was an error.
pub fn text(snapshot: Option<&Snapshot>) -> String {
    let summary = snapshot.map(|snapshot| build::cpu_and_memory(snapshot, &Facts::default()));
    let mut out = Exposition::default();
    if let Some(summary) = &summary {
        containers(&mut out, summary);
    }
    if let Some(summary) = &summary {
        node(&mut out, summary);
        pods(&mut out, summary);
    }
    let failed = u64::from(summary.is_none());
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    out.family("resource_scrape_error", help, Kind::Gauge);
    out.sample("", &[], failed, None);
    out.into_text()
}

type OfContainer = fn(&ContainerStats) -> Option<(f64, Option<Time>)>;

/// Name, help and kind of a container's families, and where its value is and when it was measured.
const OF_CONTAINER: [(&str, &str, Kind, OfContainer); 5] = [
    (
        "container_cpu_usage_seconds_total",
        "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
        Kind::Counter,
        |container| {
            let cpu = container.cpu?;
            Some((cpu.usage_core_nano_seconds? as f64 / 1e9, Some(cpu.time)))
        },
    ),
    (
        "container_memory_working_set_bytes",
        "[STABLE] Current working set of the container in bytes",
        Kind::Gauge,
        |container| {
            let memory = container.memory?;
            Some((memory.working_set_bytes? as f64, Some(memory.time)))
        },
    ),
    (
        "container_start_time_seconds",
        "[STABLE] Start time of the container since unix epoch in seconds",
        Kind::Gauge,
        |container| {
            let nanoseconds = container.start_time.0.0;
            (nanoseconds > 0).then(|| (nanoseconds as f64 / 1e9, None))
        },
    ),
    (
        "container_swap_limit_bytes",
        "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
        Kind::Gauge,
        |container| {
            let swap = container.swap?;
            let limit = swap.swap_available_bytes?.saturating_add(swap.swap_usage_bytes.unwrap_or(0));
            Some((limit as f64, Some(swap.time)))
        },
    ),
    (
        "container_swap_usage_bytes",
        "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
        Kind::Gauge,
        |container| swapped(container.swap),
    ),
];

fn containers(out: &mut Exposition, summary: &Summary) {
    for (name, help, kind, value) in OF_CONTAINER {
        out.family(name, help, kind);
        for pod in &summary.pods {
            for container in &pod.containers {
                if let Some((value, at)) = value(container) {
                    let names = [
                        ("container", container.name.as_str()),
                        ("namespace", &pod.pod_ref.namespace),
                        ("pod", &pod.pod_ref.name),
                    ];
                    out.sample("", &names, value, at.map(|at| at.0));
                }
            }
        }
    }
}

fn node(out: &mut Exposition, summary: &Summary) {
    let node = &summary.node;
    let cpu = node.cpu.and_then(|cpu| Some((cpu.usage_core_nano_seconds?, cpu.time)));
    let help = "[STABLE] Cumulative cpu time consumed by the node in core-seconds";
    out.family("node_cpu_usage_seconds_total", help, Kind::Counter);
    if let Some((used, at)) = cpu {
        out.sample("", &[], seconds(used), Some(at.0));
    }
    let memory = node.memory.and_then(|memory| Some((memory.working_set_bytes?, memory.time)));
    out.family("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes", Kind::Gauge);
    if let Some((used, at)) = memory {
        out.sample("", &[], used, Some(at.0));
    }
    let help = "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems";
    out.family("node_swap_usage_bytes", help, Kind::Gauge);
    if let Some((used, Some(at))) = swapped(node.swap) {
        out.sample("", &[], used, Some(at.0));
    }
}

type OfPod = fn(&PodStats) -> Option<(f64, Option<Time>)>;

fn pods(out: &mut Exposition, summary: &Summary) {
    let families: [(&'static str, &'static str, Kind, OfPod); 3] = [
        (
            "pod_cpu_usage_seconds_total",
            "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
            Kind::Counter,
            |pod| {
                let cpu = pod.cpu?;
                Some((cpu.usage_core_nano_seconds? as f64 / 1e9, Some(cpu.time)))
            },
        ),
        ("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes", Kind::Gauge, |pod| {
            let memory = pod.memory?;
            Some((memory.working_set_bytes? as f64, Some(memory.time)))
        }),
        (
            "pod_swap_usage_bytes",
            "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
            Kind::Gauge,
            |pod| swapped(pod.swap),
        ),
    ];
    for (name, help, kind, value) in families {
        out.family(name, help, kind);
        for pod in &summary.pods {
            if let Some((value, at)) = value(pod) {
                let base = labels(&[("namespace", &pod.pod_ref.namespace), ("pod", &pod.pod_ref.name)]);
                out.sample(&base, &[], value, at.map(|at| at.0));
            }
        }
    }
}

fn swapped(swap: Option<SwapStats>) -> Option<(f64, Option<Time>)> {
    let swap = swap?;
    Some((swap.swap_usage_bytes? as f64, Some(swap.time)))
}

#[cfg(test)]
mod tests;
