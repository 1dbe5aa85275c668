//! Starts of operations: each says what keeps a second one of its kind from beginning beside it, and what becomes of news
//! that come meanwhile.

use std::collections::BTreeSet;

use crate::settle;
use crate::source::{Source, sources};

/// The means that keep an operation single.
enum By {
    /// This field, a `SingleFlight` or `Flights` of the same folder.
    Flight(&'static str),
    /// Something else, in words.
    Other(&'static str),
}

use By::{Flight, Other};

/// A name that is made where the operation starts.
const MADE: &str = "(made)";

const ONCE: By = Other("read once, at the actor's beginning, and again after a failure alone");
const FOLLOWS: By = Other("lasts as long as what it follows; its end begins the next");
const REARMED: By = Other("its end sets the timer of the next");
const OUTBOX: By = Other("the outbox in `logic` has one report under way");
const STAGE: By = Other("`Stage` says what is under way; news meanwhile are looked at when it ends");
const PENDING: By = Other("one for each question, by its number");
const NODE_MACHINE: By = Other("the machine in `logic::node` has one call to the API server under way");
const KEYED: By = Other("the map by key holds the operation, and a new one cancels or waits for it");
const BOOKS: By = Other("the entries are compared with those written when a write ends");

/// Every operation by the file that starts it, below `src/actors`, and its name.
const STARTS: &[(&str, &str, By)] = &[
    ("events/event_recorder/outlet.rs", "create event", OUTBOX),
    ("events/event_recorder/outlet.rs", "patch event", OUTBOX),
    ("eviction/eviction_manager.rs", "look at the node", STAGE),
    ("eviction/eviction_manager.rs", "measure pods", STAGE),
    ("eviction/eviction_manager.rs", "reclaim", STAGE),
    ("eviction/eviction_manager/kernel_log.rs", "follow kernel log", FOLLOWS),
    ("eviction/eviction_manager/waking.rs", "watch memory", KEYED),
    ("images/image_gc.rs", "list images", Flight("lists")),
    ("images/image_gc.rs", "look at images", Flight("passes")),
    ("images/image_gc.rs", "remove images", Flight("passes")),
    (
        "images/image_manager/mod.rs",
        "find credentials",
        Other("questions for the same answer wait for it in `gathering`"),
    ),
    ("images/image_manager/mod.rs", "image status", PENDING),
    ("images/image_manager/mod.rs", "prune records", Other("removes nothing that was pulled since the list began")),
    ("images/image_manager/mod.rs", "pull image", Other("`PullQueue` in `logic` has one pull of an image under way")),
    ("images/image_manager/mod.rs", "read records", ONCE),
    ("images/image_manager/mod.rs", "write record", Other("writes of a record add up; each is of one image")),
    ("node/certificate_manager.rs", "obtain certificate", KEYED),
    ("node/certificate_manager.rs", "read client authorities", Flight("reads")),
    ("node/certificate_manager.rs", "read serving certificate", Flight("reads")),
    ("node/network_rules.rs", "keep rules", REARMED),
    ("node/node_lease.rs", MADE, Other("`LeaseKeeper` in `logic` has one call under way")),
    ("node/node_status/calls.rs", "create node", NODE_MACHINE),
    ("node/node_status/calls.rs", "patch node status", NODE_MACHINE),
    ("node/node_status/calls.rs", "read facts", NODE_MACHINE),
    ("node/node_status/calls.rs", "read node", NODE_MACHINE),
    ("node/node_status/calls.rs", "watch node", FOLLOWS),
    ("node/node_status/host.rs", "read addresses", Flight("reads")),
    ("node/node_status/host.rs", "read resolv.conf", ONCE),
    ("node/node_status/machine_size.rs", "read size", REARMED),
    (
        "node/node_status/mod.rs",
        "tell pod CIDRs",
        Other("`ranges` knows what the runtime was told, and tells newer ones"),
    ),
    (
        "node/shutdown_manager.rs",
        "delay shutdown",
        Other("the machine in `logic` asks for the next one when it has none"),
    ),
    ("node/shutdown_manager.rs", "list pods", Other("the machine in `logic` lists once a shutdown")),
    ("node/shutdown_manager.rs", "read times", ONCE),
    ("node/shutdown_manager.rs", "watch logind", FOLLOWS),
    ("node/shutdown_manager.rs", "write times", Flight("writes")),
    ("objects/local_objects.rs", "read folder", Flight("scans")),
    ("objects/local_objects.rs", "watch folder", FOLLOWS),
    ("objects/object_cache/mod.rs", "read object", Other("`ObjectCache` in `logic` has one read of an object for all")),
    ("objects/object_cache/mod.rs", "watch object", KEYED),
    ("objects/object_cache/mod.rs", "watch services", FOLLOWS),
    ("plugins/claim_manager/claims.rs", MADE, Other("`ClaimStates` in `logic` has one attempt of a pod under way")),
    ("plugins/claim_manager/claims.rs", "ask for pods", REARMED),
    (
        "plugins/claim_manager/claims.rs",
        "keep claims",
        Other("`ClaimStates` in `logic` stores what changed meanwhile next"),
    ),
    ("plugins/claim_manager/claims.rs", "read claims", Other("once for the file; then one attempt of a pod")),
    ("plugins/claim_manager/drivers.rs", "delete ResourceSlices", KEYED),
    ("plugins/claim_manager/drivers.rs", "watch driver", KEYED),
    ("plugins/claim_manager/health.rs", "keep health", Flight("writes")),
    ("plugins/csi_manager/limits.rs", "read limit of driver", Flight("reads")),
    ("plugins/csi_manager/mod.rs", "ask driver", Other("one for each registration; an older one's answer is dropped")),
    ("plugins/csi_manager/mod.rs", "look for unused volumes", Flight("looks")),
    (
        "plugins/csi_manager/mod.rs",
        "tell cluster of drivers",
        Other("`Publishing` has one job under way, the others wait in `jobs`"),
    ),
    ("plugins/csi_manager/mod.rs", "unstage volume", Other("`unstagings` has one for each volume")),
    ("plugins/device_plugins/calls.rs", MADE, PENDING),
    ("plugins/device_plugins/registering.rs", "ask plugin", Other("one for each session")),
    ("plugins/device_plugins/registering.rs", "serve registrations", FOLLOWS),
    ("plugins/device_plugins/registering.rs", "wait for devices", FOLLOWS),
    ("plugins/plugin_watcher.rs", "ask plugin", Other("the machine in `logic` has one attempt of a socket under way")),
    ("plugins/plugin_watcher.rs", "look for plugins", Flight("scans")),
    ("plugins/plugin_watcher.rs", "tell plugin", Other("the machine in `logic` has one attempt of a socket under way")),
    ("plugins/plugin_watcher.rs", "watch registry", FOLLOWS),
    ("pods/offline_pods.rs", "forget", Flight("forgetting")),
    ("pods/offline_pods.rs", "keep pods", Flight("writes")),
    ("pods/offline_pods.rs", "recall pods", Flight("recalls")),
    (
        "pods/pod_manager/admission/placing.rs",
        "place pods",
        Other("one for each question; pods that came since are in the next"),
    ),
    ("pods/pod_manager/admission/rereading.rs", "read node", Flight("reads")),
    ("pods/pod_manager/ends.rs", "release", Other("`Releases` in `logic` has one of a pod under way")),
    (
        "pods/pod_manager/housekeeping.rs",
        "housekeeping",
        Other("`Sweep` in `logic` has one pass, and one pod of it, under way"),
    ),
    (
        "pods/pod_manager/resizing.rs",
        "keep allocations",
        Other("what is not kept yet is asked for when the write ends"),
    ),
    (
        "pods/pod_worker/jobs/allocations.rs",
        "recall resources",
        Other("asked at the beginning, and again when that failed"),
    ),
    ("pods/pod_worker/performing.rs", MADE, Other("`PodLifecycle` has each of its jobs once")),
    (
        "pods/user_namespaces.rs",
        "forget user namespace",
        Other("`Assignments` in `logic` has one file step of a pod under way"),
    ),
    (
        "pods/user_namespaces.rs",
        "keep user namespace",
        Other("`Assignments` in `logic` has one file step of a pod under way"),
    ),
    ("pods/user_namespaces.rs", "read user namespaces", ONCE),
    ("probes/prober/mod.rs", "probe", Other("the probe's machine has one under way")),
    (
        "probes/prober/told.rs",
        "keep results",
        Other("`saving` lasts until the next write is due, which has the newest"),
    ),
    ("resources/allocation_manager.rs", "keep allocations", BOOKS),
    ("resources/allocation_manager.rs", "read allocations", ONCE),
    ("resources/allocation_manager/hardware.rs", "keep hardware", Other("what waits is decided when the write ends")),
    ("resources/allocation_manager/hardware.rs", "read hardware", ONCE),
    (
        "resources/allocation_manager/placing.rs",
        "allocate devices",
        Other("the pod's `Stage` has one question of a kind of device"),
    ),
    (
        "resources/allocation_manager/placing.rs",
        "prefer devices",
        Other("the pod's `Stage` has one question of a kind of device"),
    ),
    ("resources/allocation_manager/reconcile.rs", "reconcile CPUs", Flight("comparing")),
    ("resources/process_placement.rs", "place processes", REARMED),
    ("resources/resource_manager.rs", "set tier cgroups", Flight("making")),
    ("root.rs", "stop the tree", ONCE),
    ("runtime/container_gc.rs", "collect garbage", Flight("passes")),
    ("runtime/container_gc.rs", "look for garbage", Flight("passes")),
    ("runtime/log_rotator.rs", "compress logs", Other("`LogRotation` in `logic` has one step of a log under way")),
    ("runtime/log_rotator.rs", "look at logs", Other("`LogRotation` in `logic` has one step of a log under way")),
    ("runtime/log_rotator.rs", "reopen log", Other("`LogRotation` in `logic` has one step of a log under way")),
    ("runtime/log_rotator.rs", "rotate log", Other("`LogRotation` in `logic` has one step of a log under way")),
    ("runtime/log_rotator.rs", "wait for writes", FOLLOWS),
    ("runtime/pleg/mod.rs", "event stream", FOLLOWS),
    ("runtime/pleg/mod.rs", "inspect pod", Flight("looks")),
    ("runtime/pleg/mod.rs", "relist", Flight("relisting")),
    ("runtime/runtime_monitor.rs", "runtime status", Flight("polls")),
    ("server.rs", "listen", FOLLOWS),
    ("sources/api.rs", "watch pods", FOLLOWS),
    ("sources/file.rs", "read folder", Flight("scans")),
    ("sources/file.rs", "watch folder", FOLLOWS),
    ("sources/http.rs", "fetch manifests", REARMED),
    ("statistics/stats_collector/driven.rs", "ask driver for figures", Other("`open` has one for each volume")),
    ("statistics/stats_collector/mod.rs", "list volumes", Flight("lists")),
    (
        "statistics/stats_collector/mod.rs",
        "look at statistics",
        Other("askers of more than the look under way has wait for the next"),
    ),
    (
        "statistics/stats_collector/mod.rs",
        "walk through directories",
        Other("one in a look, and one beside; what is left is walked next"),
    ),
    ("status/mirror_manager.rs", MADE, Other("`MirrorPods` in `logic` has one call of a name under way")),
    ("status/status_manager.rs", MADE, Other("`StatusSync` in `logic` has one call of a pod under way")),
    ("volumes/volume_manager/in_use.rs", "look for attached volumes", Flight("looks")),
    (
        "volumes/volume_manager/mod.rs",
        "list volumes",
        Other("`VolumeStates` in `logic` has one task of a pod or place under way"),
    ),
    (
        "volumes/volume_manager/mod.rs",
        "mount volume",
        Other("`VolumeStates` in `logic` has one task of a pod or place under way"),
    ),
    (
        "volumes/volume_manager/mod.rs",
        "release volumes",
        Other("`VolumeStates` in `logic` has one task of a pod or place under way"),
    ),
    (
        "volumes/volume_manager/mod.rs",
        "unmount volume",
        Other("`VolumeStates` in `logic` has one task of a pod or place under way"),
    ),
];

/// The starts in a file: line and name of each.
fn starts(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<(usize, &str)> = source.product_lines().collect();
    let mut found = vec![];
    for (index, (number, line)) in lines.iter().enumerate() {
        let of_context = line.contains("context.start")
            || line.trim_start().starts_with(".start") && lines[index - 1].1.trim() == "context";
        let is_start = [".start(", ".start_by(", ".start_each("].iter().any(|call| line.contains(call));
        if !is_start || !of_context {
            continue;
        }
        // The name is the first argument, here or on the next line.
        let here = source.lines[*number - 1].split_once(".start").map_or("", |(_, rest)| rest);
        let first = here.split_once('(').map_or("", |(_, rest)| rest).trim();
        let first = if first.is_empty() { source.lines[*number].trim() } else { first };
        let name = first.strip_prefix('"').and_then(|rest| rest.split('"').next());
        found.push((*number, name.unwrap_or(MADE).to_owned()));
    }
    found
}

/// Whether a file of the same folder has such a field.
fn has_flight(all: &[Source], path: &str, field: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_field = |line: &str| {
        let line = line.trim().trim_start_matches("pub(super) ");
        let kind = line.strip_prefix(field).and_then(|rest| rest.strip_prefix(": ")).unwrap_or_default();
        ["SingleFlight<", "Flights<"].iter().any(|flight| kind.contains(flight))
    };
    let beside = all.iter().filter(|source| source.path.starts_with(folder));
    beside.flat_map(|source| source.product_lines()).any(|(_, line)| is_field(line))
}

#[test]
fn operations_begin_one_at_a_time_for_a_reason() {
    let all = sources("src/actors");
    let mut complaints = vec![];
    let mut met = BTreeSet::new();
    for source in all.iter().filter(|source| !source.path.starts_with("src/actors/kit/")) {
        let path = source.path.trim_start_matches("src/actors/");
        for (number, name) in starts(source) {
            match STARTS.iter().position(|(file, of, _)| *file == path && *of == name) {
                Some(place) => drop(met.insert(place)),
                None => {
                    complaints.push(format!("{}:{number}: {name:?} begins, and STARTS does not say how", source.path))
                }
            }
        }
    }
    for (place, (file, name, by)) in STARTS.iter().enumerate() {
        if !met.contains(&place) {
            complaints.push(format!("STARTS: {file} starts no {name:?}"));
        }
        match by {
            Flight(field) if !has_flight(&all, &format!("src/actors/{file}"), field) => {
                complaints.push(format!("STARTS: {file} has no SingleFlight or Flights {field:?}"));
            }
            Other("") => complaints.push(format!("STARTS: {name:?} of {file} has no reason")),
            _ => {}
        }
    }
    settle("one job at a time, and no news lost: by the kit, or for a reason", complaints);
}

#[test]
fn starts_and_flights_are_found() {
    let text = "struct A {\n    reads: SingleFlight<()>,\n}\nfn f() {\n    context.start(\"read it\", x, y);\n    context\n        \
                .start_by(deadline, z);\n    context.start_each(\n        \"ask all\",\n    );\n    other.start(\"no\");\n}\n";
    let source = Source::new("src/actors/a/b.rs".to_owned(), text);
    let names: Vec<_> = starts(&source).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["read it", MADE, "ask all"]);
    let all = [source];
    assert!(has_flight(&all, "src/actors/a/b.rs", "reads") && !has_flight(&all, "src/actors/a/b.rs", "writes"));
}
