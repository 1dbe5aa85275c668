//! Volumes of drivers.

use std::time::Duration;

use podwright::sim::world::drivers::DISK;
use podwright::sim::{SimPod, World, describe, run};

use super::with_drivers;

/// Why the agent says that this pod waits.
async fn waits(world: &World, name: &str) -> String {
    let views = world.statuses().await.expect("the agent answers");
    let of_pod = views.iter().find(|view| view.pod.metadata.name.as_deref() == Some(name)).expect("the agent has it");
    of_pod.waits().join("; ")
}

/// VOL-10: somebody takes a pod from the API at once, and the scheduler places another one that wants its volume. That one has
/// it after the first has ended, also when the agent is started anew in between.
#[test]
fn vol_10_a_volume_for_one_pod_goes_on_to_the_next_after_the_first_has_ended() {
    let run = run(1, with_drivers(), |world| async move {
        world.add_csi_driver(DISK, true);
        world.add_volume_for_one_pod("single", DISK);
        world.create(&SimPod::of("one", "run ignores stop").persistent("single").grace(20)).expect("made");
        world.start_agent();
        world.settle().await;
        let two = SimPod::of("two", "run").persistent("single");
        let refused = world.create(&two).expect_err("the scheduler knows that the volume is for one pod");
        assert_eq!(refused.reason, "Unschedulable");
        world.delete_pod("one", None);
        world.sleep(Duration::from_secs(1)).await;
        world.delete_pod("one", Some(0));
        world.create(&two).expect("nobody has the volume, as far as the API knows");
        world.sleep(Duration::from_secs(4)).await;
        let in_use = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
        let said = waits(&world, "two").await;
        assert!(said.contains(in_use), "{said}");
        world.kill_agent();
        world.start_agent();
        world.sleep(Duration::from_secs(4)).await;
        world.settle().await;
        assert_eq!(waits(&world, "two").await, "");
    });
    assert!(run.violations.is_empty(), "{}", describe(&run.violations, &run.story));
}
