//! The status of pods with sidecars, and of containers that come back for other reasons than their end.

use super::*;
use crate::logic::model::restart_policy::ALWAYS;
use ContainerState::{Exited, Running};

/// A pod with the sidecar `s` before the container `a`.
fn setup(policy: &str) -> Setup {
    let mut setup = Setup::new(policy, &["s"], &["a"]);
    setup.spec().init_containers.as_mut().expect("has init containers")[0].restart_policy = Some(ALWAYS.to_owned());
    setup
}

#[test]
fn a_sidecar_counts_for_the_phase_only_until_it_has_started() {
    let running = |name| instance(name, 0, Running, 0);
    let exited = |name, code| instance(name, 0, Exited, code);
    let cases = [
        ("Always", vec![], PENDING),
        ("Always", vec![running("s")], PENDING),
        ("Always", vec![running("a"), running("s")], RUNNING),
        ("Always", vec![running("a"), exited("s", 1)], RUNNING),
        ("Always", vec![running("a")], PENDING),
        // Made and not started, it waits.
        ("Always", vec![instance("s", 0, ContainerState::Created, 0)], PENDING),
        ("Never", vec![exited("a", 0), running("s")], RUNNING),
        ("Never", vec![exited("a", 0), exited("s", 1)], SUCCEEDED),
        ("Never", vec![exited("a", 0), exited("s", 137)], SUCCEEDED),
        ("Never", vec![exited("a", 1), exited("s", 0)], FAILED),
        ("OnFailure", vec![exited("a", 0), exited("s", 1)], SUCCEEDED),
        ("OnFailure", vec![exited("a", 1), exited("s", 1)], RUNNING),
    ];
    for (policy, containers, phase) in cases {
        assert_eq!(setup(policy).holding(containers.clone()).phase(), phase, "{policy} {containers:?}");
    }
}

#[test]
fn a_sidecar_that_starts_again_does_not_make_an_initialised_pod_pending() {
    let mut setup = setup("Always").holding(vec![instance("a", 0, Running, 0), instance("s", 1, Running, 0)]);
    let running = setup.runtime.containers[1].id.clone();
    setup.spec().init_containers.as_mut().expect("has one")[0].startup_probe = Some(Probe::default());
    assert_eq!(setup.phase(), RUNNING, "it has not started, and the pod has been initialised");
    setup.runtime.containers.remove(0);
    assert_eq!(setup.phase(), PENDING);
    setup.probes.startup.insert(running, true);
    assert_eq!(setup.phase(), PENDING, "the regular container waits");
}

#[test]
fn in_a_new_sandbox_a_pod_is_pending_until_its_sidecar_has_started() {
    let former = RuntimeContainer { sandbox_id: SandboxId::from("former"), ..instance("a", 0, Exited, 1) };
    let mut setup = setup("Always").holding(vec![former, instance("s", 1, Running, 0)]);
    assert_eq!(setup.phase(), RUNNING);
    setup.spec().init_containers.as_mut().expect("has one")[0].startup_probe = Some(Probe::default());
    assert_eq!(setup.phase(), PENDING);
}

#[test]
fn a_pod_is_initialised_once_its_sidecar_has_started_and_ready_while_it_is() {
    let mut setup = setup("Always").holding(vec![instance("s", 0, Running, 0)]);
    let sidecar = setup.runtime.containers[0].id.clone();
    let probed = &mut setup.spec().init_containers.as_mut().expect("has one")[0];
    (probed.startup_probe, probed.readiness_probe) = (Some(Probe::default()), Some(Probe::default()));
    let status = setup.status();
    let incomplete = ("False", "ContainersNotInitialized", "containers with incomplete status: [s]");
    assert_eq!(says(&status, "Initialized"), incomplete);
    assert_eq!((of(&status, "s").started, of(&status, "s").ready), (Some(false), false));
    setup.probes.startup.insert(sidecar.clone(), true);
    let status = setup.status();
    assert_eq!(says(&status, "Initialized"), ("True", "", ""));
    let unready = "containers with unready status: [s a]";
    assert_eq!(says(&status, "ContainersReady"), ("False", "ContainersNotReady", unready));
    assert_eq!((of(&status, "s").started, of(&status, "s").ready), (Some(true), false));
    setup.runtime.containers.insert(0, instance("a", 0, Running, 0));
    assert_eq!(says(&setup.status(), "Ready").2, "containers with unready status: [s]");
    setup.probes.readiness.insert(sidecar, true);
    assert_eq!(says(&setup.status(), "Ready"), ("True", "", ""));
}

#[test]
fn a_sidecar_of_which_nothing_is_known_waits() {
    let setup = setup("Always").holding(vec![instance("a", 0, Running, 0)]);
    let state = of(&setup.status(), "s").state.clone().and_then(|state| state.waiting);
    assert_eq!(state.and_then(|waiting| waiting.reason).as_deref(), Some("PodInitializing"));
}

#[test]
fn a_container_that_was_stopped_to_be_started_again_does_not_end_its_pod() {
    for (policy, exit_code) in [("Never", 0), ("Never", 137), ("OnFailure", 0)] {
        let mut setup = Setup::new(policy, &[], &["a"]).holding(vec![instance("a", 0, Exited, exit_code)]);
        setup.restarts.insert(setup.runtime.containers[0].id.clone());
        setup.runtime.containers[0].state = Running;
        assert_eq!(state(&setup.status(), "a"), "running", "while it stops");
        setup.runtime.containers[0].state = Exited;
        // Never told as ended: from there the API server lets nothing go back.
        let status = setup.step();
        assert_eq!(
            (status.phase.as_deref(), state(&status, "a")),
            (Some(RUNNING), "waiting ContainerCreating".to_owned())
        );
        assert_eq!(last_state(&status, "a"), format!("terminated {exit_code} Error"), "{policy}");
        setup.runtime.containers.insert(0, instance("a", 1, Running, 0));
        let status = setup.status();
        assert_eq!((state(&status, "a"), of(&status, "a").restart_count), ("running".to_owned(), 1));
    }
}
