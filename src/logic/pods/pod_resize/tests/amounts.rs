//! CPU and memory of containers as numbers.

use proptest::prelude::*;

use super::*;
use crate::logic::model::runtime_pod::RuntimeResources;

#[test]
fn a_container_without_a_limit_has_its_pods() {
    let of = |requests, limits, of_pod: &str, by_pod| {
        let (own, pod) = (requirements(requests, limits), requirements("cpu=7", of_pod));
        let amounts = container_amounts(Some(&own), Some(&pod), by_pod);
        [amounts.cpu_request, amounts.cpu_limit, amounts.memory_request, amounts.memory_limit]
    };
    for (requests, limits, of_pod, by_pod, expected) in [
        ("cpu=100m,memory=1Ki", "cpu=200m,memory=2Ki", "", true, [100, 200, 1024, 2048]),
        ("", "", "", true, [0, 0, 0, 0]),
        ("", "", "cpu=1,memory=4Ki", true, [0, 1000, 0, 4096]),
        ("", "", "cpu=1,memory=4Ki", false, [0, 0, 0, 0]),
        ("", "cpu=300m", "cpu=1,memory=4Ki", true, [0, 300, 0, 4096]),
        ("cpu=1", "cpu=0", "cpu=2", true, [1000, 2000, 0, 0]),
        // Half a byte and the tenth of a thousandth count in full.
        ("cpu=0.1m,memory=0.5", "", "", true, [1, 0, 1, 0]),
    ] {
        assert_eq!(of(requests, limits, of_pod, by_pod), expected, "{requests} {limits} {of_pod}");
    }
    assert_eq!(container_amounts(None, None, true), Amounts::default());
}

#[test]
fn a_container_is_made_with_the_limits_that_hold_for_it() {
    for (limits, of_pod, by_pod, expected) in [
        ("", "cpu=1,memory=4Ki", true, "cpu=1,memory=4Ki"),
        ("", "cpu=1,memory=4Ki", false, ""),
        ("cpu=300m", "cpu=1,memory=4Ki", true, "cpu=300m,memory=4Ki"),
        ("cpu=0", "cpu=1", true, "cpu=1"),
        ("cpu=0", "cpu=0", true, "cpu=0"),
        ("cpu=300m", "hugepages-2Mi=4Mi", true, "cpu=300m"),
    ] {
        let pod = with_own(pod("cpu=100m", limits), "cpu=2", of_pod);
        let container = &pod.spec.as_ref().expect("a spec").containers[0];
        let made = effective_requirements(&pod, container, by_pod);
        assert_eq!(made, requirements("cpu=100m", expected), "{limits} {of_pod} {by_pod}");
        // The numbers that are compared are those that it is made with.
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let compared = container_amounts(container.resources.as_ref(), own, by_pod);
        assert_eq!(container_amounts(Some(&made), None, by_pod), compared, "{limits} {of_pod} {by_pod}");
    }
}

#[test]
fn the_runtimes_own_figures_tell_what_is_in_force() {
    let options = ResourceOptions::default();
    let wanted = Amounts { cpu_request: 100, cpu_limit: 250, memory_request: 5, memory_limit: 1 << 26 };
    let told = RuntimeResources { cpu_request: Some(100), cpu_limit: Some(250), memory_limit: Some(1 << 26) };
    let unquoted = ResourceOptions { cpu_cfs_quota: false, ..options };
    for (wanted, told, options, same) in [
        (wanted, told, options, true),
        (Amounts { cpu_request: 200, ..wanted }, told, options, false),
        (Amounts { cpu_limit: 260, ..wanted }, told, options, false),
        (Amounts { memory_limit: 0, ..wanted }, told, options, false),
        (Amounts { memory_limit: (1 << 26) + 4096, ..wanted }, told, options, false),
        // The kernel knows no requests of memory.
        (Amounts { memory_request: 6, ..wanted }, told, options, true),
        // A container without a request has the share of its limit.
        (Amounts { cpu_request: 0, ..wanted }, RuntimeResources { cpu_request: Some(250), ..told }, options, true),
        (wanted, told, unquoted, false),
        (wanted, RuntimeResources { cpu_limit: None, ..told }, unquoted, true),
        // Less than a thousandth of a second of a period cannot be written.
        (Amounts { cpu_limit: 5, ..wanted }, RuntimeResources { cpu_limit: Some(10), ..told }, options, true),
        (wanted, RuntimeResources { cpu_limit: None, ..told }, options, false),
        (wanted, RuntimeResources { memory_limit: None, ..told }, options, false),
        // No request is two shares.
        (Amounts::default(), RuntimeResources { cpu_request: Some(2), ..RuntimeResources::default() }, options, true),
        (Amounts::default(), RuntimeResources::default(), options, false),
    ] {
        assert_eq!(matches_runtime(wanted, &told, &options), same, "{wanted:?} {told:?}");
    }
}

#[test]
fn one_resource_changes_while_the_other_stays() {
    let (old, new) = (amounts(100, 10), amounts(200, 20));
    let half = old.with(UpdateOf::Memory, new);
    assert_eq!((half.cpu_request, half.cpu_limit), (100, 100));
    assert_eq!((half.memory_request, half.memory_limit), (20, 20));
    assert_eq!(half.with(UpdateOf::Cpu, new), new);
    assert_eq!(old.with(UpdateOf::Cpu, new).memory_limit, 10);
}

proptest! {
    #[test]
    fn requirements_with_amounts_have_these_amounts(
        cpu in 0_i64..10_000, more_cpu in 0_i64..10_000, memory in 0_i64..1 << 40, more_memory in 0_i64..1 << 40,
    ) {
        let wanted =
            Amounts { cpu_request: cpu, cpu_limit: more_cpu, memory_request: memory, memory_limit: more_memory };
        let made = with_amounts(&requirements("cpu=7,x.y/z=1", "memory=1Ki,hugepages-2Mi=4Mi"), wanted);
        prop_assert_eq!(container_amounts(Some(&made), None, true), wanted);
        prop_assert!(made.limits.is_some_and(|limits| limits.contains_key("hugepages-2Mi")));
        prop_assert!(made.requests.is_some_and(|requests| requests.contains_key("x.y/z")));
    }
}
