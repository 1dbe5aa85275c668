//! As many pods as a node is built for.

use std::time::Duration;

use podwright::sim::{SimPod, simulate};

#[test]
#[expect(clippy::disallowed_methods, reason = "the time printed is real")]
fn a_thousand_pods_start_and_leave_nothing() {
    let began = std::time::Instant::now();
    let (started, gone) = simulate(1, |world| async move {
        for number in 0..1_000 {
            world.put(&SimPod::of(&format!("web-{number}"), "run").grace(2));
        }
        world.start_agent();
        let started = world.settle().await;
        assert_eq!(world.running().len(), 1_000);
        let before = world.node().time.elapsed();
        world.finish().await;
        assert!(world.running().is_empty());
        (started, world.node().time.elapsed() - before)
    });
    println!("1,000 pods: all run after {started:?}, gone after {gone:?}, in {:?} of real time", began.elapsed());
    assert!(started < Duration::from_secs(300), "{started:?}");
}
