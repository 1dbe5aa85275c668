//! The rights of a container: asked from inside of it, on a real kernel.
//!
//! CRI-09, CRI-10, CRI-13, POD-31, SEC-19, SEC-21, SEC-22, SEC-23, SEC-24, SEC-25.

use podwright::cri::RuntimeService;
use serde_json::{Value, json};

use crate::harness::{Node, container_status};
use crate::pods::{forever, pod, shell, then_forever, with};

/// A container that runs as nobody in particular, with `context`.
fn confined(name: &str, context: Value) -> Value {
    with(forever(name), json!({ "securityContext": context }))
}

/// A field of `/proc/self/status`.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

/// CRI-09, SEC-25, SEC-23: users, groups, capabilities, privileges and the root file system are the container's, else
/// the pod's.
#[test]
fn a_container_is_who_the_pod_says_and_may_do_no_more() {
    let Some(node) = Node::running() else { return };
    let narrow = confined(
        "narrow",
        json!({
            "runAsUser": 1001, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] },
            "seccompProfile": { "type": "RuntimeDefault" },
        }),
    );
    let root = confined("root", json!({ "runAsUser": 0, "runAsNonRoot": false, "capabilities": { "drop": ["ALL"] } }));
    let wide = confined("wide", json!({ "privileged": true, "runAsUser": 0, "runAsNonRoot": false }));
    let context = json!({
        "runAsUser": 1000, "runAsGroup": 2000, "runAsNonRoot": true, "fsGroup": 3000, "supplementalGroups": [4000],
    });
    let wanted = with(
        pod("who", &[narrow, forever("plain"), root, wide]),
        json!({ "spec": { "securityContext": context, "shareProcessNamespace": true } }),
    );
    node.apply(&wanted);

    let narrow = node.wait_running("who", "narrow");
    assert_eq!(
        node.run_in(&narrow, "id -u; id -g; id -G").split_whitespace().collect::<Vec<_>>()[..2],
        ["1001", "2000"]
    );
    let groups = node.run_in(&narrow, "id -G");
    for group in ["2000", "3000", "4000"] {
        assert!(groups.split_whitespace().any(|one| one == group), "{groups}");
    }
    // The container's first process counts: `exec` could differ.
    let status = node.run_in(&narrow, "cat /proc/self/status");
    // An ordinary user has none of them until it runs a program that may raise them.
    assert_eq!(field(&status, "CapBnd"), "0000000000000400", "NET_BIND_SERVICE alone");
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1", "2"));
    assert_eq!(node.run_in(&narrow, "touch /here 2>/dev/null || echo refused").trim(), "refused");
    assert_eq!(node.run_in(&narrow, "grep -c ' /proc/sys ' /proc/self/mountinfo").trim(), "1", "read-only");

    let plain = node.wait_running("who", "plain");
    let status = node.run_in(&plain, "cat /proc/self/status");
    assert_eq!(field(&status, "Uid").split_whitespace().next(), Some("1000"));
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("0", "0"), "unconfined unless asked for");
    // All see each other: the first process is the sandbox's.
    let processes = node.run_in(&plain, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    assert!(processes.contains("pause") && processes.matches("sleep").count() >= 4, "{processes}");

    let root = node.wait_running("who", "root");
    let status = node.run_in(&root, "cat /proc/self/status");
    assert_eq!(field(&status, "Uid").split_whitespace().next(), Some("0"));
    assert_eq!((field(&status, "CapBnd"), field(&status, "CapEff")), ("0000000000000000", "0000000000000000"));

    let wide = node.wait_running("who", "wide");
    let status = node.run_in(&wide, "cat /proc/self/status");
    assert_eq!((field(&status, "Seccomp"), field(&status, "NoNewPrivs")), ("0", "0"));
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(field(&status, "CapEff"), field(&all, "CapBnd"), "all that the host gives");
    node.delete("who");
    node.wait_gone("who");
}

/// SEC-19, SEC-21: what cannot be made safe does not start, and says why.
#[test]
fn a_container_that_would_be_root_or_unconfined_does_not_start() {
    let Some(node) = Node::running() else { return };
    let missing = json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "none.json" } });
    node.apply(&pod(
        "refused",
        &[
            confined("image", json!({ "runAsNonRoot": true })),
            confined("zero", json!({ "runAsNonRoot": true, "runAsUser": 0 })),
            confined("file", missing),
            forever("fine"),
        ],
    ));
    node.wait_running("refused", "fine");
    let why = |shown: &Value, name: &str| container_status(shown, name)["state"]["waiting"].clone();
    let shown = node.wait_listed("refused", "with the reasons", |shown| {
        ["image", "zero", "file"].iter().all(|name| why(shown, name)["message"].is_string())
    });
    for (name, reason, message) in [
        ("image", "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        ("zero", "CreateContainerConfigError", "container's runAsUser breaks non-root policy"),
        ("file", "CreateContainerError", "none.json"),
    ] {
        let waiting = why(&shown, name);
        assert_eq!(waiting["reason"], reason, "{waiting}");
        assert!(waiting["message"].as_str().unwrap().contains(message), "{waiting}");
    }
    for name in ["image", "zero", "file"] {
        assert!(node.running_now("refused", name).is_none(), "{name}");
    }
}

/// CRI-09, POD-27: a pod may share the host's processes and messages.
#[test]
fn a_pod_sees_the_hosts_processes_where_it_may() {
    let Some(node) = Node::running() else { return };
    node.apply(&with(pod("host", &[forever("main")]), json!({ "spec": { "hostPID": true, "hostIPC": true } })));
    node.apply(&pod("own", &[forever("main")]));
    let namespace = |name: &str| {
        let running = node.wait_running(name, "main");
        node.run_in(&running, "readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc")
    };
    let mine = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    let host = format!("{}\n{}\n", mine("pid"), mine("ipc"));
    assert_eq!(namespace("host"), host);
    let own = namespace("own");
    for line in host.lines() {
        assert!(!own.contains(line), "{own}");
    }
}

/// RES-64, RES-66.
/// SEC-22, SEC-24, POD-31, CRI-07: what the node cannot or may not do is refused before anything starts, in
/// upstream's words.
#[test]
fn kernel_parameters_and_profiles_are_judged_before_a_pod_starts() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "allowedUnsafeSysctls": ["kernel.msg*"] }));
    node.start_agent();
    let sysctls = |name: &str, sysctls: Value| {
        with(pod(name, &[forever("main")]), json!({ "spec": { "securityContext": { "sysctls": sysctls } } }))
    };
    let set = json!([
        { "name": "net.ipv4.ip_unprivileged_port_start", "value": "81" },
        { "name": "kernel/msgmax", "value": "16384" },
    ]);
    node.apply(&sysctls("tuned", set));
    node.apply(&sysctls("greedy", json!([{ "name": "net.core.somaxconn", "value": "1" }])));
    let profile = json!({ "appArmorProfile": { "type": "RuntimeDefault" } });
    node.apply(&with(pod("armored", &[forever("main")]), json!({ "spec": { "securityContext": profile } })));
    node.apply(&with(pod("other", &[forever("main")]), json!({ "spec": { "os": { "name": "windows" } } })));

    let main = node.wait_running("tuned", "main");
    let values = node.run_in(&main, "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/msgmax");
    assert_eq!(values, "81\n16384\n");
    let mut refused = vec![
        ("greedy", "SysctlForbidden", "Pod was rejected: forbidden sysctl: \"net.core.somaxconn\" not allowlisted"),
        ("other", "PodOSNotSupported", "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"),
    ];
    // Where the host has it, the pod runs; that is what upstream's own tests are about.
    if !std::path::Path::new("/sys/kernel/security/apparmor").exists() {
        let message = "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host";
        refused.push(("armored", "AppArmor", message));
    }
    for (name, reason, message) in refused {
        let shown = node.wait_listed(name, "as rejected", |shown| shown["status"]["phase"] == "Failed");
        assert_eq!((&shown["status"]["reason"], &shown["status"]["message"]), (&json!(reason), &json!(message)));
        assert!(node.sandboxes(name).is_empty(), "{name}");
    }
    // The refused pod is gone with its manifest.
    node.delete("greedy");
    node.eventually("the refused pod is gone", || (!node.is_listed("greedy")?).then_some(()));
}

/// CRI-10, CRI-13: variables from resources and files; resources of the pod as a whole.
#[test]
fn variables_come_from_resources_and_files_and_a_pod_has_limits_of_its_own() {
    let Some(node) = Node::running() else { return };
    let file = "printf \"A='one'\\n# about\\nB='two\\nlines'\\n\" > /data/env";
    let writer = with(shell("writer", file), json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }));
    let from = |key: &str, optional: bool| json!({ "fileKeyRef": { "volumeName": "data", "path": "env", "key": key, "optional": optional } });
    let resource =
        |resource: &str, divisor: &str| json!({ "resourceFieldRef": { "resource": resource, "divisor": divisor } });
    let reader = with(
        shell("reader", &then_forever("echo \"$A,$B,${C-none},$CPU,$LIMIT\"")),
        json!({
            "env": [
                { "name": "A", "valueFrom": from("A", false) }, { "name": "B", "valueFrom": from("B", false) },
                { "name": "C", "valueFrom": from("C", true) },
                { "name": "CPU", "valueFrom": resource("requests.cpu", "1m") },
                { "name": "LIMIT", "valueFrom": resource("limits.memory", "1Mi") },
            ],
            "resources": { "requests": { "cpu": "25m" } },
        }),
    );
    let bad = with(forever("bad"), json!({ "env": [{ "name": "C", "valueFrom": from("C", false) }] }));
    node.apply(&with(
        pod("vars", &[reader, bad]),
        json!({ "spec": {
            "initContainers": [writer], "volumes": [{ "name": "data", "emptyDir": {} }],
            "resources": { "limits": { "memory": "96Mi", "cpu": "1" } },
        } }),
    ));
    let reader = node.wait_running("vars", "reader");
    let said =
        node.eventually("the container speaks", || Some(node.output(&reader)).filter(|said| said.contains("25")));
    assert_eq!(said, "one,two\nlines,none,25,96\n");
    let shown = node.wait_listed("vars", "with the reason", |shown| {
        container_status(shown, "bad")["state"]["waiting"]["message"].is_string()
    });
    let waiting = &container_status(&shown, "bad")["state"]["waiting"];
    assert_eq!(waiting["message"], "environment variable key \"C\" not found in file \"env\"");
    // The container has no limit of its own: the pod's is in its cgroup, on either kind of host.
    let limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max";
    assert_eq!(node.run_in(&reader, limit).trim(), (96_u64 << 20).to_string());
}

/// SEC-20, SEC-21: local profiles, the default of the configuration, and a user that stays who it is at a restart.
#[test]
fn profiles_of_the_node_are_found_and_a_restart_changes_no_user() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "seccompDefault": true }));
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }],
    });
    let folder = node.dir.join("kubelet/seccomp/profiles");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("no-folders.json"), profile.to_string()).unwrap();
    node.start_agent();
    let local = json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "profiles/no-folders.json" } });
    let again = with(
        shell("again", "id -u; grep Seccomp: /proc/self/status; sleep 2; exit 1"),
        json!({ "securityContext": { "runAsUser": 1234 } }),
    );
    let free = json!({ "seccompProfile": { "type": "Unconfined" } });
    node.apply(&pod("profiles", &[confined("local", local), forever("plain"), confined("free", free), again]));
    let seccomp = |name: &str| {
        let running = node.wait_running("profiles", name);
        let status = node.run_in(&running, "cat /proc/self/status");
        field(&status, "Seccomp").to_owned()
    };
    assert_eq!((seccomp("local"), seccomp("plain"), seccomp("free")), ("2".into(), "2".into(), "0".into()));
    let running = node.wait_running("profiles", "local");
    assert_eq!(node.run_in(&running, "mkdir /tmp/x 2>/dev/null || echo refused").trim(), "refused");
    // Of its instances only the last are kept: any but the first will do.
    let said = node.eventually("it was started again, and speaks", || {
        let all = node.containers("profiles", "again").into_iter().filter(|status| status.metadata.attempt >= 1);
        all.map(|status| node.output(&status)).find(|said| said.lines().count() == 2)
    });
    assert_eq!(said, "1234\nSeccomp:\t2\n");
}

/// POD-31, POD-32, RES-59: a static pod that asks for more than the node has makes nobody go, and is refused.
#[test]
fn what_does_not_fit_is_refused_and_ends_nobody() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("small", &[forever("main")]));
    let before = node.wait_running("small", "main");
    let big = with(forever("main"), json!({ "resources": { "requests": { "cpu": "1000" } } }));
    node.apply(&pod("big", &[big]));
    let shown = node.wait_listed("big", "as rejected", |shown| shown["status"]["phase"] == "Failed");
    assert_eq!(shown["status"]["reason"], "UnexpectedAdmissionError");
    let message = shown["status"]["message"].as_str().unwrap();
    let expected = "Pod was rejected: Unexpected error while attempting to recover from admission failure: preemption: \
                    error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(node.wait_running("small", "main").id, before.id);
    // The host's ports go to one pod at a time.
    let port = node.free_port(0);
    let holds = json!({ "ports": [{ "containerPort": 80, "hostPort": port, "protocol": "TCP" }] });
    node.apply(&pod("first", &[with(forever("main"), holds.clone())]));
    node.wait_running("first", "main");
    node.apply(&pod("second", &[with(forever("main"), holds)]));
    let shown = node.wait_listed("second", "as rejected", |shown| shown["status"]["phase"] == "Failed");
    assert_eq!(shown["status"]["reason"], "NodePorts");
}

/// CRI-09, SEC-25: a pod that wants its own groups alone has them, where the runtime can do that; elsewhere it is refused,
/// and runs with fewer restrictions nowhere. User 1500 is in the image's group 1501.
#[test]
fn groups_of_the_image_are_left_out_where_the_pod_says_so() {
    let Some(node) = Node::running() else { return };
    let able = node.cri(async |cri| cri.status().await).features.supplemental_groups_policy;
    let who = |policy: &str| {
        let context = json!({ "runAsUser": 1500, "supplementalGroups": [4000], "supplementalGroupsPolicy": policy });
        with(pod(&policy.to_lowercase(), &[forever("main")]), json!({ "spec": { "securityContext": context } }))
    };
    node.apply(&who("Merge"));
    node.apply(&who("Strict"));
    let groups = |pod: &str| {
        let main = node.wait_running(pod, "main");
        let status = node.run_in(&main, "cat /proc/1/status");
        field(&status, "Groups").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let merged = groups("merge");
    assert!(merged.contains(&"1501".to_owned()) && merged.contains(&"4000".to_owned()), "{merged:?}");
    if able {
        let strict = groups("strict");
        assert!(strict.contains(&"4000".to_owned()) && !strict.contains(&"1501".to_owned()), "{strict:?}");
        let shown = node.wait_listed("strict", "told of its user", |pod| {
            !container_status(pod, "main")["user"]["linux"]["supplementalGroups"].is_null()
        });
        let told = &container_status(&shown, "main")["user"]["linux"];
        assert_eq!((&told["uid"], &told["gid"]), (&json!(1500), &json!(1500)), "{told}");
        assert!(told["supplementalGroups"].as_array().is_some_and(|all| !all.contains(&json!(1501))), "{told}");
    } else {
        let shown = node.wait_listed("strict", "refused", |pod| pod["status"]["phase"] == "Failed");
        assert_eq!(shown["status"]["reason"], "SupplementalGroupsPolicyNotSupported");
        assert_eq!(node.all_containers("strict").len(), 0);
    }
}
