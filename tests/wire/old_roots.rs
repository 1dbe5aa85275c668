//! The files of state that other agents left (`tests/fixtures/old-roots`), as the agent's readers take them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceRequirements;
use podwright::logic::images::image_records::PulledRecord;
use podwright::logic::model::ids::PodUid;
use podwright::logic::model::quantity::{Format, Quantity};
use podwright::logic::plugins::claims::checkpoint;
use podwright::logic::pods::pod_resize::{parse_checkpoint, print_checkpoint};
use podwright::logic::probes::probe_memory::ProbeMemory;
use podwright::logic::resources::allocations::{MemoryBlock, ResourceManagers, StateFiles};
use podwright::logic::resources::cpu_manager::options::StaticOptions;
use podwright::logic::resources::cpu_manager::{
    CpuInfo, CpuPolicy, CpuSet, CpuTopology, PodLevelGates, StaticPolicy, StaticSettings,
};
use podwright::logic::resources::memory_manager::{Gates, Machine, MemoryManager, MemoryPolicy, NodeMemory, Reserved};
use podwright::logic::resources::topology::admission::TopologyManager;
use podwright::logic::resources::topology::machine::NumaNodes;
use podwright::logic::resources::topology::policy::{Options, Policy, PolicyKind, Scope};
use podwright::testing::old_roots::OldRoot;
use serde_json::{Value, json};

/// The memory of the pod that has a CPU of its own.
const OWN_MEMORY: u64 = 64 << 20;
/// `kubeReserved` and `evictionHard` of the fixtures' configuration.
const RESERVED_MEMORY: u64 = 100 << 20;

fn all() -> Vec<OldRoot> {
    ["upstream", "podwright"].into_iter().flat_map(OldRoot::made_by).collect()
}

fn text<'a>(old: &'a OldRoot, name: &str) -> &'a str {
    old.text(&format!("kubelet/{name}")).unwrap_or_else(|| panic!("{}: no {name}", old.name))
}

/// The static policies for the machine that made the fixture, which its file of memory describes.
fn managers(old: &OldRoot) -> ResourceManagers {
    let cpu = |cpu: u32| CpuInfo { cpu, core: cpu, socket: 0, node: 0, uncore: 0 };
    let gates = PodLevelGates { resources: true, managers: false };
    let settings = StaticSettings {
        options: StaticOptions::default(),
        reserved: Quantity::from_units(i64::from(old.maker.cpus) - 1, Format::DecimalSi),
        reserved_cpus: CpuSet::default(),
        single_numa_node: false,
        gates,
    };
    let topology = CpuTopology::new((0..old.maker.cpus).map(cpu)).unwrap();
    let cpus = CpuPolicy::Static(StaticPolicy::new(Arc::new(topology), &settings).unwrap());
    let state: Value = serde_json::from_str(text(old, StateFiles::MEMORY)).unwrap();
    let node = |(number, node): (&String, &Value)| {
        let kinds = &node["memoryMap"];
        let pages = |(name, kibibytes): (&str, u64)| {
            let bytes = kinds[name]["total"].as_u64()?;
            Some((kibibytes, bytes / 1024 / kibibytes))
        };
        let huge_pages =
            [("hugepages-2Mi", 2 << 10), ("hugepages-1Gi", 1 << 20)].into_iter().filter_map(pages).collect();
        (number.parse::<u8>().unwrap(), NodeMemory { total: kinds["memory"]["total"].as_u64().unwrap(), huge_pages })
    };
    let machine = Machine { nodes: state["machineState"].as_object().unwrap().iter().map(node).collect() };
    let reserved = Reserved::from([(0, BTreeMap::from([("memory".to_owned(), RESERVED_MEMORY)]))]);
    let gates = Gates { pod_level_resources: true, pod_level_managers: false };
    let memory = MemoryManager::new(MemoryPolicy::Static, gates, &machine, &reserved);
    let policy = Policy::new(PolicyKind::None, Options::default(), NumaNodes::default()).unwrap();
    let topology = TopologyManager { policy, scope: Scope::Container, pod_level: false };
    ResourceManagers::new(topology, cpus, memory, true).unwrap()
}

/// The pod of this CPU limit, by the file of resources that pods were given.
fn pod_with_limit(old: &OldRoot, cpu: &str) -> (PodUid, ResourceRequirements) {
    let entries = parse_checkpoint(text(old, "allocated_pods_state").as_bytes()).unwrap();
    let has_limit = |resources: &ResourceRequirements| {
        resources.limits.as_ref().and_then(|limits| limits.get("cpu")).is_some_and(|limit| limit.0 == cpu)
    };
    let mains = entries.iter().filter_map(|(uid, pod)| Some((uid.clone(), pod.containers.get("main")?.clone())));
    let found: Vec<_> = mains.filter(|(_, resources)| has_limit(resources)).collect();
    assert_eq!(found.len(), 1, "{}: one pod has the limit {cpu}", old.name);
    found.into_iter().next().unwrap()
}

/// RES-29, RES-34: the pod that another agent gave a CPU and memory has them, and the files written anew are the same bytes.
#[test]
fn res_29_cpus_and_memory_of_an_old_root_directory_stay_their_pods() {
    for old in all() {
        let bytes = |name: &str| Some(text(&old, name).as_bytes().to_vec());
        let devices = old.text("device-plugins/kubelet_internal_checkpoint").map(|text| text.as_bytes().to_vec());
        let files = StateFiles { cpus: bytes(StateFiles::CPUS), memory: bytes(StateFiles::MEMORY), devices };
        let restored =
            managers(&old).restored(&files, str::to_owned).unwrap_or_else(|error| panic!("{}: {error}", old.name));
        assert_eq!(restored.files(), files, "{}", old.name);
        let (uid, resources) = pod_with_limit(&old, "1");
        assert!(old.pods().contains(uid.as_str()), "{}: the pod has a folder", old.name);
        assert_eq!(json!(resources.limits), json!({ "cpu": "1", "memory": "64Mi" }), "{}", old.name);
        let allocations = restored.allocations();
        assert_eq!(allocations.containers.len(), 1, "{}: other pods own nothing", old.name);
        let own = allocations.of(&uid, "main").unwrap_or_else(|| panic!("{}: nothing of the pod", old.name));
        assert_eq!(own.cpu_ids.len(), 1, "{}", old.name);
        let memory = MemoryBlock { memory_type: "memory".to_owned(), bytes: OWN_MEMORY, nodes: vec![0] };
        assert_eq!(own.memory, [memory], "{}", old.name);
    }
}

/// RES-55: a resize that another agent allowed and carried out is in both files, which written anew are the same bytes.
#[test]
fn res_55_resources_of_an_old_root_directory_are_those_of_the_resize() {
    for old in all() {
        for name in ["allocated_pods_state", "actuated_pods_state"] {
            let bytes = text(&old, name).as_bytes();
            let entries = parse_checkpoint(bytes).unwrap_or_else(|error| panic!("{} {name}: {error}", old.name));
            assert_eq!(print_checkpoint(&entries), bytes, "{} {name}", old.name);
            let (uid, resized) = pod_with_limit(&old, "300m");
            assert_eq!(json!(resized.requests), json!({ "cpu": "150m", "memory": "32Mi" }), "{}", old.name);
            assert_eq!(entries[&uid].containers.get("main"), Some(&resized), "{} {name}", old.name);
            let named = entries.keys().map(PodUid::as_str);
            assert!(named.eq(old.pods()), "{} {name}: each pod is in it", old.name);
        }
    }
}

/// CRI-24: the record of a pull names the Secret it was made with, and written anew is the same bytes.
#[test]
fn cri_24_pull_records_of_an_old_root_directory_name_their_secrets() {
    for old in all() {
        let files = old.files_in("kubelet/image_manager/pulled");
        let [(path, text)] = files[..] else { panic!("{}: one image was pulled: {files:?}", old.name) };
        let record = PulledRecord::parse(text.as_bytes()).unwrap_or_else(|| panic!("{}: no record: {text}", old.name));
        assert_eq!(record.to_text(), text, "{}", old.name);
        let name = podwright::platform::network::tls::sha256_hex(record.image_ref.as_bytes());
        assert!(path.ends_with(&format!("/sha256-{name}")), "{}: {path}", old.name);
        let accesses: Vec<_> = record.credential_mapping.iter().collect();
        let [(image, access)] = accesses[..] else { panic!("{}: one name: {accesses:?}", old.name) };
        assert!(image.ends_with("/team/app") && !access.node_pods_accessible, "{}: {text}", old.name);
        let secrets: Vec<_> = access.kubernetes_secrets.iter().map(|one| (&*one.namespace, &*one.name)).collect();
        assert_eq!(secrets, [("default", "registry")], "{}", old.name);
        assert!(old.files_in("kubelet/image_manager/pulling").is_empty(), "{}: no pull was cut off", old.name);
    }
}

/// RES-50: there were no claims. Ours has no file before the first one.
#[test]
fn res_50_claims_of_an_old_root_directory_are_read() {
    for old in all() {
        let Some(text) = old.text("kubelet/dra_manager_state") else {
            assert_eq!(old.maker.made_by, "podwright", "{}", old.name);
            continue;
        };
        let book = checkpoint::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", old.name));
        assert_eq!(book.all().count(), 0, "{}", old.name);
        assert_eq!(checkpoint::print(&book), text.as_bytes(), "{}", old.name);
    }
}

/// PAIN-16: the readiness probe keeps its result. Upstream has no such file.
#[test]
fn probe_results_of_an_older_version_are_read() {
    for old in OldRoot::made_by("podwright") {
        let memory = ProbeMemory::parse(text(&old, "probe_results.json").as_bytes());
        let (uid, _) = pod_with_limit(&old, "300m");
        let results: Vec<_> = memory.of(&uid).values().map(|one| one.result).collect();
        assert_eq!(results, [Some(true)], "{}", old.name);
    }
}
