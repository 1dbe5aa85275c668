//! Pods of a cluster that the API server takes, and that the agent refuses or evicts.

mod log;
mod node;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::cluster::Cluster;
use crate::pods::lifecycle::places_of;
use crate::pods::{forever, pod, shell, then_forever, with};

/// CVE-2024-10220, CVE-2025-1767, SEC-08: a pod of the API server with a repository of another host, or of another pod, is
/// refused with a status and an Event. No folder is made for its volume, and `git` does not run.
#[test]
fn cve_2024_10220_cve_2025_1767_sec_08_a_pod_with_a_repository_is_refused_and_git_never_runs() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (tools, ran, other) = (cluster.dir.join("tools"), cluster.dir.join("git-ran"), cluster.dir.join("repository"));
    for folder in [&tools, &other] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(tools.join("git"), format!("#!/bin/sh\necho \"$@\" >>{}\n", ran.display())).unwrap();
    fs::set_permissions(tools.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    cluster.variables.push(("PATH", path));
    cluster.start_agent();
    cluster.wait_ready();
    let container = || with(forever("main"), json!({ "volumeMounts": [{ "name": "code", "mountPath": "/code" }] }));
    for (name, repository, directory) in
        [("remote", "https://192.0.2.1/x.git", "hooked/.git"), ("local", other.to_str().unwrap(), ".")]
    {
        let volume = json!({ "name": "code", "gitRepo": { "repository": repository, "directory": directory } });
        cluster.create_pod(with(pod(name, &[container()]), json!({ "spec": { "volumes": [volume] } })));
    }
    // A pod that comes later runs: the agent had its time for the others.
    cluster.create_pod(pod("plain", &[forever("main")]));
    cluster.wait_pod_ready("plain");
    for name in ["remote", "local"] {
        let refused = cluster.wait("pod", name, "refused", |pod| pod["status"]["phase"] == "Failed");
        assert_eq!(refused["status"]["reason"], "PodFeatureUnsupported", "{name}");
        let message = refused["status"]["message"].as_str().unwrap();
        assert!(message.contains("spec.volumes[0].gitRepo"), "{message}");
        cluster.wait_event_like(name, "PodFeatureUnsupported", |told| told.contains("spec.volumes[0].gitRepo"));
        let uid = refused["metadata"]["uid"].as_str().unwrap();
        let folders: Vec<_> = places_of(&cluster, uid).iter().map(|place| place.join("volumes")).collect();
        assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
        assert_eq!(cluster.containers_of(name).len(), 0, "{name}");
    }
    assert!(!ran.exists(), "git ran: {}", fs::read_to_string(&ran).unwrap_or_default());
}

/// CVE-2020-8557, SEC-10: a pod whose hosts file grows beyond its limit of local storage is evicted; a pod within its limit
/// stays.
#[test]
fn cve_2020_8557_sec_10_a_pod_whose_hosts_file_grows_is_evicted() {
    let Some(mut cluster) = Cluster::new() else { return };
    cluster.configure(json!({ "volumeStatsAggPeriod": "1s" }));
    cluster.start_agent();
    cluster.wait_ready();
    let limits = json!({ "resources": { "limits": { "ephemeral-storage": "4Mi" } } });
    for (name, kib) in [("modest", 1024), ("greedy", 8192)] {
        let fill = format!("dd if=/dev/zero bs=1024 count={kib} >>/etc/hosts");
        cluster.create_pod(pod(name, &[with(shell("main", &then_forever(&fill)), limits.clone())]));
    }
    let greedy = cluster.wait("pod", "greedy", "evicted", |pod| pod["status"]["reason"] == "Evicted");
    assert_eq!(greedy["status"]["phase"], "Failed");
    let message = "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ";
    assert_eq!(greedy["status"]["message"], message);
    cluster.wait_event_saying("greedy", "Evicted", message);
    cluster.wait_pod_ready("modest");
}
