//! Bringing into force what a pod was given while it runs (POD-26): its running containers and its cgroup.

use k8s_openapi::api::core::v1::ResourceRequirements;

use super::*;
use crate::logic::pods::container_actions::PodPlan;
use crate::logic::pods::container_actions::resize::{ResizeInput, is_in_force};
use crate::logic::pods::pod_containers::find_container;
use crate::logic::pods::pod_resize::{
    ContainerResources, PodFigures, PodResources, ResizeGates, ResizeReport, ResizeWork, effective_requirements,
    same_requirements,
};
use crate::logic::resources::{ResourceOptions, pod_cgroup_settings};

/// What resizes depend on beside the pod.
#[derive(Clone, Copy, Debug)]
pub struct ResizeMeans {
    /// Which are made.
    pub gates: ResizeGates,
    /// How resources become figures.
    pub options: ResourceOptions,
    /// Whether pods have cgroups of their own.
    pub per_pod: bool,
}

/// What is known of resources in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Resizing {
    /// `None`: nothing is resized.
    means: Option<ResizeMeans>,
    /// What the runtime was told, once that was read; before, no container is resized.
    actuated: Option<PodResources>,
    /// What this worker's own jobs told it since.
    noted: PodResources,
    /// By container that is being started, what it is made with.
    starting: ContainerResources,
    /// What the pod's cgroup is set to; `None` until it was made or looked at.
    cgroup: Option<PodFigures>,
    /// What it is being made with.
    preparing: Option<(PodFigures, Option<ResourceRequirements>)>,
}

impl Resizing {
    pub(super) fn let_go_of_emptied(&mut self) {
        if self.starting.is_empty() {
            self.starting = ContainerResources::new();
        }
    }
}

impl PodLifecycle {
    /// A pod whose resources may change while it runs.
    #[must_use]
    pub fn with_resizing(mut self, means: ResizeMeans) -> Self {
        self.resizing.means = Some(means);
        self
    }

    /// What the runtime was told last; `None` until that is known.
    pub fn actuated(&self) -> Option<&PodResources> {
        self.resizing.actuated.as_ref()
    }

    /// What the pod's cgroup is set to; `None` until that is known, or where there is none.
    pub fn pod_figures(&self) -> Option<&PodFigures> {
        self.resizing.cgroup.as_ref()
    }

    /// Whether all that the pod was given is in force; `None` while that is not known.
    pub fn is_in_force(&self) -> Option<bool> {
        let (pod, seen) = (self.pod.as_ref()?, self.observed.as_ref()?);
        let input = self.resize_input()?;
        // Of a pod whose own resources nobody noted nothing is said, as upstream.
        let own = input.actuated.pod.as_ref().filter(|_| input.by_pod);
        let wanted = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let same_pod = own.is_none() || wanted.is_none() || same_requirements(own, wanted);
        Some(same_pod && is_in_force(&input, pod, seen))
    }

    pub(super) fn resize_input(&self) -> Option<ResizeInput<'_>> {
        let (means, actuated) = (self.resizing.means.as_ref()?, self.resizing.actuated.as_ref()?);
        let ResizeGates { by_pod, init_containers, .. } = means.gates;
        let starting = &self.resizing.starting;
        Some(ResizeInput { actuated, starting, by_pod, init_containers, options: &means.options })
    }

    /// What was read counts less than what this worker's own jobs did meanwhile.
    pub(super) fn take_actuated(&mut self, mut read: PodResources) {
        let Resizing { noted, actuated, .. } = &mut self.resizing;
        let meanwhile = std::mem::take(&mut noted.containers);
        if !meanwhile.is_empty() {
            Arc::make_mut(&mut read.containers).extend(Arc::unwrap_or_clone(meanwhile));
        }
        read.pod = noted.pod.take().or(read.pod);
        *actuated = Some(read);
    }

    fn note_actuated(&mut self, containers: ContainerResources, pod: Option<ResourceRequirements>) {
        let Resizing { noted, actuated, .. } = &mut self.resizing;
        let known = actuated.as_mut().unwrap_or(noted);
        if !containers.is_empty() {
            Arc::make_mut(&mut known.containers).extend(containers);
        }
        if pod.is_some() {
            known.pod = pod;
        }
    }

    pub(super) fn note_starting(&mut self, name: &str) {
        let by_pod = self.resizing.means.is_some_and(|means| means.gates.by_pod);
        let Some(pod) = &self.pod else { return };
        if let Some((_, container)) = find_container(pod, name) {
            let made_with = effective_requirements(pod, &container, by_pod);
            self.resizing.starting.insert(name.to_owned(), made_with);
        }
    }

    pub(super) fn note_started(&mut self, name: &str) {
        if let Some(made_with) = self.resizing.starting.remove(name) {
            self.note_actuated([(name.to_owned(), made_with)].into_iter().collect(), None);
        }
    }

    pub(super) fn note_start_failed(&mut self, name: &str) {
        self.resizing.starting.remove(name);
    }

    pub(super) fn note_preparing(&mut self) {
        let own = self.pod.as_ref().and_then(|pod| pod.spec.as_ref()?.resources.clone());
        self.resizing.preparing = self.wanted_figures().map(|wanted| (wanted, own));
    }

    pub(super) fn note_prepared(&mut self, cgroup_made: bool) {
        let made_with = self.resizing.preparing.take().filter(|_| cgroup_made);
        if let Some((figures, own)) = made_with {
            self.resizing.cgroup = Some(figures);
            self.note_actuated(ContainerResources::new(), own);
        }
    }

    fn wanted_figures(&self) -> Option<PodFigures> {
        let means = self.resizing.means.filter(|means| means.per_pod)?;
        Some(PodFigures::of(&pod_cgroup_settings(self.pod.as_ref()?, false, &means.options)))
    }

    /// Gives running containers, and the pod's cgroup, what the pod was given. The cgroup is looked at once after a start
    /// of the worker: its predecessor may have been cut off.
    pub(super) fn resize(&mut self, seen: &RuntimePod, plan: &PodPlan, now: Now) -> Vec<Action> {
        let (Some(means), Some(actuated)) = (self.resizing.means, &self.resizing.actuated) else { return vec![] };
        if !self.prepared || plan.create_sandbox.is_some() {
            return vec![];
        }
        let wanted = self.wanted_figures();
        let cgroup_suits = match (&wanted, &self.resizing.cgroup) {
            (None, _) => true,
            (Some(wanted), Some(is)) => is.suits(wanted, means.options.cgroup_version),
            (Some(_), None) => false,
        };
        let own = self.pod.as_ref().and_then(|pod| pod.spec.as_ref()?.resources.clone());
        let own = own.filter(|own| means.gates.by_pod && !same_requirements(Some(own), actuated.pod.as_ref()));
        if cgroup_suits && own.is_none() && plan.update.is_empty() {
            return vec![];
        }
        if seen.running().next().is_none() && self.resizing.cgroup.is_none() {
            return vec![]; // Nothing is in force yet that could be another than what is given.
        }
        if !self.may_begin(&Job::Resize, now, "its resources to be changed") {
            return vec![];
        }
        let sandbox = plan.sandbox.clone();
        vec![Action::Resize(ResizeWork { updates: plan.update.clone(), sandbox, pod: own })]
    }

    /// Gives whether it failed.
    pub(super) fn note_resized(&mut self, report: ResizeReport, now: Now) -> bool {
        if report.cgroup.is_some() {
            self.resizing.cgroup = report.cgroup;
        }
        if report.changed {
            // What the runtime says of it is to be seen in the status.
            self.outdate(now);
        }
        self.note_actuated(report.containers, report.pod);
        report.problem.is_some()
    }
}
