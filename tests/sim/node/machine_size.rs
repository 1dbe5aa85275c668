//! CPUs and memory that are added to the machine while the agent runs (KEP-3953).

use std::time::Duration;

use podwright::actors::settings::Settings;
use podwright::logic::resources::cgroup_name::CgroupName;
use podwright::logic::resources::node_cgroups::{MachineSize, NodeCgroups};
use podwright::sim::node::NODE_NAME;
use podwright::sim::{Crash, Options, World, describe, run};

const SEED: u64 = 7;
const GIBIBYTE: i64 = 1 << 30;

fn small() -> MachineSize {
    MachineSize { cpus: 2, cpu_list: "0-1".to_owned(), memory_bytes: 8 * GIBIBYTE, ..MachineSize::default() }
}

fn fixed(settings: &mut Settings) {
    settings.node.size = Some(small());
    settings.resources.node_cgroups =
        NodeCgroups { capacity: small().capacity(), cpus: Some(small().cpu_list), ..NodeCgroups::default() };
}

fn following(settings: &mut Settings) {
    fixed(settings);
    settings.node.follows_size = true;
}

/// The Node's amounts: CPUs and memory, as capacity; then the same as allocatable.
fn shown(world: &World) -> [String; 4] {
    let node = world.api().get("nodes", "", NODE_NAME).expect("it is registered");
    [("capacity", "cpu"), ("capacity", "memory"), ("allocatable", "cpu"), ("allocatable", "memory")]
        .map(|(list, name)| node["status"][list][name].as_str().unwrap_or_default().to_owned())
}

/// CPU shares, memory and CPUs of all pods together.
fn of_pods(world: &World) -> (Option<u64>, Option<i64>, Option<String>) {
    let node = world.node();
    let cgroups = node.cgroups.lock().expect("nobody panicked");
    let name = CgroupName::from_cgroupfs_path("/kubepods").expect("a path");
    let settings = cgroups.all.get(&name).expect("it is made at the start");
    (settings.cpu_shares, settings.memory_limit, settings.cpuset_cpus.clone())
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn story(world: World) {
    world.start_agent();
    pass(30).await;
    assert_eq!(shown(&world), ["2", "8Gi", "2", "8Gi"]);
    assert_eq!(of_pods(&world), (Some(2048), Some(8 * GIBIBYTE), Some("0-1".to_owned())));
    world.node().resize_machine(4, 16 * GIBIBYTE);
    pass(90).await;
    assert_eq!(shown(&world), ["4", "16Gi", "4", "16Gi"]);
    assert_eq!(of_pods(&world), (Some(4096), Some(16 * GIBIBYTE), Some("0-3".to_owned())));
    world.node().resize_machine(3, 12 * GIBIBYTE);
    pass(90).await;
    assert_eq!(shown(&world), ["3", "12Gi", "3", "12Gi"]);
    assert_eq!(of_pods(&world), (Some(3072), Some(12 * GIBIBYTE), Some("0-2".to_owned())));
}

/// The Node and the limits of all pods follow the machine, also when one of the actors begins anew at any moment.
#[test]
fn a_machine_that_grows_and_shrinks_is_followed() {
    let options = || Options { settings: following, cluster: true, ..Options::default() };
    let ended = run(SEED, options(), |world| async move {
        story(world.clone()).await;
        world
    });
    assert!(ended.violations.is_empty(), "{}", describe(&ended.violations, &ended.story));
    for kind in ["ResourceManager", "NodeStatus"] {
        let turns = ended.value.turns().into_iter().find(|(one, _)| *one == kind).expect("it had turns").1;
        for index in (0..turns).step_by(5) {
            let crash = Crash { kind: kind.to_owned(), index, after: index % 2 == 0 };
            let ended = run(SEED, Options { crash: Some(crash.clone()), ..options() }, story);
            assert!(ended.violations.is_empty(), "{crash}: {}", describe(&ended.violations, &ended.story));
        }
    }
}

/// As upstream: without the flag the machine is the one of the start, also for an actor that begins anew.
#[test]
fn without_the_flag_the_size_is_that_of_the_start() {
    let options = Options { settings: fixed, cluster: true, ..Options::default() };
    let ended = run(SEED, options, |world| async move {
        world.start_agent();
        pass(30).await;
        world.node().resize_machine(4, 16 * GIBIBYTE);
        pass(120).await;
        (shown(&world), of_pods(&world))
    });
    assert!(ended.violations.is_empty(), "{}", describe(&ended.violations, &ended.story));
    let (shown, of_pods) = ended.value;
    assert_eq!(shown, ["2", "8Gi", "2", "8Gi"]);
    assert_eq!(of_pods, (Some(2048), Some(8 * GIBIBYTE), Some("0-1".to_owned())));
}
