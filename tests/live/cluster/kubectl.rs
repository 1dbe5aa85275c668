//! The real kubectl at work on pods of the node: logs, exec, cp, attach, port-forward and figures, each through the API
//! server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::NODE_NAME;
use crate::pods::{forever, pod, shell, then_forever, web, with};

/// Bytes of the file that is copied each way.
const COPIED_BYTES: u64 = 200 << 20;
/// Seconds that a script of kubectl may take: a machine may be slow, and no test waits for this otherwise.
const SCRIPT_SECONDS: &str = "1200";

impl Cluster {
    /// The output of a shell in which `kubectl` is this cluster's, and how it ended.
    fn script_of(&self, script: &str) -> (i32, String) {
        let kubectl = self.command(&[]);
        let words: Vec<String> = std::iter::once(kubectl.get_program())
            .chain(kubectl.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        let function = format!("kubectl() {{ {} \"$@\"; }}\n", words.join(" "));
        let output = Command::new("timeout")
            .args([SCRIPT_SECONDS, "bash", "-c", &(function + script)])
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), said)
    }

    /// How many streams of this kind came to the agent as WebSockets.
    fn websockets(&self, subresource: &str) -> u32 {
        let metrics = self.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE_NAME}/proxy/metrics")]);
        let line = format!("kubelet_websocket_streaming_requests_total{{subresource=\"{subresource}\"}} ");
        metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or_default()
    }

    /// A terminal of 30 rows that gets 41 once the command in it knows of the 30, and its output. Each side waits for the
    /// other, in vain where a size never arrives.
    fn resized_terminal(&self, websockets: &str) -> (i32, String) {
        let inside = "until stty size | grep -qx '30 100'; do sleep 0.2; done; echo first $(stty size); \
                      until stty size | grep -qx '41 123'; do sleep 0.2; done; echo then $(stty size)";
        fs::write(self.dir.join("inside.sh"), inside).unwrap();
        // Words typed on the terminal go to a file as they come.
        let terminal = format!(
            "stty rows 30 cols 100\n\
             (until grep -q 'first 30 100' typed; do sleep 0.2; done; stty rows 41 cols 123 </dev/tty) &\n\
             KUBECTL_REMOTE_COMMAND_WEBSOCKETS={websockets} kubectl exec -it box -- sh -c \"$(cat inside.sh)\""
        );
        let kubectl = self.script_of("type kubectl | tail -n +2").1;
        fs::write(self.dir.join("terminal.sh"), format!("{kubectl}\n{terminal}\n")).unwrap();
        self.script_of("rm -f typed; timeout 300 script -qfec 'bash terminal.sh' typed </dev/null")
    }

    fn start_kubectl(&self, arguments: &[&str]) -> Running {
        let child = self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Running(child)
    }
}

/// A kubectl that goes on until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SRV-33 to SRV-37: what `kubectl logs` shows of a container that runs, of one that has ended, and as it is written.
#[test]
fn kubectl_logs_shows_what_containers_wrote() {
    let Some(cluster) = Cluster::joined() else { return };
    let counting = then_forever("for i in 1 2 3 4 5; do echo line $i; done; sleep 3; echo late");
    cluster.create_pod(pod("talker", &[shell("main", &counting)]));
    cluster.wait_pod_ready("talker");
    let lines = |arguments: &[&str]| cluster.kubectl(&[&["logs", "talker"], arguments].concat());
    cluster.eventually("the first lines are there", || lines(&[]).starts_with("line 1\nline 2\n").then_some(()));
    assert_eq!(lines(&["--limit-bytes=9"]), "line 1\nli");

    let mut follower = cluster.start_kubectl(&["logs", "-f", "--tail=1", "talker"]);
    let mut followed = BufReader::new(follower.0.stdout.take().expect("piped"));
    let mut line = String::new();
    while line != "late\n" {
        line.clear();
        assert_ne!(followed.read_line(&mut line).unwrap(), 0, "the log ended");
    }
    assert_eq!(lines(&["--tail=2"]), "line 5\nlate\n");
    assert_eq!(lines(&["--since=1h"]).lines().count(), 6);
    let stamped = lines(&["--timestamps", "--tail=1"]);
    let (stamp, text) = stamped.split_once(' ').expect("a time");
    assert!(stamp.ends_with('Z') && stamp.len() == "2006-01-02T15:04:05.000000000Z".len(), "{stamp}");
    assert_eq!(text, "late\n");

    let once =
        with(pod("once", &[shell("main", "date +%s; exit 3")]), json!({ "spec": { "restartPolicy": "Always" } }));
    cluster.create_pod(once);
    cluster.wait("pod", "once", "restarted", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)
    });
    let previous =
        cluster.eventually("there is a log of the run before", || cluster.try_kubectl(&["logs", "-p", "once"]).ok());
    assert!(previous.trim().parse::<u64>().is_ok(), "{previous:?}");
    let error = cluster.try_kubectl(&["logs", "talker", "-c", "nobody"]).expect_err("no such container");
    assert!(error.contains("container nobody is not valid for pod talker"), "{error}");
}

/// SRV-40 to SRV-45: commands with their status, input, and a terminal that changes its size. As the Node declares that
/// WebSockets may end at it, the API server hands them through.
#[test]
fn kubectl_exec_runs_commands_with_input_and_terminals() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.create_pod(pod("box", &[forever("main")]));
    cluster.wait_pod_ready("box");
    assert_eq!(cluster.kubectl(&["exec", "box", "--", "echo", "hello"]), "hello\n");
    assert_eq!(cluster.websockets("exec"), 1);
    let (status, said) =
        cluster.script_of("kubectl exec box -- sh -c 'echo out; echo err >&2; exit 42'; echo status $?");
    assert!(status == 0 && said.contains("status 42") && said.contains("out\n") && said.contains("err\n"), "{said}");
    let (_, said) = cluster.script_of("printf 'one two' | kubectl exec -i box -- wc -w");
    assert_eq!(said.trim(), "2");
    // Both ways of speaking: WebSocket is kubectl's own choice, SPDY what older ones do.
    let (_, said) =
        cluster.script_of("printf abc | KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec -i box -- md5sum");
    assert!(said.starts_with("900150983cd24fb0d6963f7d28e17f72"), "{said}");
    for spoken in ["true", "false"] {
        let (_, said) = cluster.resized_terminal(spoken);
        assert!(said.contains("first 30 100") && said.contains("then 41 123"), "{said}");
    }
}

/// Files go both ways whole.
#[test]
fn kubectl_cp_carries_large_files_both_ways() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.create_pod(pod("box", &[forever("main")]));
    cluster.wait_pod_ready("box");
    let script = format!(
        "set -e\nhead -c {COPIED_BYTES} /dev/urandom >sent\nsum=$(md5sum <sent)\n\
         kubectl cp sent box:/tmp-file\ninside=$(kubectl exec box -- sh -c 'md5sum </tmp-file')\n\
         kubectl cp box:/tmp-file received 2>/dev/null\nback=$(md5sum <received)\nrm -f sent received\n\
         echo \"$sum|$inside|$back\""
    );
    let (status, said) = cluster.script_of(&script);
    assert_eq!(status, 0, "{said}");
    let sums: Vec<&str> = said.trim().lines().last().unwrap_or_default().split('|').collect();
    assert!(sums.len() == 3 && sums[0].len() > 30 && sums.iter().all(|sum| *sum == sums[0]), "{said}");
}

/// SRV-40: what is typed reaches the container's own process.
#[test]
fn kubectl_attach_reaches_the_containers_process() {
    let Some(cluster) = Cluster::joined() else { return };
    let container = with(shell("main", "while read line; do echo got $line; done"), json!({ "stdin": true }));
    cluster.create_pod(pod("reader", &[container]));
    cluster.wait_pod_ready("reader");
    let mut attached = cluster.start_kubectl(&["attach", "-i", "reader"]);
    let mut input = attached.0.stdin.take().expect("piped");
    let mut output = BufReader::new(attached.0.stdout.take().expect("piped"));
    writeln!(input, "hello").unwrap();
    let mut line = String::new();
    while line != "got hello\n" {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the stream ended");
    }
    assert_eq!(cluster.websockets("attach"), 1);
}

/// SRV-46: many requests at once through one forwarded port.
#[test]
fn kubectl_port_forward_carries_many_connections() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.create_pod(pod("web", &[web("main")]));
    cluster.wait_pod_ready("web");
    for websockets in ["true", "false"] {
        let mut command = cluster.command(&["port-forward", "pod/web", ":80"]);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        let mut forwarding = Running(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(forwarding.0.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let port: u16 = line
            .strip_prefix("Forwarding from 127.0.0.1:")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("kubectl said {line:?}"));
        let asked: Vec<_> =
            (0..8).map(|_| std::thread::spawn(move || (0..10).filter(|_| answers(port)).count())).collect();
        let answered: usize = asked.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!(answered, 80, "with KUBECTL_PORT_FORWARD_WEBSOCKETS={websockets}");
        assert_eq!(cluster.websockets("portforward"), 1);
    }
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    write!(stream, "GET / HTTP/1.0\r\nHost: web\r\n\r\n").is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.contains(" 200 OK")
}

/// SRV-24, OBS-17, OBS-25: figures of the node and its pods, as metrics-server and dashboards ask for them.
#[test]
fn figures_are_there_for_who_asks_through_the_api_server() {
    let Some(cluster) = Cluster::joined() else { return };
    let busy = shell("main", &then_forever("(while :; do :; done) &"));
    // Its share of a machine that others keep busy, too.
    let busy = with(busy, json!({ "resources": { "requests": { "cpu": "500m" } } }));
    cluster.create_pod(pod("busy", &[busy]));
    cluster.wait_pod_ready("busy");
    let raw = |path: &str| cluster.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE_NAME}/proxy{path}")]);
    let used = cluster.eventually("the pod's use of the processor is told", || {
        let summary: Value = serde_json::from_str(&raw("/stats/summary")).expect("JSON");
        let pod = summary["pods"].as_array()?.iter().find(|pod| pod["podRef"]["name"] == "busy")?.clone();
        let nano_cores = pod["containers"][0]["cpu"]["usageNanoCores"].as_u64()?;
        (nano_cores > 50_000_000).then_some(nano_cores)
    });
    assert!(used > 0);
    let resources = raw("/metrics/resource");
    for wanted in [
        "container_cpu_usage_seconds_total{container=\"main\",namespace=\"default\",pod=\"busy\"} ",
        "pod_memory_working_set_bytes{namespace=\"default\",pod=\"busy\"} ",
        "node_cpu_usage_seconds_total ",
        "resource_scrape_error 0",
    ] {
        assert!(resources.lines().any(|line| line.starts_with(wanted)), "{wanted} is not in\n{resources}");
    }
    assert!(raw("/metrics/cadvisor").contains("container_cpu_usage_seconds_total{"));
}
