//! How a pod's life meets what people on the node ask of it.

use super::PodLifecycle;
use super::demand::{Demand, Demanded, may_be_asked};
use super::job::Job;
use super::parts::course::Stage;
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod};
use crate::logic::pods::pod_containers::all_containers;

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
