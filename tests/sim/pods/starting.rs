//! News of a pod that starts, or cannot, or ends: statuses and Events as upstream words them, and no more of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use podwright::sim::{Options, SimPod, World, simulate, simulate_with};
use serde_json::{Value, json};

use super::resize::{in_a_cluster, pod, seconds, sized};

use crate::common::{side_by_side, times_of};

/// Events about a pod, as the API server has them: reason, message, how often it happened.
fn events(world: &World, pod: &str) -> Vec<(String, String, i64)> {
    let of_pod = |event: &Arc<Value>| event["involvedObject"]["name"] == pod;
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let all = world.api().all("events").into_iter().filter(of_pod);
    all.map(|event| (text(&event, "reason"), text(&event, "message"), event["count"].as_i64().unwrap_or(1))).collect()
}

/// How often Events of this reason happened.
fn count(world: &World, pod: &str, reason: &str) -> i64 {
    events(world, pod).iter().filter(|(one, _, _)| one == reason).map(|(_, _, count)| count).sum()
}

/// The state of the pod's first container, as the API has it.
fn state(world: &World, pod: &str) -> Value {
    world.api_pod(pod).expect("it is there")["status"]["containerStatuses"][0]["state"].clone()
}

/// CRI-19, POD-14: the runtime could not give back the network of a sandbox whose processes it has stopped: it is asked again
/// until it can, and the pod is there for as long.
#[test]
fn a_sandbox_that_cannot_be_stopped_is_asked_to_stop_until_it_can() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("web", "run")).expect("made");
        world.start_agent();
        world.settle().await;
        world.fail("StopPodSandbox", 2);
        world.delete_pod("web", None);
        world.sleep(seconds(60)).await;
        assert_eq!(times_of(&world, "StopPodSandbox has its answer lost").len(), 2);
        let killing: Vec<_> = events(&world, "web").into_iter().filter(|(one, ..)| one == "FailedKillPod").collect();
        let begin = "error killing pod: failed to \"KillPodSandbox\" for \"";
        assert!(
            killing[0].1.starts_with(begin) && killing[0].1.contains("\" with KillPodSandboxError: \""),
            "{killing:?}"
        );
        assert_eq!(count(&world, "web", "FailedKillPod"), 2);
        assert!(world.api_pod("web").is_none());
        world.finish_cluster().await;
    });
}

/// POD-40, POD-37, CRI-25: the runtime's words as upstream tells them, and one Event for all tries.
#[test]
fn a_container_that_cannot_start_says_why_in_the_runtimes_words_and_is_one_event() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.create(&SimPod::of("bad", "cannot start")).expect("made");
        world.start_agent();
        world.sleep(seconds(120)).await;
        let failed: Vec<_> = events(&world, "bad").into_iter().filter(|(reason, ..)| reason == "Failed").collect();
        let words = "Error: failed to start container \"main\": failed to create containerd task: exec: \"/nothing\": no such \
                     file or directory";
        assert!(failed.len() == 1 && failed[0].1 == words && failed[0].2 > 2, "{failed:?}");
        let words = world.story().into_iter().filter(|line| line.what.contains("rpc error")).count();
        assert!(words > 2, "the runtime says it with the code");
        world.delete_pod("bad", None);
        world.finish_cluster().await;
    });
}

/// CRI-06, POD-40: what keeps a sandbox from being described is an error of the sandbox, and not of images.
#[test]
fn a_pod_whose_sandbox_cannot_be_described_waits_for_its_sandbox() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let subdomain = json!("s".repeat(63));
        let pod =
            SimPod::of("web", "run").own_field("setHostnameAsFQDN", json!(true)).own_field("subdomain", subdomain);
        world.create(&pod).expect("made");
        world.start_agent();
        world.sleep(seconds(60)).await;
        assert_eq!(state(&world, "web")["waiting"], json!({ "reason": "ContainerCreating" }));
        let told: BTreeMap<_, _> = events(&world, "web").into_iter().map(|(reason, text, _)| (reason, text)).collect();
        let text = told.get("FailedCreatePodSandBox").map(String::as_str).unwrap_or_default();
        assert!(text.starts_with("Failed to create pod sandbox: failed to construct FQDN from"), "{told:?}");
        assert!(!told.contains_key("Failed"), "{told:?}");
        world.delete_pod("web", None);
        world.finish_cluster().await;
    });
}

/// POD-23, POD-28: while the first postStart hook runs, the status stands, and no Event comes anew.
#[test]
fn a_pod_says_nothing_new_while_its_hook_runs() {
    for (pod, reason) in [
        (SimPod::of("web", "run"), "ContainerCreating"),
        (SimPod::new("web").init("first", "exit 0 after 1s").container("main", "run"), "PodInitializing"),
    ] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.start_agent();
            world.sleep(seconds(10)).await;
            world.create(&pod.hooks(&[("postStart", "/slow/5")])).expect("made");
            while times_of(&world, "/main#0 runs /slow/5").is_empty() {
                world.sleep(Duration::from_millis(100)).await;
            }
            world.sleep(seconds(1)).await;
            let before = world.api_pod("web").expect("it is there");
            assert_eq!(state(&world, "web")["waiting"], json!({ "reason": reason }));
            world.sleep(seconds(3)).await;
            assert_eq!(world.api_pod("web").expect("it is there"), before);
            world.sleep(seconds(10)).await;
            assert!(!state(&world, "web")["running"].is_null());
            world.finish_cluster().await;
        });
    }
}

/// POD-37: a network that goes away again is an Event again.
#[test]
fn a_network_that_is_missing_is_told_each_time() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.create(&SimPod::of("web", "run")).expect("made");
        world.settle().await;
        for round in 1..=2 {
            world.set_condition("NetworkReady", Some("no plugin"));
            world.sleep(seconds(10)).await;
            world.kill_sandboxes("web");
            world.sleep(seconds(30)).await;
            assert_eq!(count(&world, "web", "NetworkNotReady"), round);
            world.set_condition("NetworkReady", None);
            world.sleep(seconds(60)).await;
        }
        world.settle().await;
        world.finish_cluster().await;
    });
}

/// POD-37: a sandbox that was made, and of which the runtime then does not say how it is.
#[test]
fn a_sandbox_that_is_not_shown_is_told_as_such_and_used_once_it_is() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.fail("PodSandboxStatus", 1);
        world.create(&SimPod::of("web", "run")).expect("made");
        world.settle().await;
        assert_eq!(count(&world, "web", "FailedPodSandBoxStatus"), 1, "{:?}", events(&world, "web"));
        assert_eq!(count(&world, "web", "FailedCreatePodSandBox"), 0);
        assert!(times_of(&world, "sandbox of web is removed").is_empty());
        world.finish_cluster().await;
    });
}

/// CRI-20: the cgroup of a pod that nobody knows stays as long as its volumes do.
#[test]
fn a_cgroup_stays_as_long_as_the_volumes_of_its_pod() {
    simulate(1, |world| async move {
        let pod = SimPod::of("web", "run").volume("cache", json!({ "emptyDir": {} }));
        world.put(&pod);
        world.start_agent();
        world.settle().await;
        world.kill_agent();
        world.delete("web");
        // The runtime forgets the pod; the disk and the cgroups stay.
        *world.node().containers.lock().expect("not poisoned") = Default::default();
        let uid = pod.uid("node-1").to_string();
        let is_left = |world: &World| {
            let cgroups = world.node().cgroups.lock().expect("not poisoned");
            cgroups.all.keys().any(|name| name.to_string().contains(&uid))
        };
        assert!(is_left(&world));
        world.fail("tear down", u32::MAX);
        world.start_agent();
        world.sleep(seconds(200)).await;
        assert!(is_left(&world));
        world.fail("tear down", 0);
        world.sleep(seconds(400)).await;
        assert!(!is_left(&world));
        world.finish().await;
    });
}

/// POD-37: what a pod cannot do without is in its status as it is, and tried until it is there.
#[test]
fn a_pod_that_gets_no_cgroup_says_so_and_starts_once_it_has_one() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.settle().await;
        world.fail("create cgroup", 2);
        world.create(&SimPod::of("web", "run")).expect("made");
        world.sleep(seconds(60)).await;
        let told: Vec<_> =
            events(&world, "web").into_iter().filter(|(reason, ..)| reason == "FailedCreatePodContainer").collect();
        assert!(told.len() == 1 && told[0].2 == 2, "{told:?}");
        assert!(
            told[0].1.starts_with("unable to ensure pod container exists: ") && told[0].1.contains("create /sys/fs")
        );
        assert!(world.running().contains("web/main#0"), "{:?}", world.running());
        world.finish_cluster().await;
    });
}

/// POD-37: a pod that cannot be looked at says so, once; then it goes on.
#[test]
fn a_pod_that_cannot_be_looked_at_says_so_once() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.create(&SimPod::of("web", "exit 1 after 20s below 1")).expect("made");
        world.sleep(seconds(15)).await;
        world.fail("ContainerStatus", 4);
        world.sleep(seconds(60)).await;
        let told: Vec<_> = events(&world, "web").into_iter().filter(|(reason, ..)| reason == "FailedSync").collect();
        assert!(told.len() == 1 && told[0].2 == 1, "{told:?}");
        assert!(told[0].1.starts_with("error determining status: ContainerStatus"), "{told:?}");
        assert!(world.running().contains("web/main#1"), "{:?}", world.running());
        world.finish_cluster().await;
    });
}

/// PRB-08: a probe that cannot be made is tried three times in a round, and then in the next.
#[test]
fn a_probe_that_cannot_be_made_is_tried_three_times_a_round() {
    for (lost, ready) in [(2, "True"), (3, "False")] {
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.start_agent();
            // An agent that has just been started spreads its first rounds.
            world.sleep(seconds(700)).await;
            world.fail("ExecSync", lost);
            let probe = json!({ "exec": { "command": ["/ok-after/0"] }, "periodSeconds": 600 });
            world.create(&SimPod::of("web", "run").field("readinessProbe", probe)).expect("made");
            world.sleep(seconds(60)).await;
            assert_eq!(times_of(&world, "ExecSync has its answer lost").len(), lost as usize);
            assert_eq!(world.condition("web", "Ready").expect("told")["status"], ready, "after {lost}");
            world.sleep(seconds(660)).await;
            assert_eq!(world.condition("web", "Ready").expect("told")["status"], "True");
            world.finish_cluster().await;
        });
    }
}

/// PRB-27: a pod that changes in place is probed on as before: it is ready all the time.
#[test]
fn a_pod_that_is_resized_is_probed_on_as_before() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.sleep(seconds(10)).await;
        world.create(&pod("web", "500m", "128Mi").probe("readinessProbe", "/ok-after/20")).expect("made");
        world.sleep(seconds(60)).await;
        let before = world.condition("web", "Ready").expect("told");
        assert_eq!(before["status"], "True");
        world.resize_pod("web", "main", &sized("1", "256Mi"));
        world.sleep(seconds(60)).await;
        assert_eq!(world.in_force("web", "main"), Some((1024, 100_000, 256 << 20)));
        let after = world.condition("web", "Ready").expect("told");
        assert_eq!(
            (&after["status"], &after["lastTransitionTime"]),
            (&before["status"], &before["lastTransitionTime"])
        );
        world.finish_cluster().await;
    });
}

/// POD-24: the signal that ends a container, where the gate is on; else the container says that it is not.
#[test]
fn a_stop_signal_of_ones_own_is_given_to_the_runtime_behind_its_gate() {
    for on in [true, false] {
        let options: Options = match on {
            true => Options { settings: |settings| settings.pods.stop_signals = true, ..in_a_cluster() },
            false => in_a_cluster(),
        };
        simulate_with(1, options, move |world| async move {
            let pod = SimPod::of("web", "run").field("lifecycle", json!({ "stopSignal": "SIGUSR1" }));
            world.create(&pod.own_field("os", json!({ "name": "linux" }))).expect("made");
            world.start_agent();
            world.sleep(seconds(30)).await;
            let status = world.api_pod("web").expect("it is there")["status"]["containerStatuses"][0].clone();
            match on {
                true => assert_eq!(status["stopSignal"], "SIGUSR1", "{status}"),
                // As upstream: the container runs, and is stopped with the image's own signal.
                false => assert_eq!(
                    (status["stopSignal"].is_null(), status["state"]["running"].is_object()),
                    (true, true),
                    "{status}"
                ),
            }
            world.delete_pod("web", None);
            world.finish_cluster().await;
        });
    }
}

/// POD-31: a chart for Linux and Windows alike, in a group of pods that is scheduled together: nothing of that is the node's
/// business, and the pod runs.
#[test]
fn fields_without_effect_on_linux_keep_no_pod_from_running() {
    simulate_with(1, in_a_cluster(), |world| async move {
        let windows = json!({ "windowsOptions": { "runAsUserName": "ContainerUser", "hostProcess": false } });
        let pod = SimPod::of("web", "run")
            .field("securityContext", windows.clone())
            .own_field("securityContext", windows)
            .own_field("schedulingGates", json!([{ "name": "example.com/gang" }]))
            .own_field("schedulingGroup", json!({ "podGroupName": "gang" }))
            .own_field("fieldOfALaterVersion", json!({ "x": [1] }));
        world.create(&pod).expect("made");
        world.start_agent();
        world.sleep(seconds(30)).await;
        let status = world.api_pod("web").expect("it is there")["status"].clone();
        assert_eq!(status["phase"], "Running", "{status}");
        world.delete_pod("web", None);
        world.finish_cluster().await;
    });
}

/// A start that fails, and all that its container waits for meanwhile, after its creation.
struct FailedStart {
    /// The call at which the runtime fails, three times.
    call: Option<&'static str>,
    pod: SimPod,
    reasons: &'static [&'static str],
    /// Part of the message of one of them.
    message: &'static str,
}

/// Each reason that the agent gives, once at least.
fn failed_starts() -> Vec<FailedStart> {
    let run = || SimPod::of("web", "run");
    let environment = |kind: &str, name: &str, key: &str| {
        let from = json!({ kind: { "name": name, "key": key } });
        run().field("env", json!([{ "name": "LEVEL", "valueFrom": from }]))
    };
    let own = |pod, reasons, message| FailedStart { call: None, pod, reasons, message };
    let failing = |call, reasons| FailedStart { call: Some(call), pod: run(), reasons, message: "" };
    let needs_user = run().own_field("securityContext", json!({ "runAsNonRoot": true }));
    let hook = run().hooks(&[("postStart", "/fails")]);
    let never = run().image("absent:1").field("imagePullPolicy", json!("Never"));
    vec![
        failing("ImageStatus", &["ImageInspectError"]),
        failing("PullImage", &["ErrImagePull"]),
        failing("CreateContainer", &["CreateContainerError"]),
        failing("StartContainer", &["RunContainerError"]),
        own(run().image("App:1"), &["InvalidImageName"], "(library/App) must be lowercase"),
        own(never, &["ErrImageNeverPull"], "is not present with pull policy of Never"),
        own(run().image("absent:1"), &["ErrImagePull", "ImagePullBackOff"], "absent:1: not found"),
        own(run().image("refused:1"), &["RegistryUnavailable", "ImagePullBackOff"], "503"),
        own(run().image("forged:1"), &["SignatureValidationFailed", "ImagePullBackOff"], "no key"),
        own(
            environment("configMapKeyRef", "none", "level"),
            &["CreateContainerConfigError"],
            "configmap \"none\" not found",
        ),
        own(
            environment("configMapKeyRef", "settings", "none"),
            &["CreateContainerConfigError"],
            "couldn't find key none in ConfigMap default/settings",
        ),
        own(environment("secretKeyRef", "none", "level"), &["CreateContainerConfigError"], "secret \"none\" not found"),
        own(needs_user, &["CreateContainerConfigError"], "container has runAsNonRoot"),
        own(hook, &["PostStartHookError", "CrashLoopBackOff"], "command '/fails' exited with 1"),
        own(SimPod::of("web", "cannot start"), &["RunContainerError", "CrashLoopBackOff"], ""),
        own(SimPod::of("web", "exit 1 after 1s"), &["CrashLoopBackOff"], "restarting failed container=main"),
    ]
}

/// CRI-25: each step of a start that fails has its own reason, and no other one.
#[test]
fn each_step_of_a_start_that_fails_is_told_with_its_reason() {
    let mut strange = vec![];
    for FailedStart { call, pod, reasons, message } in failed_starts() {
        let case = format!("{call:?}, {}", String::from_utf8_lossy(&pod.manifest()));
        let mut seen = simulate_with(1, in_a_cluster(), move |world| async move {
            world.write_data("configmaps", "settings", "level", "1");
            let words = [("refused:1", "RegistryUnavailable: 503"), ("forged:1", "SignatureValidationFailed: no key")];
            let words = words.map(|(image, words)| (image.to_owned(), words.to_owned()));
            let images = &world.node().images;
            images.lock().expect("no panic before").refused.extend(words);
            images.lock().expect("no panic before").unknown.insert("absent:1".to_owned());
            if let Some(call) = call {
                world.fail(call, 3);
            }
            world.create(&pod).expect("made");
            world.start_agent();
            let mut seen = BTreeMap::new();
            for _ in 0..3000 {
                world.sleep(Duration::from_millis(20)).await;
                for view in world.statuses().await.into_iter().flatten() {
                    let all = view.status.container_statuses.iter().flatten();
                    let waiting = all.filter_map(|one| one.state.clone()?.waiting);
                    seen.extend(waiting.map(|one| (one.reason.unwrap_or_default(), one.message.unwrap_or_default())));
                }
            }
            world.delete_pod("web", None);
            world.finish_cluster().await;
            seen
        });
        seen.remove("ContainerCreating");
        let expected: BTreeSet<&str> = reasons.iter().copied().collect();
        let is_told = seen.keys().map(String::as_str).eq(expected) && seen.values().any(|one| one.contains(message));
        if !is_told {
            strange.push(format!("{case}: {seen:#?}"));
        }
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}

/// CRI-22: an image that is in no registry is asked for again after 10 s, twice as long each time, five minutes at most.
#[test]
fn pulls_that_fail_come_ever_less_often() {
    let tries = simulate(1, |world| async move {
        world.node().images.lock().expect("no panic before").unknown.insert("app:none".to_owned());
        world.put(&SimPod::of("web", "run").image("app:none"));
        world.start_agent();
        world.sleep(std::time::Duration::from_secs(1500)).await;
        let tries = world.story().into_iter().filter(|line| line.what.ends_with("app:none is in no registry"));
        let tries: Vec<u64> = tries.map(|line| line.at.as_secs()).collect();
        world.finish().await;
        tries
    });
    let waits: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() >= 7, "{waits:?}");
    // The time of a pull, up to four seconds, comes before its end, by which the wait begins; a pod is looked at when
    // it is over.
    for (wait, least) in waits.iter().zip([10, 20, 40, 80, 160, 300, 300]) {
        assert!((least..=least + 16).contains(wait), "{waits:?}");
    }
}

/// POD-07: whenever a pod is deleted, no start of a container is cut off: the runtime would show one that failed.
#[test]
fn no_start_is_cut_off_by_a_deletion() {
    // Its image is pulled in the second before.
    let moments: Vec<u64> = (0..50).map(|number| 1500 + number * 40).collect();
    side_by_side(&moments, |after| {
        let after = Duration::from_millis(*after);
        simulate_with(1, in_a_cluster(), move |world| async move {
            world.start_agent();
            world.settle().await;
            world.create(&SimPod::of("web", "run").init("early", "exit 0 after 100ms")).expect("made");
            world.create(&SimPod::of("job", "run")).expect("made");
            world.sleep(after).await;
            world.delete_pod("web", None);
            world.delete_pod("job", None);
            world.settle().await;
            let cut_off = world.node().starts_left.lock().expect("no panic before").clone();
            assert!(cut_off.is_empty(), "deleted after {after:?}: {cut_off:?}");
            world.finish_cluster().await;
        });
    });
}

/// POD-07, POD-23: a postStart hook is cut off, and so is a start that the runtime does not answer, after a while.
#[test]
fn a_start_that_takes_long_holds_up_no_deletion() {
    simulate_with(1, in_a_cluster(), |world| async move {
        world.start_agent();
        world.create(&SimPod::of("hooked", "run").hooks(&[("postStart", "/slow/60")])).expect("made");
        world.sleep(seconds(5)).await;
        world.delete_pod("hooked", None);
        world.sleep(seconds(3)).await;
        assert_eq!(times_of(&world, "hooked/main#0 stops as asked").len(), 1);
        world.hang(Some("StartContainer"));
        world.create(&SimPod::of("stuck", "run")).expect("made");
        world.sleep(seconds(5)).await;
        world.delete_pod("stuck", None);
        world.sleep(seconds(9)).await;
        assert!(world.api_pod("stuck").is_some(), "the runtime may answer yet");
        world.sleep(seconds(5)).await;
        assert!(world.api_pod("stuck").is_none());
        world.hang(None);
        world.finish_cluster().await;
    });
}
