//! Hardware and records of pods that are over, and records of pods that were refused.

use super::*;
use crate::logic::model::time::Moment;
use crate::logic::resources::device_manager::calls::Need;

const NOW: Moment = Moment(1_767_225_600_000_000_000);

/// The last line of what people read of a pod; empty: nothing is remembered.
fn last_line(managers: &ResourceManagers, name: &str) -> String {
    managers.record(&PodUid::from(name)).and_then(|record| record.lines().pop()).unwrap_or_default()
}

/// RES-67: each pod holds something of one manager alone, or of none; it is over, or it is not.
#[test]
fn only_a_pod_that_is_over_and_held_something_makes_a_change() {
    let amounts = |amounts: &str| pod_of("a", amounts);
    // pod, CPUs, blocks of memory and devices that it holds
    let cases = [
        (amounts("cpu=2,memory=1Gi"), (2, 1, 0)),
        (amounts("cpu=500m,memory=1Gi"), (0, 1, 0)),
        (amounts(&format!("{GPU}=2")), (0, 0, 2)),
        (amounts(&format!("cpu=1,memory=1Gi,{GPU}=1")), (1, 1, 1)),
        (amounts(""), (0, 0, 0)),
    ];
    for (pod, holds) in cases {
        let mut managers = managers(PolicyKind::None);
        managers.set_inventory(inventory(&["g0@0", "g1@0"]));
        let unused = managers.clone();
        admit(&mut managers, &pod);
        let owned = managers.allocations().of(&uid(&pod), "main").cloned().unwrap_or_default();
        assert_eq!((owned.cpu_ids.len(), owned.memory.len(), owned.devices.len()), holds);
        let given = managers.clone();
        let others = BTreeSet::from([PodUid::from("b"), uid(&pod)]);
        assert!(!managers.keep_only(&others) && managers.has_state_of(&given), "{holds:?}: it is not over");
        assert_eq!(managers.keep_only(&[PodUid::from("b")].into()), holds != (0, 0, 0), "{holds:?}");
        assert!(managers.has_state_of(&unused), "{holds:?}");
        assert!(managers.record(&uid(&pod)).is_none(), "{holds:?}");
    }
}

/// A hundred refused pods are remembered though they are gone. The oldest is forgotten for the next one.
#[test]
fn a_hundred_refused_pods_are_remembered() {
    let mut managers = managers(PolicyKind::SingleNumaNode);
    let refuse = |managers: &mut ResourceManagers, number: usize| {
        let refused = managers.place(&owner(&format!("wide-{number}"), "5", "1Gi"));
        assert!(refused.is_err(), "no node has five CPUs");
        managers.keep_only(&BTreeSet::new());
    };
    let remembered = |managers: &ResourceManagers| -> Vec<usize> {
        (0..103).filter(|number| !last_line(managers, &format!("wide-{number}")).is_empty()).collect()
    };
    (0..100).for_each(|number| refuse(&mut managers, number));
    assert_eq!(remembered(&managers), (0..100).collect::<Vec<_>>());
    // A pod that is refused again takes no other's place.
    (0..100).for_each(|_| refuse(&mut managers, 7));
    assert_eq!(remembered(&managers), (0..100).collect::<Vec<_>>());
    refuse(&mut managers, 100);
    refuse(&mut managers, 101);
    assert_eq!(remembered(&managers), (2..102).collect::<Vec<_>>());
}

/// Records of refused pods that nobody can ask about for ever are bounded; a pod that is there keeps its record.
#[test]
fn a_refused_pod_that_is_still_there_is_not_forgotten() {
    let mut managers = managers(PolicyKind::SingleNumaNode);
    for number in 0..=100 {
        let _ = managers.place(&owner(&format!("wide-{number}"), "5", "1Gi"));
    }
    managers.keep_only(&[PodUid::from("wide-0")].into());
    assert_ne!(last_line(&managers, "wide-0"), "");
    managers.keep_only(&BTreeSet::new());
    assert_eq!(last_line(&managers, "wide-0"), "", "now it is gone, and a hundred were refused since");
}

/// A pod is admitted anew after each restart of the agent or change of its spec.
#[test]
fn the_first_record_of_a_pod_stays_until_it_is_given_or_refused_something() {
    let mut managers = managers(PolicyKind::None);
    managers.set_inventory(inventory(&["g0@0", "g1@0"]));
    let pod = owner("a", "2", "1Gi");
    managers.place(&pod).expect("given");
    let first = managers.record(&uid(&pod)).cloned().expect("remembered");
    assert!(!first.is_empty() && first.refusal.is_none());
    managers.place(&pod).expect("it has all");
    assert_eq!(managers.record(&uid(&pod)), Some(&first), "nothing is given anew");
    admit(&mut managers, &pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=1")));
    let second = managers.record(&uid(&pod)).cloned().expect("remembered");
    assert_eq!(second.devices.values().next(), Some(&vec!["g0".to_owned()]), "its devices were given anew");
    let refused = admit(&mut managers, &pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=2")));
    assert!(matches!(refused, Placement::Refused(_)), "{refused:?}");
    assert!(last_line(&managers, "a").contains("from 1 to 2"), "{}", last_line(&managers, "a"));
}

/// A plugin was away for too long, and the pod was refused although its devices were its own. It is asked about again later.
#[test]
fn a_pod_that_is_given_what_it_has_is_refused_no_more() {
    let mut managers = managers(PolicyKind::Restricted);
    managers.set_inventory(inventory(&["g0@0"]));
    let pod = pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=1"));
    admit(&mut managers, &pod);
    managers.set_inventory(inventory(&["g0@0!"]));
    assert!(matches!(admit(&mut managers, &pod), Placement::Refused(_)), "no device is healthy");
    assert!(last_line(&managers, "a").starts_with("refused: "));
    managers.set_inventory(inventory(&["g0@0"]));
    assert_eq!(admit(&mut managers, &pod), Placement::Given);
    let record = managers.record(&uid(&pod)).expect("remembered");
    assert_eq!((&record.refusal, record.topology.len()), (&None, 1), "the nodes of its hardware are explained");
    // Without policies there is nothing to explain but the refusal.
    let mut plain = ResourceManagers::default();
    let wants = pod_of("a", &format!("{GPU}=1"));
    for (devices, expected) in [(&["g0"], false), (&["g0!"], true), (&["g0"], false)] {
        plain.set_inventory(inventory(devices));
        admit(&mut plain, &wants);
        let refused = plain.record(&uid(&wants)).is_some_and(|record| record.refusal.is_some());
        assert_eq!(refused, expected, "{devices:?}");
    }
}

/// Its decision was given up, and another pod took its CPUs meanwhile.
#[test]
fn a_pod_that_is_given_other_cpus_is_explained_anew() {
    let mut managers = managers(PolicyKind::None);
    let pod = owner("a", "2", "1Gi");
    let before = managers.holding(&uid(&pod));
    let cpus = |managers: &ResourceManagers| {
        let record = managers.record(&uid(&pod)).expect("remembered");
        (record.cpus["main"].cpus.to_string(), managers.pinning_of(&pod).of("main").cpus)
    };
    managers.place(&pod).expect("given");
    let (explained, first) = cpus(&managers);
    assert_eq!(explained, first);
    managers.withdraw(&uid(&pod), &before, None);
    managers.place(&owner("b", "2", "1Gi")).expect("given");
    managers.place(&pod).expect("given");
    let (explained, second) = cpus(&managers);
    assert_eq!(explained, second);
    assert_ne!(first, second, "the other pod has those");
}

/// A pod that asks for nothing of its own is not remembered: most pods are such.
#[test]
fn a_pod_that_asks_for_no_hardware_has_no_record() {
    let mut managers = managers(PolicyKind::None);
    managers.place(&pod_of("a", "cpu=100m")).expect("shares");
    assert_eq!(managers.record(&PodUid::from("a")), None);
    managers.place(&Pod::default()).expect("no containers");
    assert_eq!(managers.record(&PodUid::from("")), None);
}

/// RES-46: devices that became unhealthy since, by the times that the device manager's owner knows.
#[test]
fn devices_that_are_unhealthy_now_are_explained() {
    let mut managers = managers(PolicyKind::None);
    managers.set_inventory(inventory(&["g0@0", "g1@0", "g2@0"]));
    let pod = pod_of("a", &format!("{GPU}=2"));
    admit(&mut managers, &pod);
    let since = |resource: &str, ids: &[&str]| -> BTreeMap<(String, String), Moment> {
        ids.iter().map(|id| ((resource.to_owned(), (*id).to_owned()), NOW)).collect()
    };
    let ill = |since: &BTreeMap<(String, String), Moment>| {
        managers.explained(&uid(&pod), since).expect("it was given devices").unhealthy
    };
    let need = Need { container: "main".to_owned(), resource: GPU.to_owned() };
    let cases = [
        (since(GPU, &[]), None),
        (since(GPU, &["g2"]), None),
        (since("other.com/gpu", &["g0"]), None),
        (since(GPU, &["g1", "g2"]), Some(vec!["g1"])),
        (since(GPU, &["g0", "g1"]), Some(vec!["g0", "g1"])),
    ];
    for (since, expected) in cases {
        let found = ill(&since);
        let expected: Option<Vec<_>> = expected.map(|ids| ids.into_iter().map(|id| (id.to_owned(), NOW)).collect());
        assert_eq!((found.get(&need), found.len()), (expected.as_ref(), usize::from(expected.is_some())), "{since:?}");
    }
    assert_eq!(managers.explained(&PodUid::from("b"), &since(GPU, &["g0"])), None, "another pod");
}

/// After a restart of the agent no record is left; health is still explained.
#[test]
fn health_is_explained_without_a_record() {
    let mut before = managers(PolicyKind::None);
    before.set_inventory(inventory(&["g0@0"]));
    let pod = pod_of("a", &format!("{GPU}=1"));
    admit(&mut before, &pod);
    let next = managers(PolicyKind::None).restored(&before.files(), path).expect("restored");
    assert_eq!((next.record(&uid(&pod)), next.explained(&uid(&pod), &BTreeMap::new())), (None, None));
    let since = BTreeMap::from([((GPU.to_owned(), "g0".to_owned()), NOW)]);
    let lines = next.explained(&uid(&pod), &since).expect("it is unhealthy").lines();
    assert_eq!(lines, ["container main: vendor.com/gpu: g0 is unhealthy since 2026-01-01T00:00:00Z"]);
}
