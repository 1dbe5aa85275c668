//! A wall clock that is set back makes no wait longer (upstream measures durations by a monotonic clock).

use super::*;
use crate::logic::probes::probe_schedule::RESTART_MARGIN;

const NOTHING: [&str; 0] = [];

const HOURS: i64 = 8 * 3600 * 1_000_000_000;

impl Script {
    /// Somebody sets the clock back.
    fn sets_back_the_clock(&mut self) {
        self.moment = Moment(self.moment.0 - HOURS);
    }
}

#[test]
fn a_job_that_failed_is_tried_again_in_time() {
    let (mut script, _) = Script::new(a_pod("Always", &[], &["a"]));
    assert_eq!(script.ends(JobEnd::lost(Job::SetUpSandbox, "no network".to_owned())), ["inspect"]);
    script.sets_back_the_clock();
    assert_eq!(script.sees(&[], &[]), NOTHING);
    assert_eq!(script.wakes_in(), Some(10.0));
    assert_eq!(script.passes(9), NOTHING);
    assert_eq!(script.passes(1), ["sandbox 0"]);
}

#[test]
fn an_image_that_failed_is_pulled_again_in_time() {
    let mut script = Script::unseen(a_pod("Always", &[], &["a"]));
    assert_eq!(script.sees(&[], &[]), ["sandbox 0", "prepare anew", "image a"]);
    script.ends(JobEnd::lost(Job::EnsureImage("a".to_owned()), "no registry".to_owned()));
    script.sets_back_the_clock();
    assert_eq!(script.passes(10), ["image a"]);
}

#[test]
fn a_container_that_was_made_and_never_started_goes_in_time() {
    let pod = a_pod("Always", &[], &["a", "b"]);
    let mut script = Script::unseen(pod.clone());
    let made = RuntimeContainer { state: ContainerState::Created, ..running(&pod, "a", 0) };
    let seen = [made, running(&pod, "b", 0)];
    script.sees(&[ready(0)], &seen);
    script.ends(JobEnd::Prepared(Ok(false)));
    script.sets_back_the_clock();
    assert_eq!(script.passes(10), ["inspect"]);
    assert_eq!(script.sees(&[ready(0)], &seen), ["remove a0"]);
}

/// It would begin its grace period anew, as if a shorter one were asked for.
#[test]
fn a_stop_under_way_goes_on() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod);
    assert_eq!(script.removed(None), ["end [a0 s0] 30s"]);
    script.sets_back_the_clock();
    assert_eq!(script.passes(5), NOTHING);
}

/// An end is placed on the agent's own clock when it is first seen.
#[test]
fn a_crash_loop_does_not_wait_for_the_clock_to_come_back() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let first = exited(&running(&pod, "a", 0), 1, script.moment);
    let restarted = RuntimeContainer { created_at: script.moment, ..running(&pod, "a", 1) };
    let ended = exited(&restarted, 1, script.moment);
    let (app, steady) = (&pod.spec.as_ref().expect("a spec").containers[0], Steady::at(script.uptime));
    script.life.restarts.crash_loops_mut().note_start(app, Some(steady), steady);
    assert_eq!(script.sees(&[ready(0)], &[ended, first]), NOTHING, "it waits for ten seconds");
    script.sets_back_the_clock();
    assert_eq!(script.passes(10), ["image a"]);
}

/// POD-19: a clock that is set ahead ends no wait, and does not make a short run a long one.
#[test]
fn a_crash_loop_waits_although_the_clock_is_set_ahead() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::running(pod.clone());
    let first = exited(&running(&pod, "a", 0), 1, script.moment);
    let restarted = RuntimeContainer { created_at: script.moment, ..running(&pod, "a", 1) };
    let (app, steady) = (&pod.spec.as_ref().expect("a spec").containers[0], Steady::at(script.uptime));
    script.life.restarts.crash_loops_mut().note_start(app, Some(steady), steady);
    script.moment = Moment(script.moment.0 + HOURS);
    let ended = exited(&restarted, 1, script.moment);
    assert_eq!(script.sees(&[ready(0)], &[ended, first]), NOTHING, "it waits for ten seconds");
    script.moment = Moment(script.moment.0 + HOURS);
    assert_eq!(script.passes(9), NOTHING);
    assert_eq!(script.passes(1), ["image a"]);
}

/// An end that is dated later than now has just happened, to an agent that has just started: it is waited for no longer than
/// any other.
#[test]
fn an_end_in_the_future_has_just_happened() {
    let pod = a_pod("Always", &[], &["a"]);
    let mut script = Script::unseen(pod.clone());
    let restarted = RuntimeContainer { created_at: script.moment, ..running(&pod, "a", 1) };
    let ended = exited(&restarted, 1, script.moment);
    script.sets_back_the_clock();
    script.sees(&[ready(0)], std::slice::from_ref(&ended));
    script.ends(JobEnd::Prepared(Ok(false)));
    assert_eq!(script.passes(9), NOTHING, "it waits for ten seconds");
    assert_eq!(script.passes(1), ["image a"]);
}

/// PRB-23: readiness outlives an agent that finds the clock set back since the container started. A container that started
/// since does not take it over.
#[test]
fn an_earlier_agents_containers_are_known_whatever_the_clock_shows() {
    let pod = a_pod("Always", &[], &["a"]);
    let instance = |moment: Moment| RuntimeContainer { started_at: moment, ..running(&pod, "a", 0) };
    let margin = RESTART_MARGIN.as_nanos() as i64;
    for (ago, is_adopted) in [(-HOURS, true), (0, false), (margin, false), (margin + 1, true), (HOURS, true)] {
        let mut script = Script::unseen(pod.clone());
        script.sees(&[ready(0)], &[instance(Moment(script.moment.0 - ago))]);
        assert_eq!(!script.life.adopted().is_empty(), is_adopted, "started {ago} ns ago");
    }
    let mut script = Script::unseen(pod.clone());
    script.sees(&[ready(0)], &[]);
    script.sets_back_the_clock();
    script.sees(&[ready(0)], &[instance(script.moment)]);
    assert!(script.life.adopted().is_empty(), "this agent started it");
}
