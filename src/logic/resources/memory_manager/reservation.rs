//! How much memory of which NUMA node is kept for the system (`reservedMemory`, RES-33).
//!
//! Pure. Upstream: `getSystemReservedMemory` and `NewPolicyStatic`.

use std::collections::BTreeSet;

use super::machine::{Machine, Reserved};
use crate::logic::formats::go_text::quoted;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{HUGEPAGES_PREFIX, MEMORY, ResourceList};

/// One entry of `reservedMemory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The NUMA node.
    pub node: i32,
    /// Amounts by kind of memory.
    pub limits: ResourceList,
}

/// Why the reservations cannot be used; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationError {
    /// The machine has no such node.
    #[error("the reserved memory configuration references a NUMA node {0} that does not exist on this machine")]
    NoSuchNode(i32),
    /// The nodes' reservations are not together what the node as a whole keeps.
    #[error(
        "the total amount {} of type {} is not equal to the value {} determined by Node Allocatable feature",
        quoted(&.reserved.to_string()),
        quoted(.kind),
        quoted(&.expected.to_string())
    )]
    OtherSum {
        /// The kind of memory.
        kind: String,
        /// The sum that the NUMA nodes keep.
        reserved: Quantity,
        /// The node's reservation: `kubeReserved`, `systemReserved` and the hard eviction threshold.
        expected: Quantity,
    },
    /// An amount is no whole number of bytes.
    #[error("could not covert a variable of type Quantity to int64")]
    NoWholeBytes,
    /// Nothing is kept at all.
    #[error("[memorymanager] you should specify the system reserved memory")]
    Nothing,
}

/// The bytes kept by NUMA node, where they add up to what the node as a whole keeps (`node_reservation`).
///
/// # Errors
/// All that is wrong; upstream tells the first of it.
pub fn reserved(
    machine: &Machine,
    node_reservation: &ResourceList,
    reservations: &[Reservation],
) -> Result<Reserved, Vec<ReservationError>> {
    let mut errors = Vec::new();
    let mut reserved = Reserved::new();
    let mut sums = ResourceList::new();
    for reservation in reservations {
        let node = u8::try_from(reservation.node).ok().filter(|node| machine.nodes.contains_key(node));
        let Some(node) = node else {
            errors.push(ReservationError::NoSuchNode(reservation.node));
            continue;
        };
        for (kind, amount) in &reservation.limits {
            let sum = sums.entry(kind.clone()).or_default();
            *sum = sum.plus(*amount);
            match whole_bytes(*amount) {
                Some(bytes) => drop(reserved.entry(node).or_default().insert(kind.clone(), bytes)),
                None => errors.push(ReservationError::NoWholeBytes),
            }
        }
    }
    let is_memory = |kind: &&String| *kind == MEMORY || kind.starts_with(HUGEPAGES_PREFIX);
    let kinds: BTreeSet<&String> = sums.keys().chain(node_reservation.keys().filter(is_memory)).collect();
    for kind in kinds {
        let amount = |list: &ResourceList| list.get(kind).copied().unwrap_or(Quantity::ZERO);
        let (reserved, expected) = (amount(&sums), amount(node_reservation));
        if reserved != expected {
            errors.push(ReservationError::OtherSum { kind: kind.clone(), reserved, expected });
        }
    }
    let keeps_memory = reserved.values().any(|kinds| kinds.get(MEMORY).is_some_and(|bytes| *bytes > 0));
    if errors.is_empty() && !keeps_memory {
        errors.push(ReservationError::Nothing);
    }
    if errors.is_empty() { Ok(reserved) } else { Err(errors) }
}

fn whole_bytes(amount: Quantity) -> Option<u64> {
    let value = amount.value();
    u64::try_from(value).ok().filter(|_| Quantity::from_units(value, amount.format()) == amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::memory_manager::NodeMemory;
    use crate::logic::resources::resource_list;
    use crate::logic::resources::testing::list;

    fn machine(nodes: u8) -> Machine {
        let memory = || NodeMemory { total: 4 << 30, huge_pages: [(2048, 128)].into() };
        Machine { nodes: (0..nodes).map(|node| (node, memory())).collect() }
    }

    fn amounts(text: &str) -> ResourceList {
        resource_list(list(text).as_ref())
    }

    fn check(node_reservation: &str, reservations: &[(i32, &str)]) -> Result<Reserved, Vec<String>> {
        let reservations: Vec<Reservation> =
            reservations.iter().map(|(node, limits)| Reservation { node: *node, limits: amounts(limits) }).collect();
        reserved(&machine(2), &amounts(node_reservation), &reservations)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// The node's reservation, those of NUMA nodes, and the errors.
    type Case<'a> = (&'a str, &'a [(i32, &'a str)], &'a [&'a str]);

    /// RES-33.
    #[test]
    fn reservations_of_nodes_add_up_to_what_the_node_keeps() {
        let of = |bytes: u64| std::collections::BTreeMap::from([("memory".to_owned(), bytes)]);
        assert_eq!(check("memory=1Gi,cpu=1", &[(0, "memory=1Gi")]), Ok([(0, of(1 << 30))].into()));
        assert_eq!(
            check("memory=1536Mi", &[(0, "memory=1Gi"), (1, "memory=512Mi")]),
            Ok([(0, of(1 << 30)), (1, of(512 << 20))].into())
        );
        let cases: [Case<'_>; 6] = [
            (
                "memory=1Gi",
                &[(0, "memory=1Gi"), (7, "memory=1Gi")],
                &["the reserved memory configuration references a NUMA node 7 that does not exist on this machine"],
            ),
            (
                "memory=1Gi",
                &[(0, "memory=512Mi")],
                &[
                    "the total amount \"512Mi\" of type \"memory\" is not equal to the value \"1Gi\" determined by Node \
                   Allocatable feature",
                ],
            ),
            (
                "memory=1Gi",
                &[],
                &["the total amount \"0\" of type \"memory\" is not equal to the value \"1Gi\" determined by Node \
                   Allocatable feature"],
            ),
            (
                "memory=100M",
                &[(0, "memory=1Gi,hugepages-2Mi=64Mi")],
                &[
                    "the total amount \"64Mi\" of type \"hugepages-2Mi\" is not equal to the value \"0\" determined by \
                     Node Allocatable feature",
                    "the total amount \"1Gi\" of type \"memory\" is not equal to the value \"100M\" determined by Node \
                     Allocatable feature",
                ],
            ),
            ("memory=0.5", &[(0, "memory=0.5")], &["could not covert a variable of type Quantity to int64"]),
            ("cpu=1", &[], &["[memorymanager] you should specify the system reserved memory"]),
        ];
        for (node_reservation, reservations, texts) in cases {
            let errors = check(node_reservation, reservations).expect_err("wrong reservations");
            assert_eq!(errors, texts, "{node_reservation} {reservations:?}");
        }
    }
}
