//! Properties that hold after any inputs, in any order.

use proptest::prelude::*;

use super::model::{Event, Fate, Node};
use super::*;

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![4 => Just(Fate::Well), 1 => Just(Fate::InVain), 1 => Just(Fate::TooLate)]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..8_usize).prop_map(Event::Works),
        12 => (0..8_usize, fates()).prop_map(|(which, fate)| Event::Ends(which, fate)),
        6 => Just(Event::Seen),
        3 => (0..3_usize).prop_map(Event::SeenInPart),
        3 => Just(Event::Looked),
        3 => (0..8_usize).prop_map(Event::ToldLate),
        3 => (0..8_usize, prop_oneof![Just(0), Just(1)]).prop_map(|(which, code)| Event::Exits(which, code)),
        1 => Just(Event::SandboxDies),
        5 => prop_oneof![Just(0), 1..20_u64, Just(301)].prop_map(Event::Passes),
        1 => (0..8_usize).prop_map(Event::NewImage),
        1 => (0..8_usize).prop_map(Event::Unhealthy),
        1 => any::<bool>().prop_map(Event::Network),
        1 => any::<bool>().prop_map(Event::Runtime),
    ]
}

fn removals() -> impl Strategy<Value = Event> {
    proptest::option::of(0..60_u64).prop_map(Event::Removed)
}

/// A pod's policy, init containers and regular ones; whether it has a volume.
#[derive(Clone, Debug)]
struct Shape(&'static str, &'static [&'static str], &'static [&'static str], bool);

impl Shape {
    fn node(&self) -> Node {
        let pod = a_pod(self.0, self.1, self.2);
        Node::new(if self.3 { super::volumes::with_volume(pod) } else { pod })
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let policy = prop_oneof![3 => Just("Always"), 1 => Just("OnFailure"), 1 => Just("Never")];
    let init = prop_oneof![Just(&[][..]), Just(&["i"][..]), Just(&["i", "j"][..])];
    let regular = prop_oneof![Just(&["a"][..]), Just(&["b", "a"][..])];
    let all = (policy, init, regular, any::<bool>());
    all.prop_map(|(policy, init, regular, volume)| Shape(policy, init, regular, volume))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing runs twice, the stage and the grace period only fall, one of each job: checked at every step by the
    /// model. Then, when nothing goes wrong any more, the pod comes to rest where it should.
    #[test]
    fn a_wanted_pod_comes_to_run_or_has_ended(
        shape in shapes(),
        events in proptest::collection::vec(events(), 0..80),
    ) {
        let mut node = shape.node();
        events.iter().for_each(|event| node.happens(event));
        for _ in 0..6 {
            node.calms_down();
            node.ends_well(false);
        }
        node.calms_down();
        prop_assert!(!node.finished);
        if shape.0 == "Always" {
            let mut wanted = shape.2.to_vec();
            wanted.sort_unstable();
            prop_assert_eq!(node.well_running(), wanted);
            prop_assert_eq!(node.life.stage(), Stage::Syncing);
            return Ok(());
        }
        // Those that run once end by themselves, and stay to be read until somebody removes them.
        node.ends_well(true);
        node.calms_down();
        prop_assert_eq!(node.life.stage(), Stage::Terminated);
        prop_assert!(!node.is_alive() && !node.is_gone() && !node.finished);
        node.happens(&Event::Removed(None));
        node.calms_down();
        prop_assert!(node.is_gone() && node.finished);
    }

    /// A pod that nobody wants any more ends, whatever was under way, and nothing of it is left.
    #[test]
    fn a_removed_pod_always_ends_and_leaves_nothing(
        shape in shapes(),
        before in proptest::collection::vec(events(), 0..40),
        removal in removals(),
        after in proptest::collection::vec(prop_oneof![9 => events(), 1 => removals()], 0..40),
    ) {
        let mut node = shape.node();
        before.iter().for_each(|event| node.happens(event));
        node.happens(&removal);
        after.iter().for_each(|event| node.happens(event));
        node.calms_down();
        prop_assert_eq!(node.life.stage(), Stage::Terminated);
        prop_assert!(node.finished && node.is_gone());
        node.happens(&removal);
        node.calms_down();
        prop_assert!(node.is_gone());
    }
}
