//! Where the machine's own processes are put: nowhere unless that is asked for, and back where somebody moved them.

use std::collections::BTreeMap;
use std::time::Duration;

use podwright::actors::settings::Settings;
use podwright::logic::resources::cgroup_name::CgroupName;
use podwright::logic::resources::node_cgroups::process_placement::PlacementSettings;
use podwright::sim::node::process_placement::AGENT;
use podwright::sim::{Crash, Options, World, describe, run};

const SEED: u64 = 11;

fn asked(settings: &mut Settings) {
    settings.resources.placement = PlacementSettings::from_config("/kubelet.slice", "/system", -999).expect("paths");
}

fn places(world: &World) -> BTreeMap<i32, String> {
    let node = world.node();
    let processes = node.processes.lock().expect("nobody panicked");
    processes.placed.iter().map(|(pid, name)| (*pid, name.to_string())).collect()
}

fn score(world: &World) -> i32 {
    world.node().processes.lock().expect("nobody panicked").oom_score_adj
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// All are placed; then a daemon appears, somebody moves the agent, and its score.
async fn story(world: World) {
    world.start_agent();
    pass(20).await;
    let mut expected: BTreeMap<i32, String> = [1, 2, 3]
        .map(|pid| (pid, "/".to_owned()))
        .into_iter()
        .chain([100, 101].map(|pid| (pid, "/system".to_owned())))
        .collect();
    expected.insert(AGENT, "/kubelet.slice".to_owned());
    assert_eq!((places(&world), score(&world)), (expected.clone(), -999), "after the start");
    {
        let node = world.node();
        let mut processes = node.processes.lock().expect("nobody panicked");
        processes.placed.insert(102, CgroupName::root());
        processes.placed.insert(AGENT, CgroupName::from_cgroupfs_path("/user.slice").expect("a path"));
        processes.oom_score_adj = 0;
    }
    expected.insert(102, "/system".to_owned());
    pass(90).await;
    assert_eq!((places(&world), score(&world)), (expected, -999), "after somebody moved them");
}

/// RES-19.
#[test]
fn processes_are_put_where_the_configuration_says_and_put_back() {
    let ended = run(SEED, Options { settings: asked, ..Options::default() }, |world| async move {
        story(world.clone()).await;
        world
    });
    assert!(ended.violations.is_empty(), "{}", describe(&ended.violations, &ended.story));
    let turns = ended.value.turns().into_iter().find(|(kind, _)| *kind == "ProcessPlacement").expect("it had turns").1;
    assert!(turns >= 3, "{turns}");
    for (index, after) in (0..turns).flat_map(|index| [(index, false), (index, true)]) {
        let crash = Crash { kind: "ProcessPlacement".to_owned(), index, after };
        let ended = run(SEED, Options { settings: asked, crash: Some(crash.clone()), ..Options::default() }, story);
        assert!(ended.violations.is_empty(), "{crash}: {}", describe(&ended.violations, &ended.story));
    }
}

/// RES-19, CFG-41: nobody is moved, and a score that may not be set holds nothing up.
#[test]
fn nobody_is_moved_unless_that_is_asked_for() {
    let ended = run(SEED, Options::default(), |world| async move {
        world.node().processes.lock().expect("nobody panicked").score_is_fixed = true;
        let before = places(&world);
        world.start_agent();
        pass(400).await;
        assert_eq!(score(&world), 0);
        world.node().processes.lock().expect("nobody panicked").score_is_fixed = false;
        pass(400).await;
        (before, places(&world), score(&world))
    });
    assert!(ended.violations.is_empty(), "{}", describe(&ended.violations, &ended.story));
    let (before, after, score) = ended.value;
    assert_eq!((before, score), (after, -999));
}
