//! Resizes that this node never makes (RES-56, RES-68).

use k8s_openapi::api::core::v1::ContainerResizePolicy;

use super::*;

const PINNED: ResizeGates = ResizeGates { cpus_pinned: true, memory_pinned: true, ..GATES };

fn detail(desired: &Pod, allocated: &Pod, gates: &ResizeGates, options: &ResourceOptions) -> Option<&'static str> {
    infeasible(desired, allocated, gates, options).map(|never| never.detail)
}

fn swapping() -> ResourceOptions {
    ResourceOptions { limited_swap: Some(1 << 30), swap_controller: true, ..ResourceOptions::default() }
}

/// RES-56.
#[test]
fn each_refusal_has_upstreams_sentence_and_label() {
    let options = ResourceOptions::default();
    let off = ResizeGates { by_pod: false, ..GATES };
    let (small, large) = (pod("memory=64Mi", "memory=128Mi"), pod("memory=96Mi", "memory=128Mi"));
    for (desired, allocated, gates, options, label, sentence) in [
        (
            guaranteed("cpu=2,memory=1Gi"),
            guaranteed("cpu=1,memory=1Gi"),
            PINNED,
            options,
            "guaranteed_pod_cpu_manager_static_policy",
            "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"",
        ),
        (
            guaranteed("cpu=1,memory=2Gi"),
            guaranteed("cpu=1,memory=1Gi"),
            PINNED,
            options,
            "guaranteed_pod_memory_manager_static_policy",
            "Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"Static\"",
        ),
        (
            large,
            small.clone(),
            GATES,
            swapping(),
            "swap_limitation",
            "In-place resize of containers with swap is not supported.",
        ),
        (
            with_own(small.clone(), "cpu=2", ""),
            small,
            off,
            options,
            "plr_feature_gate_off",
            "InPlacePodLevelResourcesVerticalScaling is disabled",
        ),
    ] {
        let never = infeasible(&desired, &allocated, &gates, &options).expect("never");
        assert_eq!((never.detail, never.message.as_str()), (label, sentence));
    }
}

/// A pod of class `Guaranteed` keeps what static managers gave it, each of its own resource, and other classes have
/// nothing of their own.
#[test]
fn static_managers_hold_their_own_resource_of_guaranteed_pods() {
    let options = ResourceOptions::default();
    let cpus = ResizeGates { memory_pinned: false, ..PINNED };
    let memory = ResizeGates { cpus_pinned: false, ..PINNED };
    let (cpu_word, memory_word) =
        ("guaranteed_pod_cpu_manager_static_policy", "guaranteed_pod_memory_manager_static_policy");
    let base = guaranteed("cpu=1,memory=1Gi");
    for (desired, gates, expected) in [
        (guaranteed("cpu=2,memory=1Gi"), GATES, None),
        (guaranteed("cpu=2,memory=1Gi"), cpus, Some(cpu_word)),
        (guaranteed("cpu=500m,memory=1Gi"), cpus, Some(cpu_word)),
        (guaranteed("cpu=2,memory=1Gi"), memory, None),
        (guaranteed("cpu=1,memory=2Gi"), cpus, None),
        (guaranteed("cpu=1,memory=512Mi"), memory, Some(memory_word)),
        (guaranteed("cpu=2,memory=2Gi"), PINNED, Some(cpu_word)),
        (guaranteed("cpu=1000m,memory=1024Mi"), PINNED, None),
        (pod("cpu=2,memory=2Gi", "cpu=4,memory=4Gi"), PINNED, None),
        (pod("", ""), PINNED, None),
    ] {
        assert_eq!(detail(&desired, &base, &gates, &options), expected, "{desired:?}");
    }
}

/// With init containers the gate decides whether a change in one of them counts; sidecars always do.
#[test]
fn init_containers_of_guaranteed_pods_count_where_they_are_resized() {
    let options = ResourceOptions::default();
    let all = "cpu=1,memory=1Gi";
    let with = |init: &str, side: &str| {
        with_inits(guaranteed(all), vec![container("i", init, init), sidecar("s", side, side)])
    };
    let more = "cpu=2,memory=1Gi";
    let off = ResizeGates { init_containers: false, ..PINNED };
    let word = Some("guaranteed_pod_cpu_manager_static_policy");
    assert_eq!(detail(&with(more, all), &with(all, all), &PINNED, &options), word);
    assert_eq!(detail(&with(more, all), &with(all, all), &off, &options), None);
    assert_eq!(detail(&with(all, more), &with(all, all), &off, &options), word);
}

fn policy(resource: &str, restart: &str) -> ContainerResizePolicy {
    ContainerResizePolicy { resource_name: resource.to_owned(), restart_policy: restart.to_owned() }
}

/// RES-68: the share of swap follows from the memory request, and cannot be changed while a container runs.
#[test]
fn memory_of_containers_that_swap_is_resized_with_a_restart_alone() {
    let of = |request: &str, policies: Vec<ContainerResizePolicy>| {
        let mut pod = pod(&format!("cpu=1,memory={request}"), "memory=128Mi");
        spec(&mut pod).containers[0].resize_policy = Some(policies);
        pod
    };
    let refused = Some("swap_limitation");
    for (policies, expected) in [
        (vec![], refused),
        (vec![policy("memory", "NotRequired")], refused),
        (vec![policy("cpu", "RestartContainer")], refused),
        (vec![policy("memory", "RestartContainer")], None),
        (vec![policy("cpu", "NotRequired"), policy("memory", "RestartContainer")], None),
    ] {
        for (old, new) in [("64Mi", "96Mi"), ("96Mi", "64Mi")] {
            let (desired, allocated) = (of(new, policies.clone()), of(old, policies.clone()));
            assert_eq!(detail(&desired, &allocated, &GATES, &swapping()), expected, "{policies:?} {old} {new}");
        }
        let same = of("64Mi", policies.clone());
        assert_eq!(detail(&same, &same, &GATES, &swapping()), None);
    }
}

/// Not every container swaps, and not on every node.
#[test]
fn swap_is_no_obstacle_where_there_is_none() {
    let on = swapping();
    let critical = |mut pod: Pod| {
        spec(&mut pod).priority_class_name = Some("system-node-critical".to_owned());
        spec(&mut pod).priority = Some(2_000_001_000);
        pod
    };
    let of = |request: &str| pod(&format!("memory={request}"), "memory=128Mi");
    for (desired, allocated, options, expected) in [
        (of("96Mi"), of("64Mi"), on, Some("swap_limitation")),
        (of("96Mi"), of("64Mi"), ResourceOptions { limited_swap: None, ..on }, None),
        (of("96Mi"), of("64Mi"), ResourceOptions { swap_controller: false, ..on }, None),
        (of("96Mi"), of("64Mi"), ResourceOptions { cgroup_version: CgroupVersion::V1, ..on }, None),
        (critical(of("96Mi")), critical(of("64Mi")), on, None),
        // Guaranteed pods do not swap.
        (guaranteed("cpu=1,memory=96Mi"), guaranteed("cpu=1,memory=64Mi"), on, None),
        // A container whose request is its limit does not swap, neither before nor after.
        (pod("memory=96Mi", "memory=96Mi"), pod("memory=64Mi", "memory=64Mi"), on, None),
        // It swaps after, or it did before: each is enough.
        (pod("memory=64Mi", "memory=96Mi"), pod("memory=96Mi", "memory=96Mi"), on, Some("swap_limitation")),
        (pod("memory=96Mi", "memory=96Mi"), pod("memory=64Mi", "memory=96Mi"), on, Some("swap_limitation")),
        (pod("cpu=2,memory=64Mi", "memory=128Mi"), pod("cpu=1,memory=64Mi", "memory=128Mi"), on, None),
        // The limit alone does not count: the share follows from the request.
        (pod("memory=64Mi", "memory=256Mi"), pod("memory=64Mi", "memory=128Mi"), on, None),
    ] {
        assert_eq!(detail(&desired, &allocated, &GATES, &options), expected, "{desired:?} {allocated:?}");
    }
    let inits = |request: &str| with_inits(of("64Mi"), vec![sidecar("s", request, "memory=1Gi")]);
    assert_eq!(detail(&inits("memory=2Mi"), &inits("memory=1Mi"), &GATES, &on), Some("swap_limitation"));
    let named = |name: &str, request: &str| pod_of(vec![container(name, request, "memory=1Gi")]);
    assert_eq!(detail(&named("b", "memory=2Mi"), &named("a", "memory=1Mi"), &GATES, &on), None, "another container");
}

/// Resources of pods count where a pod has some and their gate is on; then room decides.
#[test]
fn resources_of_pods_are_resized_behind_their_gate() {
    let off = ResizeGates { by_pod: false, ..GATES };
    let options = ResourceOptions::default();
    let of = |own: &str| with_own(pod("cpu=100m", ""), own, "");
    for (new, old, gates, expected) in [
        ("cpu=2", "cpu=1", off, Some("plr_feature_gate_off")),
        ("cpu=1000m", "cpu=1", off, None),
        ("cpu=2", "cpu=1", GATES, None),
    ] {
        assert_eq!(detail(&of(new), &of(old), &gates, &options), expected, "{new} {old}");
    }
    // Its containers are resized beside it, whatever the gate.
    let of = |cpu: &str| with_own(pod(cpu, ""), "cpu=2", "");
    assert_eq!(detail(&of("cpu=2"), &of("cpu=1"), &off, &options), None);
}
