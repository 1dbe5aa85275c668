//! The jobs of a pod: which are under way, how each failed last, and when each may be tried again. Beside them the waits that
//! the newest step found, because most of them are waits for a job.
//!
//! Waits after a job are kept in uptime: a clock that is set back makes none longer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::room::{shrink, shrink_set};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::time::Steady;
use crate::logic::pods::pod_lifecycle::job::{ERROR_RETRY, Job, JobEnd, Retry};
use crate::logic::pods::wait::{Awaited, StageWait};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    open: BTreeSet<Job>,
    /// Of these, the ones that are tried again at once if they fail: what may keep them from succeeding has changed.
    forgiven: BTreeSet<Job>,
    /// By job, how its last try failed.
    problems: BTreeMap<Job, String>,
    /// Until when each is not tried again, in uptime.
    retries: BTreeMap<Job, Duration>,
    /// The subjects of waits, and their ends where known.
    waits: Vec<(StageWait, Option<Steady>)>,
}

impl Jobs {
    /// Whether this job is under way.
    pub fn has(&self, job: &Job) -> bool {
        self.open.contains(job)
    }

    /// Whether this container is being started.
    pub fn starts(&self, container: &str) -> bool {
        self.has(&Job::StartContainer(container.to_owned()))
    }

    /// Whether any container is being started.
    pub fn starts_any(&self) -> bool {
        self.open.iter().any(|job| matches!(job, Job::StartContainer(_)))
    }

    /// Whether a sandbox or a container is being made: what is half made cannot be stopped, and a look at it says little.
    pub fn makes_any(&self) -> bool {
        self.open.iter().any(|job| matches!(job, Job::SetUpSandbox | Job::StartContainer(_)))
    }

    /// Whether nothing is under way.
    pub fn are_done(&self) -> bool {
        self.open.is_empty()
    }

    /// The stop under way, as a wait; `None` when there is none.
    pub fn stopping(&self) -> Option<Awaited> {
        self.open.iter().find_map(|job| match job {
            Job::KillPod => Some(Awaited::Stop),
            Job::KillContainer(_) => Some(Awaited::ContainerStop),
            Job::ResetContainers => Some(Awaited::Reset),
            _ => None,
        })
    }

    /// Whether the job may begin at this uptime; else notes the wait.
    pub fn may_begin(&mut self, job: &Job, uptime: Duration, wait: impl Into<StageWait>) -> bool {
        if self.has(job) {
            self.wait(wait);
            return false;
        }
        match self.retries.get(job) {
            Some(until) if *until > uptime => {
                let (wait, until) = (wait.into(), Steady::at(*until));
                self.wait_until(StageWait { to_be_tried_again: true, ..wait }, until);
                false
            }
            _ => true,
        }
    }

    /// The job begins.
    pub fn begin(&mut self, job: Job) {
        debug_assert!(!self.has(&job), "at most one of each job is under way, and {job:?} is already");
        self.forgiven.remove(&job);
        self.open.insert(job);
    }

    /// The job has ended: remembers how it failed, if it did.
    pub fn end(&mut self, end: &JobEnd) {
        let job = end.job();
        self.open.remove(&job);
        match end.problem() {
            Some(problem) => drop(self.problems.insert(job, problem.to_owned())),
            None => drop(self.problems.remove(&job)),
        }
    }

    /// Ends the job early; says whether it was under way.
    pub fn cancel(&mut self, job: &Job) -> bool {
        self.forgiven.remove(job);
        self.open.remove(job)
    }

    /// Ends jobs early, those of a pod that is to end. Stops of containers go on: a hook that has begun is not to be run
    /// again, nor its time to be given twice. Starts of containers go on, too, and are to end soon.
    pub fn cancel_for_the_end(&mut self) -> Vec<Job> {
        self.cancel_where(|job| !matches!(job, Job::KillPod | Job::KillContainer(_) | Job::StartContainer(_)))
    }

    /// Ends the starts of containers early.
    pub fn cancel_starts(&mut self) -> Vec<Job> {
        self.cancel_where(|job| matches!(job, Job::StartContainer(_)))
    }

    fn cancel_where(&mut self, is_one: impl Fn(&Job) -> bool) -> Vec<Job> {
        let (cancelled, open): (BTreeSet<Job>, BTreeSet<Job>) =
            std::mem::take(&mut self.open).into_iter().partition(is_one);
        self.open = open;
        self.forgiven.retain(|job| self.open.contains(job));
        cancelled.into_iter().collect()
    }

    /// The containers that are being started.
    pub fn starting(&self) -> Vec<String> {
        let names = self.open.iter().filter_map(|job| match job {
            Job::StartContainer(container) => Some(container.clone()),
            _ => None,
        });
        names.collect()
    }

    /// How the last try of the job failed.
    pub fn problem_of(&self, job: &Job) -> Option<&str> {
        self.problems.get(job).map(String::as_str)
    }

    /// A wait for the job, with how its last try failed.
    pub fn with_problem(&self, what: Awaited, job: &Job) -> StageWait {
        StageWait { problem: self.problems.get(job).cloned(), ..what.into() }
    }

    /// Says when the job that has ended may begin again. `jitter`, in 0..1, spreads the usual wait.
    pub fn retry(&mut self, job: Job, retry: Retry, uptime: Duration, jitter: f64) {
        if self.forgiven.remove(&job) && self.problems.contains_key(&job) {
            return self.forgive(&job);
        }
        let wait = match retry {
            Retry::AtOnce => return self.forgive(&job),
            Retry::Usual => ERROR_RETRY.mul_f64(1.0 + jitter / 2.0),
            Retry::After(wait) => wait,
        };
        self.retries.insert(job, uptime + wait);
    }

    /// The job waits no longer: what kept it from succeeding may have changed. One under way may have begun before that.
    pub fn forgive(&mut self, job: &Job) {
        self.retries.remove(job);
        if self.has(job) {
            self.forgiven.insert(job.clone());
        }
    }

    /// The same of all jobs.
    pub fn forgive_all(&mut self) {
        self.retries.clear();
        self.forgiven.clone_from(&self.open);
    }

    /// Whether the job has failed and waits for its next try.
    pub fn rests(&self, job: &Job, uptime: Duration) -> bool {
        self.retries.get(job).is_some_and(|until| *until > uptime)
    }

    /// Forgets stops of containers that the runtime no longer holds.
    pub fn keep_only(&mut self, held: &BTreeSet<ContainerId>) {
        let is_gone = |job: &Job| matches!(job, Job::KillContainer(id) if !held.contains(id));
        self.retries.retain(|job, _| !is_gone(job));
        self.problems.retain(|job, _| !is_gone(job));
    }

    /// A new step begins: it finds anew what the pod waits for.
    pub fn forget_waits(&mut self) {
        self.waits.clear();
    }

    /// The pod waits for this.
    pub fn wait(&mut self, wait: impl Into<StageWait>) {
        self.waits.push((wait.into(), None));
    }

    /// The pod waits for this, until then at most.
    pub fn wait_until(&mut self, wait: impl Into<StageWait>, until: Steady) {
        self.waits.push((wait.into(), Some(until)));
    }

    /// The pod's waits.
    pub fn waits(&self) -> impl Iterator<Item = &StageWait> {
        self.waits.iter().map(|(wait, _)| wait)
    }

    /// When something is due although nothing happens.
    pub fn wake_at(&self) -> Option<Steady> {
        self.waits.iter().filter_map(|(_, until)| *until).min()
    }

    /// See [`shrink`].
    pub fn shrink(&mut self) {
        shrink_set(&mut self.open);
        shrink_set(&mut self.forgiven);
        shrink(&mut self.problems);
        shrink(&mut self.retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Job = Job::KillPod;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_failed_job_rests_for_its_wait_and_says_so() {
        for (retry, jitter, wait) in [
            (Retry::Usual, 0.0, at(10)),
            (Retry::Usual, 1.0, at(15)),
            (Retry::After(at(3)), 1.0, at(3)),
            (Retry::AtOnce, 1.0, at(0)),
        ] {
            let mut jobs = Jobs::default();
            jobs.begin(STOP);
            jobs.end(&JobEnd::PodKilled(Err("busy".to_owned())));
            jobs.retry(STOP, retry, at(100), jitter);
            assert_eq!(jobs.rests(&STOP, at(100)), !wait.is_zero(), "{retry:?}");
            assert_eq!(jobs.may_begin(&STOP, at(100), Awaited::Stop), wait.is_zero(), "{retry:?}");
            let until = (!wait.is_zero()).then(|| Steady::at(at(100) + wait));
            assert_eq!(jobs.wake_at(), until, "{retry:?}");
            assert!(jobs.may_begin(&STOP, at(100) + wait, Awaited::Stop), "{retry:?} is over");
            assert_eq!(jobs.with_problem(Awaited::Stop, &STOP).to_string(), "its containers to stop: busy");
        }
    }

    #[test]
    fn a_job_that_is_forgiven_under_way_is_tried_once_more_at_once() {
        let mut jobs = Jobs::default();
        let fail = |jobs: &mut Jobs| {
            jobs.end(&JobEnd::PodKilled(Err("busy".to_owned())));
            jobs.retry(STOP, Retry::Usual, at(100), 0.0);
            jobs.rests(&STOP, at(100))
        };
        for forgive in [|jobs: &mut Jobs| jobs.forgive(&STOP), Jobs::forgive_all] {
            jobs.begin(STOP);
            forgive(&mut jobs);
            assert!(!fail(&mut jobs));
            jobs.begin(STOP);
            assert!(fail(&mut jobs), "once");
        }
        // A pause after a success stays, and so does that of a job which was cancelled meanwhile.
        jobs.begin(STOP);
        jobs.forgive(&STOP);
        jobs.end(&JobEnd::PodKilled(Ok(())));
        jobs.retry(STOP, Retry::Usual, at(100), 0.0);
        assert!(jobs.rests(&STOP, at(100)));
        jobs.begin(STOP);
        jobs.forgive(&STOP);
        jobs.cancel(&STOP);
        jobs.begin(STOP);
        assert!(fail(&mut jobs));
    }

    #[test]
    fn a_job_that_succeeds_forgets_its_problem() {
        let mut jobs = Jobs::default();
        jobs.end(&JobEnd::PodKilled(Err("busy".to_owned())));
        jobs.end(&JobEnd::PodKilled(Ok(())));
        assert_eq!(jobs.problem_of(&STOP), None);
    }

    #[test]
    fn the_termination_cancels_all_but_stops_and_starts() {
        let mut jobs = Jobs::default();
        let (stop_of_one, start) = (Job::KillContainer("c".into()), Job::StartContainer("db".to_owned()));
        let others = [Job::Prepare, Job::SetUpSandbox, Job::EnsureImage("web".to_owned()), Job::Resize];
        for job in others.iter().chain([&STOP, &stop_of_one, &start]) {
            jobs.begin(job.clone());
        }
        assert_eq!(jobs.cancel_for_the_end(), others);
        assert!(jobs.has(&STOP) && jobs.has(&stop_of_one) && !jobs.has(&Job::Prepare));
        assert_eq!((jobs.starting(), jobs.cancel_starts()), (vec!["db".to_owned()], vec![start]));
        assert!(jobs.has(&STOP) && jobs.starting().is_empty());
    }

    #[test]
    #[should_panic(expected = "at most one of each job")]
    fn a_second_job_of_a_kind_is_a_fault() {
        let mut jobs = Jobs::default();
        jobs.begin(Job::Prepare);
        jobs.begin(Job::Prepare);
    }

    #[test]
    fn stops_of_instances_that_went_are_forgotten() {
        let [gone, here] = ["gone", "here"].map(ContainerId::from);
        let mut jobs = Jobs::default();
        for id in [&gone, &here] {
            jobs.end(&JobEnd::Killed(id.clone(), Err("busy".to_owned())));
            jobs.retry(Job::KillContainer(id.clone()), Retry::Usual, at(0), 0.0);
        }
        jobs.keep_only(&[here.clone()].into());
        assert!(
            !jobs.rests(&Job::KillContainer(gone.clone()), at(1))
                && jobs.rests(&Job::KillContainer(here.clone()), at(1))
        );
        assert_eq!(jobs.problem_of(&Job::KillContainer(gone)), None);
        assert_eq!(jobs.problem_of(&Job::KillContainer(here)), Some("busy"));
    }
}
