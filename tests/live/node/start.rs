//! The agent's way into life: what it prints, and what it refuses to run with, in one clear sentence and status 1.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{AGENT, Node, http_get};
use crate::pods::{forever, pod};

fn agent(arguments: &[&str]) -> Output {
    Command::new(AGENT).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// CFG-24.
#[test]
fn version_and_help_are_printed_and_nothing_runs() {
    let version = agent(&["--version"]);
    assert!(version.status.success());
    let (level, own) = (text(&version.stdout), text(&version.stderr));
    // kubeadm takes one line and no more.
    assert!(level.starts_with("Kubernetes v1.36.") && level.lines().count() == 1, "{version:?}");
    assert!(own.starts_with(concat!("podwright ", env!("CARGO_PKG_VERSION"), " (commit ")), "{version:?}");
    for flag in ["--help", "-h"] {
        let help = agent(&[flag]);
        assert!(help.status.success());
        let said = text(&help.stdout);
        assert!(said.contains("podwright [flags]") && said.contains("\n  explain "), "{said}");
        for flag in ["--config string", "--root-dir string", "--hostname-override string"] {
            assert!(said.contains(flag), "{flag} in {said}");
        }
    }
}

/// CFG-18: a flag that does not exist, and a configuration that is not there.
#[test]
fn a_wrong_command_line_is_refused_by_name() {
    for (arguments, words) in [
        (["--nope", ""], "unknown flag: --nope"),
        (["--config", "/no/such/file"], "/no/such/file: no such file or directory"),
        (["--max-pods", "many"], "invalid argument \\\"many\\\" for \\\"--max-pods\\\" flag"),
    ] {
        let said = agent(&arguments.map(|word| word).into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>());
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(text(&said.stderr).contains(words), "{words} in {}", text(&said.stderr));
    }
}

/// CFG-16, CFG-17: every mistake at once.
#[test]
fn a_wrong_configuration_is_refused_with_all_that_is_wrong() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "port": -1, "maxPods": -5, "imageGCHighThresholdPercent": 120 }));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1));
    for words in [
        "imageGCHighThresholdPercent (--image-gc-high-threshold) 120 must be between 0 and 100, inclusive",
        "maxPods (--max-pods) -5 must not be a negative number",
        "port (--port) -1 must be between 1 and 65535, inclusive",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

/// CFG-20.
#[test]
fn a_feature_gate_that_does_not_exist_is_refused() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "featureGates": { "NoSuchGate": true } }));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("unrecognized feature gate: NoSuchGate"), "{said}");
}

/// CFG-30.
#[test]
fn a_host_with_cgroups_of_the_first_version_is_refused_unless_allowed() {
    let Some(mut node) = Node::new() else { return };
    if node.named("CGROUP_VERSION") != "1" {
        return;
    }
    // RES-68: neither may its containers swap by share.
    node.configure(json!({ "memorySwap": { "swapBehavior": "LimitedSwap" } }));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("failed to run Kubelet: swap feature is enabled and LimitedSwap but"), "{said}");
    node.configuration.as_object_mut().unwrap().remove("failCgroupV1");
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("kubelet is configured to not run on a host using cgroup v1. "), "{said}");
}

/// CRI-01: no runtime there.
#[test]
fn a_missing_runtime_socket_is_refused_by_name() {
    let Some(mut node) = Node::new() else { return };
    let endpoint = format!("unix://{}/none.sock", node.dir.display());
    node.configure(json!({ "containerRuntimeEndpoint": endpoint }));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("none.sock") && said.contains("failed to run Kubelet"), "{said}");
}

/// CRI-01, CRI-02: something listens but never answers, or answers with what is no runtime's language.
#[test]
fn a_runtime_socket_without_a_runtime_behind_it_is_refused() {
    for answer in [None, Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice()), Some(&[0xff; 4096])] {
        let Some(mut node) = Node::new() else { return };
        let path = node.dir.join("odd.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            // Kept open: a connection that hangs, not one that breaks.
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if let Some(answer) = answer {
                    let _ = stream.read(&mut [0; 16]);
                    let _ = stream.write_all(answer);
                }
                kept.push(stream);
            }
        });
        let endpoint = format!("unix://{}", path.display());
        node.configure(json!({ "containerRuntimeEndpoint": endpoint, "runtimeRequestTimeout": "2s" }));
        let (status, said) = node.run_agent_to_its_end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("odd.sock") && said.contains("failed to run Kubelet"), "{said}");
    }
}

/// CFG-33: who wants the lock gets it, and the pods with it.
#[test]
fn an_agent_leaves_when_another_wants_its_lock() {
    let Some(mut node) = Node::new() else { return };
    let lock = node.dir.join("lock").to_str().unwrap().to_owned();
    node.flags.extend(["--lock-file".to_owned(), lock.clone(), "--exit-on-lock-contention".to_owned()]);
    node.start_agent();
    node.apply(&pod("web", &[forever("main")]));
    let main = node.wait_running("web", "main");
    drop(std::fs::File::open(&lock).unwrap());
    let status = node.wait_for_agent();
    assert!(status.code().is_some(), "it ended by itself: {status}");
    node.start_agent();
    node.see_a_round();
    assert_eq!(node.running_now("web", "main").map(|one| one.id), Some(main.id));
}

/// CFG-33.
#[test]
fn leaving_for_a_lock_needs_a_lock() {
    let said = agent(&["--exit-on-lock-contention", "--fail-cgroupv1=false"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("cannot exit on lock file contention: no lock file specified"), "{said:?}");
}

/// CFG-37, CFG-39, SRV-01: health, and the list of pods on the read-only port.
#[test]
fn the_agent_says_that_it_is_well() {
    let Some(node) = Node::running() else { return };
    let address = format!("127.0.0.1:{}", node.named("HEALTHZ_PORT"));
    let answer = node.eventually("it answers", || http_get(&address, "/healthz").filter(|answer| answer.0 == 200));
    assert_eq!(answer.1, "ok");
    node.apply(&pod("web", &[forever("main")]));
    let shown: Value = node.wait_listed("web", "running", |pod| pod["status"]["phase"] == "Running");
    assert_eq!(shown["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(shown["spec"]["nodeName"], "node1");
    assert_eq!(shown["status"]["qosClass"], "BestEffort");
}

/// SRV-01: an unspecified address stands for all addresses of both families, as Go's listener has it: an API server that
/// knows the node by an IPv6 address reaches it.
#[test]
fn an_unspecified_address_is_every_address_of_both_families() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "address": "0.0.0.0", "healthzBindAddress": "0.0.0.0" }));
    node.start_agent();
    for host in ["127.0.0.1", "[::1]"] {
        for (port, path) in [("READ_ONLY_PORT", "/pods"), ("HEALTHZ_PORT", "/healthz")] {
            let address = format!("{host}:{}", node.named(port));
            let answer = node.eventually(&format!("{address} answers"), || http_get(&address, path));
            assert_eq!(answer.0, 200, "{address}{path}: {}", answer.1);
        }
        // It speaks TLS; that it listens is enough here.
        TcpStream::connect(format!("{host}:{}", node.named("PORT"))).expect("10250 listens");
    }
}
