//! Cases of a whole status.

use proptest::prelude::*;

use super::*;
use crate::logic::model::pressure::Pressure;
use crate::logic::node::node_object::{NodeIdentity, initial};

fn settings() -> StatusSettings {
    StatusSettings {
        addresses: AddressSettings { hostname: "node-1".to_owned(), ..AddressSettings::default() },
        capacity: CapacitySettings { max_pods: 110, local_storage: true, ..CapacitySettings::default() },
        runtime_name: "containerd".to_owned(),
        kubelet_version: "v1.36.0".to_owned(),
        architecture: "amd64".to_owned(),
        port: 10250,
        images_max: 50,
        declared_features: Some(vec!["RestartAllContainersOnContainerExits".to_owned()]),
    }
}

fn host() -> HostFacts {
    HostFacts {
        machine: Ok(Machine {
            cpus: 2,
            memory_bytes: 4 << 30,
            machine_id: "m".to_owned(),
            system_uuid: "u".to_owned(),
            boot_id: "b".to_owned(),
            ..Machine::default()
        }),
        versions: Ok(Versions { kernel: "6.1".to_owned(), os_image: "Debian".to_owned() }),
        storage_bytes: Some(10 << 30),
        addresses: AddressFacts {
            default_routes: vec![std::net::IpAddr::from([10, 0, 0, 1])],
            ..AddressFacts::default()
        },
    }
}

fn answers() -> RuntimeAnswers {
    RuntimeAnswers { version: Some("2.1.0".to_owned()), images: Ok(vec![ImageFact::default()]) }
}

fn told() -> Told {
    Told { health: Some(RuntimeHealth::default()), runtime: Some(RuntimeFact::default()), ..Told::default() }
}

fn node() -> Node {
    initial(&NodeIdentity { name: "node-1".to_owned(), ..NodeIdentity::default() })
}

/// NODE-21, NODE-28.
#[test]
fn a_whole_status_is_made_from_nothing() {
    let mut node = node();
    let outcome = set_status(&mut node, &settings(), &host(), &answers(), &told(), Moment(1));
    assert_eq!(outcome.problems, [""; 0]);
    let reasons: Vec<&str> = outcome.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(reasons, ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]);
    let status = node.status.expect("a status");
    assert!(is_ready(Some(&status)));
    let info = status.node_info.expect("it is set");
    assert_eq!((&*info.container_runtime_version, &*info.kubelet_version), ("containerd://2.1.0", "v1.36.0"));
    assert_eq!((&*info.operating_system, &*info.architecture, &*info.kube_proxy_version), ("linux", "amd64", ""));
    assert_eq!((&*info.kernel_version, &*info.os_image, &*info.boot_id), ("6.1", "Debian", "b"));
    assert_eq!((&*info.machine_id, &*info.system_uuid, info.swap), ("m", "u", None));
    let endpoint = status.daemon_endpoints.and_then(|all| all.kubelet_endpoint);
    assert_eq!(endpoint.map(|endpoint| endpoint.port), Some(10250));
    assert_eq!(status.images.map(|images| images.len()), Some(1));
    assert_eq!(status.declared_features, Some(vec!["RestartAllContainersOnContainerExits".to_owned()]));
    assert_eq!(status.addresses.map(|addresses| addresses.len()), Some(2));
    assert_eq!(status.volumes_in_use, None, "it is not known yet");
}

#[test]
fn a_part_that_fails_leaves_the_others_alone() {
    let mut node = node();
    let host = HostFacts {
        machine: Err("no meminfo".to_owned()),
        versions: Err("no osrelease".to_owned()),
        storage_bytes: None,
        addresses: AddressFacts::default(),
    };
    let runtime = RuntimeAnswers { version: None, images: Err("gone".to_owned()) };
    let outcome = set_status(&mut node, &settings(), &host, &runtime, &told(), Moment(1));
    assert_eq!(
        outcome.problems,
        [
            "can't get ip address of node node-1. error: no default routes found",
            "error getting machine info: no meminfo",
            "error getting version info: no osrelease",
            "error getting image list: gone",
        ]
    );
    let status = node.status.expect("a status");
    assert_eq!(condition_status(Some(&status), READY), Some("False"));
    let ready = status.conditions.iter().flatten().last().expect("Ready is last");
    assert_eq!(ready.message.as_deref(), Some("missing node capacity for resources: ephemeral-storage"));
}

#[test]
fn a_runtime_that_nobody_spoke_of_is_not_ready() {
    let mut node = node();
    let silent = Told { health: None, runtime: None, ..told() };
    set_status(&mut node, &settings(), &host(), &answers(), &silent, Moment(1));
    let status = node.status.expect("a status");
    let ready = status.conditions.iter().flatten().last().expect("Ready is last");
    let expected = "[container runtime status check may not have completed yet, network state unknown]";
    assert_eq!(ready.message.as_deref(), Some(expected));
    assert_eq!((status.runtime_handlers, status.features), (None, None));
}

/// NODE-24.
#[test]
fn what_the_status_loses_no_part_of_stays() {
    let mut node = node();
    node.status.get_or_insert_default().volumes_in_use = Some(vec!["v".to_owned()]);
    set_status(&mut node, &settings(), &host(), &answers(), &told(), Moment(1));
    assert_eq!(node.status.as_ref().and_then(|status| status.volumes_in_use.clone()), Some(vec!["v".to_owned()]));
    let synced = Told { volumes_in_use: Some(vec![]), ..told() };
    set_status(&mut node, &settings(), &host(), &answers(), &synced, Moment(1));
    assert_eq!(node.status.and_then(|status| status.volumes_in_use), Some(vec![]));
}

/// NODE-61.
#[test]
fn cordoning_is_an_event() {
    let mut node = node();
    assert_eq!(schedulable_event(false, &node), None);
    node.spec.get_or_insert_default().unschedulable = Some(true);
    let event = schedulable_event(false, &node).expect("it changed");
    assert_eq!(event.message, "Node node-1 status is now: NodeNotSchedulable");
    assert_eq!(schedulable_event(true, &node), None);
    node.spec.get_or_insert_default().unschedulable = None;
    assert_eq!(schedulable_event(true, &node).map(|event| event.reason), Some(EventReason::NodeSchedulable));
}

/// NODE-58.
#[test]
fn pod_cidrs_are_told_together() {
    let mut node = node();
    assert_eq!(pod_cidrs(&node), None);
    node.spec.get_or_insert_default().pod_cidrs = Some(vec!["10.1.0.0/24".to_owned(), "fd00::/64".to_owned()]);
    assert_eq!(pod_cidrs(&node).as_deref(), Some("10.1.0.0/24,fd00::/64"));
}

proptest! {
    #[test]
    fn the_same_facts_change_nothing(
        memory in any::<bool>(),
        problem in proptest::option::of("[a-z]{1,5}"),
        sizes in proptest::collection::vec(0_i64..9, 0..8),
        later in 1_i64..1_000_000,
    ) {
        let image = |size_bytes| ImageFact { size_bytes, ..ImageFact::default() };
        let answers = RuntimeAnswers { images: Ok(sizes.into_iter().map(image).collect()), ..answers() };
        let told = Told {
            health: Some(RuntimeHealth { runtime_problem: problem, network_problem: None, ..RuntimeHealth::default() }),
            pressure: Pressure { memory, ..Pressure::default() },
            ..told()
        };
        let mut node = node();
        set_status(&mut node, &settings(), &host(), &answers, &told, Moment(0));
        let before = node.status.clone().unwrap_or_default();
        let again = set_status(&mut node, &settings(), &host(), &answers, &told, Moment(later * 1_000_000_000));
        prop_assert_eq!(again.events, vec![]);
        prop_assert!(!has_changed(&before, &node.status.unwrap_or_default()));
    }
}
