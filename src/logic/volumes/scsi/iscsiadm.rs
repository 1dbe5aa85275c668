//! The calls of `iscsiadm`, as data (VOL-39). The order and the words are upstream's.
//!
//! The program takes secrets as arguments alone, as upstream gives them: they are readable in `/proc` by root while a call runs.
//! No text about a call that has one repeats its arguments or its output.

use super::ChapTexts;
use super::iscsi::IscsiDisk;

/// Keys of a Secret for discovery.
const DISCOVERY_KEYS: [&str; 4] = [
    "discovery.sendtargets.auth.username",
    "discovery.sendtargets.auth.password",
    "discovery.sendtargets.auth.username_in",
    "discovery.sendtargets.auth.password_in",
];
/// Keys of a Secret for sessions.
const SESSION_KEYS: [&str; 4] = [
    "node.session.auth.username",
    "node.session.auth.password",
    "node.session.auth.username_in",
    "node.session.auth.password_in",
];
/// The key by which iscsid is told to look for a target's disks by itself, or not to.
const SCAN: &str = "node.session.scan";
/// The program's end for an interface that is there, or a session that is.
pub const EXISTS: i32 = 15;
/// Its ends for sessions and records that are not there.
pub const NOTHING_THERE: [i32; 2] = [2, 21];

/// The meaning of a failed call for those that were to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing.
    Ignored,
    /// A warning.
    Warned,
    /// The portal is given up, after the call in `undo`, if there is one.
    Ends {
        /// The begin of the text.
        text: String,
        /// The arguments of the call that undoes what was done.
        undo: Option<Vec<String>>,
    },
}

/// One call.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// The arguments.
    pub arguments: Vec<String>,
    /// Whether one of them is a secret.
    pub is_secret: bool,
    /// See [`Failure`].
    pub failure: Failure,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_secret { f.write_str("a call with a secret") } else { f.write_str(&self.arguments.join(" ")) }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn call(arguments: &[&str], failure: Failure) -> Call {
    Call { arguments: words(arguments), is_secret: false, failure }
}

fn ends(text: String) -> Failure {
    Failure::Ends { text, undo: None }
}

/// Shows an interface.
pub fn show_interface(name: &str) -> Vec<String> {
    words(&["-m", "iface", "-I", name, "-o", "show"])
}

/// Makes an interface.
pub fn new_interface(name: &str) -> Vec<String> {
    words(&["-m", "iface", "-I", name, "-o", "new"])
}

/// Changes one of its settings.
pub fn update_interface(name: &str, key: &str, value: &str) -> Vec<String> {
    words(&["-m", "iface", "-I", name, "-o", "update", "-n", key, "-v", value])
}

/// Removes it.
pub fn delete_interface(name: &str) -> Vec<String> {
    words(&["-m", "iface", "-I", name, "-o", "delete"])
}

/// The calls that log in to a portal.
pub fn login(disk: &IscsiDisk, portal: &str, chap: &ChapTexts) -> Vec<Call> {
    let (interface, iqn) = (disk.iface.as_str(), disk.iqn.as_str());
    let found = ["-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", interface];
    let node = ["-m", "node", "-p", portal, "-T", iqn, "-I", interface];
    let mut calls = vec![call(&[&found[..], &["-o", "new"]].concat(), Failure::Ignored)];
    if disk.discovery_chap {
        let text = format!("iscsi: failed to update discoverydb to portal {portal} error: ");
        calls.extend(authenticate(&found, "discovery.sendtargets.auth.authmethod", &DISCOVERY_KEYS, chap, &text));
    }
    let undo = Some(words(&[&found[..], &["-o", "delete"]].concat()));
    let text = format!("iscsi: failed to sendtargets to portal {portal} output: ");
    calls.push(call(&[&found[..], &["--discover"]].concat(), Failure::Ends { text, undo }));
    calls.push(call(&[&node[..], &["-o", "update", "-n", SCAN, "-v", "manual"]].concat(), Failure::Warned));
    if disk.session_chap {
        let text = format!("iscsi: failed to update iscsi node to portal {portal} error: ");
        calls.extend(authenticate(&node, "node.session.auth.authmethod", &SESSION_KEYS, chap, &text));
    }
    let undo = Some(words(&["-m", "node", "-p", portal, "-I", interface, "-T", iqn, "-o", "delete"]));
    let text = "iscsi: failed to attach disk: Error: ".to_owned();
    calls.push(call(&[&node[..], &["--login"]].concat(), Failure::Ends { text, undo }));
    // A node that boots does not wait for targets of pods.
    let startup = ["-m", "node", "-p", portal, "-T", iqn, "-o", "update", "-n", "node.startup", "-v", "manual"];
    calls.push(call(&startup, Failure::Warned));
    calls
}

/// The calls that set the names and passwords of one record.
fn authenticate(record: &[&str], method: &str, keys: &[&str], chap: &ChapTexts, text: &str) -> Vec<Call> {
    let update = |key: &str, value: &str| words(&[record, &["-o", "update", "-n", key, "-v", value]].concat());
    let mut calls = vec![Call { arguments: update(method, "CHAP"), is_secret: false, failure: ends(text.to_owned()) }];
    for key in keys {
        let Some(value) = chap.0.get(*key).filter(|value| !value.is_empty()) else { continue };
        let failure = ends(format!("{text}{key:?} "));
        calls.push(Call { arguments: update(key, value), is_secret: true, failure });
    }
    calls
}

/// The calls that log out of a disk's portals and forget them. Each may find nothing ([`NOTHING_THERE`]).
pub fn log_out(disk: &IscsiDisk) -> Vec<Vec<String>> {
    let mut calls = vec![];
    for portal in &disk.portals {
        let node = ["-m", "node", "-p", portal, "-T", &disk.iqn];
        let interface = ["-I", disk.iface.as_str()];
        calls.push(words(&[&node[..], &["--logout"], &interface].concat()));
        calls.push(words(&[&node[..], &["-o", "delete"], &interface].concat()));
    }
    if disk.has_own_interface() {
        calls.push(delete_interface(&disk.iface));
    }
    calls
}

/// The transport of an interface, read off what [`show_interface`] printed.
pub fn transport(shown: &str) -> Option<&str> {
    let named = shown.lines().find_map(|line| line.strip_prefix("iface.transport_name = "))?;
    Some(if named == "<empty>" { "tcp" } else { named })
}

/// The settings of a copy of an interface, for another initiator: sorted by key.
pub fn copied_settings(shown: &str, initiator: &str) -> Vec<(String, String)> {
    let mut settings = std::collections::BTreeMap::new();
    for line in shown.lines().filter(|line| line.starts_with("iface.") && !line.contains("<empty>")) {
        let Some((key, value)) = line.split_once(" = ") else { continue };
        // An interface keeps the name that it was made with.
        if key != "iface.iscsi_ifacename" {
            settings.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    settings.insert("iface.initiatorname".to_owned(), initiator.to_owned());
    settings.into_iter().collect()
}

/// The begin and the end of the name of a disk's link in `/dev/disk/by-path`. The begin is the whole name but for
/// transports of cards, whose place on the bus stands in between.
pub fn link_name(disk: &IscsiDisk, portal: &str, transport: &str) -> (Option<&'static str>, String) {
    let address: String = portal.chars().filter(|letter| !"[]".contains(*letter)).collect();
    let name = format!("ip-{address}-iscsi-{}-lun-{}", disk.iqn, disk.lun);
    if transport == "tcp" { (None, name) } else { (Some("pci-"), format!("-{name}")) }
}
