//! Set-ups that take long: their Events and their figures.

use super::*;
use crate::platform::observer::{Observation, Observer};

/// Keeps which operations took how long.
#[derive(Default)]
struct Watch(Mutex<Vec<(&'static str, u64)>>);

impl Observer for Watch {
    fn observe(&self, occurrence: Observation<'_>) {
        if let Observation::VolumeDone { operation, took, .. } = occurrence {
            lock(&self.0).push((operation, took.as_secs()));
        }
    }
}

/// VOL-13, VOL-29: it is told what the set-up is at, by Events as upstream, and in the end how long it took.
#[tokio::test(start_paused = true)]
async fn a_long_walk_over_files_is_told_of_while_it_goes_on() {
    let pod = claiming_pod(json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    let (watch, moves) = (Arc::new(Watch::default()), Arc::new(Mutex::new(vec![])));
    let told = Arc::clone(&moves);
    let objects =
        [("persistentvolumeclaim/data", claim("Bound")), ("persistentvolume/pv-1", local_volume("/mnt/disk"))];
    let host = Arc::new(Host { walks: 95, ..Host::default() });
    let task = MountTask {
        timing: Timing { observer: watch.clone(), clock: crate::actors::node::tests::paused_clock() },
        moves: Box::new(move |doing, event| lock(&told).push((doing, event))),
        ..task(Arc::new(api(&objects)), host, pod)
    };
    let result = task.run().await.outcome;
    assert!(result.expect("mounted").mounted.expect("a volume").relabel);
    let moves = lock(&moves);
    assert!(moves.iter().all(|(doing, _)| doing == DOING));
    assert_eq!(moves.len(), 9, "at each look");
    let events: Vec<&String> = moves.iter().filter_map(|(_, event)| event.as_ref()).collect();
    let [first, second] = events[..] else { panic!("{events:?}") };
    assert!(first.contains("u-1/volumes/kubernetes.io~local-volume/pv-1 is taking longer than expected"), "{first}");
    assert!(second.starts_with("Setting volume ownership for u-1/") && second.contains(", processed "), "{second}");
    assert_eq!(*lock(&watch.0), [("volume_apply_access_control", 95), ("volume_mount", 95)]);
}
