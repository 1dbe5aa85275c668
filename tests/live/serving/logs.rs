//! Texts that containers leave: logs, their links, and last words.

use std::path::Path;

use serde_json::json;

use crate::harness::{Node, container_status, send_signal};
use crate::pods::lifecycle::links_of;
use crate::pods::restarts::another;
use crate::pods::{forever, pod, shell, then_forever, with};

/// CRI-16: one file an instance, one link a container, named for who looks for them.
#[test]
fn logs_lie_where_collectors_look_for_them() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[shell("main", &then_forever("echo out; echo err >&2"))]));
    let main = node.wait_running("web", "main");
    let uid = &main.labels["io.kubernetes.pod.uid"];
    let log = node.dir.join(format!("logs/default_web-node1_{uid}/main/0.log"));
    assert_eq!(Path::new(&main.log_path), log);
    let text = node.eventually("both lines are there", || {
        std::fs::read_to_string(&log).ok().filter(|text| text.lines().count() >= 2)
    });
    let mut lines: Vec<_> = text.lines().map(|line| line.split_once(' ').expect("a time stamp").1).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["stderr F err", "stdout F out"]);

    let link = format!("/var/log/containers/web-node1_default_main-{}.log", main.id);
    node.eventually("the link is there", || std::fs::read_link(&link).ok().filter(|to| *to == log));

    send_signal(node.pid_of(main.id.as_str()), "KILL");
    let back = another(&node, "web", &main);
    assert_eq!(Path::new(&back.log_path), log.with_file_name("1.log"));
    // The dead instance stays readable, for `kubectl logs --previous`.
    assert!(log.exists());
    node.eventually("the new instance is linked", || {
        links_of(&node, "web").iter().any(|link| link.to_str().unwrap().contains(back.id.as_str())).then_some(())
    });
}

/// POD-33: who reads a short-lived pod's log after its end finds the last lines, also by the link; then both go.
#[test]
fn the_last_lines_of_a_deleted_pod_are_read_after_its_end() {
    let Some(node) = Node::running() else { return };
    let last_words = "trap 'echo last words; exit 0' TERM; echo first; while :; do sleep 0.1; done";
    node.apply(&pod("web", &[shell("main", last_words)]));
    let main = node.wait_running("web", "main");
    let uid = &main.labels["io.kubernetes.pod.uid"];
    node.eventually("it speaks", || (node.output(&main) == "first\n").then_some(()));
    node.eventually("its log is linked", || links_of(&node, "web").pop());
    node.delete("web");
    node.wait_gone("web");
    assert_eq!(node.output(&main), "first\nlast words\n");
    let link = links_of(&node, "web").pop().expect("it is there still");
    assert!(std::fs::read_to_string(link).expect("it leads to the log").ends_with("last words\n"));
    node.eventually_none("no log directory", || crate::pods::lifecycle::logs_of(&node, uid));
    node.eventually_none("no links", || links_of(&node, "web"));
}

/// CRI-16: pods of one name in two namespaces, and names that run into each other, share nothing.
#[test]
fn pods_that_sound_alike_have_logs_of_their_own() {
    let Some(node) = Node::running() else { return };
    let named = |namespace: &str, words: &str| {
        with(pod("web", &[shell("main", &then_forever(words))]), json!({ "metadata": { "namespace": namespace } }))
    };
    node.write_manifest("a.yaml", named("default", "echo one").to_string().as_bytes());
    node.write_manifest("b.yaml", named("other", "echo two").to_string().as_bytes());
    let found = node.eventually("both run and speak", || {
        let mut said: Vec<_> = node.containers("web", "main").iter().map(|one| node.output(one)).collect();
        said.sort();
        (said == ["one\n", "two\n"]).then(|| node.containers("web", "main"))
    });
    assert_ne!(found[0].log_path, found[1].log_path);
    node.eventually("both logs are linked", || (links_of(&node, "web").len() == 2).then_some(()));
}

/// POD-38, SEC-11, SEC-12: from the file, from the log's end where asked, and never more than its share.
#[test]
fn a_containers_last_words_are_shown() {
    let Some(node) = Node::running() else { return };
    let never = json!({ "spec": { "restartPolicy": "Never" } });
    let from_log = with(
        shell("main", "echo first; echo last; exit 2"),
        json!({ "terminationMessagePolicy": "FallbackToLogsOnError" }),
    );
    let elsewhere =
        with(shell("main", "echo elsewhere >/tmp/words"), json!({ "terminationMessagePath": "/tmp/words" }));
    for (name, container) in [
        ("file", shell("main", "printf goodbye >/dev/termination-log")),
        ("log", from_log),
        ("elsewhere", elsewhere),
        ("long", shell("main", "yes | head -c 10485760 >/dev/termination-log")),
    ] {
        node.apply(&with(pod(name, &[container]), never.clone()));
    }
    let words = |name: &str| {
        let shown =
            node.wait_listed(name, "ended", |pod| container_status(pod, "main")["state"]["terminated"].is_object());
        container_status(&shown, "main")["state"]["terminated"]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(words("file"), "goodbye");
    assert_eq!(words("log"), "first\nlast\n");
    assert_eq!(words("elsewhere"), "elsewhere\n");
    let long = words("long");
    assert!(long.len() <= 4096 && long.starts_with("y\ny\n"), "{} bytes", long.len());
}

/// CRI-20: of many dead instances only the last is kept, with its log.
#[test]
fn dead_instances_are_cleared_away_with_their_logs() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    let mut instance = node.wait_running("web", "main");
    for _ in 0..2 {
        send_signal(node.pid_of(instance.id.as_str()), "KILL");
        instance = another(&node, "web", &instance);
    }
    let first = Path::new(&instance.log_path).with_file_name("0.log");
    node.eventually("the first instance is gone", || {
        (node.containers("web", "main").len() == 2 && !first.exists()).then_some(())
    });
    node.eventually("its link, too", || (links_of(&node, "web").len() <= 2).then_some(()));
}

/// The sizes of all files of the first instance's log, by name.
fn files_of(log: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(log.parent().unwrap()).unwrap().flatten();
    let mut files: Vec<(String, u64)> = entries
        // One that was renamed since it was listed is seen the next time.
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.metadata().ok()?.len())))
        .collect();
    files.sort();
    files
}

/// CRI-27, SRV-38, PAIN-24: a container that writes as fast as it can stays within its bound, by upstream's names, and every line
/// that is still there is whole.
#[test]
fn a_log_keeps_within_its_bound() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "containerLogMaxSize": "1Mi", "containerLogMaxFiles": 3 }));
    node.start_agent();
    // The first words are for the agent to hear of the container.
    let script = "echo begins; sleep 2; i=0; while [ $i -lt 100 ]; do \
                  yes 0123456789012345678901234567890123456789 | head -c 300000; i=$((i+1)); sleep 0.1; done; \
                  echo; while :; do echo done; sleep 1; done";
    node.apply(&pod("chatty", &[shell("main", script)]));
    node.apply(&pod("silent", &[shell("main", &then_forever("echo once"))]));
    let main = node.wait_running("chatty", "main");
    let log = Path::new(&main.log_path).to_path_buf();
    let mut largest = 0;
    let mut most = 0;
    node.eventually("all is written", || {
        let files = files_of(&log);
        most = most.max(files.iter().filter(|(name, _)| !name.ends_with(".tmp")).count());
        largest = largest.max(files.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0));
        // The container says so again and again, for a rotation may take the first time away.
        std::fs::read_to_string(&log).ok().filter(|text| text.ends_with(" done\n"))
    });
    // More than 60 MB were written, with the runtime's stamps. How close to the bound it is depends on the machine; a log
    // that is looked at now and then is far from it.
    assert!(largest < 32 << 20, "a file of {largest} bytes");
    // One more while the newest is compressed: the file and its successor.
    assert!(most <= 4, "{most} files");
    let files = node.eventually("what was rotated is compressed", || {
        let files = files_of(&log);
        (files.len() == 3 && files[1].0.ends_with(".gz")).then_some(files)
    });
    let stamp = files[2].0.strip_prefix("0.log.").unwrap_or_else(|| panic!("{files:?}"));
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'-', "{files:?}");
    let silent = node.wait_running("silent", "main");
    assert_eq!(files_of(Path::new(&silent.log_path)).len(), 1, "a log that does not grow is left alone");

    // A log that somebody removed comes back.
    std::fs::remove_file(&silent.log_path).unwrap();
    node.eventually("the log is opened anew", || Path::new(&silent.log_path).exists().then_some(()));
    node.delete("chatty");
    node.wait_gone("chatty");
    node.eventually_none("no rotated logs", || files_of_folder(log.parent().unwrap()));
}

/// Names in a folder, none if there is no such folder.
fn files_of_folder(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
