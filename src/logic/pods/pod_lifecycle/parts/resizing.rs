//! Bringing into force what a pod was given while it runs (POD-26): its running containers and its cgroup.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};

use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::pods::container_actions::PodPlan;
use crate::logic::pods::container_actions::resize::{ResizeInput, is_in_force};
use crate::logic::pods::pod_containers::find_container;
use crate::logic::pods::pod_resize::{
    ContainerResources, PodFigures, PodResources, ResizeGates, ResizeReport, ResizeWork, effective_requirements,
    same_requirements,
};
use crate::logic::resources::{ResourceOptions, pod_cgroup_settings};

/// The conditions of resizes beside the pod.
#[derive(Clone, Copy, Debug)]
pub struct ResizeMeans {
    /// Which are made.
    pub gates: ResizeGates,
    /// How resources become figures.
    pub options: ResourceOptions,
    /// Whether pods have cgroups of their own.
    pub per_pod: bool,
}

/// Facts of the resources in force.
#[derive(Clone, Debug, Default)]
pub struct Resizing {
    /// `None`: nothing is resized.
    means: Option<ResizeMeans>,
    /// The resources as the runtime has them from the agent, once they were read; before, no container is resized.
    actuated: Option<PodResources>,
    /// The results of this worker's own jobs since.
    noted: PodResources,
    /// By container that is being started, what it is made with.
    starting: ContainerResources,
    /// The figures of the pod's cgroup; `None` until it was made or looked at.
    cgroup: Option<PodFigures>,
    /// The pod's CPUs are its own, as the last look found, and its cgroup has no quota.
    no_quota: bool,
    /// The figures with which it is being made.
    preparing: Option<(PodFigures, Option<ResourceRequirements>)>,
}

impl Resizing {
    /// Resources may change while the pod runs.
    pub fn allow(&mut self, means: ResizeMeans) {
        self.means = Some(means);
    }

    /// The pod's resources as the runtime was last told them; `None` until that is known.
    pub fn actuated(&self) -> Option<&PodResources> {
        self.actuated.as_ref()
    }

    /// The figures of the pod's cgroup; `None` until they are known, or where there is none.
    pub fn figures(&self) -> Option<&PodFigures> {
        self.cgroup.as_ref()
    }

    /// The input of a plan; `None` while no container can be resized.
    pub fn input(&self) -> Option<ResizeInput<'_>> {
        let (means, actuated) = (self.means.as_ref()?, self.actuated.as_ref()?);
        let ResizeGates { by_pod, init_containers, .. } = means.gates;
        Some(ResizeInput { actuated, starting: &self.starting, by_pod, init_containers, options: &means.options })
    }

    /// Whether all that the pod was given is in force; `None` while that is not known.
    pub fn is_in_force(&self, pod: &Pod, seen: &RuntimePod) -> Option<bool> {
        let input = self.input()?;
        // Of a pod whose own resources nobody noted nothing is said, as upstream.
        let own = input.actuated.pod.as_ref().filter(|_| input.by_pod);
        let wanted = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let same_pod = own.is_none() || wanted.is_none() || same_requirements(own, wanted);
        Some(same_pod && is_in_force(&input, pod, seen))
    }

    /// Takes what was read from the disk. It counts less than what this worker's own jobs did meanwhile.
    pub fn take_actuated(&mut self, mut read: PodResources) {
        let meanwhile = std::mem::take(&mut self.noted.containers);
        if !meanwhile.is_empty() {
            Arc::make_mut(&mut read.containers).extend(Arc::unwrap_or_clone(meanwhile));
        }
        read.pod = self.noted.pod.take().or(read.pod);
        self.actuated = Some(read);
    }

    fn note_actuated(&mut self, containers: ContainerResources, pod: Option<ResourceRequirements>) {
        let known = self.actuated.as_mut().unwrap_or(&mut self.noted);
        if !containers.is_empty() {
            Arc::make_mut(&mut known.containers).extend(containers);
        }
        if pod.is_some() {
            known.pod = pod;
        }
    }

    /// The container begins to be started, with what the pod gives it now.
    pub fn note_starting(&mut self, pod: Option<&Pod>, name: &str) {
        let by_pod = self.means.is_some_and(|means| means.gates.by_pod);
        let Some(pod) = pod else { return };
        if let Some((_, container)) = find_container(pod, name) {
            let made_with = effective_requirements(pod, &container, by_pod);
            self.starting.insert(name.to_owned(), made_with);
        }
    }

    /// The container was started, or may have been: the resources that it was made with are in force.
    pub fn note_started(&mut self, name: &str) {
        if let Some(made_with) = self.starting.remove(name) {
            self.note_actuated([(name.to_owned(), made_with)].into_iter().collect(), None);
        }
    }

    /// The container was not even made.
    pub fn note_start_failed(&mut self, name: &str) {
        self.starting.remove(name);
    }

    /// The pod's cgroup begins to be made, with what the pod has now.
    pub fn note_preparing(&mut self, pod: Option<&Pod>) {
        self.preparing = self.wanted_figures(pod).map(|wanted| (wanted, own_resources(pod)));
    }

    /// The pod's cgroup is there. One that was there before may have other figures.
    pub fn note_prepared(&mut self, cgroup_made: bool) {
        let made_with = self.preparing.take().filter(|_| cgroup_made);
        if let Some((figures, own)) = made_with {
            self.cgroup = Some(figures);
            self.note_actuated(ContainerResources::new(), own);
        }
    }

    fn wanted_figures(&self, pod: Option<&Pod>) -> Option<PodFigures> {
        let means = self.means.filter(|means| means.per_pod)?;
        Some(PodFigures::of(&pod_cgroup_settings(pod?, self.no_quota, &means.options)))
    }

    /// The changes by which running containers, and the pod's cgroup, get what the pod was given. The cgroup is
    /// looked at once after a start of the worker: its predecessor may have been cut off.
    pub fn due(&self, pod: Option<&Pod>, seen: &RuntimePod, plan: &PodPlan) -> Option<ResizeWork> {
        let (means, actuated) = (self.means?, self.actuated.as_ref()?);
        let wanted = self.wanted_figures(pod);
        let cgroup_suits = match (&wanted, &self.cgroup) {
            (None, _) => true,
            (Some(wanted), Some(is)) => is.suits(wanted, means.options.cgroup_version),
            (Some(_), None) => false,
        };
        let own = own_resources(pod);
        let own = own.filter(|own| means.gates.by_pod && !same_requirements(Some(own), actuated.pod.as_ref()));
        if cgroup_suits && own.is_none() && plan.update.is_empty() {
            return None;
        }
        if seen.running().next().is_none() && self.cgroup.is_none() {
            return None; // Nothing is in force yet that could be another than what is given.
        }
        Some(ResizeWork { updates: plan.update.clone(), sandbox: plan.sandbox.clone(), pod: own })
    }

    /// A try to change resources has ended; says whether it failed.
    pub fn note_resized(&mut self, report: ResizeReport) -> bool {
        if report.cgroup.is_some() {
            (self.cgroup, self.no_quota) = (report.cgroup, report.no_quota);
        }
        self.note_actuated(report.containers, report.pod);
        report.problem.is_some()
    }

    /// Holds on to nothing that is empty.
    pub fn shrink(&mut self) {
        if self.starting.is_empty() {
            self.starting = ContainerResources::new();
        }
    }
}

/// The requests and limits of the pod as a whole.
fn own_resources(pod: Option<&Pod>) -> Option<ResourceRequirements> {
    pod?.spec.as_ref()?.resources.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str) -> Pod {
        let resources = serde_json::json!({ "requests": { "cpu": cpu } });
        let container = serde_json::json!({ "name": "web", "resources": resources });
        let pod = serde_json::json!({ "metadata": {}, "spec": { "containers": [container] } });
        serde_json::from_value(pod).expect("a pod")
    }

    fn made_with(pod: &Pod) -> ResourceRequirements {
        let (_, container) = find_container(pod, "web").expect("it has one");
        effective_requirements(pod, &container, true)
    }

    fn resizing() -> Resizing {
        let mut resizing = Resizing::default();
        resizing.allow(ResizeMeans { gates: ResizeGates::default(), options: Default::default(), per_pod: true });
        resizing
    }

    fn read(pod: &Pod) -> PodResources {
        let containers = [("web".to_owned(), made_with(pod))].into_iter().collect();
        PodResources { containers: Arc::new(containers), pod: None }
    }

    /// RES-31: a cgroup without a quota is as it is to be once the pod is known to own its CPUs.
    #[test]
    fn a_pod_with_cpus_of_its_own_needs_no_quota() {
        let amounts = serde_json::json!({ "cpu": "1", "memory": "1Gi" });
        let resources = serde_json::json!({ "requests": amounts, "limits": amounts });
        let container = serde_json::json!({ "name": "web", "resources": resources });
        let pod = serde_json::json!({ "metadata": {}, "spec": { "containers": [container] } });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let mut resizing = resizing();
        let with_quota = resizing.wanted_figures(Some(&pod)).expect("per pod");
        let found = PodFigures { cpu_quota: Some(-1), ..with_quota };
        let report = ResizeReport { cgroup: Some(found), no_quota: true, ..ResizeReport::default() };
        assert!(!resizing.note_resized(report));
        let (wanted, is) = (resizing.wanted_figures(Some(&pod)).expect("per pod"), resizing.figures().expect("known"));
        assert!(is.suits(&wanted, crate::logic::resources::CgroupVersion::V2));
        assert!(!is.suits(&with_quota, crate::logic::resources::CgroupVersion::V2));
    }

    #[test]
    fn a_start_counts_more_than_what_was_read_meanwhile() {
        let (old, new) = (pod("1"), pod("2"));
        let mut resizing = resizing();
        resizing.note_starting(Some(&new), "web");
        resizing.note_started("web");
        assert!(resizing.input().is_none(), "what the runtime was told before is not known yet");
        resizing.take_actuated(read(&old));
        let actuated = resizing.actuated().expect("read");
        assert_eq!(actuated.containers.get("web"), Some(&made_with(&new)));
    }

    #[test]
    fn a_start_that_failed_brings_nothing_into_force() {
        let (old, new) = (pod("1"), pod("2"));
        let mut resizing = resizing();
        resizing.take_actuated(read(&old));
        resizing.note_starting(Some(&new), "web");
        resizing.note_start_failed("web");
        resizing.note_started("web");
        let actuated = resizing.actuated().expect("read");
        assert_eq!(actuated.containers.get("web"), Some(&made_with(&old)));
    }

    #[test]
    fn a_cgroup_that_was_there_before_has_unknown_figures() {
        for (cgroup_made, is_known) in [(false, false), (true, true)] {
            let mut resizing = resizing();
            resizing.note_preparing(Some(&pod("1")));
            resizing.note_prepared(cgroup_made);
            assert_eq!(resizing.figures().is_some(), is_known, "made: {cgroup_made}");
        }
    }
}
