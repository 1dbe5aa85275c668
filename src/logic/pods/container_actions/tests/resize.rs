//! Plans of pods whose containers were given other resources than they have (POD-26).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerResizePolicy, Probe, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::super::resize::is_in_force;
use super::*;
use crate::logic::model::restart_policy::ALWAYS;
use crate::logic::model::runtime_pod::RuntimeResources;
use crate::logic::pods::pod_resize::{ContainerResources, PodResources};
use crate::logic::resources::ResourceOptions;
use ContainerState::{Exited, Running};

fn resources(cpu: &str, memory: &str) -> ResourceRequirements {
    let amounts = [("cpu", cpu), ("memory", memory)];
    let list: BTreeMap<_, _> = amounts.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned()))).into();
    ResourceRequirements { requests: Some(list.clone()), limits: Some(list), claims: None }
}

fn noted(names: &[&str], given: &ResourceRequirements) -> ContainerResources {
    names.iter().map(|name| ((*name).to_owned(), given.clone())).collect()
}

/// The sidecar `s`, the init container `i` and the regular `a`, each given 200m and 20Mi.
fn resized() -> Pod {
    let mut pod = pod("Always", &["s", "i"], &["a"]);
    let spec = pod.spec.as_mut().expect("has a spec");
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        container.resources = Some(resources("200m", "20Mi"));
        container.restart_policy = (container.name == "s").then(|| ALWAYS.to_owned());
    }
    pod
}

/// Notes of the resources in force.
struct Noted {
    actuated: PodResources,
    starting: ContainerResources,
    init_containers: bool,
    options: ResourceOptions,
}

impl Noted {
    /// All three containers have 100m and 10Mi.
    fn less() -> Self {
        let containers = Arc::new(noted(&["s", "i", "a"], &resources("100m", "10Mi")));
        let actuated = PodResources { containers, pod: None };
        let (starting, options) = (ContainerResources::default(), ResourceOptions::default());
        Self { actuated, starting, init_containers: false, options }
    }

    fn input(&self) -> ResizeInput<'_> {
        let (actuated, starting, options) = (&self.actuated, &self.starting, &self.options);
        ResizeInput { actuated, starting, by_pod: true, init_containers: self.init_containers, options }
    }

    fn planned(&self, pod: &Pod, containers: Vec<RuntimeContainer>) -> PodPlan {
        Case::new().plan_with(pod, &ready(containers), Some(self.input()))
    }
}

fn one(name: &str, state: ContainerState) -> RuntimeContainer {
    instance(name, 0, state, 0)
}

fn updated(plan: &PodPlan) -> Vec<&str> {
    plan.update.iter().map(|update| update.name.as_str()).collect()
}

/// POD-26: sidecars once they have started, ordinary init containers behind their gate, and whatever runs of the others.
#[test]
fn containers_that_run_are_updated() {
    let mut noted = Noted::less();
    for (containers, init_containers, expected) in [
        (vec![one("a", Running), one("i", Exited), one("s", Running)], false, vec!["s", "a"]),
        (vec![one("i", Running), one("s", Running)], false, vec!["s"]),
        (vec![one("i", Running), one("s", Running)], true, vec!["s", "i"]),
        (vec![one("i", Exited), one("s", Running)], true, vec!["s"]),
        (vec![one("a", Exited)], true, vec![]),
    ] {
        noted.init_containers = init_containers;
        assert_eq!(updated(&noted.planned(&resized(), containers.clone())), expected, "{containers:?}");
    }
    let mut starts = resized();
    let inits = starts.spec.as_mut().and_then(|spec| spec.init_containers.as_mut()).expect("has init containers");
    inits[0].startup_probe = Some(Probe::default());
    assert_eq!(updated(&noted.planned(&starts, vec![one("s", Running)])), Vec::<&str>::new());
}

#[test]
fn what_is_in_force_is_what_was_noted_last_or_what_the_runtime_tells() {
    let runs = vec![one("a", Running)];
    let mut noted = Noted::less();
    let plan = noted.planned(&resized(), runs.clone());
    let update = &plan.update[0];
    assert_eq!((update.current.cpu_limit, update.desired.cpu_limit), (100, 200));
    noted.starting = self::noted(&["a"], &resources("200m", "20Mi"));
    assert_eq!(updated(&noted.planned(&resized(), runs.clone())), Vec::<&str>::new(), "it is being made with them");
    // Nothing was noted.
    (noted.starting, noted.actuated) = (ContainerResources::default(), PodResources::default());
    let plan = noted.planned(&resized(), runs);
    assert_eq!((plan.update[0].current.cpu_limit, plan.update[0].current.memory_request), (0, 0));
    let figures = RuntimeResources { cpu_request: Some(200), cpu_limit: Some(200), memory_limit: Some(20 << 20) };
    let told = |memory| RuntimeContainer {
        resources: Some(RuntimeResources { memory_limit: Some(memory), ..figures }),
        ..one("a", Running)
    };
    assert_eq!(updated(&noted.planned(&resized(), vec![told(20 << 20)])), Vec::<&str>::new());
    assert_eq!(updated(&noted.planned(&resized(), vec![told(10 << 20)])), ["a"]);
}

#[test]
fn a_resource_that_asks_for_a_restart_gets_one_when_it_changes() {
    let (kept, runs) = (Noted::less(), vec![one("a", Running), one("i", Exited), one("s", Running)]);
    for (name, cpu, memory, restarts) in [
        ("cpu", "200m", "10Mi", true),
        ("cpu", "100m", "20Mi", false),
        ("memory", "100m", "20Mi", true),
        ("memory", "200m", "10Mi", false),
    ] {
        let mut pod = resized();
        let spec = pod.spec.as_mut().expect("has a spec");
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            container.resources = Some(resources(cpu, memory));
            let policy = |name: &str, restart: &str| ContainerResizePolicy {
                resource_name: name.to_owned(),
                restart_policy: restart.to_owned(),
            };
            let other = if name == "cpu" { "memory" } else { "cpu" };
            container.resize_policy = Some(vec![policy(other, "NotRequired"), policy(name, "RestartContainer")]);
        }
        let plan = kept.planned(&pod, runs.clone());
        let kills: Vec<_> = plan.kill.iter().map(|kill| (kill.id.as_str(), kill.message.as_str())).collect();
        let (killed, changed): (Vec<_>, Vec<&str>) = match restarts {
            true => (
                vec![("s0", "Container s resize requires restart"), ("a0", "Container a resize requires restart")],
                vec![],
            ),
            false => (vec![], vec!["s", "a"]),
        };
        assert_eq!((kills, updated(&plan)), (killed, changed), "{name} {cpu} {memory}");
        assert_eq!(starts(&plan).len(), if restarts { 2 } else { 0 });
        assert!(plan.kill.iter().all(|kill| kill.reason == KillReason::Resize));
    }
}

/// Of what does not run, and of init containers that run to their end, nobody waits for anything.
#[test]
fn a_resize_is_in_force_once_all_that_runs_on_has_it() {
    let (less, mut more) = (Noted::less(), Noted::less());
    more.actuated.containers = Arc::new(noted(&["s", "i", "a"], &resources("200m", "20Mi")));
    for (containers, expected) in [
        (vec![one("a", Running)], false),
        (vec![one("s", Running)], false),
        (vec![one("a", Exited), one("s", Exited)], true),
        (vec![one("i", Running)], true),
        (vec![], true),
    ] {
        let runtime = ready(containers);
        assert_eq!(is_in_force(&less.input(), &resized(), &runtime), expected, "{:?}", runtime.containers);
        assert!(is_in_force(&more.input(), &resized(), &runtime), "{:?}", runtime.containers);
    }
}
