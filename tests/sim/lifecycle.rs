//! A pod's life without trouble.

use std::time::Duration;

use podwright::sim::{SimPod, simulate};

#[test]
fn a_wanted_pod_runs_and_a_deleted_pod_leaves_nothing() {
    simulate(1, |world| async move {
        world.put(&SimPod::of("web", "run"));
        world.start_agent();
        let took = world.settle().await;
        assert!(took < Duration::from_secs(30), "{took:?} {:?}", world.violations());
        assert_eq!(world.running().len(), 1);
        world.finish().await;
        assert!(world.running().is_empty());
    });
}
