//! Statistics of real containers: known use, compared with the figures of it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use podwright::cri::{RuntimeService, StatsFilter};
use podwright::testing::skips::needs;
use serde_json::{Value, json};

use crate::harness::{Node, http_get};
use crate::pods::{pod, shell, then_forever, with};

const MIB: u64 = 1 << 20;

/// The complaints of `promtool check metrics` about names that are upstream's: they cannot be changed.
const LINT: &[&str] = &[
    r#"cadvisor_version_info label names should be written in 'snake_case' not 'camelCase'"#,
    r#"container_fs_inodes_total non-counter metrics should not have "_total" suffix"#,
    r#"container_memory_failcnt counter metrics should have "_total" suffix"#,
];

fn fetch(node: &Node, path: &str) -> String {
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    node.eventually(&format!("{path} is answered"), || {
        http_get(&address, path).filter(|(status, _)| *status == 200).map(|(_, body)| body)
    })
}

fn summary(node: &Node) -> Value {
    serde_json::from_str(&fetch(node, "/stats/summary")).expect("JSON")
}

fn pod_of<'a>(summary: &'a Value, name: &str) -> Option<&'a Value> {
    let name = format!("{name}-node1");
    summary["pods"].as_array()?.iter().find(|pod| pod["podRef"]["name"] == name.as_str())
}

fn container_of<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    pod["containers"].as_array()?.iter().find(|container| container["name"] == name)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// One container for each kind of use.
fn users() -> Value {
    let write = "dd if=/dev/zero of=/twenty bs=1048576 count=20; dd if=/dev/zero of=/scratch/five bs=1048576 count=5; \
                 head -c 300000 /dev/zero | tr '\\0' x | fold -w 1000";
    let mount = json!({ "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] });
    let containers = [
        shell("burn", "while :; do :; done"),
        shell("hold", &then_forever("x=$(head -c 52428800 /dev/zero | tr '\\0' x)")),
        with(shell("write", &then_forever(write)), mount),
    ];
    let volumes = json!([{ "name": "scratch", "emptyDir": {} }]);
    with(pod("users", &containers), json!({ "spec": { "volumes": volumes } }))
}

/// SRV-24, SRV-25, VOL-49: the figures are the use.
#[test]
fn known_use_is_told() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "volumeStatsAggPeriod": "1s" }));
    node.start_agent();
    node.apply(&users());
    for container in ["burn", "hold", "write"] {
        node.wait_running("users", container);
    }
    let mut last = Value::Null;
    let found = node.eventually("all use is told", || {
        std::thread::sleep(Duration::from_secs(2));
        last = summary(&node);
        let pod = pod_of(&last, "users")?;
        let of = |name: &str| container_of(pod, name).cloned().unwrap_or_default();
        let (burn, hold, write) = (of("burn"), of("hold"), of("write"));
        let is_told = number(&burn["cpu"]["usageNanoCores"]) > 50_000_000
            && number(&hold["memory"]["workingSetBytes"]) > 50 * MIB
            && number(&write["rootfs"]["usedBytes"]) > 20 * MIB
            && number(&write["logs"]["usedBytes"]) > 300_000
            && number(&pod["volume"][0]["usedBytes"]) > 5 * MIB;
        is_told.then(|| pod.clone())
    });
    let of = |name: &str| container_of(&found, name).cloned().unwrap_or_default();
    let (burn, hold, write) = (of("burn"), of("hold"), of("write"));
    assert!(number(&burn["cpu"]["usageNanoCores"]) < 1_200_000_000, "one thread: {burn:#}");
    assert!(number(&burn["memory"]["workingSetBytes"]) < 8 * MIB, "{burn:#}");
    assert!(number(&hold["memory"]["workingSetBytes"]) < 120 * MIB, "{hold:#}");
    assert!(number(&hold["memory"]["rssBytes"]) > 45 * MIB, "{hold:#}");
    assert!(number(&write["rootfs"]["usedBytes"]) < 21 * MIB, "{write:#}");
    assert!(number(&write["logs"]["usedBytes"]) < 400_000, "{write:#}");
    let volume = &found["volume"].as_array().expect("volumes")[0];
    assert!(volume["name"] == "scratch" && number(&volume["usedBytes"]) < 6 * MIB, "{volume:#}");
    assert!(number(&volume["inodesUsed"]) == 2, "the directory and the file: {volume:#}");
    let ephemeral = number(&found["ephemeral-storage"]["usedBytes"]);
    assert!(ephemeral > 25 * MIB && ephemeral < 29 * MIB, "{found:#}");
    assert!(number(&found["process_stats"]["process_count"]) >= 3, "{found:#}");
    assert_eq!(found["network"]["name"], "eth0", "{found:#}");
    assert!(number(&found["cpu"]["usageCoreNanoSeconds"]) >= number(&burn["cpu"]["usageCoreNanoSeconds"]), "{found:#}");
    the_runtime_counts_the_same_layer(&node);
    the_node_is_told_of(&summary(&node));
    // The runtime counts what images use on its own, now and then.
    node.eventually("the use of images is told", || {
        std::thread::sleep(Duration::from_secs(2));
        (number(&summary(&node)["node"]["runtime"]["imageFs"]["usedBytes"]) > 0).then_some(())
    });
    node.delete("users");
    node.wait_gone("users");
    node.eventually_none("nothing is told of it any more", || {
        std::thread::sleep(Duration::from_secs(2));
        pod_of(&summary(&node), "users").cloned().into_iter().collect()
    });
}

/// The runtime looks on its own, some seconds later.
fn the_runtime_counts_the_same_layer(node: &Node) {
    let write = node.wait_running("users", "write");
    node.eventually("the runtime counts the same", || {
        std::thread::sleep(Duration::from_secs(1));
        let stats = node.cri(async |cri| cri.list_container_stats(&StatsFilter::default()).await);
        let layer = stats.into_iter().find(|stats| stats.id == write.id.as_str())?.writable_layer?;
        let told = summary(node);
        let rootfs = &container_of(pod_of(&told, "users")?, "write")?["rootfs"];
        let same =
            rootfs["usedBytes"].as_u64() == layer.used_bytes && rootfs["inodesUsed"].as_u64() == layer.inodes_used;
        same.then_some(())
    });
}

fn the_node_is_told_of(told: &Value) {
    let node = &told["node"];
    assert_eq!(node["nodeName"], "node1");
    for (part, field) in [
        ("cpu", "usageCoreNanoSeconds"),
        ("memory", "availableBytes"),
        ("memory", "workingSetBytes"),
        ("fs", "capacityBytes"),
        ("fs", "inodesFree"),
        ("rlimit", "maxpid"),
        ("rlimit", "curproc"),
    ] {
        assert!(number(&node[part][field]) > 0, "{part}.{field}: {node:#}");
    }
    assert!(number(&node["runtime"]["imageFs"]["capacityBytes"]) > 0, "{node:#}");
    let systems = node["systemContainers"].as_array().expect("a list");
    assert!(systems.iter().any(|system| system["name"] == "pods"), "{node:#}");
}

/// OBS-01, OBS-17, OBS-20, OBS-21, OBS-23: both pages as Prometheus reads them.
#[test]
fn prometheus_reads_both_pages() {
    let Some(node) = Node::running() else { return };
    let limited = with(shell("main", &then_forever("")), json!({ "resources": { "limits": { "cpu": "100m" } } }));
    node.apply(&pod("web", &[limited]));
    let main = node.wait_running("web", "main");
    let labels = |line: &str| line.contains("namespace=\"default\"") && line.contains("pod=\"web-node1\"");
    let cadvisor = node.eventually("the container is told of", || {
        std::thread::sleep(Duration::from_secs(1));
        Some(fetch(&node, "/metrics/cadvisor")).filter(|page| page.contains(main.id.as_str()))
    });
    let of =
        |name: &str| cadvisor.lines().filter(|line| line.starts_with(&format!("{name}{{")) && labels(line)).collect();
    let usage: Vec<&str> = of("container_cpu_usage_seconds_total");
    assert_eq!(usage.len(), 3, "the pod, its sandbox, its container: {usage:#?}");
    let container: Vec<_> = usage.iter().filter(|line| line.contains("container=\"main\"")).collect();
    assert!(container.len() == 1 && container[0].contains("localhost/podwright/client:1"), "{usage:#?}");
    let network: Vec<&str> = of("container_network_receive_bytes_total");
    assert!(network.len() == 1 && network[0].contains("interface=\"eth0\""), "{network:#?}");
    assert!(!network[0].contains("image=\"\""), "{network:#?}");
    let periods: Vec<&str> = of("container_cpu_cfs_periods_total");
    assert!(!periods.is_empty(), "it has a quota");
    let resource = fetch(&node, "/metrics/resource");
    let of_main = resource.lines().filter(|line| line.contains("container=\"main\"") && labels(line)).count();
    assert_eq!(of_main, 4, "without a limit of swap there is none to tell: {resource}");
    for (name, page) in [("cadvisor", &cadvisor), ("resource", &resource)] {
        lint(name, page);
    }
}

/// Fails when Prometheus' own tool cannot read a page, or finds what nobody has looked at.
fn lint(name: &str, page: &str) {
    let tool = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut tool) = tool else {
        return needs("promtool");
    };
    tool.stdin.take().expect("piped").write_all(page.as_bytes()).expect("it reads all");
    let output = tool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let news: Vec<&str> = said.lines().filter(|line| !LINT.iter().any(|known| line.starts_with(known))).collect();
    assert!(news.is_empty(), "{name}: {news:#?}");
}

/// SRV-30: a profile names what took the time.
#[cfg(feature = "profiling")]
#[test]
fn a_profile_names_what_took_the_time() {
    use std::io::Read;

    let Some(node) = Node::running() else { return };
    let path = node.socket();
    let mut socket = node.eventually("the local socket", || std::os::unix::net::UnixStream::connect(&path).ok());
    write!(socket, "GET /debug/pprof/profile?seconds=5 HTTP/1.0\r\nHost: node\r\n\r\n").unwrap();
    let profiled = std::thread::spawn(move || {
        let mut answer = vec![];
        socket.read_to_end(&mut answer).map(|_| answer)
    });
    while !profiled.is_finished() {
        fetch(&node, "/metrics");
    }
    let answer = profiled.join().expect("no panic").expect("a whole answer");
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&answer[..end]);
    assert!(head.contains(" 200 "), "{head}");
    let mut profile = vec![];
    flate2::read::GzDecoder::new(&answer[end..]).read_to_end(&mut profile).expect("gzip");
    let words = String::from_utf8_lossy(&profile);
    for word in ["nanoseconds", "podwright::server::", "podwright::telemetry::"] {
        assert!(words.contains(word), "{word} is not in a profile of {} bytes", profile.len());
    }
}
