//! Tables and properties of in-place resize.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ContainerResizePolicy, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::logic::model::ids::PodUid;
use crate::logic::model::runtime_pod::RuntimeResources;
use crate::logic::model::time::Moment;
use crate::logic::resources::{CgroupVersion, ResourceOptions};

const GATES: ResizeGates =
    ResizeGates { by_pod: true, init_containers: true, cpus_pinned: false, memory_pinned: false };

fn list(text: &str) -> Option<BTreeMap<String, ApiQuantity>> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let list: BTreeMap<_, _> = pairs.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned()))).collect();
    (!list.is_empty()).then_some(list)
}

fn requirements(requests: &str, limits: &str) -> ResourceRequirements {
    ResourceRequirements { requests: list(requests), limits: list(limits), claims: None }
}

fn container(name: &str, requests: &str, limits: &str) -> Container {
    Container { name: name.to_owned(), resources: Some(requirements(requests, limits)), ..Container::default() }
}

fn pod_of(containers: Vec<Container>) -> Pod {
    let metadata = ObjectMeta { generation: Some(3), ..ObjectMeta::default() };
    Pod { metadata, spec: Some(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() }
}

fn pod(requests: &str, limits: &str) -> Pod {
    pod_of(vec![container("a", requests, limits)])
}

fn uid(name: &str) -> PodUid {
    PodUid::from(name)
}

fn at(seconds: i64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

// ------------------------------------------------------------ checkpoint

/// RES-55: upstream's text and upstream's sum, so that either agent goes on from what the other wrote.
#[test]
fn a_checkpoint_has_upstreams_form() {
    let entries = BTreeMap::from([(
        uid("pod-1"),
        PodResources {
            containers: Arc::new([("c".to_owned(), requirements("cpu=1", ""))].into_iter().collect()),
            pod: None,
        },
    )]);
    let text = String::from_utf8(print_checkpoint(&entries)).expect("text");
    let data = r#"{\"entries\":{\"pod-1\":{\"ContainerResources\":{\"c\":{\"requests\":{\"cpu\":\"1\"}}},\"PodLevelResources\":null}}}"#;
    assert!(text.starts_with(&format!(r#"{{"data":"{data}","checksum":"#)), "{text}");
    assert_eq!(parse_checkpoint(text.as_bytes()), Ok(entries));
    // The vector of the reference, and what upstream writes of a Go map without entries.
    assert_eq!(parse_checkpoint(br#"{"data":"{\"entries\":{}}","checksum":1057365947}"#), Ok(BTreeMap::new()));
    assert!(print_checkpoint(&BTreeMap::new()).starts_with(br#"{"data":"{}","checksum":"#));
}

#[test]
fn what_another_agent_left_out_is_nothing() {
    let data = r#"{"entries":{"p":{"ContainerResources":null,"PodLevelResources":{"limits":{"cpu":"2"}}}}}"#;
    let sum = u64::from(crate::logic::formats::fnv::fnv1a(format!("(string){data}").as_bytes()));
    let text = json!({ "data": data, "checksum": sum }).to_string();
    let expected = PodResources { containers: Arc::default(), pod: Some(requirements("", "cpu=2")) };
    assert_eq!(parse_checkpoint(text.as_bytes()), Ok(BTreeMap::from([(uid("p"), expected)])));
}

/// SEC-58.
#[test]
fn a_checkpoint_with_a_flipped_bit_is_not_believed() {
    let resources = PodResources {
        containers: Arc::new([("c".to_owned(), requirements("cpu=1", ""))].into_iter().collect()),
        pod: None,
    };
    let good = print_checkpoint(&BTreeMap::from([(uid("p"), resources)]));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        // A bit in the name of a field that is not read changes nothing; none may change what is read.
        if let Ok(read) = parse_checkpoint(&bad) {
            assert_eq!(Ok(read), parse_checkpoint(&good), "bit of byte {at}");
        }
    }
    assert!(parse_checkpoint(b"").is_err() && parse_checkpoint(b"[]").is_err());
}

// ------------------------------------------------------------ allocation

#[test]
fn a_pod_with_its_allocation_has_what_it_was_given_and_all_else_as_it_is() {
    let before = pod("cpu=100m,memory=64Mi", "cpu=200m");
    let given = allocation_of(&before, &GATES);
    let mut after = pod("cpu=300m,memory=64Mi", "cpu=400m");
    after.spec.as_mut().expect("a spec").containers[0].image = Some("app:2".to_owned());
    let after = Arc::new(after);
    let held = with_allocation(&after, &given, &GATES);
    let container = &held.spec.as_ref().expect("a spec").containers[0];
    assert_eq!(container.resources, Some(requirements("cpu=100m,memory=64Mi", "cpu=200m")));
    assert_eq!(container.image.as_deref(), Some("app:2"));
    // An amount that is only written in another way is the same.
    let same = Arc::new(pod("cpu=0.1,memory=65536Ki", "cpu=0.2"));
    assert!(Arc::ptr_eq(&with_allocation(&same, &given, &GATES), &same));
}

#[test]
fn ordinary_init_containers_are_resized_behind_their_gate_and_sidecars_always() {
    let mut pod = pod("cpu=1", "");
    let sidecar = Container { restart_policy: Some("Always".to_owned()), ..container("s", "cpu=1", "") };
    pod.spec.as_mut().expect("a spec").init_containers = Some(vec![container("i", "cpu=1", ""), sidecar]);
    let names = |gates: ResizeGates| allocation_of(&pod, &gates).containers.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(GATES), ["a", "i", "s"]);
    assert_eq!(names(ResizeGates { init_containers: false, ..GATES }), ["a", "s"]);
}

#[test]
fn a_resize_is_in_force_for_others_once_it_was_kept() {
    let (uid, mut all) = (uid("p"), Allocations::default());
    let (old, new) = (Arc::new(pod("cpu=1", "")), Arc::new(pod("cpu=2", "")));
    assert!(all.recall(&BTreeMap::new()) && !all.recall(&BTreeMap::new()));
    all.admit(&uid, &old, &GATES);
    let first = all.to_keep();
    assert_eq!(first.len(), 1);
    assert_eq!(all.kept(&first), []);
    assert!(all.to_keep().is_empty() && all.is_asked(&uid, &new, &GATES));
    let cpu = |pod: &Arc<Pod>| pod.spec.as_ref().expect("a spec").containers[0].resources.clone();
    all.accept(&uid, &new, &GATES, Trigger::PodUpdated);
    assert_eq!(cpu(&all.in_force(&uid, &new, &GATES)), cpu(&old));
    assert_eq!(cpu(&all.counted(&uid, &new, &GATES)), cpu(&new));
    all.not_kept();
    assert_eq!(cpu(&all.counted(&uid, &new, &GATES)), cpu(&old));
    all.accept(&uid, &new, &GATES, Trigger::PodUpdated);
    let kept = all.to_keep();
    assert_eq!(all.kept(&kept), [(uid.clone(), None)]);
    assert_eq!(cpu(&all.in_force(&uid, &new, &GATES)), cpu(&new));
    assert!(!all.is_asked(&uid, &new, &GATES) && all.to_keep().is_empty());
    all.retain(&BTreeSet::new());
    assert_eq!(cpu(&all.in_force(&uid, &old, &GATES)), cpu(&old), "nothing is known of it any more");
}

#[test]
fn a_resize_that_waits_is_news_when_its_reason_or_generation_is_another() {
    let (uid, mut all) = (uid("p"), Allocations::default());
    let waits = |reason, message: &str, generation, since| PendingResize {
        reason,
        message: message.to_owned(),
        generation: Some(generation),
        since: at(since),
    };
    assert!(
        !all.wait(
            &uid,
            waits(PendingReason::Deferred, "full", 2, 5),
            Some(waits(PendingReason::Deferred, "full", 2, 1))
        ),
        "told before"
    );
    assert_eq!(all.waiting(&uid).map(|waiting| waiting.since), Some(at(1)));
    assert!(!all.wait(&uid, waits(PendingReason::Deferred, "fuller", 2, 6), None));
    assert_eq!(all.waiting(&uid).map(|waiting| waiting.message.as_str()), Some("fuller"));
    assert!(all.wait(&uid, waits(PendingReason::Deferred, "fuller", 3, 7), None));
    assert!(all.wait(&uid, waits(PendingReason::Infeasible, "never", 3, 8), None));
    assert_eq!(all.waiting(&uid).map(|waiting| waiting.since), Some(at(8)));
    all.changed(&uid, Some(4));
    assert!(all.waiting(&uid).is_some(), "its generation tells whether that is news");
    all.accept(&uid, &pod("cpu=1", ""), &GATES, Trigger::PodsRemoved);
    let kept = all.to_keep();
    assert_eq!(all.kept(&kept), [(uid.clone(), None)], "one that was infeasible had not been deferred");
    assert_eq!(all.waiting(&uid), None);
    let of_static_pod = PendingResize { generation: None, ..waits(PendingReason::Infeasible, "never", 0, 9) };
    assert!(all.wait(&uid, of_static_pod.clone(), None));
    assert!(!all.wait(&uid, of_static_pod.clone(), None));
    all.changed(&uid, None);
    assert!(all.wait(&uid, of_static_pod, None), "it has no generation that could be another");
}

#[test]
fn what_makes_room_is_why_resizes_are_looked_at() {
    let (small, large) = (Arc::new(pod("cpu=1", "")), Arc::new(pod("cpu=2", "")));
    let ended = Arc::new(Pod {
        status: Some(serde_json::from_value(json!({ "phase": "Succeeded" })).expect("a status")),
        ..Pod::clone(&small)
    });
    for (before, after, expected) in [
        (Some(&small), Some(&small), None),
        (Some(&small), Some(&large), Some(Trigger::PodUpdated)),
        (None, Some(&small), Some(Trigger::PodsAdded)),
        (Some(&small), Some(&ended), Some(Trigger::PodTerminated)),
        (Some(&small), None, Some(Trigger::PodsRemoved)),
    ] {
        assert_eq!(Trigger::between(before, after), expected);
    }
    assert!(Trigger::PodsRemoved < Trigger::PodsAdded, "what makes room comes first");
    assert_eq!(<&str>::from(Trigger::PeriodicRetry), "periodic_retry");
}

// ------------------------------------------------------------ judgement

fn guaranteed(amounts: &str) -> Pod {
    pod(amounts, amounts)
}

/// RES-56, RES-68.
#[test]
fn some_resizes_are_never_made() {
    let options = ResourceOptions::default();
    let swaps = ResourceOptions { limited_swap: Some(1 << 30), swap_controller: true, ..ResourceOptions::default() };
    let pinned = ResizeGates { cpus_pinned: true, memory_pinned: true, ..GATES };
    let (old, new) = (guaranteed("cpu=1,memory=1Gi"), guaranteed("cpu=2,memory=1Gi"));
    let detail = |desired: &Pod, allocated: &Pod, gates: &ResizeGates, options: &ResourceOptions| {
        infeasible(desired, allocated, gates, options).map(|never| never.detail)
    };
    assert_eq!(detail(&new, &old, &GATES, &options), None);
    assert_eq!(detail(&new, &old, &pinned, &options), Some("guaranteed_pod_cpu_manager_static_policy"));
    let more = guaranteed("cpu=1,memory=2Gi");
    assert_eq!(detail(&more, &old, &pinned, &options), Some("guaranteed_pod_memory_manager_static_policy"));
    let (small, large) = (pod("memory=64Mi", "memory=128Mi"), pod("memory=96Mi", "memory=128Mi"));
    assert_eq!(detail(&large, &small, &pinned, &options), None, "a burstable pod has nothing of its own");
    assert_eq!(detail(&large, &small, &GATES, &swaps), Some("swap_limitation"));
    let mut patient = small.clone();
    patient.spec.as_mut().expect("a spec").containers[0].resize_policy = Some(vec![ContainerResizePolicy {
        resource_name: "memory".to_owned(),
        restart_policy: "RestartContainer".to_owned(),
    }]);
    assert_eq!(detail(&large, &patient, &GATES, &swaps), None, "it is made anew with its share of swap");
    let mut whole = small.clone();
    whole.spec.as_mut().expect("a spec").resources = Some(requirements("cpu=2", ""));
    let off = ResizeGates { by_pod: false, ..GATES };
    assert_eq!(detail(&whole, &small, &off, &options), Some("plr_feature_gate_off"));
    let never = infeasible(&new, &old, &pinned, &options).expect("never");
    assert_eq!(never.message, "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"");
}

#[test]
fn resizes_are_looked_at_in_upstreams_order() {
    let candidate = |name: &str, increase, priority, guaranteed, since: Option<i64>| Candidate {
        uid: uid(name),
        increase,
        priority,
        guaranteed,
        since: since.map(at),
    };
    let all = vec![
        candidate("new", true, 0, false, None),
        candidate("late", true, 0, false, Some(20)),
        candidate("early", true, 0, false, Some(10)),
        candidate("guaranteed", true, 0, true, None),
        candidate("important", true, 5, false, None),
        candidate("smaller", false, -5, false, None),
    ];
    let order: Vec<String> = in_order(all).iter().map(ToString::to_string).collect();
    assert_eq!(order, ["smaller", "important", "guaranteed", "early", "late", "new"]);
}

/// OBS-08.
#[test]
fn each_amount_that_changes_is_an_operation() {
    let found = operations(&pod("cpu=1,memory=1Gi", "cpu=2"), &pod("cpu=500m,memory=2Gi", "memory=4Gi"), &GATES);
    let texts: Vec<String> =
        found.iter().map(|one| format!("{} {} {}", one.resource, one.requirement, one.operation)).collect();
    assert_eq!(texts, ["memory requests increase", "memory limits add", "cpu requests decrease", "cpu limits remove"]);
    assert_eq!(operations(&pod("cpu=1", ""), &pod("cpu=1000m", ""), &GATES), []);
}

#[test]
fn a_pod_that_is_being_made_smaller_takes_its_room_until_it_is() {
    let mut shrinking = pod("cpu=100m,memory=64Mi", "");
    let told = json!({ "containerStatuses": [{ "name": "a", "image": "", "imageID": "", "ready": true,
        "restartCount": 0, "resources": { "requests": { "cpu": "1", "memory": "32Mi" } } }] });
    shrinking.status = Some(serde_json::from_value(told).expect("a status"));
    let counted = counted_with_actual(&Arc::new(shrinking));
    let resources = counted.spec.as_ref().expect("a spec").containers[0].resources.clone();
    assert_eq!(resources, Some(requirements("cpu=1,memory=64Mi", "")));
}

// ------------------------------------------------------------ conditions

/// POD-26.
#[test]
fn a_resize_is_told_from_its_beginning_to_its_end() {
    let pending = PendingResize {
        reason: PendingReason::Deferred,
        message: "full".to_owned(),
        generation: Some(2),
        since: at(1),
    };
    let mut told = ResizeConditions { pending: Some(pending), progress: None };
    told.begin(Some(3), at(2));
    assert_eq!(told.pending, None);
    assert_eq!(told.note(false, Some(4), at(3)), None);
    assert_eq!(told.fail("busy", Some(4), at(4)), Some(Some(3)), "the generation of its beginning");
    assert_eq!(told.fail("busy", Some(4), at(5)), None, "no news");
    assert_eq!(told.fail("still busy", Some(4), at(6)), Some(Some(3)));
    let shown = &told.conditions()[0];
    assert_eq!((shown.type_.as_str(), shown.reason.as_deref()), (PROGRESS, Some("Error")));
    assert_eq!((shown.message.as_deref(), shown.observed_generation), (Some("still busy"), Some(3)));
    assert_eq!(shown.last_transition_time.as_ref().map(|time| Moment::from_timestamp(time.0)), Some(at(4)));
    let status = k8s_openapi::api::core::v1::PodStatus {
        conditions: Some(told.conditions()),
        ..k8s_openapi::api::core::v1::PodStatus::default()
    };
    assert_eq!(ResizeConditions::of_status(&status), told, "a restart of the agent changes nothing");
    assert_eq!(told.note(true, Some(4), at(7)), Some(Some(3)));
    assert_eq!(told.note(true, Some(4), at(8)), None);
    assert_eq!(told.conditions(), []);
}

#[test]
fn events_say_what_upstreams_say() {
    let pod = pod("cpu=0.5", "memory=1024Mi");
    let resources = r#""containers":[{"name":"a","resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"500m"}}}]"#;
    assert_eq!(started(&pod, 3), format!(r#"Pod resize started: {{{resources},"generation":3}}"#));
    assert_eq!(completed(&pod, 3), format!(r#"Pod resize completed: {{{resources},"generation":3}}"#));
    assert_eq!(failed(&pod, 3, "no"), format!(r#"Pod resize error: {{{resources},"generation":3,"error":"no"}}"#));
    let text = pending(&pod, 3, "OutOfcpu", "full");
    assert_eq!(text, format!(r#"Pod resize OutOfcpu: {{{resources},"generation":3,"error":"full"}}"#));
}

// ------------------------------------------------------------ actuation

fn figures(shares: u64, quota: i64, memory: i64) -> PodFigures {
    PodFigures {
        cpu_shares: Some(shares),
        cpu_quota: Some(quota),
        cpu_period: Some(100_000),
        memory_limit: Some(memory),
    }
}

fn update(name: &str, current: Amounts, desired: Amounts) -> ContainerUpdate {
    ContainerUpdate { id: name.into(), name: name.to_owned(), desired, current }
}

fn amounts(cpu: i64, memory: i64) -> Amounts {
    Amounts { cpu_request: cpu, cpu_limit: cpu, memory_request: memory, memory_limit: memory }
}

/// RES-57.
#[test]
fn a_pod_grows_before_its_containers_and_shrinks_after_them() {
    use Step::{Container, PodLimit, PodRequest};
    use UpdateOf::{Cpu, Memory};
    const MIB: i64 = 1 << 20;
    let all = |current, wanted, updates: &[ContainerUpdate]| steps(&current, &wanted, updates, CgroupVersion::V1);
    let grows = [update("a", amounts(100, 10 * MIB), amounts(200, 20 * MIB))];
    assert_eq!(
        all(figures(102, 10_000, 10 * MIB), figures(204, 20_000, 20 * MIB), &grows),
        [
            PodLimit(Memory),
            Container { at: 0, of: Memory },
            PodLimit(Cpu),
            PodRequest(Cpu),
            Container { at: 0, of: Cpu },
        ]
    );
    let shrinks = [update("a", amounts(200, 20 * MIB), amounts(100, 10 * MIB))];
    assert_eq!(
        all(figures(204, 20_000, 20 * MIB), figures(102, 10_000, 10 * MIB), &shrinks),
        [
            Container { at: 0, of: Memory },
            PodLimit(Memory),
            Container { at: 0, of: Cpu },
            PodRequest(Cpu),
            PodLimit(Cpu),
        ]
    );
    let shifts =
        [update("up", amounts(100, MIB), amounts(200, MIB)), update("down", amounts(200, MIB), amounts(100, MIB))];
    let steps = all(figures(300, 30_000, 2 * MIB), figures(300, 30_000, 2 * MIB), &shifts);
    assert_eq!(steps, [Container { at: 1, of: Cpu }, Container { at: 0, of: Cpu }], "who shrinks goes first");
}

#[test]
fn no_limit_is_more_than_any_and_what_the_kernel_rounds_is_the_same() {
    let unlimited = figures(102, -1, -1);
    let limited = figures(102, 10_000, 1 << 20);
    let added = steps(&unlimited, &limited, &[], CgroupVersion::V2);
    assert_eq!(added, [Step::PodLimit(UpdateOf::Memory), Step::PodLimit(UpdateOf::Cpu)]);
    assert!(figures(102, 10_000, (1 << 20) + 4095).suits(&limited, CgroupVersion::V1));
    // 512 shares are a weight of 20, which reads as 500.
    assert!(figures(500, -1, -1).suits(&figures(512, -1, -1), CgroupVersion::V2));
    assert!(!figures(500, -1, -1).suits(&figures(512, -1, -1), CgroupVersion::V1));
    assert!(unlimited.suits(&PodFigures::default(), CgroupVersion::V2), "what is not said stays");
}

/// RES-58.
#[test]
fn memory_is_not_limited_below_its_use() {
    const MIB: i64 = 1 << 20;
    let shrinks = [update("a", amounts(1, 20 * MIB), amounts(1, 10 * MIB))];
    let check = memory_check(&figures(2, -1, 20 * MIB), &figures(2, -1, 10 * MIB), &shrinks);
    let mib = |count: u64| count << 20;
    let used = |count: u64| BTreeMap::from([("a".to_owned(), mib(count))]);
    assert_eq!(refusal(&check, Some(mib(9)), &used(8)), None);
    assert_eq!(
        refusal(&check, Some(mib(10)), &used(8)).expect("too much"),
        "cannot decrease memory limits: attempting to set pod memory limit (10485760) below current usage (10485760)"
    );
    assert_eq!(
        refusal(&check, None, &used(11)).expect("too much"),
        "cannot decrease memory limits: [missing pod memory usage, attempting to set container \"a\" memory limit \
         (10485760) below current usage (11534336)]"
    );
    let grows = [update("a", amounts(1, 10 * MIB), amounts(1, 20 * MIB))];
    assert!(memory_check(&figures(2, -1, 10 * MIB), &figures(2, -1, 20 * MIB), &grows).is_empty());
}

#[test]
fn the_runtimes_own_figures_tell_what_is_in_force() {
    let options = ResourceOptions::default();
    let wanted = Amounts { cpu_request: 100, cpu_limit: 250, memory_request: 5, memory_limit: 1 << 26 };
    let told = RuntimeResources { cpu_request: Some(100), cpu_limit: Some(250), memory_limit: Some(1 << 26) };
    assert!(matches_runtime(wanted, &told, &options));
    assert!(!matches_runtime(Amounts { cpu_request: 200, ..wanted }, &told, &options));
    assert!(!matches_runtime(Amounts { memory_limit: 0, ..wanted }, &told, &options));
    let bare = RuntimeResources { cpu_request: Some(2), ..RuntimeResources::default() };
    assert!(matches_runtime(Amounts::default(), &bare, &options), "no request is two shares");
}

fn any_figures() -> impl Strategy<Value = PodFigures> {
    let limit = || prop_oneof![Just(-1_i64), 1_i64..64];
    (2_u64..4096, limit(), limit()).prop_map(|(shares, quota, memory)| {
        let scaled = |limit: i64, unit: i64| if limit < 0 { -1 } else { limit * unit };
        figures(shares, scaled(quota, 1000), scaled(memory, 1 << 20))
    })
}

proptest! {
    /// After any requests, at the end all is as wanted, and nothing is written that is so already.
    #[test]
    fn all_steps_together_lead_to_what_is_wanted(current in any_figures(), wanted in any_figures()) {
        let mut now = current;
        for step in steps(&current, &wanted, &[], CgroupVersion::V1) {
            now = merged(&now, &wanted.settings(step));
        }
        prop_assert_eq!(now, wanted);
        prop_assert!(steps(&now, &wanted, &[], CgroupVersion::V1).is_empty());
    }

    /// A container is never allowed more than its pod.
    #[test]
    fn a_pod_is_never_smaller_than_its_container(old in 1_i64..64, new in 1_i64..64) {
        let unit = |count: i64| count << 20;
        let (mut pod, mut inside) = (unit(old), unit(old));
        let updates = [update("a", amounts(1, unit(old)), amounts(1, unit(new)))];
        for step in steps(&figures(2, -1, unit(old)), &figures(2, -1, unit(new)), &updates, CgroupVersion::V2) {
            match step {
                Step::PodLimit(_) => pod = unit(new),
                Step::Container { .. } => inside = unit(new),
                Step::PodRequest(_) => {}
            }
            prop_assert!(inside <= pod);
        }
        prop_assert_eq!((pod, inside), (unit(new), unit(new)));
    }

    #[test]
    fn requirements_with_amounts_have_these_amounts(
        cpu in 0_i64..10_000, more_cpu in 0_i64..10_000, memory in 0_i64..1 << 40, more_memory in 0_i64..1 << 40,
    ) {
        let wanted =
            Amounts { cpu_request: cpu, cpu_limit: more_cpu, memory_request: memory, memory_limit: more_memory };
        let made = with_amounts(&requirements("cpu=7,x.y/z=1", "memory=1Ki,hugepages-2Mi=4Mi"), wanted);
        prop_assert_eq!(container_amounts(Some(&made), None, true), wanted);
        prop_assert!(made.limits.is_some_and(|limits| limits.contains_key("hugepages-2Mi")));
    }

    #[test]
    fn a_checkpoint_reads_as_it_was_written(names in prop::collection::btree_map("[a-z]{1,8}", "[1-9][0-9]{0,3}m", 0..6)) {
        let entries: BTreeMap<PodUid, PodResources> = names
            .iter()
            .map(|(name, cpu)| {
                let own = requirements(&format!("cpu={cpu}"), "memory=1Gi");
                let containers = Arc::new([(name.clone(), own.clone())].into_iter().collect());
                (uid(name), PodResources { containers, pod: cpu.starts_with('1').then_some(own) })
            })
            .collect();
        prop_assert_eq!(parse_checkpoint(&print_checkpoint(&entries)), Ok(entries));
    }
}
