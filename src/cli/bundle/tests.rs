//! Tests of a bundle: nothing secret in it, every part in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const CANARY: &str = "hunter2-canary";

/// A pod that holds the canary in every place where a pod may hold a text of its own.
fn pod_of_secrets() -> Value {
    let probe = json!({"exec": {"command": ["check", CANARY]}, "periodSeconds": 7});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-node1", "namespace": "shop", "uid": "u1",
                     "labels": {"app": "web", "who": CANARY}, "annotations": {"note": CANARY, "kubernetes.io/config.source": "file"},
                     "managedFields": [{"fieldsV1": {CANARY: {}}}]},
        "spec": {
            "nodeName": "node1",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [CANARY]}],
            "nodeSelector": {"zone": CANARY},
            "containers": [{
                "name": "main", "image": "busybox", "command": ["sh", "-c", format!("run --password={CANARY}")], "args": [CANARY],
                "workingDir": format!("/{CANARY}"),
                "env": [{"name": "TOKEN", "value": CANARY},
                        {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "livenessProbe": probe,
                "readinessProbe": {"httpGet": {"path": format!("/?t={CANARY}"), "port": 80, "httpHeaders": [{"name": "X", "value": CANARY}]}},
                "lifecycle": {"postStart": {"exec": {"command": [CANARY]}}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "aFieldOfTomorrow": {"x": CANARY},
            }],
            "volumes": [{"name": "data", "csi": {"driver": "d", "volumeAttributes": {"key": CANARY}}},
                        {"name": "s", "secret": {"secretName": "db"}}],
        },
        "status": {
            "phase": "Running", "message": CANARY,
            "conditions": [{"type": "Ready", "status": "False", "message": CANARY}],
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": CANARY}},
                                   "lastState": {"terminated": {"exitCode": 4, "message": CANARY}}}],
        },
    })
}

fn explanation_of_secrets() -> Value {
    json!([{
        "pod": {"namespace": "shop", "name": "web-node1", "waiting": [format!("waits for postStart hook: {CANARY}"), "waits for the pod's cgroup"]},
        "message": CANARY, "why": [CANARY],
        "conditions": [{"kind": "Ready", "status": "False", "message": "containers with unready status: [main]"},
                       {"kind": "example.com/gate", "message": "kept by nobody"}],
        "containers": [{"name": "main", "state": "terminated", "reason": "Error", "message": "kept by nobody", "detail": "kept by nobody",
                        "last": "kept by nobody"}],
        "events": [{"reason": "Unhealthy", "message": "Liveness probe failed: kept by nobody"},
                   {"reason": "Failed", "message": format!("exec: {CANARY}: not found")}],
        "worker": {"name": "PodWorker/shop/web-node1/u1", "last_failure": CANARY, "operations": [{"name": "start", "about": CANARY}]},
        "node_problems": [CANARY],
    }])
}

/// Answers of an agent whose texts hold the canary wherever they may.
fn answers() -> BTreeMap<&'static str, String> {
    let actors = json!({"uptime_seconds": 5.0, "actors": [{"name": "Root", "last_failure": CANARY, "note": CANARY,
                        "operations": [{"name": "x", "about": CANARY, "open_seconds": 1.0}]}]});
    let configuration = json!({"kubeletconfig": {"staticPodURL": format!("https://u:{CANARY}@host/pods?t={CANARY}"),
                               "staticPodURLHeader": {"Authorization": [CANARY]}, "aToken": CANARY,
                               "containerRuntimeEndpoint": "unix:///nowhere.sock"}});
    BTreeMap::from([
        ("/pods", json!({"kind": "PodList", "items": [pod_of_secrets()]}).to_string()),
        ("/statusz", "kubelet statusz\n".to_owned()),
        ("/flagz", format!("v=2\nmanifest-url=https://u:{CANARY}@host/?t={CANARY}\nmanifest-url-header={CANARY}\n")),
        ("/configz", configuration.to_string()),
        ("/debug/actors", actors.to_string()),
        ("/debug/actors/trace?format=json", json!({"turns": [{"id": 1, "actor": "Root", "message": "Start"}]}).to_string()),
        ("/ps", json!([{"namespace": "shop", "name": "web-node1", "phase": "Running", "waiting": [CANARY], "waiting_for": [CANARY]},
                       {"namespace": "shop", "name": "well", "phase": "Running", "ready": true}]).to_string()),
        ("/explain/shop/web-node1", explanation_of_secrets().to_string()),
        ("/debug/plugins", json!([{"name": "d", "last_error": CANARY, "calls": [{"method": "M", "about": CANARY}]}]).to_string()),
        ("/metrics", format!("up{{x=\"{CANARY}\"}} 1\n")),
        ("/metrics/slis", "slis 1\n".to_owned()),
    ])
}

/// Plays the agent: answers each request once from a table, all others with 404.
fn played(listener: UnixListener, answers: BTreeMap<&'static str, String>) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut lines = BufReader::new(&stream).lines();
            let first = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
            let path = first.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match answers.get(path) {
                Some(body) => ("200 OK", body.as_str()),
                None => ("404 Not Found", "not here\n"),
            };
            let _ = write!(&stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
}

fn collected(answers: BTreeMap<&'static str, String>) -> BTreeMap<String, Result<String, String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("podwright.sock");
    played(UnixListener::bind(&path).expect("bound"), answers);
    let clock = SystemClock::start();
    let parts = Collector::new(&Client::new(path), &clock).all();
    let text = |part: Result<Vec<u8>, String>| part.map(|bytes| String::from_utf8(bytes).expect("text"));
    parts.into_iter().map(|(name, part)| (name, text(part))).collect()
}

#[test]
fn no_part_holds_a_pods_secret() {
    let parts = collected(answers());
    for (name, part) in &parts {
        let said = part.as_ref().unwrap_or_else(|why| why);
        assert!(!said.contains("canary") && !said.contains("hunter2"), "{name}: {said}");
        assert!(!said.contains("kept by nobody"), "{name}: {said}");
    }
    let there = |name: &str| parts[name].as_ref().unwrap_or_else(|why| panic!("{name}: {why}"));
    let pods = there("pods.json");
    for kept in [
        "web-node1",
        "busybox",
        "TOKEN",
        "secretKeyRef",
        "\"password\"",
        "secretName",
        "containerPort",
        "\"exitCode\": 3",
        "\"app\": \"web\"",
    ] {
        assert!(pods.contains(kept), "{kept}: {pods}");
    }
    let explained = there("explain/000-web-node1.json");
    for kept in ["waits for the pod's cgroup", "containers with unready status: [main]", "exec: (cut): not found"] {
        assert!(explained.contains(kept), "{kept}: {explained}");
    }
    assert!(there("flagz.txt").contains("v=2\nmanifest-url=https://host/\nmanifest-url-header=(cut)\n"));
    assert!(there("configz.json").contains("https://host/pods"));
    assert_eq!(there("metrics.txt"), "up{x=\"(cut)\"} 1\n");
    assert!(there("trace.html").contains("Root"));
    assert!(!parts.contains_key("explain/001-well.json"), "well pods need no explanation");
}

#[test]
fn a_part_that_fails_is_named_and_the_others_go_on() {
    let parts = collected(answers());
    assert_eq!(parts["metrics-probes.txt"], Err("not here".to_owned()));
    assert!(parts["runtime.txt"].as_ref().expect_err("no runtime").contains("nowhere"));
    assert_eq!(parts["metrics-slis.txt"], Ok("slis 1\n".to_owned()));
    assert!(parts["system.txt"].as_ref().expect("there").contains("Linux version"));
}

/// Without the pods nobody knows the values: every sentence goes.
#[test]
fn without_the_pods_all_sentences_are_cut() {
    let mut without = answers();
    without.remove("/pods");
    let parts = collected(without);
    for (name, part) in &parts {
        let said = part.as_ref().unwrap_or_else(|why| why);
        assert!(!said.contains("canary"), "{name}: {said}");
    }
    assert!(parts["metrics.txt"].is_err());
    assert!(parts["ps.json"].as_ref().expect("there").contains("web-node1"));
    let nobody = collected(BTreeMap::new());
    assert!(nobody["pods.json"].is_err() && nobody["system.txt"].is_ok());
}

#[test]
fn log_lines_keep_names_and_errors_and_lose_the_rest() {
    let known = Known::of(&BTreeSet::from([CANARY.to_owned()]), &BTreeSet::new());
    let text = concat!(
        "I1126 23:15:01.123456    1234 pods.rs:12] \"pod started\" pod=\"shop/web\" count=3 output=\"hello\"\n",
        "E1126 23:15:01.123456    1234 run.rs:72] \"command failed\" err=\"exec \\\"hunter2-canary\\\" of \\\"x\\\"\"\n",
        "W1126 23:15:01.123456    1234 hooks.rs:7] \"hook failed\" err=\"it said abc\" pod=\"shop/web\"\n",
        "I1126 23:15:01.123456    1234 run.rs:9] \"it said hunter2-canary of https://u:p@h/x\" pod=\"shop/web\"\n",
        "I1126 23:15:01.123456    1234 pods.rs:12] \"torn\" pod=\"shop\n",
        "thread 'main' panicked: hello\n",
        "{\"ts\":1.5,\"msg\":\"pod started\",\"pod\":\"shop/web\",\"output\":\"hello\",\"err\":\"hunter2-canary\",\"more\":{\"a\":1}}\n",
        "{\"ts\":\n",
    );
    let expected = concat!(
        "I1126 23:15:01.123456    1234 pods.rs:12] \"pod started\" pod=\"shop/web\" count=3 output=(cut)\n",
        "E1126 23:15:01.123456    1234 run.rs:72] \"command failed\" err=\"exec \\\"(cut)\\\" of \\\"x\\\"\"\n",
        "W1126 23:15:01.123456    1234 hooks.rs:7] \"hook failed\" err=(cut) pod=\"shop/web\"\n",
        "I1126 23:15:01.123456    1234 run.rs:9] \"it said (cut) of https://h/x\" pod=\"shop/web\"\n",
        "(a line of 58 bytes, cut)\n",
        "(a line of 29 bytes, cut)\n",
        "{\"ts\":1.5,\"msg\":\"pod started\",\"pod\":\"shop/web\",\"output\":\"(cut)\",\"err\":\"(cut)\",\"more\":\"(cut)\"}\n",
        "(a line of 6 bytes, cut)\n",
    );
    let cut = texts::cut_log(text, &known);
    let sorted = |text: &str| text.lines().map(|line| line.split(',').map(str::len).sum::<usize>()).collect::<Vec<_>>();
    assert_eq!(sorted(&cut), sorted(expected), "{cut}");
    assert_eq!(cut.lines().take(5).collect::<Vec<_>>(), expected.lines().take(5).collect::<Vec<_>>());
    let nothing = texts::cut_log(text, &Known::Nothing);
    assert!(nothing.contains("pod=\"shop/web\"") && !nothing.contains("exec"), "{nothing}");
}

#[test]
fn urls_lose_users_and_queries() {
    for (text, expected) in [
        ("no url", "no url"),
        ("get https://u:p@host:1/a?b=c#d: refused", "get https://host:1/a refused"),
        ("\"http://u@host\", (http://h?x)", "\"http://host\", (http://h)"),
        ("unix:///run/x.sock", "unix:///run/x.sock"),
        ("https://a@b@c/", "https://c/"),
    ] {
        assert_eq!(known::without_credentials(text), expected);
    }
}

#[test]
fn values_that_the_bundle_has_anyway_and_short_ones_are_not_looked_for() {
    let values = BTreeSet::from(["main".to_owned(), "abc".to_owned(), "first line\nsecond \"line\"".to_owned()]);
    let known = Known::of(&values, &BTreeSet::from(["main".to_owned()]));
    assert_eq!(known.redacted("main abc"), "main abc");
    assert_eq!(known.redacted("it said: second \"line\" and second \\\"line\\\""), "it said: (cut) and (cut)");
}

fn untarred(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![];
    let mut rest = archive;
    while rest.first().is_some_and(|byte| *byte != 0) {
        let (head, after) = rest.split_at(512);
        let text =
            |range: std::ops::Range<usize>| String::from_utf8_lossy(&head[range]).trim_end_matches('\0').to_owned();
        let sum: u32 = head
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
            .sum();
        assert_eq!(u32::from_str_radix(&text(148..154), 8), Ok(sum));
        let size = usize::from_str_radix(&text(124..135), 8).expect("octal");
        files.push((text(0..100), after[..size].to_vec()));
        rest = &after[size.next_multiple_of(512)..];
    }
    assert_eq!(rest.len(), 1024, "two empty blocks end it");
    files
}

#[test]
fn the_archive_holds_all_parts_that_are_there_and_the_list() {
    let parts = [
        ("a.txt".to_owned(), Ok(b"hello".to_vec())),
        ("b.txt".to_owned(), Err("it is not there".to_owned())),
        (format!("{}.txt", "é".repeat(80)), Ok(vec![7; 512])),
    ];
    let packed = pack(&parts, 1_700_000_000).expect("packed");
    let mut archive = vec![];
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut archive).expect("gzip");
    let files = untarred(&archive);
    assert_eq!((files[0].0.as_str(), &files[0].1[..]), ("podwright-debug/a.txt", &b"hello"[..]));
    assert_eq!(files[1].1, vec![7; 512]);
    let listed = String::from_utf8(files[2].1.clone()).expect("text");
    assert!(files[2].0.ends_with("CONTENTS.txt") && listed.contains("it is not there"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with("a.txt") && line.ends_with('5')), "{listed}");
}

#[test]
fn tar_reads_the_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.tar.gz");
    let packed = pack(&[("a.txt".to_owned(), Ok(b"hello".to_vec()))], 0).expect("packed");
    std::fs::write(&file, packed).expect("written");
    let Ok(output) = std::process::Command::new("tar").arg("-xzOf").arg(&file).arg("podwright-debug/a.txt").output()
    else {
        return crate::testing::skips::needs("tar");
    };
    assert_eq!((output.status.success(), output.stdout), (true, b"hello".to_vec()));
}

#[test]
fn an_archive_is_for_its_maker_alone_and_replaces_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::new(folder.path().join("none.sock"));
    let file = folder.path().join("x.tar.gz");
    let wanted = |list| BundleOptions { file: Some(file.clone()), list };
    run(&client, &wanted(true), false).expect("listed");
    assert!(!file.exists(), "a list writes nothing");
    let said = run(&client, &wanted(false), false).expect("written");
    assert!(said.contains("system.txt") && said.contains("Read it before you hand it on."), "{said}");
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    run(&client, &wanted(false), false).expect_err("it is there already");
}

proptest! {
    /// No text of a pod remains that no rule keeps, in a field of any name.
    #[test]
    fn texts_without_a_rule_are_cut(name in "[a-zA-Z/~*]{1,20}", place in 0_usize..4) {
        let mut pod = pod_of_secrets();
        let places = ["", "/metadata", "/spec", "/spec/containers/0"];
        let field = json!([{ "deep": { &name: "a text of somebody" } }, "a text of somebody"]);
        let into = pod.pointer_mut(places[place]).and_then(Value::as_object_mut).expect("an object");
        into.insert(format!("x-{name}"), field);
        let mut list = json!({ "items": [pod] });
        pods::Redacted::default().cut_pods(&mut list);
        prop_assert!(!list.to_string().contains("a text of somebody"));
    }
}
