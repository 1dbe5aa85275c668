//! Properties that hold on every machine, for every order of pods.

use crate::logic::model::admission_reason::AdmissionReason;
use proptest::prelude::*;

use super::*;

fn machines() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![EPYC, XEON, LAPTOP, ARM64, SINGLE_SOCKET, DUAL_SOCKET, "4.0.1.3.2i", "2.2.1.4.2f"])
}

fn all_options() -> impl Strategy<Value = StaticOptions> {
    let on = |change: fn(&mut StaticOptions)| {
        let mut options = StaticOptions::default();
        change(&mut options);
        options
    };
    prop::sample::select(vec![
        on(|_| {}),
        on(|options| options.full_pcpus_only = true),
        on(|options| options.distribute_across_numa = true),
        on(|options| (options.full_pcpus_only, options.distribute_across_numa) = (true, true)),
        on(|options| options.distribute_across_cores = true),
        on(|options| options.strict_reservation = true),
        on(|options| options.prefer_uncore = true),
        on(|options| (options.prefer_uncore, options.full_pcpus_only) = (true, true)),
    ])
}

/// CPUs of a pod's containers, and NUMA nodes that the topology manager wants; or the end of an earlier pod.
#[derive(Clone, Debug)]
enum Event {
    Admit(Vec<(char, u8)>, Option<u64>),
    End(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let containers = prop::collection::vec((prop::sample::select(vec!['i', 's', 'c', 'c']), 1_u8..12), 1..4);
    let admit =
        (containers, prop::option::of(1_u64..256)).prop_map(|(containers, nodes)| Event::Admit(containers, nodes));
    prop::collection::vec(prop_oneof![3 => admit, 1 => (0_usize..10).prop_map(Event::End)], 1..14)
}

/// Lets all this happen; gives each state with what the pods of then had asked for.
fn run(spec: &str, settings: &StaticSettings, events: &[Event]) -> Vec<CpuManager> {
    let mut manager = manager(spec, settings);
    let mut states = vec![manager.clone()];
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Admit(containers, nodes) => {
                let words =
                    containers.iter().enumerate().map(|(place, (kind, cpus))| format!("{kind}:{kind}{place}={cpus}"));
                let text = format!("p{at} c:main=1 {}", words.collect::<Vec<_>>().join(" "));
                let before = manager.clone();
                let affinity = nodes.map(NumaMask::from_bits);
                if admit(&mut manager, &text, affinity).is_err() {
                    // The actor goes on with what it had.
                    manager = before;
                }
            }
            Event::End(at) => {
                let pod = format!("p{at}").into();
                let names: Vec<_> =
                    manager.state().containers.get(&pod).into_iter().flatten().map(|(name, _)| name.clone()).collect();
                for name in &names {
                    assert!(manager.remove_container(&pod, name), "{name} has CPUs");
                }
            }
        }
        states.push(manager.clone());
    }
    states
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// RES-24, RES-26.
    #[test]
    fn res_24_res_26_no_cpu_is_given_twice_or_lost_and_reserved_ones_never(
        spec in machines(),
        options in all_options(),
        reserved in 1_i64..4,
        events in events(),
    ) {
        let settings = settings(options, reserved, "");
        let states = run(spec, &settings, &events);
        for manager in &states {
            let CpuPolicy::Static(policy) = manager.policy() else { unreachable!("made static above") };
            let state = manager.state();
            let mut all = state.shared.clone();
            for containers in state.containers.values() {
                let of_pod = containers.values().fold(CpuSet::default(), |all, cpus| all.union(cpus));
                prop_assert!(of_pod.is_disjoint(&all), "{of_pod} is somebody else's: {state:?}");
                prop_assert!(of_pod.is_disjoint(policy.reserved()));
                all = all.union(&of_pod);
            }
            let machine = policy.topology().all();
            let kept = if options.strict_reservation { machine.difference(policy.reserved()) } else { machine.clone() };
            prop_assert_eq!(&all, &kept);
            // The next agent reads the written state, and goes on from it.
            let text = manager.checkpoint();
            let read = checkpoint::parse(&text, "static", false, &checkpoint::KnownContainers::new());
            prop_assert_eq!(read.as_ref(), Ok(state));
            prop_assert!(CpuManager::new(manager.policy().clone(), read.expect("read above")).is_ok());
            let figures = manager.figures();
            prop_assert_eq!(figures.exclusive_by_node.values().sum::<u64>(), figures.exclusive_cpus);
        }
        let again = run(spec, &settings, &events);
        prop_assert_eq!(states.last().map(CpuManager::state), again.last().map(CpuManager::state));
    }

    /// RES-24: a container is refused exactly when too few CPUs are free, and gets as many as it asked for.
    #[test]
    fn res_24_a_container_is_refused_when_too_few_are_free_and_only_then(
        spec in machines(),
        distribute in any::<bool>(),
        events in events(),
        cpus in 1_usize..80,
        nodes in prop::option::of(1_u64..256),
    ) {
        let options = StaticOptions { distribute_across_numa: distribute, ..StaticOptions::default() };
        for mut manager in run(spec, &settings(options, 1, ""), &events) {
            let free = usize::try_from(manager.figures().shared_pool_millicores / 1000).expect("few CPUs");
            let admitted = admit(&mut manager, &format!("new c:main={cpus}"), nodes.map(NumaMask::from_bits));
            match admitted {
                Ok(given) => prop_assert!(cpus <= free && set(&given[0]).len() == cpus),
                Err(refusal) => {
                    prop_assert!(cpus > free);
                    prop_assert_eq!(refusal.reason(), AdmissionReason::UnexpectedAdmissionError);
                }
            }
        }
    }

    /// RES-28: under `full-pcpus-only` no core is shared by two pods.
    #[test]
    fn res_28_whole_cores_are_given(
        spec in machines(),
        distribute in any::<bool>(),
        reserved_cpus in prop::sample::select(vec!["", "0", "1", "0-1"]),
        events in events(),
    ) {
        let options = StaticOptions { full_pcpus_only: true, distribute_across_numa: distribute, ..StaticOptions::default() };
        let count = if reserved_cpus.is_empty() { 2 } else { set(reserved_cpus).len() };
        for manager in run(spec, &settings(options, i64::try_from(count).expect("few"), reserved_cpus), &events) {
            let CpuPolicy::Static(policy) = manager.policy() else { unreachable!("made static above") };
            for containers in manager.state().containers.values() {
                let of_pod = containers.values().fold(CpuSet::default(), |all, cpus| all.union(cpus));
                // The other thread of a reserved CPU is free, so that a request may get it when nothing else is.
                let beside = policy.topology().whole_cores_of(policy.reserved()).difference(policy.reserved());
                if of_pod.is_disjoint(&beside) {
                    prop_assert_eq!(&policy.topology().whole_cores_of(&of_pod), &of_pod);
                }
            }
        }
    }
}
