//! One crate a purpose: where a second one may be used beside the first, and why.

use std::collections::BTreeSet;

use crate::settle;
use crate::source::{paths_after, sources};

/// The part of rustix that serves everywhere: files by descriptor (`openat2` and its family), with their errors. Paths
/// that a container can influence go through this family alone, and a descriptor's flags, modes and errors are of one
/// crate.
const RUSTIX_EVERYWHERE: [&str; 2] = ["fs", "io"];

/// Where rustix serves for what nix lacks; all other system calls are nix's.
const RUSTIX_FOR: [(&str, &str, &str); 7] = [
    ("src/platform/cgroup/kill.rs", "process", "pidfd_open, pidfd_send_signal"),
    ("src/platform/host/chance.rs", "rand", "getrandom"),
    ("src/platform/host/terminal.rs", "termios", "tcgetwinsize; the terminal's modes are of the same crate"),
    ("src/platform/network/http_exchange/dial.rs", "net", "TCP_QUICKACK, and recv into memory that was not set before"),
    ("src/platform/network/socket_peer.rs", "process", "pidfd_open"),
    ("src/platform/volumes/mounts.rs", "mount", "fsopen, fsconfig"),
    ("src/platform/volumes/programs.rs", "process", "pidfd_open, pidfd_send_signal"),
];

#[test]
fn system_calls_are_nixs_but_for_what_it_lacks() {
    let (mut complaints, mut used) = (vec![], BTreeSet::new());
    for source in sources("src") {
        for (number, line) in source.product_lines() {
            for path in paths_after(line, "rustix") {
                let module = path.split("::").next().unwrap_or_default();
                if RUSTIX_EVERYWHERE.contains(&module) {
                    continue;
                }
                match RUSTIX_FOR.iter().position(|(file, listed, _)| *file == source.path && *listed == module) {
                    Some(entry) => drop(used.insert(entry)),
                    None => complaints.push(format!("{}:{number}: rustix::{module}", source.path)),
                }
            }
        }
    }
    let entries = RUSTIX_FOR.iter().enumerate().filter(|(entry, _)| !used.contains(entry));
    complaints.extend(entries.map(|(_, (file, module, _))| format!("{file}: needs no rustix::{module} any more")));
    settle("system calls are nix's but for what nix lacks", complaints);
}
