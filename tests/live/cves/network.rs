//! Packets of a neighbour, in two network namespaces of the test's own that a cable connects.

use std::process::Command;

use podwright::testing::skips::needs;

use crate::harness::{Node, send_signal};
use crate::node::host::{Namespace, no_iptables};

/// Addresses of the two ends of the cable.
const NEAR: &str = "192.0.2.1";
const FAR: &str = "192.0.2.2";

/// A network namespace at the other end of a cable, which sends its packets for 127.0.0.1 to the agent's namespace.
struct Neighbour {
    name: String,
}

impl Neighbour {
    fn of(namespace: &Namespace) -> Self {
        let neighbour = Self { name: format!("{}-n", namespace.name) };
        let (near, far) = (&*namespace.name, &*neighbour.name);
        run(&["netns", "add", far]);
        run(&["link", "add", "near", "netns", near, "type", "veth", "peer", "name", "far", "netns", far]);
        for (end, device, address) in [(near, "near", NEAR), (far, "far", FAR)] {
            run(&["-n", end, "address", "add", &format!("{address}/24"), "dev", device]);
            run(&["-n", end, "link", "set", device, "up"]);
            // As kube-proxy sets it on nodes: without it the kernel itself drops such packets.
            let localnet = "echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet";
            run(&["netns", "exec", end, "sh", "-ec", localnet]);
        }
        run(&["-n", far, "route", "add", "127.0.0.1/32", "via", NEAR, "dev", "far"]);
        neighbour
    }

    /// Whether a connection of the neighbour to 127.0.0.1 is taken by a listener of the agent's namespace.
    fn reaches(&self, port: &str) -> bool {
        connects(&self.name, port)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

fn run(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether a connection from this namespace to 127.0.0.1 is taken within five seconds.
fn connects(namespace: &str, port: &str) -> bool {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let command = ["netns", "exec", namespace, "timeout", "5", "bash", "-c", &script];
    Command::new("ip").args(command).output().unwrap().status.success()
}

/// The packets that the agent's rule dropped so far.
fn dropped(namespace: &Namespace) -> u64 {
    let rules = namespace.inside(&["iptables", "-w", "-vxn", "-L", "KUBE-FIREWALL"]).expect("the chain is there");
    let rule = rules.lines().find(|line| line.contains("DROP")).unwrap_or_else(|| panic!("no rule in {rules}"));
    rule.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a number of packets")
}

/// CVE-2020-8558, SEC-54: the agent's own read-only port listens on 127.0.0.1. A neighbour reaches it with the rule away, and
/// not with the rule there.
#[test]
fn cve_2020_8558_sec_54_a_packet_of_a_neighbour_for_loopback_is_dropped() {
    if let Some(reason) = no_iptables() {
        needs(reason);
        return;
    }
    let Some(mut node) = Node::new() else { return };
    let namespace = Namespace::new(&mut node);
    let neighbour = Neighbour::of(&namespace);
    node.start_agent();
    node.eventually_none("the rules are there", || namespace.missing());
    let port = node.named("READ_ONLY_PORT").to_owned();
    node.eventually("the port listens", || connects(&namespace.name, &port).then_some(()));
    let before = dropped(&namespace);
    assert!(!neighbour.reaches(&port), "a neighbour reaches loopback");
    assert!(dropped(&namespace) > before, "the rule did not see the packet");

    // A stopped agent cannot make the rule again, and the kernel takes connections for it.
    send_signal(node.agent_pid(), "STOP");
    for step in ["-F", "-X"] {
        namespace.inside(&["iptables", "-w", "-t", "filter", step]).expect("flushed");
    }
    node.eventually("the packet gets through without the rule", || neighbour.reaches(&port).then_some(()));
    send_signal(node.agent_pid(), "CONT");
    node.eventually_none("the rules are back", || namespace.missing());
    assert!(!neighbour.reaches(&port), "a neighbour reaches loopback after a flush");
}
