//! CPUs and memory that pods own: given at admission, kept over crashes and full disks, taken back at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use podwright::logic::resources::cpu_manager::CpuSet;
use podwright::sim::faults::Fault;
use podwright::sim::node::machines::{LAPTOP, Machine, XEON};
use podwright::sim::{Options, SimPod, World, describe, run, simulate_with};
use serde_json::{Value, json};

use crate::common::{seeds, started};

fn on(machine: Machine) -> Options {
    Options { cluster: true, machine: Some(machine), ..Options::default() }
}

/// A Guaranteed pod with these amounts.
fn owner(name: &str, cpu: &str, memory: &str) -> SimPod {
    let amounts = json!({ "cpu": cpu, "memory": memory });
    SimPod::of(name, "run").field("resources", json!({ "requests": amounts, "limits": amounts }))
}

fn status(world: &World, pod: &str) -> Value {
    world.api_pod(pod).map_or(Value::Null, |pod| pod["status"].clone())
}

fn cpus(world: &World, pod: &str) -> CpuSet {
    let (cpus, _) = world.pinning_of(pod, "main").expect("it runs");
    CpuSet::parse(&cpus).expect("a set")
}

/// RES-24, RES-25, RES-32, RES-35, RES-67: each owner is within one NUMA node, with its memory; all others share the rest, and
/// get back what an owner had.
#[test]
fn owners_are_near_their_memory_and_the_rest_is_shared() {
    simulate_with(1, on(XEON), |world| async move {
        started(&world, &[SimPod::of("shared", "run"), owner("first", "10", "8Gi")]).await;
        world.create(&owner("second", "12", "8Gi")).expect("made");
        world.settle().await;
        let topology = XEON.topology().cpu_topology().expect("CPUs");
        for (pod, count) in [("first", 10), ("second", 12)] {
            let own = cpus(&world, pod);
            let (_, mems) = world.pinning_of(pod, "main").expect("it runs");
            assert_eq!((own.len(), topology.nodes_of(&own).to_string()), (count, mems), "{pod} has {own}");
        }
        let shared = cpus(&world, "shared");
        assert_eq!(shared.len(), 80 - 22);
        world.delete_pod("first", None);
        world.settle().await;
        assert_eq!(cpus(&world, "shared").len(), 80 - 12);
        assert!(shared.is_subset(&cpus(&world, "shared")));
    });
}

/// RES-37: a pod that gets no CPUs is refused with upstream's reason, and one that comes after an end takes what that had.
#[test]
fn a_pod_without_cpus_left_is_refused_and_the_next_may_have_them() {
    simulate_with(1, on(LAPTOP), |world| async move {
        // Two of eight CPUs are kept for the host.
        started(&world, &[owner("first", "4", "1Gi")]).await;
        world.create(&owner("second", "4", "1Gi")).expect("made");
        world.sleep(Duration::from_secs(5)).await;
        let refused = status(&world, "second");
        assert_eq!((&refused["phase"], &refused["reason"]), (&json!("Failed"), &json!("UnexpectedAdmissionError")));
        assert_eq!(
            refused["message"],
            "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=2, \
             available=0, which is unexpected",
            "upstream, too, tells of the rest that it looks for after the CPUs near the hint"
        );
        world.delete_pod("second", None);
        let before = cpus(&world, "first");
        world.delete_pod("first", None);
        world.sleep(Duration::from_secs(60)).await;
        world.create(&owner("third", "4", "1Gi")).expect("made");
        world.settle().await;
        assert_eq!(cpus(&world, "third"), before);
    });
}

/// RES-24, RES-29: the agent's end changes nothing for owners; the file of state says who they are.
#[test]
fn owners_keep_their_cpus_over_restarts_of_the_agent() {
    simulate_with(1, on(LAPTOP), |world| async move {
        started(&world, &[SimPod::of("shared", "run"), owner("first", "2", "1Gi"), owner("second", "2", "1Gi")]).await;
        let before = (cpus(&world, "first"), cpus(&world, "second"), world.cpus_kept());
        for _ in 0..3 {
            world.kill_agent();
            world.sleep(Duration::from_secs(3)).await;
            world.settle().await;
        }
        assert_eq!((cpus(&world, "first"), cpus(&world, "second"), world.cpus_kept()), before);
        world.reset_machine();
        world.sleep(Duration::from_secs(3)).await;
        world.settle().await;
        assert_eq!(world.cpus_kept(), before.2, "a boot changes nothing either");
    });
}

/// RES-24, PAIN-18: on a disk that takes no state file, nothing is given, nothing is lost, and the pod says for what it waits.
#[test]
fn on_a_full_disk_a_pod_waits_for_its_cpus() {
    simulate_with(1, on(LAPTOP), |world| async move {
        started(&world, &[owner("first", "2", "1Gi")]).await;
        let before = world.cpus_kept();
        world.refuse_writes(true);
        world.create(&owner("second", "2", "1Gi")).expect("made");
        world.sleep(Duration::from_secs(20)).await;
        assert_eq!(world.cpus_kept(), before);
        assert_eq!(world.pinning_of("second", "main"), None);
        let waiting = status(&world, "second").to_string();
        assert!(waiting.contains("CPUs and memory of its own to be chosen: the state cannot be kept"), "{waiting}");
        world.refuse_writes(false);
        world.settle().await;
        assert_eq!(cpus(&world, "second").len(), 2);
    });
}

/// RES-24, RES-25, RES-67: whatever fails and whoever crashes, each CPU has one owner, and containers run on what the file says.
#[test]
fn own_cpus_survive_every_fault() {
    let faults = [
        Fault::Refusals,
        Fault::LostAnswers,
        Fault::Hangs,
        Fault::LateEffects,
        Fault::Slow,
        Fault::Disk,
        Fault::Kills,
        Fault::Crashes,
        Fault::RuntimeRestarts,
        Fault::ApiSlow,
        Fault::ApiErrors,
        Fault::ApiWatches,
    ];
    for seed in seeds(4, 4) {
        let options = Options { faults: BTreeSet::from(faults), ..on(LAPTOP) };
        let run = run(seed, options, |world| async move {
            started(&world, &[SimPod::of("shared", "run"), owner("first", "2", "1Gi")]).await;
            for round in 0..6_u64 {
                let name = format!("owner-{round}");
                world.create(&owner(&name, "2", "1Gi")).expect("made");
                world.sleep(Duration::from_secs(20 + 7 * round)).await;
                if round % 2 == 1 {
                    world.delete_pod(&format!("owner-{}", round - 1), None);
                    world.delete_pod(&name, None);
                }
                world.sleep(Duration::from_secs(45)).await;
            }
            world.stop_faults();
            world.settle().await;
        });
        assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
    }
}
