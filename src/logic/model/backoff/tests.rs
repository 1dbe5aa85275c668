//! Cases and properties of growing waits.

use proptest::prelude::*;

use super::*;
use crate::logic::model::runtime_pod::ContainerState;

fn at(seconds: u64) -> Steady {
    Steady::at(Duration::from_secs(1_000_000 + seconds))
}

/// The wall clock, which shows the uptime unless a test sets it.
fn wall(seconds: u64) -> Moment {
    Moment(at(seconds).0)
}

fn both(seconds: u64) -> Clocks {
    Clocks { wall: wall(seconds), steady: at(seconds) }
}

fn container(image: &str) -> Container {
    Container { name: "app".to_owned(), image: Some(image.to_owned()), ..Container::default() }
}

fn instance(restart_count: u32, created: u64) -> RuntimeContainer {
    RuntimeContainer {
        restart_count,
        created_at: wall(created),
        started_at: wall(created),
        finished_at: wall(created + 1),
        exit_code: 1,
        reason: "Error".to_owned(),
        ..RuntimeContainer::sample("id", "app", ContainerState::Exited)
    }
}

/// Lets the container crash `rounds` times, `run` seconds after each start; says the waits.
fn waits(loops: &mut CrashLoops, rounds: usize, run: u64) -> Vec<u64> {
    let app = container("a");
    let mut now = at(0);
    (0..rounds)
        .map(|_| {
            let finished = now.plus(Duration::from_secs(run));
            let until = loops.wait(&app, finished, finished).map_or(finished, |wait| wait.until);
            loops.note_start(&app, Some(finished), until);
            now = until;
            until.since(finished).as_secs()
        })
        .collect()
}

#[test]
fn crash_loop_waits_are_upstreams() {
    let mut loops = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)));
    assert_eq!(waits(&mut loops, 9, 1), [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    let mut short = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(4)));
    assert_eq!(waits(&mut short, 4, 1), [0, 4, 4, 4]);
    let mut odd = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(25)));
    assert_eq!(waits(&mut odd, 5, 1), [0, 10, 20, 25, 25]);
}

#[test]
fn a_run_of_more_than_ten_minutes_starts_over() {
    let policy = BackoffPolicy::crash_loop(Duration::from_secs(300));
    let mut steady = CrashLoops::new(policy);
    assert_eq!(waits(&mut steady, 4, 601), [0, 0, 0, 0]);
    let mut edge = CrashLoops::new(policy);
    assert_eq!(waits(&mut edge, 4, 600), [0, 10, 20, 40]);
}

#[test]
fn a_new_image_or_new_resources_start_over() {
    let mut loops = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)));
    loops.note_start(&container("a"), Some(at(0)), at(0));
    assert!(loops.wait(&container("a"), at(1), at(2)).is_some());
    assert!(loops.wait(&container("b"), at(1), at(2)).is_none());
    let mut resized = container("a");
    resized.resources = Some(k8s_openapi::api::core::v1::ResourceRequirements {
        limits: Some(BTreeMap::from([(
            "cpu".to_owned(),
            k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".to_owned()),
        )])),
        ..Default::default()
    });
    assert!(loops.wait(&resized, at(1), at(2)).is_none());
}

#[test]
fn an_agent_restart_goes_on_with_the_back_off() {
    let policy = BackoffPolicy::crash_loop(Duration::from_secs(300));
    // Restart count, gap between the former end and the creation where known, the period expected.
    let cases = [
        (0, None, None),
        (1, None, Some(10)),
        (3, None, Some(40)),
        (50, None, Some(300)),
        (50, Some(0), Some(10)),
        (50, Some(9), Some(10)),
        (50, Some(11), Some(20)),
        (50, Some(41), Some(80)),
        (50, Some(100_000), Some(300)),
        (2, Some(100), Some(20)),
    ];
    for (restart_count, gap, period) in cases {
        let mut loops = CrashLoops::new(policy);
        let newest = instance(restart_count, 500_000);
        loops.recover(&container("a"), &newest, gap.map(|gap| wall(500_000 - gap)), both(500_001));
        let wait = loops.wait(&container("a"), at(500_001), at(500_001));
        assert_eq!(wait.map(|wait| wait.period.as_secs()), period, "{restart_count} {gap:?}");
    }
}

#[test]
fn recovery_never_replaces_what_is_known() {
    let mut loops = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)));
    loops.note_start(&container("a"), Some(at(0)), at(0));
    let before = loops.clone();
    loops.recover(&container("a"), &instance(7, 0), None, both(10));
    assert_eq!(loops, before);
}

#[test]
fn a_recovered_back_off_is_void_after_a_long_run() {
    let mut loops = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)));
    let mut newest = instance(9, 0);
    newest.finished_at = wall(700);
    loops.recover(&container("a"), &newest, None, both(700));
    assert_eq!(loops.wait(&container("a"), at(700), at(700)), None);
}

#[test]
fn image_pulls_back_off_from_the_failure() {
    let mut pulls = Backoff::new(BackoffPolicy::IMAGE_PULL);
    assert_eq!(pulls.wait("i", at(0)), None);
    assert_eq!(pulls.fail("i", at(0)).until, at(10));
    assert_eq!(pulls.wait("i", at(9)).map(|wait| wait.until), Some(at(10)));
    assert_eq!(pulls.wait("i", at(10)), None);
    assert_eq!(pulls.fail("i", at(11)).period, Duration::from_secs(20));
    assert_eq!(pulls.wait("other", at(11)), None);
    assert_eq!(pulls.fail("i", at(700)).period, Duration::from_secs(10), "forgotten after ten quiet minutes");
    pulls.collect_garbage(at(1300));
    assert!(!pulls.entries.is_empty());
    pulls.collect_garbage(at(1301));
    assert!(pulls.entries.is_empty());
}

#[test]
fn durations_read_as_go_prints_them() {
    for (milliseconds, text) in [
        (0, "0s"),
        (250, "250ms"),
        (1500, "1.5s"),
        (10_000, "10s"),
        (80_000, "1m20s"),
        (160_000, "2m40s"),
        (300_000, "5m0s"),
        (3_600_000, "1h0m0s"),
        (3_661_050, "1h1m1.05s"),
    ] {
        assert_eq!(go_duration(Duration::from_millis(milliseconds)), text);
    }
    let (container, pod) = ("app".to_owned(), "p_default(u)".to_owned());
    let wait = CrashLoopWait { container, pod, period: Duration::from_secs(10) };
    assert_eq!(wait.to_string(), "back-off 10s restarting failed container=app pod=p_default(u)");
}

/// POD-19: an agent starts after the clock was set back by an hour: the instances that it finds are dated later than now, and the
/// newest seems to be made before the one before it ended.
#[test]
fn a_clock_set_back_shortens_no_back_off() {
    let mut loops = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)));
    let mut newest = instance(3, 0);
    loops.recover(&container("a"), &newest, Some(wall(3600)), both(2));
    let end = loops.end_that_counts(&newest, both(2)).expect("nobody stopped it");
    let wait = loops.wait(&container("a"), end, at(2)).expect("it waits");
    assert_eq!((wait.period, wait.until), (Duration::from_secs(40), at(41)));
    newest.finished_at = wall(7200);
    assert_eq!(loops.end_that_counts(&newest, both(2)), Some(at(2)), "what is yet to come has just happened");
}

#[test]
fn an_end_once_seen_moves_with_no_clock() {
    let mut loops = CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)));
    let ended = instance(1, 0);
    let mut pod = RuntimePod::empty("u".into(), crate::logic::model::ids::FullName::new("p", "ns"), Default::default());
    pod.containers = vec![ended.clone()];
    loops.observe(&pod, both(1));
    for (wall_seconds, seconds) in [(86_400, 5), (0, 9)] {
        let now = Clocks { wall: wall(wall_seconds), steady: at(seconds) };
        loops.observe(&pod, now);
        assert_eq!(loops.end_that_counts(&ended, now), Some(at(1)));
    }
    pod.containers.clear();
    loops.observe(&pod, both(10));
    assert!(loops.ends.is_empty(), "nothing is kept of what the runtime lets go of");
}

proptest! {
    #[test]
    fn no_wait_is_longer_than_the_maximum(
        max in 1_u64..400,
        runs in prop::collection::vec((0_u64..2000, -100_000_i64..100_000), 1..40),
    ) {
        let policy = BackoffPolicy::crash_loop(Duration::from_secs(max));
        let app = container("a");
        let mut loops = CrashLoops::new(policy);
        let (mut now, mut set_off) = (at(200_000_000), 0);
        for (count, (run, jump)) in (1_u32..).zip(runs) {
            let finished = now.plus(Duration::from_secs(run));
            let mut ended = instance(count, 0);
            ended.finished_at = Moment(finished.0 + set_off);
            // The clock may be set in between, in either direction.
            set_off += jump * 1_000_000_000;
            let seen = Clocks { wall: Moment(finished.0 + set_off), steady: finished };
            let end = loops.end_that_counts(&ended, seen).expect("nobody stopped it");
            prop_assert!(end <= finished, "no end is yet to come");
            if let Some(wait) = loops.wait(&app, end, finished) {
                prop_assert!(wait.period <= policy.max);
                prop_assert!(wait.until.since(finished) <= policy.max);
                prop_assert!(wait.until > finished);
                now = wait.until;
            } else {
                now = finished;
            }
            loops.note_start(&app, Some(end), now);
        }
    }
}
