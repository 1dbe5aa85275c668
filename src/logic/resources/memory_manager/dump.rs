//! The checksum of the state file: FNV-1a of the state as Go's spew prints it for hashes.
//!
//! Pure. Upstream: `checksum.New` and `dump.ForHash`. The print names the types of fields, sorts maps by key, and
//! leaves the types within maps and lists out.

use std::fmt::{self, Write as _};

use super::state::{Block, NodeState, PodEntry, State};
use crate::logic::formats::fnv::fnv1a;

/// The printed form of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Without what pods hold as a whole.
    V1,
    /// The same under the name that the type has since there is V2.
    V1Named,
    /// All of it.
    V2,
}

/// The checksum of a state in one format.
pub(super) fn checksum(format: Format, policy: &str, state: &State) -> u32 {
    let mut text = String::new();
    dump(&mut text, format, policy, state).expect("a string takes all text");
    fnv1a(text.as_bytes())
}

fn dump(out: &mut String, format: Format, policy: &str, state: &State) -> fmt::Result {
    let version = if format == Format::V1Named { "V1" } else { "" };
    write!(out, "(*state.MemoryManagerCheckpoint{version}){{PolicyName:(string){policy}")?;
    out.write_str(" MachineState:(state.NUMANodeMap)")?;
    map(out, &state.machine, dump_node)?;
    out.write_str(" Entries:(state.ContainerMemoryAssignments)")?;
    map(out, &state.assignments, |out, containers| map(out, containers, |out, blocks| dump_blocks(out, blocks)))?;
    if format == Format::V2 {
        out.write_str(" PodEntries:(state.PodMemoryAssignments)")?;
        map(out, &state.pods, dump_entry)?;
    }
    out.write_str(" Checksum:(checksum.Checksum)0}")
}

fn dump_node(out: &mut String, node: &NodeState) -> fmt::Result {
    write!(out, "<*>{{NumberOfAssignments:(int){}", node.number_of_assignments)?;
    out.write_str(" MemoryMap:(map[v1.ResourceName]*state.MemoryTable)")?;
    map(out, &node.memory_map, |out, table| {
        write!(out, "<*>{{TotalMemSize:(uint64){} SystemReserved:(uint64){}", table.total, table.system_reserved)?;
        write!(out, " Allocatable:(uint64){} Reserved:(uint64){}", table.allocatable, table.reserved)?;
        write!(out, " Free:(uint64){}}}", table.free)
    })?;
    out.write_str(" Cells:([]int)")?;
    list(out, &node.cells, |out, cell| write!(out, "{cell}"))?;
    out.write_char('}')
}

fn dump_entry(out: &mut String, entry: &PodEntry) -> fmt::Result {
    out.write_str("{MemoryBlocks:([]state.Block)")?;
    match entry.memory_blocks[..] {
        // The file leaves an empty list out, so that upstream reads none.
        [] => out.write_str("<nil>")?,
        _ => dump_blocks(out, &entry.memory_blocks)?,
    }
    out.write_char('}')
}

fn dump_blocks(out: &mut String, blocks: &[Block]) -> fmt::Result {
    list(out, blocks, |out, block| {
        out.write_str("{NUMAAffinity:([]int)")?;
        list(out, &block.numa_affinity, |out, cell| write!(out, "{cell}"))?;
        write!(out, " Type:(v1.ResourceName){} Size:(uint64){}}}", block.kind, block.size)
    })
}

fn map<K: fmt::Display, V>(
    out: &mut String,
    map: &std::collections::BTreeMap<K, V>,
    value: impl Fn(&mut String, &V) -> fmt::Result,
) -> fmt::Result {
    out.write_str("map[")?;
    for (place, (key, entry)) in map.iter().enumerate() {
        let separator = if place > 0 { " " } else { "" };
        write!(out, "{separator}{key}:")?;
        value(out, entry)?;
    }
    out.write_char(']')
}

fn list<T>(out: &mut String, list: &[T], item: impl Fn(&mut String, &T) -> fmt::Result) -> fmt::Result {
    out.write_char('[')?;
    for (place, entry) in list.iter().enumerate() {
        if place > 0 {
            out.write_char(' ')?;
        }
        item(out, entry)?;
    }
    out.write_char(']')
}
