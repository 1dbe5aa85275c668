//! Logs as their readers get them: over the agent's socket, of containers that write, end, crash and are rotated.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use podwright::cri::ContainerStatus;
use serde_json::json;

use crate::harness::{AGENT, Node, container_status};
use crate::pods::{pod, shell, then_forever, with};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request that was sent; its answer is read as it comes.
struct Asked(UnixStream);

impl Asked {
    /// Without keeping the connection, so that an answer ends with it.
    fn new(node: &Node, path: &str) -> Self {
        let socket = node.socket();
        let mut stream = node.eventually("the socket answers", || UnixStream::connect(&socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n\r\n").unwrap();
        Self(stream)
    }

    /// Reads until so much of the body is there.
    fn until(&mut self, end: &str) -> String {
        let (mut text, mut part) = (vec![], [0; 4096]);
        while !text.ends_with(end.as_bytes()) {
            let length = self.0.read(&mut part).unwrap();
            assert!(length > 0, "it ended: {}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&part[..length]);
        }
        String::from_utf8(text).unwrap()
    }

    /// Status, head and body, once it has ended.
    fn end(mut self) -> (u16, String, String) {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }
}

fn path_of(pod: &str, query: &str) -> String {
    format!("/containerLogs/default/{pod}-node1/main?{query}")
}

fn logs(node: &Node, pod: &str, query: &str) -> String {
    let (status, _, body) = Asked::new(node, &path_of(pod, query)).end();
    assert_eq!(status, 200, "{pod}?{query}: {body}");
    body
}

/// The container `main` of the pod `web`, once the agent shows that it runs: the runtime says so before it answers the
/// call that starts one, and until then its log is refused.
fn started(node: &Node) -> ContainerStatus {
    node.wait_listed("web", "running", |pod| container_status(pod, "main")["state"]["running"].is_object());
    node.wait_running("web", "main")
}

/// SRV-33, SRV-35, SRV-36, CRI-32: each option, of a container that runs, and by the command line.
#[test]
fn a_log_is_read_as_asked_for() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[shell("main", &then_forever("seq 1 5"))]));
    started(&node);
    let all = node.eventually("all is written", || Some(logs(&node, "web", "")).filter(|text| text.ends_with("5\n")));
    assert_eq!(all, "1\n2\n3\n4\n5\n");
    for (query, expected) in [
        ("limitBytes=3", "1\n2"),
        ("tailLines=0", ""),
        ("tail=all&limitBytes=1", "1"),
        ("sinceSeconds=3600", all.as_str()),
        ("sinceTime=2099-01-01T00:00:00Z", ""),
    ] {
        assert_eq!(logs(&node, "web", query), expected, "{query}");
    }
    assert_eq!(logs(&node, "web", "tailLines=2"), "4\n5\n");
    let stamped = logs(&node, "web", "timestamps=1&limitBytes=33");
    assert!(stamped.len() == 33 && stamped.contains(" 1"), "{stamped}");
    let (status, head, _) = Asked::new(&node, &path_of("web", "")).end();
    assert!(status == 200 && !head.to_ascii_lowercase().contains("\ncontent-type:"), "{head}");
    for (path, status, body) in [
        ("/containerLogs/default/none/main", 404, "pod \"none\" does not exist"),
        ("/containerLogs/default/web-node1/none", 404, "container \"none\" not found in pod \"web-node1\""),
    ] {
        let (seen, _, text) = Asked::new(&node, path).end();
        assert_eq!((seen, text.as_str()), (status, body));
    }
    let command = |words: &[&str]| {
        let output = std::process::Command::new(AGENT).args(words).arg("--socket").arg(node.socket()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(command(&["logs", "default/web"]), all);
    assert_eq!(command(&["logs", "default/web-node1", "-c", "main", "--limit-bytes", "3", "--since", "1h"]), "1\n2");
}

/// SRV-34: a container that waits to be started again shows its last run, and the one before it when asked for.
#[test]
fn a_crashing_containers_last_run_is_shown() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[shell("main", "echo last words; exit 1")]));
    node.wait_listed("web", "in its back-off", |pod| {
        let status = container_status(pod, "main");
        status["state"]["waiting"]["reason"] == "CrashLoopBackOff" && status["restartCount"] != 0
    });
    assert_eq!(logs(&node, "web", ""), "last words\n");
    assert_eq!(logs(&node, "web", "previous=true"), "last words\n");
    assert_eq!(logs(&node, "web", "follow=true"), "last words\n", "nothing more will come of that one");
}

/// CRI-32.
/// SRV-37, PAIN-25, PAIN-26: a follower gets every line once and in order over many rotations, and ends with the
/// container; who comes later gets the same from the rotated files.
#[test]
fn a_log_is_followed_over_rotations_to_its_end() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "containerLogMaxSize": "1Mi", "containerLogMaxFiles": 50 }));
    node.start_agent();
    let script =
        "sleep 3; i=0; while [ $i -lt 20 ]; do seq $((i*10000+1)) $((i*10000+10000)); i=$((i+1)); sleep 0.2; done";
    let never = json!({ "spec": { "restartPolicy": "Never" } });
    node.apply(&with(pod("web", &[shell("main", script)]), never));
    let main = started(&node);
    let (_, _, followed) = Asked::new(&node, &path_of("web", "follow=true")).end();
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(followed == expected, "{} of {} bytes", followed.len(), expected.len());
    let folder = PathBuf::from(&main.log_path);
    node.eventually("what was rotated is compressed", || {
        let mut files = std::fs::read_dir(folder.parent().unwrap()).unwrap().flatten().map(|one| one.file_name());
        files.any(|name| name.to_string_lossy().ends_with(".gz")).then_some(())
    });
    assert!(logs(&node, "web", "") == expected, "all files");
    let last: String = (50_001..=200_000).map(|number| format!("{number}\n")).collect();
    let tail = logs(&node, "web", "tailLines=150000");
    let (begins, ends) = (tail.lines().next(), tail.lines().next_back());
    assert!(tail == last, "{} of 150000 lines, from {begins:?} to {ends:?}", tail.lines().count());
}

/// SEC-14, SRV-37: a hundred readers who wait cost no threads, each gets what is written, and nothing is left of them.
#[test]
fn a_hundred_followers_cost_no_threads() {
    let Some(node) = Node::running() else { return };
    let script = "trap 'exit 0' TERM; echo begins; while [ ! -e /tmp/go ]; do sleep 0.2; done; echo goes on; sleep 1000 & wait $!";
    node.apply(&pod("web", &[shell("main", script)]));
    let main = started(&node);
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", node.agent_pid())).unwrap().count();
    Asked::new(&node, &path_of("web", "follow=true")).until("begins\n");
    let (threads, files) = (count("task"), count("fd"));
    let mut followers: Vec<Asked> = (0..100).map(|_| Asked::new(&node, &path_of("web", "follow=true"))).collect();
    for follower in &mut followers {
        follower.until("begins\n");
    }
    let now = count("task");
    assert!(now <= threads + 20, "{threads} threads before, {now} with followers");
    node.run_in(&main, "touch /tmp/go");
    for follower in &mut followers {
        assert_eq!(follower.until("goes on\n"), "goes on\n");
    }
    drop(followers);
    node.eventually("the agent has let go", || (count("fd") <= files + 20).then_some(()));
}

/// SEC-13: a pod that may write to the node's logs has the agent read nothing else to it.
#[test]
fn a_link_that_a_pod_plants_is_not_followed() {
    let Some(node) = Node::running() else { return };
    let script = then_forever(
        "sleep 1; cd /host/default_evil-node1_*/main && ln -sf /etc/shadow 0.log && echo linked >/tmp/done",
    );
    let mut evil = pod("evil", &[shell("main", &script)]);
    evil["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "logs", "mountPath": "/host" }]);
    evil["spec"]["volumes"] = json!([{ "name": "logs", "hostPath": { "path": node.dir.join("logs") } }]);
    node.apply(&evil);
    let main = node.wait_running("evil", "main");
    node.wait_listed("evil", "running", |pod| container_status(pod, "main")["state"]["running"].is_object());
    let log = PathBuf::from(&main.log_path);
    node.eventually("the link is there", || log.symlink_metadata().ok().filter(|found| found.is_symlink()));
    for query in ["", "follow=true", "tailLines=1"] {
        let body = logs(&node, "evil", query);
        assert!(body.starts_with("failed to open log file") && !body.contains("root:"), "{body}");
    }
}
