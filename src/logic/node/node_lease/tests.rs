//! Cases of the Lease, and of a server that misbehaves.

use proptest::prelude::*;

use super::*;

const NOW: Moment = Moment(1_700_000_000_123_456_789);

fn keeper() -> LeaseKeeper {
    LeaseKeeper::new("node-1", 40)
}

fn step(keeper: &mut LeaseKeeper, input: Input) -> Vec<Action> {
    keeper.step(input, NOW)
}

fn owner() -> Input {
    Input::Owner(Some("uid-1".to_owned()))
}

fn owned(version: &str) -> Box<Lease> {
    let mut lease = keeper().fresh("uid-1", Moment(0));
    lease.metadata.resource_version = Some(version.to_owned());
    Box::new(lease)
}

/// A keeper that holds a Lease.
fn holder() -> LeaseKeeper {
    let mut keeper = keeper();
    step(&mut keeper, Input::Due);
    step(&mut keeper, Input::Missing);
    step(&mut keeper, owner());
    assert_eq!(step(&mut keeper, Input::Stored(owned("1"))), [Action::Rest]);
    keeper
}

fn replaced(actions: &[Action]) -> &Lease {
    match actions.last() {
        Some(Action::Replace(lease)) => lease,
        other => panic!("a PUT was expected, not {other:?}"),
    }
}

#[test]
fn a_new_lease_is_held_and_owned_by_the_node() {
    let mut keeper = keeper();
    assert_eq!(step(&mut keeper, Input::Due), [Action::Read]);
    assert_eq!(step(&mut keeper, Input::Missing), [Action::ReadOwner]);
    let actions = step(&mut keeper, owner());
    let [Action::Create(lease)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(lease.metadata.namespace.as_deref(), Some("kube-node-lease"));
    let spec = lease.spec.clone().expect("a spec");
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("node-1"), Some(40)));
    let renewed = spec.renew_time.expect("renewed").0;
    assert_eq!(renewed.to_string(), "2023-11-14T22:13:20.123456Z");
    let owners = lease.metadata.owner_references.clone().expect("an owner");
    let [owner] = owners.as_slice() else { panic!("{owners:?}") };
    assert_eq!((&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid), ("v1", "Node", "node-1", "uid-1"));
    assert_eq!(step(&mut keeper, Input::Stored(owned("1"))), [Action::Rest], "a new one is not renewed at once");
    assert!(keeper.stage == Stage::Idle && keeper.lease.is_some());
}

#[test]
fn a_renewal_is_one_put_of_what_the_server_gave_last() {
    let mut keeper = holder();
    for version in 1..4 {
        let actions = step(&mut keeper, Input::Due);
        assert_eq!(actions.len(), 1);
        let lease = replaced(&actions);
        assert_eq!(lease.metadata.resource_version, Some(version.to_string()));
        assert_eq!(lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()), Some(micro_time(NOW)));
        assert_eq!(step(&mut keeper, Input::Stored(owned(&(version + 1).to_string()))), [Action::Rest]);
    }
}

#[test]
fn a_lease_that_is_there_is_taken_over() {
    let mut keeper = keeper();
    step(&mut keeper, Input::Due);
    let mut lease = owned("7");
    lease.spec.get_or_insert_default().lease_duration_seconds = Some(7);
    let actions = step(&mut keeper, Input::Found(lease));
    assert_eq!(replaced(&actions).metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(replaced(&actions).spec.as_ref().and_then(|spec| spec.lease_duration_seconds), Some(40));
}

#[test]
fn a_lease_without_an_owner_gets_one() {
    let mut orphan = owned("7");
    orphan.metadata.owner_references = None;
    let mut keeper = keeper();
    step(&mut keeper, Input::Due);
    assert_eq!(step(&mut keeper, Input::Found(orphan)), [Action::ReadOwner]);
    let actions = step(&mut keeper, owner());
    assert_eq!(replaced(&actions).metadata.owner_references.as_ref().map(Vec::len), Some(1));
}

#[test]
fn no_lease_is_created_for_a_node_that_cannot_be_read() {
    let mut keeper = keeper();
    step(&mut keeper, Input::Due);
    step(&mut keeper, Input::Missing);
    assert_eq!(step(&mut keeper, Input::Owner(None)), [Action::Rest]);
    assert!(keeper.stage == Stage::Idle && keeper.lease.is_none());
    assert_eq!(step(&mut keeper, Input::Due), [Action::Read]);
}

/// NODE-34: the Node may come just after it was read, and its news before the answer.
#[test]
fn a_node_that_comes_while_it_is_read_is_read_once_more() {
    let mut keeper = keeper();
    step(&mut keeper, Input::Due);
    step(&mut keeper, Input::Missing);
    assert_eq!(step(&mut keeper, Input::NodeRegistered), []);
    assert_eq!(step(&mut keeper, Input::Owner(None)), [Action::ReadOwner]);
    assert_eq!(step(&mut keeper, Input::Owner(None)), [Action::Rest], "once");
    assert_eq!(step(&mut keeper, Input::NodeRegistered), [Action::Read], "nor is a period waited for");
    step(&mut keeper, Input::Missing);
    step(&mut keeper, owner());
    step(&mut keeper, Input::Stored(owned("1")));
    assert_eq!(step(&mut keeper, Input::NodeRegistered), [], "it has its Lease");
}

#[test]
fn pauses_double_up_to_seven_seconds_and_begin_anew() {
    let mut keeper = keeper();
    step(&mut keeper, Input::Due);
    let mut pauses = vec![];
    for _ in 0..8 {
        let actions = step(&mut keeper, Input::Failed);
        let [Action::Pause(pause)] = actions.as_slice() else { panic!("{actions:?}") };
        pauses.push(pause.as_millis());
        assert_eq!(step(&mut keeper, Input::PauseOver), [Action::Read]);
    }
    assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 7000, 7000]);
    step(&mut keeper, Input::Missing);
    step(&mut keeper, Input::Owner(None));
    step(&mut keeper, Input::Due);
    assert_eq!(step(&mut keeper, Input::Failed), [Action::Pause(PAUSE_FIRST)]);
}

#[test]
fn five_puts_then_a_read_then_five_puts() {
    let mut keeper = holder();
    replaced(&step(&mut keeper, Input::Due));
    let first = step(&mut keeper, Input::Failed);
    assert_eq!(first.len(), 1, "one failure is none to begin new connections for");
    for _ in 0..3 {
        let actions = step(&mut keeper, Input::Failed);
        assert_eq!(actions[0], Action::CloseConnections);
        replaced(&actions);
    }
    assert_eq!(step(&mut keeper, Input::Failed), [Action::CloseConnections, Action::Read]);
    replaced(&step(&mut keeper, Input::Found(owned("9"))));
    for _ in 0..4 {
        replaced(&step(&mut keeper, Input::Failed));
    }
    assert_eq!(step(&mut keeper, Input::Failed), [Action::CloseConnections, Action::Rest]);
    assert_eq!(replaced(&step(&mut keeper, Input::Due)).metadata.resource_version.as_deref(), Some("9"));
}

#[test]
fn after_a_conflict_the_newest_lease_is_renewed() {
    let mut keeper = holder();
    step(&mut keeper, Input::Due);
    assert_eq!(step(&mut keeper, Input::Conflict), [Action::Read]);
    let actions = step(&mut keeper, Input::Found(owned("5")));
    assert_eq!(replaced(&actions).metadata.resource_version.as_deref(), Some("5"));
    assert_eq!(step(&mut keeper, Input::Stored(owned("6"))), [Action::Rest]);
}

/// NODE-34.
#[test]
fn a_rest_is_ten_seconds_and_at_most_four_hundredths_more() {
    for (chance, millis) in [(0.0, 10_000), (0.5, 10_200), (1.0, 10_400)] {
        assert_eq!(keeper().rest(chance).as_millis(), millis);
    }
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(Input::Due),
        Just(Input::NodeRegistered),
        Just(Input::PauseOver),
        any::<bool>().prop_map(|known| Input::Owner(known.then(|| "uid".to_owned()))),
        any::<bool>().prop_map(|orphan| {
            let mut lease = owned("3");
            if orphan {
                lease.metadata.owner_references = None;
            }
            Input::Found(lease)
        }),
        Just(Input::Missing),
        Just(Input::Stored(owned("4"))),
        Just(Input::Conflict),
        Just(Input::Failed),
    ]
}

proptest! {
    /// After any answer of the server, exactly one thing is under way, or the keeper rests; and nothing without an owner
    /// is ever stored.
    #[test]
    fn there_is_always_one_thing_under_way(inputs in proptest::collection::vec(any_input(), 0..80)) {
        let mut keeper = keeper();
        for input in inputs {
            let before = keeper.stage.clone();
            let is_answer = input != Input::NodeRegistered;
            let actions = keeper.step(input, NOW);
            let under_way: Vec<&Action> =
                actions.iter().filter(|action| **action != Action::CloseConnections).collect();
            prop_assert_eq!(under_way.len(), usize::from((is_answer && keeper.stage != before) || !actions.is_empty()));
            let ends = keeper.stage == Stage::Idle && before != Stage::Idle;
            prop_assert_eq!(actions.contains(&Action::Rest), ends);
            for action in under_way {
                if let Action::Create(lease) | Action::Replace(lease) = action {
                    prop_assert!(lease.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()));
                }
                if let Action::Pause(pause) = action {
                    prop_assert!((PAUSE_FIRST..=PAUSE_MAX).contains(pause));
                }
            }
        }
    }

    #[test]
    fn a_failing_server_is_asked_a_bounded_number_of_times(conflict in any::<bool>()) {
        let mut keeper = holder();
        let mut actions = step(&mut keeper, Input::Due);
        let mut puts = 0;
        while actions.last() != Some(&Action::Rest) {
            let input = match actions.last().expect("something is under way") {
                Action::Read => Input::Found(owned("2")),
                Action::Replace(_) if conflict => Input::Conflict,
                _ => Input::Failed,
            };
            puts += usize::from(matches!(actions.last(), Some(Action::Replace(_))));
            prop_assert!(puts <= 10);
            actions = step(&mut keeper, input);
        }
        prop_assert_eq!(puts, 10);
    }
}
