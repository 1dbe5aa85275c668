//! Cases of what the node has and what pods may use.

use proptest::prelude::*;

use super::*;
use crate::logic::resources::device_manager::devices::{Device, PluginOptions, ResourceDevices};

const GIB: i64 = 1 << 30;

fn machine() -> Machine {
    Machine { cpus: 4, memory_bytes: 8 * GIB, ..Machine::default() }
}

fn settings() -> CapacitySettings {
    CapacitySettings { max_pods: 110, local_storage: true, ..CapacitySettings::default() }
}

fn list(pairs: &[(&str, &str)]) -> ResourceList {
    let parse = |text: &str| Quantity::parse(text).expect("a quantity");
    pairs.iter().map(|(name, text)| ((*name).to_owned(), parse(text))).collect()
}

fn texts(list: Option<&BTreeMap<String, ApiQuantity>>) -> BTreeMap<&str, &str> {
    list.into_iter().flatten().map(|(name, amount)| (&**name, &*amount.0)).collect()
}

fn quantities(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, ApiQuantity>> {
    Some(pairs.iter().map(|(name, text)| ((*name).to_owned(), ApiQuantity((*text).to_owned()))).collect())
}

/// NODE-15, NODE-16.
#[test]
fn the_machine_is_told_as_upstream_tells_it() {
    let machine = Machine { hugepages: [(2 << 20, 8), (1 << 30, 0)].into(), ..machine() };
    let mut status = NodeStatus::default();
    set(&mut status, &settings(), Some(&machine), Some(100 * GIB + 1), &DeviceResources::default());
    let expected = [
        ("cpu", "4"),
        ("ephemeral-storage", "107374182401"),
        ("hugepages-1Gi", "0"),
        ("hugepages-2Mi", "16Mi"),
        ("memory", "8Gi"),
        ("pods", "110"),
    ];
    assert_eq!(texts(status.capacity.as_ref()), expected.into());
    let allocatable = texts(status.allocatable.as_ref());
    assert_eq!((allocatable["memory"], allocatable["hugepages-2Mi"]), ("8176Mi", "16Mi"), "pages are not memory");
}

/// VOL-25.
#[test]
fn what_pods_may_use_is_known_before_there_is_a_node() {
    let settings = CapacitySettings {
        reserved: list(&[("memory", "1Gi")]),
        eviction_memory: Portion::parse("100Mi"),
        eviction_storage: Portion::parse("50Gi"),
        ..settings()
    };
    let machine = Machine { hugepages: [(2 << 20, 8)].into(), ..machine() };
    let found = allocatable(&settings, &machine, Some(100 * GIB));
    let expected =
        [("cpu", "4"), ("ephemeral-storage", "50Gi"), ("hugepages-2Mi", "16Mi"), ("memory", "7052Mi"), ("pods", "110")];
    let found: Vec<(&str, i64)> = found.iter().map(|(name, amount)| (name.as_str(), amount.value())).collect();
    let expected = list(&expected);
    assert_eq!(found, expected.iter().map(|(name, amount)| (name.as_str(), amount.value())).collect::<Vec<_>>());
}

/// NODE-16.
#[test]
fn reservations_and_thresholds_are_taken_off() {
    let settings = CapacitySettings {
        reserved: list(&[("cpu", "250m"), ("memory", "1Gi"), ("pid", "100"), ("pods", "10")]),
        eviction_memory: Portion::parse("100Mi"),
        eviction_storage: Portion::parse("10%"),
        ..settings()
    };
    let mut status = NodeStatus::default();
    set(&mut status, &settings, Some(&machine()), Some(100_000_000_000), &DeviceResources::default());
    let allocatable = texts(status.allocatable.as_ref());
    assert_eq!((allocatable["cpu"], allocatable["memory"], allocatable["pods"]), ("3750m", "7068Mi", "110"));
    // A tenth in single precision is a little more than a tenth.
    assert_eq!(allocatable["ephemeral-storage"], "89999999851");
    assert!(!allocatable.contains_key("pid"), "process numbers never show");
}

/// NODE-16.
#[test]
fn nothing_is_ever_below_zero() {
    let settings = CapacitySettings { reserved: list(&[("cpu", "8"), ("memory", "9Gi")]), ..settings() };
    let machine = Machine { hugepages: [(1 << 30, 100)].into(), ..machine() };
    let mut status = NodeStatus::default();
    set(&mut status, &settings, Some(&machine), None, &DeviceResources::default());
    let allocatable = texts(status.allocatable.as_ref());
    assert_eq!((allocatable["cpu"], allocatable["memory"]), ("0", "0"));
}

/// NODE-15.
#[test]
fn pods_are_bounded_by_cores_where_asked() {
    for (per_core, max, pods) in [(0, 110, "110"), (10, 110, "40"), (100, 110, "110")] {
        let settings = CapacitySettings { pods_per_core: per_core, max_pods: max, ..settings() };
        let mut status = NodeStatus::default();
        set(&mut status, &settings, Some(&machine()), None, &DeviceResources::default());
        assert_eq!(texts(status.capacity.as_ref())["pods"], pods);
    }
}

#[test]
fn what_is_not_known_is_missing() {
    let mut status = NodeStatus::default();
    assert_eq!(missing(&status, true), ["cpu", "memory", "pods", "ephemeral-storage"]);
    set(&mut status, &settings(), None, None, &DeviceResources::default());
    assert_eq!(texts(status.capacity.as_ref()), [("cpu", "0"), ("memory", "0"), ("pods", "110")].into());
    assert_eq!(missing(&status, true), ["ephemeral-storage"]);
    assert_eq!(missing(&status, false), [""; 0]);
    let without = CapacitySettings { local_storage: false, ..settings() };
    set(&mut status, &without, Some(&machine()), Some(GIB), &DeviceResources::default());
    assert!(!texts(status.capacity.as_ref()).contains_key("ephemeral-storage"));
}

#[test]
fn what_others_patched_in_stays_and_is_all_allocatable() {
    let mut status = NodeStatus {
        capacity: quantities(&[("example.com/dongle", "3"), ("cpu", "4000m"), ("odd", "x")]),
        allocatable: quantities(&[("example.com/dongle", "1"), ("example.com/gone", "2"), ("kept", "1")]),
        ..NodeStatus::default()
    };
    set(&mut status, &settings(), Some(&machine()), None, &DeviceResources::default());
    let (capacity, allocatable) = (texts(status.capacity.as_ref()), texts(status.allocatable.as_ref()));
    assert_eq!((capacity["example.com/dongle"], allocatable["example.com/dongle"]), ("3", "3"));
    assert_eq!((capacity["odd"], allocatable["odd"]), ("x", "x"));
    assert_eq!(capacity["cpu"], "4000m", "the same amount in another notation is no change");
    assert!(!allocatable.contains_key("example.com/gone") && allocatable.contains_key("kept"), "{allocatable:?}");
}

#[test]
fn devices_are_counted_and_lost_ones_are_zero() {
    let devices = DeviceResources {
        capacity: list(&[("example.com/gpu", "4")]),
        allocatable: list(&[("example.com/gpu", "3")]),
        removed: ["example.com/nic".to_owned()].into(),
    };
    let mut status = NodeStatus { capacity: quantities(&[("example.com/nic", "2")]), ..NodeStatus::default() };
    set(&mut status, &settings(), Some(&machine()), None, &devices);
    let (capacity, allocatable) = (texts(status.capacity.as_ref()), texts(status.allocatable.as_ref()));
    assert_eq!((capacity["example.com/gpu"], allocatable["example.com/gpu"]), ("4", "3"));
    assert_eq!((capacity["example.com/nic"], allocatable["example.com/nic"]), ("0", "0"));
}

/// RES-40, RES-43: a plugin that is gone leaves its resource with 0 of it that may be given, and later with 0 in all. A resource that an
/// administrator gave the Node stays.
#[test]
fn every_device_counts_and_healthy_ones_may_be_given() {
    let device = |health| Device { health, nodes: BTreeSet::new() };
    let (healthy, ill) = (device(Health::Healthy), device(Health::Unhealthy));
    let resource = |devices: Vec<Device>, session| {
        let devices = devices.into_iter().enumerate().map(|(number, device)| (format!("d{number}"), device)).collect();
        ResourceDevices { devices, options: PluginOptions::default(), session }
    };
    let inventory: Inventory = [
        ("example.com/live", resource(vec![healthy.clone(), healthy, ill.clone()], Session::Live)),
        ("example.com/none", resource(vec![], Session::Live)),
        ("example.com/stopped", resource(vec![ill.clone(), ill.clone()], Session::Stopped)),
        ("example.com/forgotten", resource(vec![ill.clone(), ill], Session::Forgotten)),
    ]
    .into_iter()
    .map(|(name, devices)| (name.to_owned(), devices))
    .collect();
    let before = quantities(&[("example.com/forgotten", "2"), ("example.com/patched", "7")]);
    let mut status = NodeStatus { capacity: before, ..NodeStatus::default() };
    set(&mut status, &settings(), Some(&machine()), None, &DeviceResources::of(&inventory));
    let (capacity, allocatable) = (texts(status.capacity.as_ref()), texts(status.allocatable.as_ref()));
    let amounts = |name: &str| (capacity[name], allocatable[name]);
    assert_eq!(amounts("example.com/live"), ("3", "2"));
    assert_eq!(amounts("example.com/none"), ("0", "0"));
    assert_eq!(amounts("example.com/stopped"), ("2", "0"));
    assert_eq!(amounts("example.com/forgotten"), ("0", "0"));
    assert_eq!(amounts("example.com/patched"), ("7", "7"));
}

#[test]
fn thresholds_are_read_as_amounts_or_shares() {
    assert_eq!(Portion::parse("15%"), Some(Portion::Share(0.15)));
    assert_eq!(Portion::parse("1Gi"), Some(Portion::Amount(Quantity::from_units(GIB, Format::BinarySi))));
    for off in ["0%", "100%", "x", ""] {
        assert_eq!(Portion::parse(off), None, "{off}");
    }
}

#[test]
fn what_is_made_of_an_amount_does_not_depend_on_how_it_was_written() {
    // 58 % of bytes that no power of 1024 divides.
    let settings = CapacitySettings { eviction_memory: Portion::parse("58%"), ..settings() };
    let machine = Machine { cpus: 1, memory_bytes: 20_481_069_298_696, ..Machine::default() };
    let mut status = NodeStatus::default();
    let mut told = || {
        set(&mut status, &settings, Some(&machine), Some(GIB), &DeviceResources::default());
        status.allocatable.clone()
    };
    assert_eq!(told(), told());
}

proptest! {
    #[test]
    fn pods_may_never_use_more_than_there_is(
        cpus in 1_i64..512,
        memory in 0_i64..1 << 45,
        reserved_cpu in 0_i64..10_000,
        reserved_memory in 0_i64..1 << 45,
        percent in 0_u32..100,
        pages in 0_u64..1 << 20,
    ) {
        let settings = CapacitySettings {
            reserved: [
                (CPU.to_owned(), Quantity::from_milli(reserved_cpu)),
                (MEMORY.to_owned(), Quantity::from_units(reserved_memory, Format::BinarySi)),
            ]
            .into(),
            eviction_memory: Portion::parse(&format!("{percent}%")),
            ..settings()
        };
        let machine =
            Machine { cpus, memory_bytes: memory, hugepages: [(2 << 20, pages)].into(), ..Machine::default() };
        let mut status = NodeStatus::default();
        set(&mut status, &settings, Some(&machine), Some(GIB), &DeviceResources::default());
        let amount = |text: &str| Quantity::parse(text).expect("a quantity");
        let (capacity, allocatable) = (texts(status.capacity.as_ref()), texts(status.allocatable.as_ref()));
        prop_assert_eq!(capacity.len(), allocatable.len());
        for (name, all) in &capacity {
            let part = amount(allocatable[name]);
            prop_assert!(!part.is_negative() && part <= amount(all), "{}: {} of {}", name, part, all);
        }
        let before = status.clone();
        set(&mut status, &settings, Some(&machine), Some(GIB), &DeviceResources::default());
        prop_assert_eq!(status, before, "the same facts give the same status");
    }
}
