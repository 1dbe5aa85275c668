//! The order in which a resize comes into force (RES-57).

use proptest::prelude::*;

use super::Step::{Container, PodLimit, PodRequest};
use super::UpdateOf::{Cpu, Memory};
use super::*;
use crate::logic::resources::CgroupSettings;

fn all(current: PodFigures, wanted: PodFigures, updates: &[ContainerUpdate]) -> Vec<Step> {
    steps(&current, &wanted, updates, CgroupVersion::V1)
}

/// RES-57.
#[test]
fn a_pod_grows_before_its_containers_and_shrinks_after_them() {
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
}

/// Memory and CPU may go in opposite directions, and so may requests and limits.
#[test]
fn each_resource_goes_its_own_way() {
    let mixed = [update("a", amounts(100, 20 * MIB), amounts(200, 10 * MIB))];
    assert_eq!(
        all(figures(102, 10_000, 20 * MIB), figures(204, 20_000, 10 * MIB), &mixed),
        [
            Container { at: 0, of: Memory },
            PodLimit(Memory),
            PodLimit(Cpu),
            PodRequest(Cpu),
            Container { at: 0, of: Cpu },
        ]
    );
    for (current, wanted, expected) in [
        (figures(102, 20_000, MIB), figures(204, 10_000, MIB), vec![PodRequest(Cpu), PodLimit(Cpu)]),
        (figures(204, 10_000, MIB), figures(102, 20_000, MIB), vec![PodLimit(Cpu), PodRequest(Cpu)]),
        (figures(102, 10_000, MIB), figures(204, 10_000, MIB), vec![PodRequest(Cpu)]),
        (figures(102, 10_000, MIB), figures(102, 10_000, 2 * MIB), vec![PodLimit(Memory)]),
        (figures(102, 10_000, MIB), figures(102, 10_000, MIB), vec![]),
    ] {
        assert_eq!(all(current, wanted, &[]), expected, "{current:?} {wanted:?}");
    }
}

#[test]
fn containers_that_shrink_go_before_those_that_grow() {
    let shifts = [
        update("up", amounts(100, MIB), amounts(200, MIB)),
        update("down", amounts(200, MIB), amounts(100, MIB)),
        update("more", amounts(100, MIB), amounts(150, MIB)),
        update("same", amounts(100, MIB), amounts(100, MIB)),
        update("less", amounts(200, MIB), amounts(150, MIB)),
    ];
    let steps = all(figures(300, 30_000, 2 * MIB), figures(300, 30_000, 2 * MIB), &shifts);
    let places: Vec<usize> = [1, 4, 0, 2].into();
    assert_eq!(steps, places.iter().map(|at| Container { at: *at, of: Cpu }).collect::<Vec<_>>());
}

/// Where the limit stays, the request says whether a container grows.
#[test]
fn limits_decide_before_requests() {
    let of = |request: i64, limit: i64| Amounts { cpu_request: request, cpu_limit: limit, ..Amounts::default() };
    for (first, second, expected) in [
        ((of(100, 300), of(200, 300)), (of(200, 300), of(100, 300)), [1, 0]),
        ((of(100, 300), of(50, 400)), (of(100, 300), of(200, 200)), [1, 0]),
        ((of(200, 300), of(100, 300)), (of(100, 300), of(200, 300)), [0, 1]),
    ] {
        let updates = [update("one", first.0, first.1), update("two", second.0, second.1)];
        let steps = all(figures(300, -1, -1), figures(300, -1, -1), &updates);
        assert_eq!(steps, expected.map(|at| Container { at, of: Cpu }), "{updates:?}");
    }
}

#[test]
fn no_limit_is_more_than_any_and_what_the_kernel_rounds_is_the_same() {
    let (unlimited, limited) = (figures(102, -1, -1), figures(102, 10_000, MIB));
    assert_eq!(steps(&unlimited, &limited, &[], CgroupVersion::V2), [PodLimit(Memory), PodLimit(Cpu)]);
    let grows = [update("a", amounts(1, MIB), amounts(2, 2 * MIB))];
    assert_eq!(all(limited, unlimited, &grows)[0], PodLimit(Memory), "a limit that goes is one that grows");
    assert!(figures(102, 10_000, MIB + 4095).suits(&limited, CgroupVersion::V1));
    assert!(!figures(102, 10_000, MIB + 4096).suits(&limited, CgroupVersion::V1));
    // 512 shares are a weight of 20, which reads as 500.
    assert!(figures(500, -1, -1).suits(&figures(512, -1, -1), CgroupVersion::V2));
    assert!(!figures(500, -1, -1).suits(&figures(512, -1, -1), CgroupVersion::V1));
    assert!(!figures(512, -1, -1).suits(&figures(500, -1, -1), CgroupVersion::V1));
    assert!(unlimited.suits(&PodFigures::default(), CgroupVersion::V2), "what is not said stays");
}

/// A step writes its own figure, and leaves all else alone.
#[test]
fn a_step_writes_one_figure() {
    let wanted = figures(204, 20_000, MIB);
    let none = CgroupSettings::default();
    for (step, expected) in [
        (PodLimit(Memory), CgroupSettings { memory_limit: Some(MIB), ..none.clone() }),
        (PodLimit(Cpu), CgroupSettings { cpu_quota: Some(20_000), cpu_period: Some(100_000), ..none.clone() }),
        (PodRequest(Cpu), CgroupSettings { cpu_shares: Some(204), ..none.clone() }),
        (PodRequest(Memory), none.clone()),
        (Container { at: 0, of: Memory }, none.clone()),
    ] {
        let written = wanted.settings(step);
        assert_eq!(written, expected, "{step:?}");
        let before = figures(102, 10_000, 2 * MIB);
        let after = merged(&before, &written);
        let of = |figures: &PodFigures| {
            [figures.cpu_shares.map(|shares| shares as i64), figures.cpu_quota, figures.memory_limit]
        };
        let changed = of(&after).iter().zip(of(&before)).filter(|(new, old)| **new != *old).count();
        assert_eq!(changed, usize::from(expected != none), "{step:?}");
    }
}

/// A limit of nothing cannot be written: the kernel would end whoever runs.
#[test]
fn a_limit_of_nothing_is_none() {
    let settings =
        CgroupSettings { cpu_shares: Some(2), cpu_quota: Some(0), memory_limit: Some(0), ..CgroupSettings::default() };
    let read = PodFigures::of(&settings);
    assert_eq!((read.cpu_shares, read.cpu_quota, read.memory_limit), (Some(2), None, None));
    assert_eq!(merged(&figures(102, 10_000, MIB), &settings), figures(2, 10_000, MIB));
}

fn any_figures() -> impl Strategy<Value = PodFigures> {
    let limit = || prop_oneof![Just(-1_i64), 1_i64..64];
    (2_u64..4096, limit(), limit()).prop_map(|(shares, quota, memory)| {
        let scaled = |limit: i64, unit: i64| if limit < 0 { -1 } else { limit * unit };
        figures(shares, scaled(quota, 1000), scaled(memory, MIB))
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

    /// Containers are never allowed more than their pod, one by one and together.
    #[test]
    fn a_pod_is_never_smaller_than_its_containers(sizes in prop::collection::vec((1_i64..64, 1_i64..64), 1..5)) {
        let sum = |of: fn(&(i64, i64)) -> i64| sizes.iter().map(of).sum::<i64>() * MIB;
        let (old, new) = (sum(|size| size.0), sum(|size| size.1));
        let updates: Vec<ContainerUpdate> = sizes
            .iter()
            .map(|(old, new)| update("a", amounts(1, old * MIB), amounts(1, new * MIB)))
            .collect();
        let mut inside: Vec<i64> = sizes.iter().map(|(old, _)| old * MIB).collect();
        let mut pod = old;
        for step in steps(&figures(2, -1, old), &figures(2, -1, new), &updates, CgroupVersion::V2) {
            match step {
                PodLimit(_) => pod = new,
                Container { at, .. } => inside[at] = sizes[at].1 * MIB,
                PodRequest(_) => {}
            }
            prop_assert!(inside.iter().sum::<i64>() <= pod);
        }
        prop_assert_eq!((pod, inside.iter().sum::<i64>()), (new, new));
    }

    /// However many there are, each that changes has one step of each resource that changes.
    #[test]
    fn each_change_has_its_step(sizes in prop::collection::vec((1_i64..4, 1_i64..4), 0..6)) {
        let updates: Vec<ContainerUpdate> =
            sizes.iter().map(|(old, new)| update("a", amounts(*old, MIB), amounts(*new, MIB))).collect();
        let steps = steps(&figures(2, -1, -1), &figures(2, -1, -1), &updates, CgroupVersion::V2);
        let mut places: Vec<usize> = steps
            .iter()
            .map(|step| match step {
                Container { at, of: Cpu } => *at,
                other => panic!("{other:?}"),
            })
            .collect();
        places.sort_unstable();
        let changed = sizes.iter().enumerate().filter(|(_, (old, new))| old != new).map(|(at, _)| at);
        prop_assert_eq!(places, changed.collect::<Vec<_>>());
    }
}
