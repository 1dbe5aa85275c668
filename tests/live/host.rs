//! What the agent prepares on the machine itself. No test here changes the machine: kernel parameters are files of the
//! test, mounted over the kernel's in a mount namespace of the agent's.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::Node;

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

/// RES-18.
#[test]
fn kernel_parameters_are_set_before_anything_runs() {
    let Some(mut node) = Node::new() else { return };
    let folder = with_parameters(&mut node, ["0", "1", "0", "0", "200", "20000"], false);
    node.start_agent();
    node.answer(&["ps"]);
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
    node.answer(&["ps"]);
    assert_eq!(values(&folder), PARAMETERS.map(|(_, wanted)| wanted.to_owned()));
}

/// RES-18: what cannot be changed is told once, and pods run.
#[test]
fn a_machine_that_forbids_changes_of_kernel_parameters_gets_one_warning() {
    let Some(mut node) = Node::new() else { return };
    let before = ["0", "0", "0", "1", "1000000", "25000000"];
    let folder = with_parameters(&mut node, before, true);
    node.start_agent();
    node.answer(&["ps"]);
    let said = node.log();
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains("forbids changes of kernel")).collect();
    assert_eq!(warnings.len(), 1, "{said}");
    for name in ["vm/overcommit_memory", "kernel/panic:"] {
        assert!(warnings[0].contains(name), "{name} in {}", warnings[0]);
    }
    assert_eq!(values(&folder), before.map(str::to_owned));
}
