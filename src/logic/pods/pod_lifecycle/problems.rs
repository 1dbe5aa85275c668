//! The reasons why a pod does not go on: the last failure of a job that it needs, and the goals that its running
//! containers have not reached yet (PAIN-11, PAIN-20).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::job::Job;
use super::parts::course::Stage;
use super::parts::jobs::Jobs;
use crate::logic::model::ids::ContainerId;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_pod::{ContainerState, ProbeResults, RuntimePod};
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_containers::all_containers;
use crate::logic::pods::wait::{Awaited, Problem};

/// Jobs that a pod of this stage cannot do without, in the order in which they matter to people.
fn needed(stage: Stage) -> &'static [Job] {
    match stage {
        Stage::Syncing => &[Job::Prepare, Job::PrepareClaims, Job::SetUpSandbox, Job::MountVolumes],
        Stage::Terminating => &[Job::KillPod, Job::ReleaseClaims],
        Stage::Terminated => &[Job::CleanUp],
    }
}

/// The failure that is tried again; `None` while all goes well.
pub(super) fn problem(stage: Stage, jobs: &Jobs) -> Option<Problem> {
    let (job, problem) = needed(stage).iter().find_map(|job| Some((job, jobs.problem_of(job)?.to_owned())))?;
    Some(match job {
        Job::Prepare => Problem::Cgroup(problem),
        Job::PrepareClaims => Problem::Claims(problem),
        Job::ReleaseClaims => Problem::ClaimsReleased(problem),
        Job::SetUpSandbox => Problem::Sandbox(problem),
        Job::MountVolumes => Problem::Volumes(problem),
        Job::KillPod => Problem::Stop(problem),
        _ => Problem::Release(problem),
    })
}

/// Waits for containers that run: that an init container ends, that a probe succeeds (PAIN-20).
pub(super) fn progress(pod: &Pod, seen: &RuntimePod, jobs: &Jobs, probes: &ProbeResults) -> Vec<Awaited> {
    let init_count = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).map_or(0, Vec::len);
    let mut waits = vec![];
    for (position, (kind, container)) in all_containers(pod).enumerate() {
        let name = &container.name;
        let running = seen.container(name).filter(|newest| newest.state == ContainerState::Running);
        let Some(running) = running.filter(|_| !jobs.starts(name)) else { continue };
        let lacks = |results: &BTreeMap<ContainerId, bool>| results.get(&running.id) != Some(&true);
        if kind == ContainerKind::Init && !is_sidecar(&container) {
            let (container, position) = (name.clone(), position + 1);
            waits.push(Awaited::InitEnd { container, position, count: init_count });
        } else if container.startup_probe.is_some() && lacks(&probes.startup) {
            waits.push(Awaited::StartupProbe(name.clone()));
        } else if container.readiness_probe.is_some() && lacks(&probes.readiness) {
            waits.push(Awaited::ReadinessProbe(name.clone()));
        }
    }
    waits
}
