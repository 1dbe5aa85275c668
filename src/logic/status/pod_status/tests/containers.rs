//! Statuses of single containers: what runs, what ended, what vanished (POD-28).

use k8s_openapi::api::core::v1::{ImageVolumeSource, Volume, VolumeMountStatus};

use super::*;

use crate::logic::model::start_reason::StartReason;

#[test]
fn containers_of_which_nothing_is_known_wait() {
    let status = Setup::new("Always", &[], &["b", "a"]).status();
    assert_eq!(state(&status, "a"), "waiting ContainerCreating");
    assert_eq!((of(&status, "a").image.as_str(), of(&status, "a").started), ("busybox", Some(false)));
    let names: Vec<&str> = status.container_statuses.iter().flatten().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let status = Setup::new("Always", &["j", "i"], &["a"]).status();
    assert_eq!(
        (state(&status, "a"), state(&status, "i")),
        ("waiting PodInitializing".into(), "waiting PodInitializing".into())
    );
    let names: Vec<&str> = status.init_container_statuses.iter().flatten().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["j", "i"]);
}

/// VOL-36: each instance names the image that it has, where the gate is on; the rest of a mount never changes.
#[test]
fn a_mount_of_an_image_names_it() {
    let mounted = |reference: &str| {
        let mut running = instance("a", 0, ContainerState::Running, 0);
        running.process.image_mounts = [("/models".to_owned(), reference.to_owned())].into();
        vec![running]
    };
    let mount = |name: &str, path: &str| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    };
    let volume =
        |name: &str, image: Option<ImageVolumeSource>| Volume { name: name.to_owned(), image, ..Volume::default() };
    let mut setup = Setup::new("Always", &[], &["a"]).holding(mounted("sha256:one"));
    setup.spec().volumes = Some(vec![volume("models", Some(ImageVolumeSource::default())), volume("data", None)]);
    setup.spec().containers[0].volume_mounts = Some(vec![mount("models", "models/"), mount("data", "/data")]);
    let told = |setup: &mut Setup| {
        let status = setup.step();
        let mounts = of(&status, "a").volume_mounts.clone().expect("it has some");
        let reference = |mount: VolumeMountStatus| Some(mount.volume_status?.image?.image_ref);
        mounts.into_iter().map(reference).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut setup), [None, None]);
    setup.gates.image_references = true;
    assert_eq!(told(&mut setup), [Some("sha256:one".to_owned()), None]);
    setup.runtime.containers = mounted("sha256:two");
    assert_eq!(told(&mut setup), [Some("sha256:two".to_owned()), None]);
    setup.runtime.containers = mounted(&"x".repeat(257));
    assert_eq!(told(&mut setup)[0].as_deref(), Some("sha256:two"), "the API server would refuse the whole status");
}

#[test]
fn a_running_container_is_told_as_the_runtime_has_it() {
    use ContainerState::{Exited, Running};
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![
        instance("a", 2, Running, 0),
        instance("a", 1, Exited, 3),
        instance("a", 0, Exited, 4),
    ]);
    setup.spec().containers[0].resources = Some(ResourceRequirements::default());
    let status = setup.status();
    let a = of(&status, "a");
    assert_eq!((state(&status, "a"), last_state(&status, "a")), ("running".into(), "terminated 3 Error".into()));
    assert_eq!(a.container_id.as_deref(), Some("containerd://a2"));
    assert_eq!((a.image.as_str(), a.image_id.as_str()), ("docker.io/library/busybox:latest", "sha256:abc"));
    assert_eq!((a.restart_count, a.ready, a.started), (2, true, Some(true)));
    let last = a.last_state.as_ref().and_then(|last| last.terminated.as_ref()).expect("ended");
    assert_eq!(last.container_id.as_deref(), Some("containerd://a1"));
    let finished = at(AGENT_STARTED + 102);
    assert_eq!(last.finished_at, Some(time(finished)), "times are cut to seconds");
    let user = a.user.as_ref().and_then(|user| user.linux.as_ref()).expect("has a user");
    assert_eq!((user.uid, user.supplemental_groups.as_deref()), (1000, Some([2000].as_slice())));
}

#[test]
fn a_failed_start_is_shown_and_the_end_becomes_the_last_state() {
    use ContainerState::{Exited, Running};
    let crashed = vec![instance("a", 1, Exited, 1)];
    let status =
        Setup::new("Always", &[], &["a"]).holding(crashed).failing("a", StartReason::CrashLoopBackOff).status();
    assert_eq!(state(&status, "a"), "waiting CrashLoopBackOff");
    assert_eq!(last_state(&status, "a"), "terminated 1 Error");
    assert_eq!((status.phase.as_deref(), of(&status, "a").restart_count), (Some(RUNNING), 1));

    let status = Setup::new("Always", &[], &["a"]).failing("a", StartReason::ErrImagePull).status();
    assert_eq!((state(&status, "a"), status.phase.as_deref()), ("waiting ErrImagePull".into(), Some(PENDING)));

    for (policy, newest) in [("Always", instance("a", 0, Running, 0)), ("Never", instance("a", 0, Exited, 1))] {
        let status =
            Setup::new(policy, &[], &["a"]).holding(vec![newest]).failing("a", StartReason::ErrImagePull).status();
        assert!(!state(&status, "a").starts_with("waiting"), "{policy}: nothing is to be started");
    }
}

/// POD-28.
#[test]
fn a_container_that_vanished_while_running_counts_as_ended() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 1, ContainerState::Running, 0)]);
    setup.step();
    setup.runtime.containers.clear();
    for _ in 0..2 {
        let status = setup.step();
        assert_eq!(state(&status, "a"), "waiting ContainerCreating");
        assert_eq!(last_state(&status, "a"), "terminated 137 ContainerStatusUnknown");
        assert_eq!((of(&status, "a").restart_count, status.phase.as_deref()), (2, Some(RUNNING)));
    }
    setup.runtime.containers = vec![instance("a", 0, ContainerState::Running, 0)];
    let status = setup.step();
    assert_eq!(of(&status, "a").restart_count, 2, "the count never goes back");
    assert_eq!(last_state(&status, "a"), "terminated 137 ContainerStatusUnknown");
}

#[test]
fn a_container_that_is_only_made_is_no_restart_yet() {
    use ContainerState::{Created, Exited, Running};
    let ended = instance("a", 3, Exited, 1);
    for (newest, count) in [(Created, 3), (Running, 4), (Exited, 4)] {
        let held = vec![instance("a", 4, newest, 1), ended.clone()];
        assert_eq!(of(&Setup::new("Always", &[], &["a"]).holding(held).status(), "a").restart_count, count);
    }
    let first = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, Created, 0)]);
    assert_eq!(of(&first.status(), "a").restart_count, 0);
}

#[test]
fn a_container_that_vanished_with_its_pod_is_not_counted_as_restarted() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 1, ContainerState::Running, 0)]);
    setup.step();
    setup.runtime.containers.clear();
    setup.pod.metadata.deletion_timestamp = Some(time(at(NOW)));
    assert_eq!(of(&setup.status(), "a").restart_count, 1);
}

#[test]
fn an_end_that_was_shown_outlives_the_container() {
    let mut setup = Setup::new("Never", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Exited, 5)]);
    let before = setup.step();
    setup.runtime.containers.clear();
    assert_eq!(of(&setup.status(), "a"), of(&before, "a"));
}

#[test]
fn a_lost_container_that_ran_is_shown_as_ended_once() {
    let mut setup = Setup::new("Never", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    setup.step();
    setup.runtime.containers[0].state = ContainerState::Unknown;
    for _ in 0..3 {
        let status = setup.step();
        assert_eq!(state(&status, "a"), "terminated 137 ContainerStatusUnknown");
        assert_eq!((of(&status, "a").restart_count, status.phase.as_deref()), (1, Some(FAILED)));
    }
    let never_seen = Setup::new("Never", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Unknown, 0)]);
    assert_eq!(state(&never_seen.status(), "a"), "waiting ");
}

#[test]
fn a_forgotten_init_container_of_an_initialised_pod_has_completed() {
    use ContainerState::Running;
    let status = Setup::new("Always", &["i"], &["a"]).holding(vec![instance("a", 0, Running, 0)]).status();
    assert_eq!((state(&status, "i"), of(&status, "i").ready), ("terminated 0 Completed".into(), true));
    let end = of(&status, "i").state.as_ref().and_then(|state| state.terminated.as_ref());
    let message = "Unable to get init container status from container runtime and pod has been initialized, \
                   treat it as exited normally";
    assert_eq!(end.and_then(|end| end.message.as_deref()), Some(message));
}

/// An error of an earlier start may be left. As upstream, a sidecar's successful end hides its back-off, too.
#[test]
fn an_init_container_that_ended_well_shows_its_end_and_no_failed_start() {
    for policy in [None, Some("Always")] {
        for (exit_code, expected) in [(0, "terminated 0 Error"), (3, "waiting CrashLoopBackOff")] {
            let ended = instance("i", 0, ContainerState::Exited, exit_code);
            let mut setup = Setup::new("Always", &["i"], &["a"]).holding(vec![ended]);
            setup.spec().init_containers.as_mut().expect("has one")[0].restart_policy = policy.map(str::to_owned);
            let setup = setup.failing("i", StartReason::CrashLoopBackOff);
            assert_eq!(state(&setup.status(), "i"), expected, "{policy:?}");
        }
    }
}

/// SEC-11.
#[test]
fn termination_messages_share_the_room() {
    let mut ended = instance("a", 0, ContainerState::Exited, 1);
    ended.message = "é".repeat(12_000);
    let mut setup = Setup::new("Never", &["i"], &["a", "b", "c"]).holding(vec![ended]);
    let length = |setup: &Setup| {
        let end = of(&setup.status(), "a").state.clone().and_then(|state| state.terminated).expect("ended");
        end.message.expect("has a message").len()
    };
    assert_eq!(length(&setup), 12_288 / 4);
    setup.spec().ephemeral_containers = Some(vec![Default::default()]);
    assert_eq!(length(&setup), 2456, "a fifth, and no half of a letter");
}

#[test]
fn volume_mounts_are_told_once_and_for_all() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    let mount = |name: &str, read_only| VolumeMount {
        name: name.to_owned(),
        mount_path: format!("/{name}"),
        read_only: Some(read_only),
        ..VolumeMount::default()
    };
    setup.spec().containers[0].volume_mounts = Some(vec![mount("rw", false), mount("ro", true)]);
    let status = setup.step();
    let mounts = of(&status, "a").volume_mounts.clone().expect("has mounts");
    assert_eq!((mounts[0].name.as_str(), mounts[1].name.as_str()), ("rw", "ro"));
    assert_eq!((mounts[0].mount_path.as_str(), mounts[1].mount_path.as_str()), ("/rw", "/ro"));
    assert_eq!((mounts[0].read_only, mounts[0].recursive_read_only.as_deref()), (None, None));
    assert_eq!((mounts[1].read_only, mounts[1].recursive_read_only.as_deref()), (Some(true), Some("Disabled")));
    setup.spec().containers[0].volume_mounts = None;
    setup.runtime.containers = vec![instance("a", 0, ContainerState::Running, 0)];
    assert_eq!(of(&setup.step(), "a").volume_mounts, Some(mounts));
}

/// VOL-34: what a status says of them stays, so it does not begin with a guess.
#[test]
fn volume_mounts_are_not_told_before_it_is_known_what_the_runtime_can() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    let mount = VolumeMount {
        name: "v".to_owned(),
        mount_path: "/v".to_owned(),
        read_only: Some(true),
        recursive_read_only: Some("IfPossible".to_owned()),
        ..VolumeMount::default()
    };
    setup.spec().containers[0].volume_mounts = Some(vec![mount]);
    setup.recursive_read_only = None;
    assert_eq!(of(&setup.step(), "a").volume_mounts, None);
    setup.recursive_read_only = Some(true);
    let mounts = of(&setup.step(), "a").volume_mounts.clone().expect("told");
    assert_eq!(mounts[0].recursive_read_only.as_deref(), Some("Enabled"));
}

/// VOL-34: a mount that may be written to waits for no ability of the runtime.
#[test]
fn only_a_read_only_mount_that_asks_for_it_is_recursively_so() {
    // Read-only, what it asks for, what the runtime can; the answer, if any is given yet.
    for (read_only, asks, can, expected) in [
        (true, None, Some(true), Some(Some("Disabled"))),
        (true, Some("Disabled"), Some(true), Some(Some("Disabled"))),
        (true, Some("Enabled"), Some(true), Some(Some("Enabled"))),
        (true, Some("IfPossible"), Some(false), Some(Some("Disabled"))),
        (true, Some("Enabled"), None, None),
        (true, None, None, Some(Some("Disabled"))),
        (false, Some("IfPossible"), None, Some(None)),
    ] {
        let mut setup = Setup::new("Always", &[], &["a"]);
        let recursive_read_only = asks.map(str::to_owned);
        let mount = VolumeMount { read_only: Some(read_only), recursive_read_only, ..VolumeMount::default() };
        setup.spec().containers[0].volume_mounts = Some(vec![mount]);
        setup.recursive_read_only = can;
        let status = setup.status();
        let mounts = of(&status, "a").volume_mounts.as_ref();
        let told = mounts.map(|mounts| mounts[0].recursive_read_only.as_deref());
        assert_eq!(told, expected, "{read_only} {asks:?} {can:?}");
    }
}

/// KEP-4960.
#[test]
fn the_signal_that_stops_a_container_is_told_where_the_runtime_tells_it() {
    for signal in [None, Some("SIGUSR1".to_owned())] {
        let mut running = instance("a", 0, ContainerState::Running, 0);
        running.process.stop_signal.clone_from(&signal);
        let status = Setup::new("Always", &[], &["a"]).holding(vec![running]).status();
        assert_eq!(of(&status, "a").stop_signal, signal);
    }
}
