//! Admission with managers made of a table: what they hint, what they give, what they take back.

use std::collections::BTreeMap;

use super::*;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::resources::testing::{container, pod, sidecar, with_pod_level};
use crate::logic::resources::topology::hints::NumaMask;
use crate::logic::resources::topology::machine::NumaNodes;
use crate::logic::resources::topology::policy::Options;

/// Gives one unit of a resource to each container; how many units each node has.
#[derive(Clone, Debug, Default)]
struct Units {
    free: BTreeMap<u8, u32>,
    given: Vec<(String, Option<NumaMask>)>,
    marked: Option<Box<Units>>,
    failure: Option<AllocationFailure>,
}

impl Units {
    fn of(free: &[u32]) -> Self {
        Self { free: (0_u8..).zip(free.iter().copied()).collect(), ..Self::default() }
    }

    fn hints_for(&self, count: u32) -> Hints {
        let nodes = self.free.iter().filter(|(_, free)| **free >= count);
        let one = |(node, _): (&u8, &u32)| Hint { nodes: Some(NumaMask::of([*node])), preferred: true };
        Hints::from([("units".to_owned(), Some(nodes.map(one).collect()))])
    }

    fn give(&mut self, name: &str, affinity: &Hint) -> Result<(), AllocationFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let wanted = |node: &u8| affinity.nodes.is_none_or(|nodes| nodes.contains(*node));
        let taken = self.free.iter_mut().find(|(node, free)| wanted(node) && **free > 0);
        let (_, free) = taken.ok_or_else(|| AllocationFailure::Unexpected("no units left".into()))?;
        *free -= 1;
        self.given.push((name.to_owned(), affinity.nodes));
        Ok(())
    }
}

impl Provider for Units {
    fn hints(&self, _: &Pod, _: &Container) -> Hints {
        self.hints_for(1)
    }

    fn pod_hints(&self, pod: &Pod) -> Hints {
        self.hints_for(u32::try_from(containers(pod).count()).expect("few containers"))
    }

    fn allocate(&mut self, _: &Pod, container: &Container, affinity: &Hint) -> Result<(), AllocationFailure> {
        self.give(&container.name, affinity)
    }

    fn allocate_pod(&mut self, _: &Pod, affinity: &Hint) -> Result<(), AllocationFailure> {
        self.give("the pod", affinity)
    }

    fn mark(&mut self) {
        self.marked = None;
        self.marked = Some(Box::new(self.clone()));
    }

    fn revert(&mut self) {
        *self = *self.marked.take().expect("marked before");
    }
}

fn manager(kind: PolicyKind, scope: Scope) -> TopologyManager {
    let machine = NumaNodes::new([(0, vec![10, 20]), (1, vec![20, 10])]);
    let policy = Policy::new(kind, Options::default(), machine).expect("two nodes");
    TopologyManager { policy, scope, pod_level: true }
}

fn two_containers() -> Pod {
    pod(vec![container("a", "", ""), container("b", "", "")], vec![])
}

fn on(node: u8) -> Option<NumaMask> {
    Some(NumaMask::of([node]))
}

fn given(units: &Units) -> Vec<(&str, Option<NumaMask>)> {
    units.given.iter().map(|(name, nodes)| (name.as_str(), *nodes)).collect()
}

/// RES-36: (policy, scope, free units of the nodes, what is given or refused).
#[test]
fn containers_are_aligned_one_by_one_and_pods_as_a_whole() {
    use PolicyKind::{BestEffort, None as NoPolicy, Restricted, SingleNumaNode};
    let cases = [
        (SingleNumaNode, Scope::Container, [1, 1], Some([("a", on(0)), ("b", on(1))])),
        (SingleNumaNode, Scope::Pod, [1, 1], None),
        (SingleNumaNode, Scope::Pod, [1, 2], Some([("a", on(1)), ("b", on(1))])),
        (Restricted, Scope::Pod, [1, 1], None),
        (Restricted, Scope::Container, [0, 2], Some([("a", on(1)), ("b", on(1))])),
        (BestEffort, Scope::Pod, [1, 1], Some([("a", Some(NumaMask::of([0, 1]))), ("b", Some(NumaMask::of([0, 1])))])),
        (NoPolicy, Scope::Pod, [1, 1], Some([("a", None), ("b", None)])),
    ];
    for (kind, scope, free, expected) in cases {
        let mut units = Units::of(&free);
        let admission = manager(kind, scope).admit(&mut [&mut units], &two_containers());
        match expected {
            Some(expected) => {
                assert_eq!(admission.result, Ok(()), "{kind:?} {scope:?} {free:?}");
                assert_eq!(given(&units), expected, "{kind:?} {scope:?} {free:?}");
                assert_eq!(admission.figures.errors, 0);
            }
            None => {
                assert_eq!(admission.result, Err(Refusal::Unaligned), "{kind:?} {scope:?} {free:?}");
                assert_eq!(given(&units), []);
                assert_eq!(admission.figures.errors, 1);
            }
        }
        assert_eq!(admission.figures.requests, 1);
    }
}

/// RES-37.
#[test]
fn a_refusal_has_upstreams_reason_and_message() {
    let refused = |scope, pod: &Pod| {
        manager(PolicyKind::SingleNumaNode, scope)
            .admit(&mut [&mut Units::of(&[0, 0])], pod)
            .result
            .expect_err("no units")
    };
    let plain = two_containers();
    let own = with_pod_level(two_containers(), "cpu=2,memory=1Gi", "cpu=2,memory=1Gi");
    let reasoned = Refusal::from(AllocationFailure::Reasoned {
        reason: AdmissionReason::SmtAlignmentError,
        message: "SMT".into(),
    });
    let cases = [
        (
            refused(Scope::Container, &plain),
            "TopologyAffinityError",
            "Resources cannot be allocated with Topology locality",
        ),
        (refused(Scope::Pod, &plain), "TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
        (
            refused(Scope::Container, &own),
            "TopologyAffinityError",
            "Pod Scope pod with pod-level resources failed admission with a container-level topology manager",
        ),
        (
            refused(Scope::Pod, &own),
            "TopologyAffinityError",
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager",
        ),
        (
            AllocationFailure::Unexpected("no units left".into()).into(),
            "UnexpectedAdmissionError",
            "Allocate failed due to no units left, which is unexpected",
        ),
        (reasoned, "SMTAlignmentError", "SMT"),
    ];
    for (refusal, reason, message) in cases {
        assert_eq!((refusal.reason().to_string().as_str(), refusal.to_string().as_str()), (reason, message));
    }
}

/// RES-37: also what an earlier manager gave to an earlier container returns.
#[test]
fn a_refused_pod_keeps_nothing() {
    for (kind, scope) in [
        (PolicyKind::None, Scope::Container),
        (PolicyKind::BestEffort, Scope::Container),
        (PolicyKind::BestEffort, Scope::Pod),
        (PolicyKind::Restricted, Scope::Container),
    ] {
        let (mut many, mut one) = (Units::of(&[5, 5]), Units::of(&[1, 0]));
        many.given.push(("of an earlier pod".into(), on(0)));
        let admission = manager(kind, scope).admit(&mut [&mut many, &mut one], &two_containers());
        assert!(admission.result.is_err(), "{kind:?} {scope:?}");
        assert_eq!(given(&many), [("of an earlier pod", on(0))], "{kind:?} {scope:?}");
        assert_eq!((many.free, one.free), (Units::of(&[5, 5]).free, Units::of(&[1, 0]).free), "{kind:?} {scope:?}");
    }
}

/// RES-36: init containers and sidecars come first, and a pod with resources of its own is given them once.
#[test]
fn init_containers_come_first_and_pod_level_resources_are_given_once() {
    let mut with_init = two_containers();
    with_init.spec.as_mut().expect("a spec").init_containers = Some(vec![container("i", "", ""), sidecar("s", "", "")]);
    let mut units = Units::of(&[9, 9]);
    assert_eq!(manager(PolicyKind::Restricted, Scope::Pod).admit(&mut [&mut units], &with_init).result, Ok(()));
    assert_eq!(given(&units), [("i", on(0)), ("s", on(0)), ("a", on(0)), ("b", on(0))]);

    let own = with_pod_level(two_containers(), "cpu=2,memory=1Gi", "cpu=2,memory=1Gi");
    let mut units = Units::of(&[0, 9]);
    let manager = manager(PolicyKind::Restricted, Scope::Pod);
    assert_eq!(manager.admit(&mut [&mut units], &own).result, Ok(()));
    assert_eq!(given(&units), [("the pod", on(1))]);
    let mut units = Units::of(&[0, 9]);
    let off = TopologyManager { pod_level: false, ..manager };
    assert_eq!(off.admit(&mut [&mut units], &own).result, Ok(()));
    assert_eq!(given(&units), [("a", on(1)), ("b", on(1))]);
}

/// Counted as upstream: alignment only where it is certain, errors of managers only with a policy.
#[test]
fn figures_count_requests_errors_and_alignment() {
    let count = |kind, scope, free: &[u32], failure: Option<AllocationFailure>| {
        let mut units = Units { failure, ..Units::of(free) };
        let figures = manager(kind, scope).admit(&mut [&mut units], &two_containers()).figures;
        (figures.errors, figures.aligned, figures.alignment_failures)
    };
    let failure = || Some(AllocationFailure::Unexpected("x".into()));
    let cases = [
        (PolicyKind::SingleNumaNode, Scope::Container, vec![9, 9], None, (0, 2, 0)),
        (PolicyKind::SingleNumaNode, Scope::Container, vec![1, 0], None, (1, 1, 1)),
        (PolicyKind::SingleNumaNode, Scope::Pod, vec![9, 9], None, (0, 1, 0)),
        (PolicyKind::SingleNumaNode, Scope::Pod, vec![1, 0], None, (1, 0, 1)),
        (PolicyKind::SingleNumaNode, Scope::Pod, vec![9, 9], failure(), (1, 0, 0)),
        (PolicyKind::Restricted, Scope::Container, vec![0, 0], None, (1, 0, 0)),
        (PolicyKind::BestEffort, Scope::Container, vec![9, 9], failure(), (1, 0, 0)),
        (PolicyKind::None, Scope::Container, vec![9, 9], failure(), (0, 0, 0)),
    ];
    for (kind, scope, free, failure, expected) in cases {
        assert_eq!(count(kind, scope, &free, failure), expected, "{kind:?} {scope:?} {free:?}");
    }
}

#[test]
fn an_explanation_says_which_nodes_and_why_not_others() {
    let explain = |kind, scope, free: &[u32]| {
        let admission = manager(kind, scope).admit(&mut [&mut Units::of(free)], &two_containers());
        admission.explanations.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let cases = [
        (
            PolicyKind::SingleNumaNode,
            Scope::Pod,
            vec![2, 2],
            vec!["the pod: NUMA nodes 0 (preferred); not 1: able, but ranked behind"],
        ),
        (
            PolicyKind::SingleNumaNode,
            Scope::Container,
            vec![0, 1],
            vec![
                "container a: NUMA nodes 1 (preferred); not 0: no units there",
                "container b: no NUMA nodes that the policy admits; not 0-1: no units there",
            ],
        ),
        (PolicyKind::BestEffort, Scope::Pod, vec![1, 1], vec!["the pod: NUMA nodes 0-1 (not preferred)"]),
        (PolicyKind::None, Scope::Pod, vec![1, 1], vec![]),
    ];
    for (kind, scope, free, expected) in cases {
        assert_eq!(explain(kind, scope, &free), expected, "{kind:?} {scope:?} {free:?}");
    }
}
