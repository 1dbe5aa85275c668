//! As many pods as a node is built for.

use std::time::Duration;

use podwright::sim::scenarios::scenario;
use podwright::sim::simulate;

#[test]
#[expect(clippy::disallowed_methods, reason = "the time printed is real")]
fn a_thousand_pods_start_and_leave_nothing() {
    let began = std::time::Instant::now();
    let crowd = simulate(1, |world| scenario::crowd(world, 1_000));
    println!("1,000 pods: {crowd:?} of virtual time, {:?} of real time", began.elapsed());
    assert!(crowd.started < Duration::from_secs(300), "{crowd:?}");
    assert!(crowd.gone < Duration::from_secs(300), "{crowd:?}");
}
