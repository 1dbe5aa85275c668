//! What people on the node may ask of a pod: to start a container again, or not to wait for its back-off (PAIN-34, PAIN-36).

use k8s_openapi::api::core::v1::{Container, Pod};

use super::PodLifecycle;
use super::job::Job;
use super::parts::course::Stage;
use crate::logic::model::restart_policy::{is_sidecar, wants_start};
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod};
use crate::logic::pods::container_actions::ContainerKind;
use crate::logic::pods::pod_containers::{all_containers, find_container};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// What is asked.
    pub what: Demanded,
    /// Of which container; `None` means each that it can be asked of.
    pub container: Option<String>,
}

/// What is asked of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demanded {
    /// To be stopped, with its grace period, and started again at once, whatever its restart policy.
    Restart,
    /// To be started without the rest of its back-off, which then begins anew.
    ResetBackOff,
}

impl PodLifecycle {
    /// Takes a demand; gives the names of the containers that it is about.
    ///
    /// # Errors
    /// A sentence why it cannot be met.
    pub fn demand(&mut self, demand: &Demand) -> Result<Vec<String>, String> {
        let (Some(pod), Some(seen)) = (self.pod().cloned(), self.observed().cloned()) else {
            return Err("nothing is known of the pod yet".to_owned());
        };
        if self.stage() != Stage::Syncing {
            return Err("the pod ends, or has ended".to_owned());
        }
        let mut names: Vec<String> = match &demand.container {
            Some(name) => {
                may_be_asked(&pod, name, demand.what, &seen)?;
                vec![name.clone()]
            }
            None => all_containers(&pod).map(|(_, container)| container.name.clone()).collect(),
        };
        names.retain(|name| may_be_asked(&pod, name, demand.what, &seen).is_ok());
        for name in &names {
            self.restarts.forgive(name);
            self.jobs.forgive(&Job::EnsureImage(name.clone()));
            self.jobs.forgive(&Job::StartContainer(name.clone()));
            if demand.what == Demanded::Restart {
                self.have_restarted(name, &seen);
            }
        }
        Ok(names)
    }

    /// Has the newest instance of the container stopped, to be started again. One that is just being started is not known
    /// yet, or not to run: it is stopped once its start has ended.
    fn have_restarted(&mut self, name: &str, seen: &RuntimePod) {
        let newest = seen.container(name).filter(|newest| newest.state != ContainerState::Created);
        let runs = newest.is_some_and(|newest| newest.state == ContainerState::Running);
        if !runs && self.jobs.starts(name) {
            self.restarts.stop_after_start(name);
        } else if let Some(newest) = newest {
            self.restarts.stop(newest.id.clone());
        }
    }
}

fn may_be_asked(pod: &Pod, name: &str, what: Demanded, seen: &RuntimePod) -> Result<(), String> {
    let ended = seen.container(name).filter(|newest| newest.state == ContainerState::Exited);
    let is_over = |container: &Container| ended.is_some() && !wants_start(pod, container, ended);
    match find_container(pod, name) {
        None => Err(format!("the pod has no container {name}")),
        Some((ContainerKind::Ephemeral, _)) => Err(format!("{name} is an ephemeral container, which is started once")),
        // One that fails may be in its back-off; to repeat one that succeeded would undo the pod's initialisation.
        Some((ContainerKind::Init, container)) if what == Demanded::Restart && !is_sidecar(&container) => {
            Err(format!("{name} is an init container, which runs to its end once"))
        }
        // It was told as ended for good, and the API server lets nothing come back from there.
        Some((_, container)) if !is_sidecar(&container) && is_over(&container) => {
            Err(format!("{name} has ended, and its restart policy keeps it so"))
        }
        Some(_) => Ok(()),
    }
}
