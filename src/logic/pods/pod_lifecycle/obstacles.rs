//! What keeps a pod from going on: how the last try of each of its jobs failed (PAIN-11, PAIN-20).

use super::*;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::pods::pod_containers::all_containers;

/// Jobs that a pod of this stage cannot do without, in the order in which they matter to people.
fn needed(stage: Stage) -> &'static [Job] {
    match stage {
        Stage::Syncing => &[Job::Prepare, Job::SetUpSandbox, Job::MountVolumes],
        Stage::Terminating => &[Job::KillPod],
        Stage::Terminated => &[Job::CleanUp],
    }
}

impl PodLifecycle {
    /// One sentence on what has failed and is tried again; `None` while all goes well. It stays the same from try to try,
    /// so that it is told once.
    pub fn obstacle(&self) -> Option<String> {
        let mut jobs = needed(self.stage).iter();
        let (job, problem) = jobs.find_map(|job| Some((job, self.problems.get(job)?)))?;
        let sentence = match job {
            Job::Prepare => "waits for its cgroup",
            Job::SetUpSandbox => "waits for its sandbox and network",
            Job::MountVolumes => "waits for its volumes",
            Job::KillPod => "ends, waits for its containers to stop",
            _ => "has ended, waits for its volumes and its cgroup to be released",
        };
        Some(format!("{sentence}: {problem}"))
    }

    /// Adds what is waited for of containers that run: that an init container ends, that a probe succeeds (PAIN-20).
    pub(super) fn note_progress(&mut self, pod: &Pod, seen: &RuntimePod) {
        let init_count = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).map_or(0, Vec::len);
        for (position, (kind, container)) in all_containers(pod).enumerate() {
            let name = &container.name;
            let running = seen.container(name).filter(|newest| newest.state == ContainerState::Running);
            let Some(running) = running.filter(|_| !self.jobs.contains(&Job::StartContainer(name.clone()))) else {
                continue;
            };
            let lacks = |results: &BTreeMap<ContainerId, bool>| results.get(&running.id) != Some(&true);
            let sentence = if kind == ContainerKind::Init && !is_sidecar(&container) {
                format!("init container {name} ({} of {init_count}) to end", position + 1)
            } else if container.startup_probe.is_some() && lacks(&self.probes.startup) {
                format!("the startup probe of {name}")
            } else if container.readiness_probe.is_some() && lacks(&self.probes.readiness) {
                format!("the readiness probe of {name}")
            } else {
                continue;
            };
            self.waits.push((sentence, None));
        }
    }

    /// What is waited for, with how the last try of it failed.
    pub(super) fn with_problem(&self, waiting_for: &str, job: &Job) -> String {
        let problem = self.problems.get(job).map(|problem| format!(": {problem}"));
        format!("{waiting_for}{}", problem.unwrap_or_default())
    }

    /// How the last try of the job failed.
    pub(super) fn problem_of(&self, job: &Job) -> Option<&String> {
        self.problems.get(job)
    }

    pub(super) fn note_problems(&mut self, end: &JobEnd) {
        let problem = match end {
            JobEnd::Prepared(Err(problem)) | JobEnd::PodKilled(Err(problem)) | JobEnd::CleanedUp(Err(problem)) => {
                Some(problem.clone())
            }
            JobEnd::Killed(_, Err(problem))
            | JobEnd::Removed(Err(problem))
            | JobEnd::Confirmed(_, Err(problem))
            | JobEnd::RemainsRemoved(_, Err(problem)) => Some(problem.clone()),
            JobEnd::SandboxUp(Err(failure)) => Some(failure.message.clone()),
            JobEnd::VolumesMounted(Err(failure)) => Some(failure.message.clone()),
            _ => None,
        };
        match problem {
            Some(problem) => drop(self.problems.insert(end.job(), problem)),
            None => drop(self.problems.remove(&end.job())),
        }
    }
}
