//! Pods come and go in any order: nothing is given twice, and all comes back.

use proptest::prelude::*;

use super::*;

/// A step in the life of a node.
#[derive(Clone, Debug)]
enum Step {
    /// A pod asks for CPUs, GiB and GPUs; a plugin may fail it then.
    Admit { name: String, cpus: u32, memory: u32, gpus: u32, fails: bool },
    /// All pods but these are over.
    KeepOnly(BTreeSet<String>),
}

fn step() -> impl Strategy<Value = Step> {
    let admit = ("[a-d]", 0..6_u32, 1..6_u32, 0..3_u32, any::<bool>())
        .prop_map(|(name, cpus, memory, gpus, fails)| Step::Admit { name, cpus, memory, gpus, fails });
    let keep = proptest::collection::btree_set("[a-d]", 0..4).prop_map(Step::KeepOnly);
    prop_oneof![3 => admit, 1 => keep]
}

fn kind() -> impl Strategy<Value = PolicyKind> {
    prop_oneof![
        Just(PolicyKind::None),
        Just(PolicyKind::BestEffort),
        Just(PolicyKind::Restricted),
        Just(PolicyKind::SingleNumaNode)
    ]
}

/// Takes the step. A pod that is refused, or failed by its plugin, changes nothing.
fn take(managers: &mut ResourceManagers, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::KeepOnly(names) => {
            let active: BTreeSet<PodUid> = names.iter().map(|name| PodUid::from(name.as_str())).collect();
            managers.keep_only(&active);
            let allocations = managers.allocations();
            prop_assert!(allocations.containers.keys().all(|uid| active.contains(uid)), "{:?}", allocations);
        }
        Step::Admit { name, cpus, memory, gpus, fails } => {
            let pod = pod_of(&name, &format!("cpu={cpus},memory={memory}Gi,{GPU}={gpus}"));
            let before = managers.clone();
            match managers.admit(&pod, Inquiry::default()) {
                Placement::Call { before: holding, .. } if fails => {
                    managers.withdraw(&uid(&pod), &holding, None);
                    // As upstream, nodes that give memory together may share what is held among themselves in another way.
                    prop_assert_eq!(managers.allocations(), before.allocations(), "withdrawn");
                    prop_assert_eq!(managers.cpu_state(), before.cpu_state(), "withdrawn");
                }
                Placement::Call { taken, .. } => {
                    taken.iter().for_each(|(need, _)| managers.grant(&uid(&pod), need, DeviceGrant::default()));
                }
                Placement::Given => {}
                other => {
                    prop_assert!(matches!(other, Placement::Refused(_)), "{:?}", other);
                    prop_assert!(managers.has_state_of(&before), "refused");
                }
            }
        }
    }
    Ok(())
}

/// Counts each CPU and device of containers, and the memory of each NUMA node that containers have by itself.
fn check(managers: &ResourceManagers) -> Result<(), TestCaseError> {
    let allocations = managers.allocations();
    let owned: Vec<&Allocation> = allocations.containers.values().flat_map(BTreeMap::values).collect();
    let cpus: Vec<u32> = owned.iter().flat_map(|one| one.cpu_ids.iter().copied()).collect();
    let devices: Vec<&String> = owned.iter().flat_map(|one| one.devices.iter().map(|entry| &entry.id)).collect();
    prop_assert_eq!(cpus.iter().collect::<BTreeSet<_>>().len(), cpus.len(), "a CPU is one container's");
    prop_assert_eq!(devices.iter().collect::<BTreeSet<_>>().len(), devices.len(), "a device is one container's");
    prop_assert!(!cpus.contains(&0), "CPU 0 is the host's");
    let shared = &managers.cpu_state().shared;
    prop_assert!(cpus.iter().all(|cpu| !shared.contains(*cpu)) && shared.contains(0));
    for (node, bytes_max) in [(0, 7 * GIB), (1, 8 * GIB)] {
        let blocks = owned.iter().flat_map(|one| &one.memory).filter(|block| block.nodes == [node]);
        prop_assert!(blocks.map(|block| block.bytes).sum::<u64>() <= bytes_max, "node {}", node);
    }
    Ok(())
}

proptest! {
    #[test]
    fn nothing_is_given_twice_and_all_comes_back(kind in kind(), steps in proptest::collection::vec(step(), 1..12)) {
        let mut managers = managers(kind);
        managers.set_inventory(inventory(&["g0@0", "g1@0", "g2@1", "g3"]));
        let unused = managers.files();
        for step in steps {
            take(&mut managers, step)?;
            check(&managers)?;
        }
        let next = self::managers(kind).restored(&managers.files(), path).expect("its own files");
        prop_assert_eq!(next.allocations().containers, managers.allocations().containers);
        managers.keep_only(&BTreeSet::new());
        prop_assert_eq!(managers.files(), unused);
    }
}
