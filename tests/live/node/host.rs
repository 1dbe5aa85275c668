//! The agent's preparations on the machine itself. No test here changes the machine: kernel parameters are files of the
//! test, mounted over the kernel's in a mount namespace of the agent's; packet filter rules are in a network namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Node, http_get, send_signal};
use crate::pods::{forever, pod};

const PARAMETERS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Has the agent see these kernel parameters, from files that it may write to or not; gives their folder.
fn with_parameters(node: &mut Node, values: [&str; 6], read_only: bool) -> PathBuf {
    let folder = node.dir.join("sys");
    for ((name, _), value) in PARAMETERS.iter().zip(values) {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().expect("it has one")).unwrap();
        fs::write(file, format!("{value}\n")).unwrap();
    }
    let names = PARAMETERS.map(|(name, _)| name).join(" ");
    let protect = if read_only { "mount -o remount,bind,ro /proc/sys/$name;" } else { "" };
    let script = format!(
        "for name in {names}; do mount --bind {}/$name /proc/sys/$name; {protect} done; exec \"$@\"",
        folder.display()
    );
    node.wrapper = ["unshare", "--mount", "sh", "-ec", &script, "agent"].map(str::to_owned).into();
    folder
}

fn values(folder: &std::path::Path) -> [String; 6] {
    PARAMETERS.map(|(name, _)| fs::read_to_string(folder.join(name)).unwrap().trim().to_owned())
}

/// Waits for the agent by its port: its socket answers nobody from outside of its mount namespace.
fn is_up(node: &Node) {
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    node.eventually("the agent answers", || http_get(&address, "/pods").filter(|(status, _)| *status == 200));
}

/// RES-18.
#[test]
fn kernel_parameters_are_set_before_anything_runs() {
    let Some(mut node) = Node::new() else { return };
    let folder = with_parameters(&mut node, ["0", "1", "0", "0", "200", "20000"], false);
    node.start_agent();
    is_up(&node);
    assert_eq!(values(&folder), PARAMETERS.map(|(_, wanted)| wanted.to_owned()));
    assert!(!node.log().contains("forbids"), "{}", node.log());
}

/// RES-18: `protectKernelDefaults`.
#[test]
fn protected_kernel_parameters_that_differ_are_refused() {
    let Some(mut node) = Node::new() else { return };
    let before = ["0", "0", "10", "1", "1000000", "25000000"];
    let folder = with_parameters(&mut node, before, false);
    node.configure(json!({ "protectKernelDefaults": true }));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1), "{said}");
    let words = "invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0";
    assert!(said.contains(words) && said.contains("Failed to start ContainerManager"), "{said}");
    assert_eq!(values(&folder), before.map(str::to_owned), "nothing was set");

    let folder = with_parameters(&mut node, PARAMETERS.map(|(_, wanted)| wanted), false);
    node.start_agent();
    is_up(&node);
    assert_eq!(values(&folder), PARAMETERS.map(|(_, wanted)| wanted.to_owned()));
}

/// RES-18: the log names once what cannot be changed, and pods run.
#[test]
fn a_machine_that_forbids_changes_of_kernel_parameters_gets_one_warning() {
    let Some(mut node) = Node::new() else { return };
    let before = ["0", "0", "0", "1", "1000000", "25000000"];
    let folder = with_parameters(&mut node, before, true);
    node.start_agent();
    is_up(&node);
    let said = node.log();
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains("forbids changes of kernel")).collect();
    assert_eq!(warnings.len(), 1, "{said}");
    for name in ["vm/overcommit_memory", "kernel/panic:"] {
        assert!(warnings[0].contains(name), "{name} in {}", warnings[0]);
    }
    assert_eq!(values(&folder), before.map(str::to_owned));
}

// ------------------------------------------------------------ packet filter

/// A network namespace of the test's own, in which the agent runs and keeps its packet filter rules.
pub struct Namespace {
    /// The name for `ip netns`.
    pub name: String,
}

impl Namespace {
    /// Makes the namespace. The agent's next start is in it.
    pub fn new(node: &mut Node) -> Self {
        let name = format!("pw-{}", node.named("CGROUP_ROOT").trim_matches('/').replace('/', "-"));
        let name = name.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
        let namespace = Self { name };
        namespace.run_outside(&["netns", "add", &namespace.name]);
        namespace.inside(&["ip", "link", "set", "lo", "up"]).unwrap();
        // Not `ip netns exec`, which also hides the cgroups behind a new `/sys`.
        node.wrapper = vec!["nsenter".to_owned(), format!("--net=/run/netns/{}", namespace.name)];
        node.configure(json!({ "makeIPTablesUtilChains": true }));
        namespace
    }

    fn run_outside(&self, arguments: &[&str]) {
        let status = Command::new("ip").args(arguments).status().unwrap();
        assert!(status.success(), "ip {arguments:?}");
    }

    /// The output of a command in the namespace; none where it fails.
    pub fn inside(&self, command: &[&str]) -> Option<String> {
        let output = Command::new("ip").args(["netns", "exec", &self.name]).args(command).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The missing rules; nothing when all are there.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = vec![];
        for (family, chains) in [("iptables", &CHAINS[..]), ("ip6tables", &CHAINS[..4])] {
            for (table, chain) in chains {
                if self.inside(&[family, "-w", "-t", table, "-S", chain]).is_none() {
                    missing.push(format!("{family} {table} {chain}"));
                }
            }
        }
        let rules = self.inside(&["iptables", "-w", "-S"]).unwrap_or_default();
        for rule in [
            "-A INPUT -j KUBE-FIREWALL",
            "-A OUTPUT -j KUBE-FIREWALL",
            "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \"block incoming localnet connections\" \
             -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
        ] {
            if rules.lines().filter(|line| *line == rule).count() != 1 {
                missing.push(format!("{rule} in {rules}"));
            }
        }
        missing
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

/// The chains of both families, then that of the older one alone.
const CHAINS: [(&str, &str); 5] = [
    ("mangle", "KUBE-IPTABLES-HINT"),
    ("mangle", "KUBE-KUBELET-CANARY"),
    ("nat", "KUBE-KUBELET-CANARY"),
    ("filter", "KUBE-KUBELET-CANARY"),
    ("filter", "KUBE-FIREWALL"),
];

/// Why this machine has no packet filter to test with.
pub fn no_iptables() -> Option<&'static str> {
    let there = |program| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
    if !there("iptables") || !there("ip6tables") || !there("ip") {
        return Some("iptables or ip is missing");
    }
    let script = "iptables -w -t nat -S && ip6tables -w -t nat -S && iptables -w -t mangle -S && iptables -w -A INPUT \
                  -m comment --comment x -m conntrack ! --ctstate RELATED -j DROP";
    let able = Command::new("unshare").args(["--net", "sh", "-ec", script]).output().unwrap();
    (!able.status.success()).then_some("the kernel lacks tables of iptables")
}

/// CVE-2020-8558, SEC-54: the rules are there with the agent, once, and come back after a flush.
#[test]
fn cve_2020_8558_packet_filter_rules_are_made_and_come_back_after_a_flush() {
    if let Some(reason) = no_iptables() {
        podwright::testing::skips::needs(reason);
        return;
    }
    let Some(mut node) = Node::new() else { return };
    let namespace = Namespace::new(&mut node);
    node.start_agent();
    node.eventually_none("the rules are there", || namespace.missing());
    node.kill_agent();
    node.start_agent();
    node.answer(&["ps"]);
    node.eventually("both families are kept again", || {
        (node.log().matches("Initialized iptables rules.").count() == 4).then_some(())
    });
    assert_eq!(namespace.missing(), Vec::<String>::new(), "a second start makes nothing twice");
    for table in ["mangle", "nat", "filter"] {
        for family in ["iptables", "ip6tables"] {
            namespace.inside(&[family, "-w", "-t", table, "-F"]).unwrap();
            namespace.inside(&[family, "-w", "-t", table, "-X"]).unwrap();
        }
    }
    assert!(!namespace.missing().is_empty(), "the flush is felt");
    node.eventually_none("the rules are back", || namespace.missing());
}

/// A machine without the programs is no trouble.
#[test]
fn a_machine_without_iptables_runs_pods() {
    let Some(mut node) = Node::new() else { return };
    let bare = node.dir.join("bare-path");
    fs::create_dir_all(&bare).unwrap();
    node.variables.push(("PATH", bare.to_string_lossy().into_owned()));
    node.configure(json!({ "makeIPTablesUtilChains": true }));
    node.start_agent();
    node.apply(&pod("web", &[forever("main")]));
    node.wait_running("web", "main");
    node.eventually("it says so", || {
        node.log()
            .contains("No iptables support on this system; not creating the KUBE-IPTABLES-HINT chain")
            .then_some(())
    });
}

// ------------------------------------------------------------ processes

/// The agent's process, which a wrapper may have forked.
fn agent_process(node: &Node) -> u32 {
    let pid = node.agent_pid();
    if node.wrapper.is_empty() {
        return pid;
    }
    let children = format!("/proc/{pid}/task/{pid}/children");
    node.eventually("the agent is forked", || {
        fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok()
    })
}

/// RES-19: the agent moves itself, and is measured there.
#[test]
fn the_agent_moves_itself_to_the_cgroup_that_is_named_and_is_measured_there() {
    let Some(mut node) = Node::new() else { return };
    if fs::read_link("/proc/1/ns/pid").is_err() {
        // As upstream, an agent that cannot tell whether it is in a container moves nobody. Here it is the first process.
        node.wrapper = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"].map(str::to_owned).into();
    }
    let wanted = format!("{}/agent", node.named("CGROUP_ROOT"));
    node.configure(json!({ "kubeletCgroups": wanted, "oomScoreAdj": 17 }));
    node.start_agent();
    let pid = agent_process(&node);
    let proc = PathBuf::from(format!("/proc/{pid}"));
    node.eventually("it moved", || {
        let text = fs::read_to_string(proc.join("cgroup")).unwrap();
        let here = |line: &&str| line.split(':').nth(1).is_some_and(|it| it.contains("memory") || it.is_empty());
        text.lines().filter(here).any(|line| line.ends_with(&wanted)).then_some(())
    });
    assert_eq!(fs::read_to_string(proc.join("oom_score_adj")).unwrap().trim(), "17");
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    let summary = node.eventually("it is measured", || {
        let (status, body) = http_get(&address, "/stats/summary")?;
        let summary: Value = (status == 200).then(|| serde_json::from_str(&body).unwrap())?;
        let systems = summary["node"]["systemContainers"].as_array()?.clone();
        systems.into_iter().find(|one| one["name"] == "kubelet")
    });
    assert!(summary["memory"]["workingSetBytes"].as_u64().unwrap() > 0, "{summary}");
    // Under its gate, and with zeros where the kernel has no figures.
    assert!(summary["cpu"]["psi"]["some"]["total"].is_u64() && summary["io"]["psi"].is_object(), "{summary}");
    send_signal(pid, "TERM");
    node.wait_for_agent();
    let status = Command::new("sh")
        .args([
            "-c",
            &format!("for d in /sys/fs/cgroup/*{wanted} /sys/fs/cgroup{wanted}; do rmdir $d 2>/dev/null; done; true"),
        ])
        .status();
    assert!(status.unwrap().success());
}

/// RES-19: upstream's refusal.
#[test]
fn the_root_is_no_cgroup_for_the_systems_processes() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "systemCgroups": "/" }));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("system container cannot be root (\\\"/\\\")"), "{said}");
}

/// SEC-60: folders and certificates have upstream's modes.
#[test]
fn folders_and_certificates_have_upstreams_modes() {
    let Some(mut node) = Node::new() else { return };
    fs::remove_dir_all(node.dir.join("kubelet")).unwrap();
    node.start_agent();
    node.answer(&["ps"]);
    for (path, mode) in [
        ("pki", 0o755),
        ("pki/kubelet.crt", 0o644),
        ("pki/kubelet.key", 0o600),
        ("kubelet", 0o750),
        ("kubelet/pods", 0o750),
        ("kubelet/plugins", 0o750),
        ("kubelet/plugins_registry", 0o750),
        ("kubelet/pod-resources", 0o750),
    ] {
        let found = fs::metadata(node.dir.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{path}: {found:o}");
    }
}
