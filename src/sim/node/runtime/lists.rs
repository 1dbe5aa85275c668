//! Lists that the simulated runtime gives: right ones, old ones, and ones that lack something.

use std::time::Duration;

use crate::actors::kit::trace::lock;
use crate::cri::{Container, ContainerFilter, PodSandbox, PodSandboxFilter};
use crate::sim::faults::Fault;
use crate::sim::node::Node;

/// How old what an old list shows may be.
const AGE_MAX: Duration = Duration::from_secs(5);
/// How often what old lists show is put down anew.
const RENEWED: Duration = Duration::from_secs(2);

/// How it was once.
#[derive(Debug, Default)]
pub struct Past {
    at: Duration,
    sandboxes: Vec<PodSandbox>,
    containers: Vec<Container>,
}

/// `ListPodSandbox`.
pub fn sandboxes(node: &Node, filter: &PodSandboxFilter) -> Vec<PodSandbox> {
    let mut all = lock(&node.containers).list_sandboxes(filter);
    if remember(node) && node.faults.strikes(Fault::StaleLists, 0.1) {
        node.story.tell("fault", "a list of sandboxes is old");
        all = lock(&node.past).sandboxes.clone();
        all.retain(|one| {
            filter.id.as_ref().is_none_or(|id| *id == one.id)
                && filter.state.is_none_or(|state| state == one.state)
                && filter.label_selector.iter().all(|(key, value)| one.labels.get(key) == Some(value))
        });
    }
    thinned(node, all)
}

/// `ListContainers`.
pub fn containers(node: &Node, filter: &ContainerFilter) -> Vec<Container> {
    let mut all = lock(&node.containers).list(filter);
    if remember(node) && node.faults.strikes(Fault::StaleLists, 0.1) {
        node.story.tell("fault", "a list of containers is old");
        all = lock(&node.past).containers.clone();
        all.retain(|one| {
            filter.id.as_ref().is_none_or(|id| *id == one.id)
                && filter.state.is_none_or(|state| state == one.state)
                && filter.sandbox_id.as_ref().is_none_or(|id| *id == one.sandbox_id)
                && filter.label_selector.iter().all(|(key, value)| one.labels.get(key) == Some(value))
        });
    }
    thinned(node, all)
}

/// Puts down how it is now and then; whether there is something that an old list could show.
fn remember(node: &Node) -> bool {
    if !node.faults.has(Fault::StaleLists) {
        return false;
    }
    let (now, mut past) = (node.time.elapsed(), lock(&node.past));
    let is_usable = !past.at.is_zero() && now - past.at <= AGE_MAX;
    if !is_usable || now - past.at > RENEWED {
        let containers = lock(&node.containers);
        let (all, none) = (PodSandboxFilter::default(), ContainerFilter::default());
        *past = Past { at: now, sandboxes: containers.list_sandboxes(&all), containers: containers.list(&none) };
    }
    is_usable
}

fn thinned<T>(node: &Node, mut all: Vec<T>) -> Vec<T> {
    if !all.is_empty() && node.faults.strikes(Fault::PartialLists, 0.05) {
        node.story.tell("fault", "a list of the runtime lacks something");
        all.retain(|_| !node.faults.dice().chance(0.3));
    }
    all
}
