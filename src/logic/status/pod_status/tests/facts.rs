//! The parts of a status that follow from the pod's object and from the status before.

use super::*;

fn foreign(kind: &str, status: &str) -> PodCondition {
    PodCondition { type_: kind.to_owned(), status: status.to_owned(), ..PodCondition::default() }
}

fn with_conditions(conditions: Vec<PodCondition>) -> PodStatus {
    PodStatus { conditions: Some(conditions), ..PodStatus::default() }
}

/// POD-15: no end says anything about such a pod.
#[test]
fn a_pod_without_regular_containers_stays_pending() {
    for policy in ["Always", "OnFailure", "Never"] {
        assert_eq!(Setup::new(policy, &[], &[]).phase(), PENDING, "{policy}");
    }
}

/// PRB-23: an agent that starts takes neither flag over from the one before where a gate says so.
#[test]
fn a_restart_of_the_agent_shows_where_its_gate_is_on() {
    let running = instance("a", 0, ContainerState::Running, 0);
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![running]);
    let (startup, readiness) = (Some(Probe::default()), Some(Probe::default()));
    let container = &mut setup.spec().containers[0];
    (container.startup_probe, container.readiness_probe) = (startup, readiness);
    let id = ContainerId::from("a0");
    setup.probes.startup.insert(id.clone(), true);
    setup.probes.readiness.insert(id.clone(), true);
    setup.pod.status = Some(setup.status());
    (setup.probes, setup.adopted) = (ProbeResults::default(), [id.clone()].into());
    let told = |setup: &Setup| {
        let status = setup.status();
        let a = of(&status, "a");
        (a.started, a.ready)
    };
    assert_eq!(told(&setup), (Some(true), true));
    setup.gates.restart_shows = true;
    assert_eq!(told(&setup), (Some(false), false));
    setup.probes.startup.insert(id, true);
    assert_eq!(told(&setup), (Some(true), false));
}

#[test]
fn words_of_another_phase_are_dropped() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    let reason = Some("Waiting".to_owned());
    setup.previous = Some(PodStatus { phase: Some(PENDING.to_owned()), reason, ..PodStatus::default() });
    assert_eq!(setup.status().reason, None);
}

#[test]
fn a_status_tells_the_class_of_service() {
    assert_eq!(Setup::new("Always", &[], &["a"]).status().qos_class.as_deref(), Some("BestEffort"));
}

/// After a start the agent may get an older object of the pod than its status is about.
#[test]
fn the_observed_generation_never_goes_back() {
    for (object, shown, expected) in [
        (Some(3), None, Some(3)),
        (Some(3), Some(2), Some(3)),
        (Some(3), Some(4), Some(4)),
        (None, Some(4), Some(4)),
        (None, None, None),
    ] {
        let mut setup = Setup::new("Always", &[], &["a"]);
        setup.pod.metadata.generation = object;
        setup.previous = Some(PodStatus { observed_generation: shown, ..PodStatus::default() });
        assert_eq!(setup.status().observed_generation, expected, "{object:?} {shown:?}");
    }
}

/// The API may still have it as it was before the eviction.
#[test]
fn a_disruption_replaces_the_one_of_the_api_and_no_other_condition() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    setup.pod.status = Some(with_conditions(vec![foreign("x/one", "True"), foreign("DisruptionTarget", "False")]));
    setup.previous = Some(with_conditions(vec![foreign("DisruptionTarget", "True")]));
    let status = setup.status();
    let others: Vec<(&str, &str)> = status.conditions.iter().flatten().map(|one| (&*one.type_, &*one.status)).collect();
    assert_eq!(others[..2], [("x/one", "True"), ("DisruptionTarget", "True")]);
    assert_eq!(others.iter().filter(|(kind, _)| *kind == "DisruptionTarget").count(), 1);
}
