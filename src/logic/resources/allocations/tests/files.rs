//! Files of state: each manager has its own, and the next agent goes on from those that there are.

use super::*;

/// Managers of CPUs alone, of memory alone, of devices alone, and pods that hold something of them.
fn each_alone() -> [(&'static str, ResourceManagers, Pod); 3] {
    let none = || aligning(PolicyKind::None, Scope::Container);
    let of = |cpus, memory| ResourceManagers::new(none(), cpus, memory, true).expect("CPUs are shared");
    let mut devices = of(no_cpus(), memory(MemoryPolicy::None));
    devices.set_inventory(inventory(&["g0@0"]));
    [
        ("cpus", of(static_cpus(PolicyKind::None, 8), memory(MemoryPolicy::None)), owner("a", "2", "1Gi")),
        ("memory", of(no_cpus(), static_memory()), owner("a", "2", "1Gi")),
        ("devices", devices, pod_of("a", &format!("{GPU}=1"))),
    ]
}

/// The managers write their files when any of them differs.
#[test]
fn a_change_of_any_one_file_is_a_change_of_state() {
    for (what, before, pod) in each_alone() {
        let mut after = before.clone();
        admit(&mut after, &pod);
        assert!(before.has_state_of(&before.clone()), "{what}");
        assert!(!after.has_state_of(&before) && !before.has_state_of(&after), "{what}");
        let (old, new) = (before.files(), after.files());
        let changed = [old.cpus != new.cpus, old.memory != new.memory, old.devices != new.devices];
        assert_eq!(changed, ["cpus", "memory", "devices"].map(|one| one == what), "{what}");
        assert!(after.keep_only(&BTreeSet::new()), "{what}: the pod held some");
        assert!(after.has_state_of(&before), "{what}");
        assert!(!after.keep_only(&BTreeSet::new()), "{what}: nobody holds any now");
    }
}

/// RES-29, RES-34, RES-43: a file that is lost costs its own manager's state alone.
#[test]
fn each_file_restores_its_own_manager() {
    let mut managers = managers(PolicyKind::None);
    managers.set_inventory(inventory(&["g0@0"]));
    let pod = pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=1"));
    admit(&mut managers, &pod);
    let StateFiles { cpus, memory, devices } = managers.files();
    let cases = [
        (StateFiles { cpus, ..StateFiles::default() }, (2, 0, 0)),
        (StateFiles { memory, ..StateFiles::default() }, (0, 1, 0)),
        (StateFiles { devices, ..StateFiles::default() }, (0, 0, 1)),
        (managers.files(), (2, 1, 1)),
        (StateFiles::default(), (0, 0, 0)),
    ];
    for (files, expected) in cases {
        let next = self::managers(PolicyKind::None).restored(&files, path).expect("restored");
        let owned = next.allocations().of(&uid(&pod), "main").cloned().unwrap_or_default();
        assert_eq!((owned.cpu_ids.len(), owned.memory.len(), owned.devices.len()), expected, "{files:?}");
    }
}

/// The resources of a file are known before their plugins have come back.
#[test]
fn resources_of_the_file_are_known_before_their_plugins_come() {
    let mut managers = managers(PolicyKind::None);
    assert_eq!((managers.known_resources(), managers.files().devices), (BTreeSet::new(), None));
    managers.set_inventory(inventory(&["g0@0"]));
    let known = BTreeSet::from([GPU.to_owned()]);
    assert_eq!(managers.known_resources(), known);
    let next = self::managers(PolicyKind::None).restored(&managers.files(), path).expect("restored");
    assert_eq!(next.known_resources(), known);
    assert!(next.files().devices.is_some(), "a file that is there is kept true");
}

/// RES-43: upstream sets such a file aside and goes on.
#[test]
fn a_file_of_devices_that_cannot_be_believed_ends_nothing() {
    let mut managers = managers(PolicyKind::None);
    managers.set_inventory(inventory(&["g0@0"]));
    admit(&mut managers, &pod_of("a", &format!("cpu=2,memory=1Gi,{GPU}=1")));
    let whole = managers.files();
    let bytes = whole.devices.clone().expect("a file");
    let text = String::from_utf8(bytes.clone()).expect("text");
    let tampered = text.replace("g0", "g1");
    assert_ne!(tampered, text);
    for bad in [vec![], b"{}".to_vec(), bytes[..bytes.len() / 2].to_vec(), tampered.into_bytes()] {
        let files = StateFiles { devices: Some(bad), ..whole.clone() };
        let next = self::managers(PolicyKind::None).restored(&files, path).expect("goes on");
        let without = self::managers(PolicyKind::None).restored(&StateFiles { devices: None, ..files }, path);
        assert!(next.has_state_of(&without.expect("goes on")), "devices alone are lost");
        assert_eq!(next.cpu_state(), managers.cpu_state());
    }
}

/// RES-30, RES-34: files of a machine with fewer CPUs or NUMA nodes.
#[test]
fn files_of_another_machine_are_refused() {
    let small = |cpus, memory| {
        let parts = ResourceManagers::new(aligning(PolicyKind::None, Scope::Container), cpus, memory, true);
        parts.expect("CPUs are shared").files()
    };
    let managers = managers(PolicyKind::None);
    let refused = |files: &StateFiles| managers.restored(files, path).expect_err("another machine").to_string();
    let fewer = small(static_cpus(PolicyKind::None, 4), static_memory());
    assert_eq!(
        refused(&fewer),
        r#"start cpu manager error: current set of available CPUs "0-7" doesn't match with CPUs in state "0-3""#
    );
    let machine = Machine { nodes: [(0, NodeMemory { total: 8 * GIB, huge_pages: BTreeMap::new() })].into() };
    let gates = Gates { pod_level_resources: true, pod_level_managers: false };
    let kept = Reserved::from([(0, BTreeMap::from([(MEMORY.to_owned(), GIB)]))]);
    let memory = MemoryManager::new(MemoryPolicy::Static, gates, &machine, &kept);
    let files = small(static_cpus(PolicyKind::None, 8), memory);
    let text = refused(&files);
    assert!(text.starts_with("start memory manager error: "), "{text}");
    assert!(managers.restored(&StateFiles { memory: None, ..files }, path).is_ok(), "the CPUs are the same");
}

/// The names are upstream's: the agent and the kubelet go on from each other's files.
#[test]
fn files_have_upstreams_names() {
    let names = [StateFiles::CPUS, StateFiles::MEMORY, StateFiles::DEVICES];
    assert_eq!(names, ["cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint"]);
}

/// The decision is made on a copy: a write that fails changes nothing.
#[test]
fn an_admission_on_a_copy_changes_the_copy_alone() {
    for (what, before, pod) in each_alone() {
        let kept = (before.files(), before.figures().topology.requests);
        let mut copy = before.clone();
        admit(&mut copy, &pod);
        assert_eq!((before.files(), before.figures().topology.requests), kept, "{what}");
        assert_eq!(before.allocations().of(&uid(&pod), "main"), None, "{what}");
        assert!(copy.allocations().of(&uid(&pod), "main").is_some(), "{what}");
    }
}
