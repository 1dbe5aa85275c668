//! Admissions: how far each comes, what it leaves behind, and what is taken back.

use super::*;
use crate::logic::resources::device_manager::calls::Need;
use crate::logic::resources::device_manager::{Opinion, Question};
use crate::logic::resources::topology::admission::Refusal;

fn need(container: &str) -> Need {
    Need { container: container.to_owned(), resource: GPU.to_owned() }
}

fn with(kind: PolicyKind, inventory: Arc<Inventory>) -> ResourceManagers {
    let mut managers = managers(kind);
    managers.set_inventory(inventory);
    managers
}

fn choosy(texts: &[&str]) -> Arc<Inventory> {
    let mut of = gpus(texts);
    of.options.preferred = true;
    Arc::new([(GPU.to_owned(), of)].into())
}

/// How far an admission came, in a word; a refusal by its message.
fn outcome(placement: Placement) -> String {
    match placement {
        Placement::Given => "given".to_owned(),
        Placement::Refused(refusal) => refusal.to_string(),
        Placement::Late(resource) => format!("late: {resource}"),
        Placement::Ask(Question { preference, .. }) => {
            format!("ask: {} of {:?}", preference.count, preference.available)
        }
        Placement::Call { taken, .. } => {
            let devices = taken.into_iter().map(|(need, ids)| format!("{} {}", need.container, ids.join("+")));
            devices.collect::<Vec<_>>().join(", ")
        }
    }
}

/// RES-42, RES-44: devices that are known, the pod's wish, whether it may wait, and what comes of it.
#[test]
fn an_admission_with_devices_ends_in_one_of_five_ways() {
    let unexpected = |why: &str| format!("Allocate failed due to {why}, which is unexpected");
    let ill = unexpected("no healthy devices present; cannot allocate unhealthy devices vendor.com/gpu");
    let few = unexpected("requested number of devices unavailable for vendor.com/gpu. Requested: 2, Available: 1");
    let cases = [
        (Arc::default(), 1, true, "given"),
        (inventory(&["g0@0"]), 0, true, "given"),
        (inventory(&["g0@0"]), 1, false, "main g0"),
        (inventory(&["g0@0"]), 1, true, "main g0"),
        (inventory(&["g0@0!"]), 1, true, "late: vendor.com/gpu"),
        (inventory(&["g0@0!"]), 1, false, &ill),
        (inventory(&["g0@0", "g1@0!"]), 2, true, &few),
        (choosy(&["a", "b"]), 1, false, r#"ask: 1 of ["a", "b"]"#),
        (choosy(&["a!", "b!"]), 1, true, "late: vendor.com/gpu"),
    ];
    for (inventory, count, may_wait, expected) in cases {
        let mut managers = with(PolicyKind::None, Arc::clone(&inventory));
        let pod = pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}={count}"));
        let placement = managers.admit(&pod, Inquiry { may_wait, ..Inquiry::default() });
        assert_eq!(outcome(placement), expected, "{inventory:?} {count} {may_wait}");
    }
}

/// The same pod is admitted again and again while a plugin is asked or awaited. No try may count or hold anything.
#[test]
fn a_try_that_goes_on_later_leaves_nothing_behind() {
    let cases = [(choosy(&["a@0", "b@0"]), "ask"), (inventory(&["a@0!"]), "late")];
    for (inventory, expected) in cases {
        let mut managers = with(PolicyKind::BestEffort, inventory);
        let before = managers.files();
        let pod = pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=1"));
        for _ in 0..3 {
            let found = outcome(managers.admit(&pod, Inquiry { may_wait: true, ..Inquiry::default() }));
            assert!(found.starts_with(expected), "{found}");
            assert_eq!((managers.files(), managers.record(&uid(&pod))), (before.clone(), None), "{expected}");
            let figures = managers.figures();
            assert_eq!((figures.topology.requests, figures.memory.pinning_requests), (0, 0), "{expected}");
        }
        managers.set_inventory(self::inventory(&["a@0"]));
        assert_eq!(outcome(admit(&mut managers, &pod)), "main a");
        assert_eq!(managers.figures().topology.requests, 1, "the admission that was decided counts");
    }
}

/// RES-37: devices are chosen before CPUs. CPUs that are missing then take the devices back.
#[test]
fn a_pod_without_cpus_gets_no_devices_either() {
    let cases = [
        (
            PolicyKind::None,
            "8",
            "Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, which is \
             unexpected",
        ),
        (PolicyKind::SingleNumaNode, "5", "Resources cannot be allocated with Topology locality"),
    ];
    for (kind, cpus, expected) in cases {
        let mut managers = with(kind, inventory(&["g0@0"]));
        let before = managers.files();
        let pod = pod_of("wide", &format!("cpu={cpus},memory=1Gi,{GPU}=1"));
        // The plugin is not late, so there is nothing to wait for.
        let placement = managers.admit(&pod, Inquiry { may_wait: true, ..Inquiry::default() });
        assert_eq!(outcome(placement), expected, "{kind:?}");
        assert_eq!((managers.files(), managers.device_resources(&pod)), (before, BTreeSet::new()), "{kind:?}");
        let record = managers.record(&uid(&pod)).expect("remembered");
        assert_eq!(record.lines().last(), Some(&format!("refused: {expected}")), "{kind:?}");
        assert_eq!(outcome(admit(&mut managers, &pod_of("b", &format!("{GPU}=1")))), "main g0", "{kind:?}");
    }
}

/// A late plugin explains the refusal of its own pod, and no later one's.
#[test]
fn the_next_pod_is_not_held_to_be_late() {
    let mut managers = with(PolicyKind::None, inventory(&["g0!"]));
    let late = Inquiry { may_wait: true, ..Inquiry::default() };
    let waits = managers.admit(&pod_of("a", &format!("{GPU}=1")), late.clone());
    assert_eq!(outcome(waits), "late: vendor.com/gpu");
    let wide = managers.admit(&pod_of("b", "cpu=8,memory=1Gi"), late.clone());
    assert!(matches!(wide, Placement::Refused(_)), "{wide:?}");
    assert_eq!(managers.admit(&pod_of("c", "cpu=2,memory=1Gi"), late), Placement::Given);
}

/// RES-45: a plugin that is gone for long is awaited by a pod that may wait, for the length of its admission.
#[test]
fn a_forgotten_plugin_is_awaited_within_an_admission_alone() {
    let mut of = gpus(&["g0!"]);
    of.session = Session::Forgotten;
    let mut managers = with(PolicyKind::None, Arc::new([(GPU.to_owned(), of)].into()));
    let wants = pod_of("a", &format!("{GPU}=1"));
    for pod in [pod_of("b", "cpu=2,memory=1Gi"), wants.clone()] {
        let placement = managers.admit(&pod, Inquiry { may_wait: true, ..Inquiry::default() });
        assert_eq!(outcome(placement), if pod == wants { "late: vendor.com/gpu" } else { "given" });
        assert_eq!(managers.pinning_of(&wants).of("main").lacks, None, "others may give it");
    }
    assert_eq!(managers.admit(&wants, Inquiry::default()), Placement::Given, "others may give it");
}

/// RES-42: the opinion of a plugin is of one admission. The next pod is asked about anew.
#[test]
fn an_opinion_counts_for_one_admission() {
    let mut managers = with(PolicyKind::None, choosy(&["a", "b", "c"]));
    let first = pod_of("first", &format!("{GPU}=1"));
    let Placement::Ask(Question { need, preference }) = managers.admit(&first, Inquiry::default()) else {
        panic!("the plugin has an opinion")
    };
    let opinion = Opinion { preference, ids: vec!["c".to_owned()], asked: 1 };
    let answered = Inquiry { opinions: [(need, opinion)].into(), ..Inquiry::default() };
    assert_eq!(outcome(managers.admit(&first, answered)), "main c");
    let second = managers.admit(&pod_of("second", &format!("{GPU}=1")), Inquiry::default());
    assert_eq!(outcome(second), r#"ask: 1 of ["a", "b"]"#);
}

/// RES-43: devices are taken when they are chosen. The API names them when their plugin has given them.
#[test]
fn the_api_names_devices_once_their_plugin_has_given_them() {
    let mut managers = with(PolicyKind::None, inventory(&["g0@1", "g1@1"]));
    let pod = pod_of("a", &format!("{GPU}=2"));
    let Placement::Call { taken, before } = managers.admit(&pod, Inquiry::default()) else { panic!("both are free") };
    assert_eq!((taken.len(), before), (1, Holding::default()));
    assert_eq!(managers.allocations().of(&uid(&pod), "main"), None, "nothing is given yet");
    assert!(managers.health_of_devices().is_empty());
    assert!(matches!(admit(&mut managers, &pod_of("b", &format!("{GPU}=1"))), Placement::Refused(_)), "all are taken");
    managers.grant(&uid(&pod), &need("main"), DeviceGrant::default());
    let entry = |id: &str| DeviceEntry { resource: GPU.to_owned(), id: id.to_owned(), node: Some(1) };
    let owned = Allocation { devices: vec![entry("g0"), entry("g1")], ..Allocation::default() };
    assert_eq!(managers.allocations().of(&uid(&pod), "main"), Some(&owned));
    assert_eq!(managers.health_of_devices()[&uid(&pod)]["main"][GPU].len(), 2);
    assert_eq!(managers.device_resources(&pod), BTreeSet::from([GPU.to_owned()]));
    assert_eq!(admit(&mut managers, &pod), Placement::Given, "it has them already");
}

/// The file of devices was lost, those of CPUs and memory were not. The pod that runs is withdrawn down to these.
#[test]
fn a_pod_that_is_withdrawn_keeps_hardware_of_earlier_admissions() {
    let mut managers = with(PolicyKind::None, inventory(&["g0@0"]));
    let pod = pod_of("a", "cpu=2,memory=1Gi");
    assert_eq!(admit(&mut managers, &pod), Placement::Given);
    let (held, holding) = (managers.files(), managers.holding(&uid(&pod)));
    let with_gpu = pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=1"));
    let Placement::Call { before, .. } = managers.admit(&with_gpu, Inquiry::default()) else { panic!("it is free") };
    assert_eq!(before, holding, "CPUs and memory are those of before");
    assert_ne!(before, Holding::default());
    let refusal = Refusal::Unexpected("rpc failed".to_owned());
    managers.withdraw(&uid(&pod), &before, Some(refusal));
    assert_eq!(managers.files(), held, "the GPU alone is free again");
    let lines = managers.record(&uid(&pod)).expect("remembered").lines();
    assert_eq!(lines, ["refused: Allocate failed due to rpc failed, which is unexpected"]);
    assert_eq!(outcome(admit(&mut managers, &pod_of("b", &format!("{GPU}=1")))), "main g0");
}

/// A decision that the disk cannot take is given up; the pod is decided anew, and nobody refused it.
#[test]
fn a_decision_that_is_given_up_is_no_refusal() {
    let mut managers = with(PolicyKind::None, inventory(&["g0@0", "g1@1"]));
    let unused = managers.files();
    let pods = ["a", "b"].map(|uid| pod_of(uid, &format!("cpu=2,memory=1Gi,{GPU}=1")));
    let before = managers.holding(&uid(&pods[0]));
    for pod in &pods {
        admit(&mut managers, pod);
    }
    managers.withdraw(&uid(&pods[0]), &before, None);
    assert!(managers.record(&uid(&pods[0])).is_some_and(|record| record.refusal.is_none()));
    assert_eq!(managers.holding(&uid(&pods[0])), Holding::default());
    assert_ne!(managers.holding(&uid(&pods[1])), Holding::default(), "the other pod keeps all");
    managers.withdraw(&uid(&pods[1]), &before, None);
    assert_eq!(managers.files(), unused);
}

/// RES-35, RES-37, OBS-07: policy, the pod's CPUs, and what is counted: requests, errors, aligned, not aligned.
#[test]
fn each_admission_is_counted_by_its_outcome() {
    let cases = [
        (PolicyKind::None, Scope::Container, "2", (1, 0, 0, 0)),
        (PolicyKind::None, Scope::Container, "8", (1, 0, 0, 0)),
        (PolicyKind::BestEffort, Scope::Container, "5", (1, 0, 0, 0)),
        (PolicyKind::BestEffort, Scope::Container, "8", (1, 1, 0, 0)),
        (PolicyKind::Restricted, Scope::Container, "2", (1, 0, 0, 0)),
        (PolicyKind::SingleNumaNode, Scope::Container, "2", (1, 0, 1, 0)),
        (PolicyKind::SingleNumaNode, Scope::Container, "5", (1, 1, 0, 1)),
        (PolicyKind::SingleNumaNode, Scope::Pod, "2", (1, 0, 1, 0)),
        (PolicyKind::SingleNumaNode, Scope::Pod, "5", (1, 1, 0, 1)),
    ];
    for (kind, scope, cpus, expected) in cases {
        let (cpu_policy, memory) = (static_cpus(kind, 8), static_memory());
        let mut managers = ResourceManagers::new(aligning(kind, scope), cpu_policy, memory, true).expect("CPUs");
        let count = |managers: &ResourceManagers| {
            let counts = managers.figures().topology;
            (counts.requests, counts.errors, counts.aligned, counts.alignment_failures)
        };
        let _ = managers.place(&owner("a", cpus, "1Gi"));
        assert_eq!(count(&managers), expected, "{kind:?} {scope:?} {cpus}");
        let _ = managers.place(&owner("b", "9", "1Gi"));
        assert_eq!(count(&managers).0, 2, "{kind:?} {scope:?} {cpus}: counts add up");
        let label = if scope == Scope::Pod { "pod" } else { "container" };
        assert_eq!(managers.figures().topology.scope, label);
    }
}
