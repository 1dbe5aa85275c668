//! Cases and properties of the probes' timing.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, PodSpec,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

const STARTED: u64 = 10_000;

fn wall(seconds: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_secs(seconds))
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn timing() -> ProbeTiming {
    ProbeTiming {
        period: secs(10),
        initial_delay: Duration::ZERO,
        success_threshold: 1,
        failure_threshold: 3,
        timeout: secs(1),
    }
}

/// A machine of an agent that has run for an hour.
fn schedule(kind: ProbeKind, timing: ProbeTiming) -> ProbeSchedule {
    ProbeSchedule::new(kind, timing, wall(STARTED), secs(3600), 0.5, secs(0))
}

fn running(id: &str, kind: ProbeKind) -> Target {
    Target {
        id: ContainerId::from(id),
        state: TargetState::Running { started_at: wall(STARTED + 100) },
        started: kind != ProbeKind::Startup,
        ready: false,
        is_sidecar: false,
        ends: false,
    }
}

fn store(id: &str, value: bool) -> ProbeAction {
    ProbeAction::Store(ContainerId::from(id), value)
}

fn forget(id: &str) -> ProbeAction {
    ProbeAction::Forget(ContainerId::from(id))
}

fn probe(id: &str) -> ProbeAction {
    ProbeAction::Probe(ContainerId::from(id))
}

/// One round a long time after the container's start, at the machine's own due time.
fn round(schedule: &mut ProbeSchedule, target: &Target) -> Vec<ProbeAction> {
    let due = schedule.due().expect("no round is under way");
    schedule.round(&Seen::Container(target.clone()), wall(STARTED + 1000), due)
}

/// Rounds with these outcomes; what each stores.
fn outcomes(schedule: &mut ProbeSchedule, target: &Target, outcomes: &[ProbeOutcome]) -> Vec<Vec<ProbeAction>> {
    let run = |outcome: &ProbeOutcome| {
        let due = schedule.due().expect("no round is under way");
        assert!(round(schedule, target).contains(&ProbeAction::Probe(target.id.clone())), "is to probe");
        schedule.finish(*outcome, due)
    };
    outcomes.iter().map(run).collect()
}

#[test]
fn rounds_after_the_first_share_wakes_and_none_drifts() {
    let millis = Duration::from_millis;
    let (kind, began) = (ProbeKind::Readiness, millis(4_321));
    let mut schedule = ProbeSchedule::new(kind, timing(), wall(STARTED), secs(3600), 0.5, began);
    let target = running("a", kind);
    assert_eq!(schedule.wake(millis(4_000)), Some(began), "the first round is held when it is due");
    outcomes(&mut schedule, &target, &[ProbeOutcome::Success]);
    for round in 1..50 {
        let expected = millis(4_500 + round * 10_000);
        let woken = schedule.wake(expected - secs(5)).expect("no round is under way");
        assert_eq!((woken, schedule.wake(woken)), (expected, schedule.due()), "what is due is not put off");
        schedule.round(&Seen::Container(target.clone()), wall(STARTED + 1000), woken);
        assert_eq!(schedule.wake(woken), None, "a round is under way");
        schedule.finish(ProbeOutcome::Success, woken + millis(3));
    }
    schedule.trigger(millis(600_123));
    assert_eq!(schedule.wake(millis(600_123)), Some(millis(600_123)), "what is asked for now begins now");
}

/// PRB-05.
#[test]
fn a_new_container_begins_with_its_kinds_first_value() {
    for (kind, initial) in
        [(ProbeKind::Readiness, Some(false)), (ProbeKind::Liveness, Some(true)), (ProbeKind::Startup, None)]
    {
        let mut machine = schedule(kind, timing());
        let expected: Vec<ProbeAction> =
            initial.map(|value| store("c", value)).into_iter().chain([probe("c")]).collect();
        assert_eq!(round(&mut machine, &running("c", kind)), expected, "{kind}");
        assert_eq!(machine.probing(), Some(&ContainerId::from("c")));
    }
}

/// PRB-23.
#[test]
fn a_container_from_before_the_agent_keeps_what_it_was() {
    let mut old = running("c", ProbeKind::Readiness);
    for (age, actions) in [(11, vec![probe("c")]), (10, vec![store("c", false), probe("c")])] {
        old.state = TargetState::Running { started_at: wall(STARTED - age) };
        assert_eq!(round(&mut schedule(ProbeKind::Readiness, timing()), &old), actions, "{age}");
    }
    let state = TargetState::Running { started_at: wall(STARTED - 60) };
    let sidecar = Target { is_sidecar: true, started: true, state, ..old };
    assert_eq!(round(&mut schedule(ProbeKind::Startup, timing()), &sidecar), [store("c", true)]);
    // All others wait for their probes' word.
    for (kind, is_sidecar, started) in [
        (ProbeKind::Startup, false, true),
        (ProbeKind::Startup, false, false),
        (ProbeKind::Startup, true, false),
        (ProbeKind::Readiness, true, true),
        (ProbeKind::Liveness, true, true),
    ] {
        let target = Target { is_sidecar, started, ..sidecar.clone() };
        let stored = round(&mut schedule(kind, timing()), &target).contains(&store("c", true));
        assert!(!stored, "{kind} {is_sidecar} {started}");
    }
}

/// PRB-06, PRB-07.
#[test]
fn only_results_in_a_row_count() {
    use ProbeOutcome::{Errored, Failure, Success};
    let timing = ProbeTiming { success_threshold: 2, failure_threshold: 3, ..timing() };
    let mut machine = schedule(ProbeKind::Readiness, timing);
    let told = outcomes(
        &mut machine,
        &running("c", ProbeKind::Readiness),
        &[Success, Failure, Success, Errored, Success, Failure, Failure, Success, Failure, Failure, Failure, Failure],
    );
    let stored: Vec<Option<bool>> = told
        .iter()
        .map(|actions| match actions.as_slice() {
            [ProbeAction::Store(_, value)] => Some(*value),
            _ => None,
        })
        .collect();
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(stored, [None, None, None, None, yes, None, None, None, None, None, no, no]);
}

/// PRB-09.
#[test]
fn a_failed_liveness_or_a_settled_startup_holds_still_until_another_container() {
    use ProbeOutcome::{Failure, Success};
    let cases = [
        (ProbeKind::Liveness, vec![Failure; 3]),
        (ProbeKind::Startup, vec![Failure; 3]),
        (ProbeKind::Startup, vec![Success]),
    ];
    for (kind, results) in cases {
        let mut machine = schedule(kind, timing());
        let first = running("c", kind);
        outcomes(&mut machine, &first, &results);
        assert_eq!(round(&mut machine, &first), [], "{kind}");
        let actions = round(&mut machine, &running("d", kind));
        assert_eq!((actions.first(), actions.last()), (Some(&forget("c")), Some(&probe("d"))), "{kind}");
        // The run begins anew: two more failures are not enough.
        assert_eq!(machine.finish(Failure, secs(0)), []);
        assert_eq!(outcomes(&mut machine, &running("d", kind), &[Failure]), [[]]);
    }
}

#[test]
fn startup_gates_the_other_probes() {
    for (kind, started, probes) in [
        (ProbeKind::Startup, false, true),
        (ProbeKind::Startup, true, false),
        (ProbeKind::Readiness, false, false),
        (ProbeKind::Readiness, true, true),
        (ProbeKind::Liveness, false, false),
        (ProbeKind::Liveness, true, true),
    ] {
        let target = Target { started, ..running("c", kind) };
        let actions = round(&mut schedule(kind, timing()), &target);
        assert_eq!(actions.contains(&probe("c")), probes, "{kind} {started}");
    }
}

/// PRB-04.
#[test]
fn the_initial_delay_is_counted_in_whole_seconds_of_the_container() {
    let timing = ProbeTiming { initial_delay: secs(5), ..timing() };
    for (milliseconds, probes) in [(0, false), (4_999, false), (5_000, true)] {
        let mut machine = schedule(ProbeKind::Readiness, timing);
        let target = running("c", ProbeKind::Readiness);
        let now = wall(STARTED + 100).plus(Duration::from_millis(milliseconds));
        let actions = machine.round(&Seen::Container(target), now, secs(0));
        assert_eq!(actions.contains(&probe("c")), probes, "{milliseconds}");
        assert_eq!(actions[0], store("c", false));
    }
}

#[test]
fn the_first_round_after_the_initial_delay_is_at_its_end() {
    for (delay, period, next) in [(5, 10, 5), (5, 2, 2), (10, 10, 10)] {
        let mut machine = schedule(
            ProbeKind::Readiness,
            ProbeTiming { initial_delay: secs(delay), period: secs(period), ..timing() },
        );
        let target = Seen::Container(running("c", ProbeKind::Readiness));
        machine.round(&target, wall(STARTED + 100), secs(0));
        assert_eq!(machine.due(), Some(secs(next)), "{delay} {period}");
    }
}

/// PRB-03.
#[test]
fn the_startup_probe_of_a_new_container_is_made_at_once() {
    let mut machine = schedule(ProbeKind::Startup, timing());
    assert_eq!(machine.round(&Seen::Nothing, wall(0), secs(0)), []);
    let target = running("c", ProbeKind::Startup);
    machine.notice(&Seen::Container(target.clone()), secs(3));
    assert_eq!(machine.due(), Some(secs(3)));
    machine.round(&Seen::Container(target.clone()), wall(STARTED + 1000), secs(3));
    machine.finish(ProbeOutcome::Failure, secs(3));
    machine.notice(&Seen::Container(target), secs(4));
    assert_eq!(machine.due(), Some(secs(13)), "one that was met waits for its tick");
    // PAIN-39: it was met before it ran, as during its postStart hook.
    let mut machine = schedule(ProbeKind::Startup, timing());
    let target = running("c", ProbeKind::Startup);
    let waiting = Target { state: TargetState::Waiting, ..target.clone() };
    machine.round(&Seen::Container(waiting), wall(STARTED + 1000), secs(0));
    machine.notice(&Seen::Container(target), secs(3));
    assert_eq!(machine.due(), Some(secs(3)));
}

#[test]
fn a_container_that_does_not_run_is_a_failure_and_its_last_end_is_the_end() {
    let mut machine = schedule(ProbeKind::Readiness, timing());
    let with = |state| Target { state, ..running("c", ProbeKind::Readiness) };
    assert_eq!(round(&mut machine, &with(TargetState::Waiting)), [store("c", false)]);
    let mut alive = schedule(ProbeKind::Liveness, timing());
    let waiting = Target { state: TargetState::Waiting, ..running("c", ProbeKind::Liveness) };
    assert_eq!(round(&mut alive, &waiting), [store("c", true)], "one that does not run yet has not failed");
    assert_eq!(round(&mut alive, &waiting), []);
    assert_eq!(round(&mut machine, &with(TargetState::Ended { comes_back: true })), [store("c", false)]);
    let ended = round(&mut machine, &with(TargetState::Ended { comes_back: false }));
    assert_eq!(ended, [store("c", false), forget("c"), ProbeAction::End]);
    assert_eq!(machine.due(), None);
    let runs = Seen::Container(running("c", ProbeKind::Readiness));
    assert_eq!(machine.round(&runs, wall(STARTED + 1000), secs(60)), [], "nothing follows the end");
    assert_eq!(machine.stop(), []);
}

#[test]
fn while_the_pod_ends_only_readiness_goes_on() {
    for kind in [ProbeKind::Liveness, ProbeKind::Startup, ProbeKind::Readiness] {
        let mut machine = schedule(kind, timing());
        let actions = round(&mut machine, &Target { ends: true, ..running("c", kind) });
        let ends = actions.ends_with(&[store("c", true), forget("c"), ProbeAction::End]);
        assert_eq!((ends, actions.contains(&probe("c"))), (kind != ProbeKind::Readiness, kind == ProbeKind::Readiness));
    }
}

/// PRB-22.
#[test]
fn nothing_to_see_waits_and_a_finished_pod_ends() {
    let mut machine = schedule(ProbeKind::Readiness, timing());
    assert_eq!(machine.round(&Seen::Nothing, wall(0), secs(0)), []);
    assert_eq!(machine.due(), Some(secs(10)));
    assert_eq!(machine.round(&Seen::PodOver, wall(0), secs(10)), [ProbeAction::End]);
}

/// PRB-03.
#[test]
fn only_a_young_agent_spreads_its_first_rounds() {
    for (age, first) in [(0, 15), (9, 15), (10, 10), (3600, 10)] {
        let machine = ProbeSchedule::new(ProbeKind::Liveness, timing(), wall(0), secs(age), 0.5, secs(10));
        assert_eq!(machine.due(), Some(secs(first)), "{age}");
    }
}

#[test]
fn a_long_round_drops_ticks() {
    let mut machine = schedule(ProbeKind::Readiness, timing());
    let target = running("c", ProbeKind::Readiness);
    round(&mut machine, &target);
    assert_eq!(machine.due(), None, "never two rounds at once");
    assert_eq!(machine.round(&Seen::Container(target.clone()), wall(STARTED + 1000), secs(1)), []);
    machine.finish(ProbeOutcome::Success, secs(3));
    assert_eq!(machine.due(), Some(secs(10)));
    machine.round(&Seen::Container(target.clone()), wall(STARTED + 1000), secs(10));
    machine.finish(ProbeOutcome::Success, secs(47));
    assert_eq!(machine.due(), Some(secs(20)), "one tick was kept, so that the next round begins at once");
    machine.round(&Seen::Container(target), wall(STARTED + 1000), secs(47));
    machine.finish(ProbeOutcome::Success, secs(48));
    assert_eq!(machine.due(), Some(secs(50)));
}

#[test]
fn a_trigger_holds_a_round_now_and_moves_the_ticks() {
    let mut machine = schedule(ProbeKind::Readiness, timing());
    let target = running("c", ProbeKind::Readiness);
    round(&mut machine, &target);
    machine.finish(ProbeOutcome::Success, secs(0));
    machine.trigger(secs(4));
    assert_eq!(machine.due(), Some(secs(4)));
    round(&mut machine, &target);
    machine.trigger(secs(5));
    machine.finish(ProbeOutcome::Success, secs(6));
    assert_eq!(machine.due(), Some(secs(6)), "one asked for meanwhile comes after");
    round(&mut machine, &target);
    machine.finish(ProbeOutcome::Success, secs(6));
    assert_eq!(machine.due(), Some(secs(16)));
}

/// PRB-20.
#[test]
fn only_readiness_that_is_missing_hastens_the_next_round() {
    for (kind, started, ready, hastened) in [
        (ProbeKind::Readiness, true, false, true),
        (ProbeKind::Readiness, true, true, false),
        (ProbeKind::Readiness, false, false, false),
        (ProbeKind::Liveness, true, false, false),
        (ProbeKind::Startup, true, false, false),
    ] {
        let mut machine = schedule(kind, timing());
        assert_eq!(machine.round(&Seen::Nothing, wall(0), secs(0)), []);
        machine.notice(&Seen::Container(Target { started, ready, ..running("c", kind) }), secs(3));
        assert_eq!(machine.due(), Some(secs(if hastened { 3 } else { 10 })), "{kind} {started} {ready}");
    }
    let mut machine = schedule(ProbeKind::Readiness, timing());
    assert_eq!(machine.round(&Seen::Nothing, wall(0), secs(0)), []);
    let waiting = Target { state: TargetState::Waiting, ..running("c", ProbeKind::Readiness) };
    machine.notice(&Seen::Container(waiting), secs(3));
    assert_eq!(machine.due(), Some(secs(10)));
}

#[test]
fn an_outcome_that_comes_too_late_is_dropped() {
    let mut machine = schedule(ProbeKind::Readiness, timing());
    round(&mut machine, &running("c", ProbeKind::Readiness));
    assert_eq!(machine.stop(), [forget("c"), ProbeAction::End]);
    assert_eq!(machine.finish(ProbeOutcome::Success, secs(1)), []);
}

/// PAIN-16: the agent that comes back goes on with the result and the run.
#[test]
fn a_machine_goes_on_where_an_earlier_one_was() {
    let target = running("c", ProbeKind::Readiness);
    let mut first = schedule(ProbeKind::Readiness, timing());
    outcomes(&mut first, &target, &[ProbeOutcome::Success, ProbeOutcome::Failure, ProbeOutcome::Failure]);
    let kept = first.memory(Some(true), wall(STARTED + 1000)).expect("met a container");
    assert_eq!((kept.result, kept.last, kept.run), (Some(true), Some(false), 2));
    let mut next = schedule(ProbeKind::Readiness, timing());
    next.resume(kept.clone());
    assert_eq!(next.memory(None, wall(0)), Some(kept.clone()), "nothing is lost before the container is met");
    let due = next.due().expect("no round is under way");
    let seen = Seen::Container(target.clone());
    assert_eq!(next.round(&seen, wall(STARTED + 1010), due), [store("c", true), probe("c")]);
    assert_eq!(next.finish(ProbeOutcome::Failure, due), [store("c", false)], "the third in a row");
    // Of an agent that was away for long the result counts, the run does not.
    let mut late = schedule(ProbeKind::Readiness, timing());
    late.resume(kept.clone());
    assert_eq!(late.round(&seen, wall(STARTED + 1301), secs(0)), [store("c", true), probe("c")]);
    assert_eq!(late.finish(ProbeOutcome::Failure, secs(0)), []);
    // Another instance begins anew.
    let mut other = schedule(ProbeKind::Readiness, timing());
    other.resume(kept);
    assert_eq!(round(&mut other, &running("d", ProbeKind::Readiness)), [store("d", false), probe("d")]);
}

/// PAIN-16, PRB-09: what had settled before the restart is not asked again.
#[test]
fn what_had_settled_stays_settled_over_a_restart() {
    for (kind, result) in [(ProbeKind::Startup, true), (ProbeKind::Startup, false), (ProbeKind::Liveness, false)] {
        let container = ContainerId::from("c");
        let at = wall(STARTED + 999);
        let mut machine = schedule(kind, timing());
        machine.resume(Remembered { container, result: Some(result), last: Some(result), run: 0, at });
        assert_eq!(round(&mut machine, &running("c", kind)), [store("c", result)], "{kind}");
        assert_eq!(round(&mut machine, &running("c", kind)), [], "{kind}");
    }
}

/// SEC-47: a failure comes as soon as ever; beyond it a command that never ends is run less and less often.
#[test]
fn a_command_that_never_ends_is_put_off_longer_each_time() {
    let mut machine = schedule(ProbeKind::Readiness, timing());
    let target = running("c", ProbeKind::Readiness);
    let mut waits = vec![];
    for number in 1..=7 {
        let due = machine.due().expect("no round is under way");
        round(&mut machine, &target);
        let now = due + secs(1);
        let actions = machine.finish(ProbeOutcome::TimedOut, now);
        assert_eq!(actions.contains(&store("c", false)), number >= 3, "{number}");
        machine.notice(&Seen::Container(target.clone()), now); // The status may do as it likes.
        waits.push(machine.due().expect("no round is under way").saturating_sub(now).as_secs());
    }
    // Until the failure, the readiness that is missing hastens the next round; from then on the wait counts.
    assert_eq!(waits, [0, 0, 0, 20, 40, 60, 60]);
    assert_eq!(machine.put_off(), Some((7, secs(60))));
    let over = machine.due().expect("no round is under way");
    round(&mut machine, &target);
    machine.trigger(over);
    machine.finish(ProbeOutcome::Success, secs(400));
    assert_eq!(machine.due(), Some(secs(400)), "once the wait is over a round may be asked for");
    assert_eq!(machine.put_off(), None);
    // Another container is not to blame.
    for _ in 0..4 {
        round(&mut machine, &target);
        machine.finish(ProbeOutcome::TimedOut, secs(500));
    }
    assert!(machine.due() > Some(secs(500)));
    machine.notice(&Seen::Container(running("d", ProbeKind::Readiness)), secs(501));
    assert_eq!((machine.due(), machine.put_off()), (Some(secs(501)), None));
}

/// PRB-02.
#[test]
fn timing_has_the_apis_defaults() {
    let expected = ProbeTiming { initial_delay: Duration::ZERO, ..timing() };
    assert_eq!(ProbeTiming::from(&Probe::default()), expected);
    let odd =
        Probe { period_seconds: Some(0), failure_threshold: Some(-1), timeout_seconds: Some(4), ..Probe::default() };
    assert_eq!(ProbeTiming::from(&odd), ProbeTiming { timeout: secs(4), ..expected });
}

fn with_probes(name: &str, kinds: &[ProbeKind], restart_policy: Option<&str>) -> Container {
    let given = |kind| kinds.contains(&kind).then(Probe::default);
    Container {
        name: name.to_owned(),
        startup_probe: given(ProbeKind::Startup),
        readiness_probe: given(ProbeKind::Readiness),
        liveness_probe: given(ProbeKind::Liveness),
        restart_policy: restart_policy.map(str::to_owned),
        ..Container::default()
    }
}

/// PRB-01.
#[test]
fn regular_containers_and_sidecars_are_probed() {
    use ProbeKind::{Liveness, Readiness, Startup};
    let spec = PodSpec {
        containers: vec![with_probes("a", &[Liveness, Readiness, Startup], None), with_probes("b", &[], None)],
        init_containers: Some(vec![
            with_probes("i", &[Readiness], None),
            with_probes("s", &[Readiness], Some("Always")),
        ]),
        ..PodSpec::default()
    };
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    let found: Vec<(&str, ProbeKind)> =
        probes_of(&pod).iter().map(|(container, kind)| (container.name.as_str(), *kind)).collect();
    assert_eq!(found, [("a", Startup), ("a", Readiness), ("a", Liveness), ("s", Readiness)]);
}

/// PRB-22.
#[test]
fn the_status_tells_what_there_is_to_probe() {
    let container = with_probes("a", &[ProbeKind::Readiness], None);
    let spec = PodSpec {
        restart_policy: Some("OnFailure".to_owned()),
        containers: vec![container.clone()],
        ..PodSpec::default()
    };
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    let status = |phase: &str, id: Option<&str>, state: ContainerState| PodStatus {
        phase: Some(phase.to_owned()),
        container_statuses: Some(vec![ContainerStatus {
            name: "a".to_owned(),
            container_id: id.map(str::to_owned),
            state: Some(state),
            started: Some(true),
            ..ContainerStatus::default()
        }]),
        ..PodStatus::default()
    };
    let started_at = Some(Time(wall(7).to_timestamp()));
    let runs = ContainerState { running: Some(ContainerStateRunning { started_at }), ..ContainerState::default() };
    let waits = ContainerState { waiting: Some(ContainerStateWaiting::default()), ..ContainerState::default() };
    let ended = |exit_code| ContainerState {
        terminated: Some(ContainerStateTerminated { exit_code, ..ContainerStateTerminated::default() }),
        ..ContainerState::default()
    };
    let id = Some("containerd://c");
    assert_eq!(Seen::of(None, &pod, &container, false), Seen::Nothing);
    assert_eq!(Seen::of(Some(&status("Failed", id, runs.clone())), &pod, &container, false), Seen::PodOver);
    assert_eq!(Seen::of(Some(&status("Running", None, runs.clone())), &pod, &container, false), Seen::Nothing);
    for (state, expected) in [
        (runs, TargetState::Running { started_at: wall(7) }),
        (waits, TargetState::Waiting),
        (ended(0), TargetState::Ended { comes_back: false }),
        (ended(1), TargetState::Ended { comes_back: true }),
    ] {
        let Seen::Container(target) = Seen::of(Some(&status("Running", id, state)), &pod, &container, false) else {
            panic!("sees the container");
        };
        assert_eq!((target.state, target.id.as_str(), target.started), (expected, "c", true));
    }
}

#[test]
fn a_sidecars_probes_go_on_while_its_pod_ends() {
    let containers = vec![with_probes("a", &[], None)];
    let inits = vec![with_probes("i", &[], None), with_probes("s", &[], Some("Always"))];
    let status = |container: &Container| ContainerStatus {
        name: container.name.clone(),
        container_id: Some("containerd://c".to_owned()),
        ..ContainerStatus::default()
    };
    let shown = PodStatus {
        container_statuses: Some(containers.iter().map(status).collect()),
        init_container_statuses: Some(inits.iter().map(status).collect()),
        ..PodStatus::default()
    };
    let spec = PodSpec { containers, init_containers: Some(inits), ..PodSpec::default() };
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    for (name, ending, expected) in [
        ("a", false, (false, false)),
        ("a", true, (false, true)),
        ("i", true, (false, true)),
        ("s", false, (true, false)),
        ("s", true, (true, false)),
    ] {
        let Seen::Container(target) = Seen::of(Some(&shown), &pod, &with_probes(name, &[], None), ending) else {
            panic!("sees {name}");
        };
        assert_eq!((target.is_sidecar, target.ends), expected, "{name} {ending}");
    }
}

proptest! {
    /// PRB-06.
    #[test]
    fn a_container_gets_ready_only_by_enough_successes_in_a_row(
        success_threshold in 1_u32..4,
        failure_threshold in 1_u32..4,
        rounds in prop::collection::vec((0_usize..3, 0_u64..30, 0_u8..20), 1..60),
    ) {
        let timing = ProbeTiming { success_threshold, failure_threshold, ..timing() };
        let mut machine = schedule(ProbeKind::Readiness, timing);
        let mut results: Vec<bool> = Vec::new();
        let mut number = 0;
        for (outcome, length, change) in rounds {
            if change == 0 {
                number += 1;
            }
            let outcome = [ProbeOutcome::Success, ProbeOutcome::Failure, ProbeOutcome::Errored][outcome];
            let due = machine.due().expect("no round is under way");
            let target = running(&format!("c{number}"), ProbeKind::Readiness);
            let actions = machine.round(&Seen::Container(target.clone()), wall(STARTED + 1000), due);
            let probed = actions.contains(&ProbeAction::Probe(target.id.clone()));
            prop_assert!(probed && machine.due().is_none());
            let was_made_ready = actions.iter().any(|action| matches!(action, ProbeAction::Store(_, true)));
            prop_assert!(!was_made_ready, "no first value is a success");
            let actions = machine.finish(outcome, due + secs(length));
            prop_assert!(machine.due().is_some_and(|next| next > due), "rounds come one after another");
            match outcome {
                ProbeOutcome::Success => results.push(true),
                ProbeOutcome::Failure | ProbeOutcome::TimedOut => results.push(false),
                ProbeOutcome::Errored => {}
            }
            let in_a_row = |value: bool| results.iter().rev().take_while(|result| **result == value).count();
            let counts = outcome != ProbeOutcome::Errored;
            let enough = |value, threshold: u32| counts && in_a_row(value) >= threshold as usize;
            let expected = if enough(true, success_threshold) { Some(true) }
                else if enough(false, failure_threshold) { Some(false) } else { None };
            let stored: Vec<ProbeAction> =
                expected.into_iter().map(|value| ProbeAction::Store(target.id.clone(), value)).collect();
            prop_assert_eq!(actions, stored);
        }
    }
}
