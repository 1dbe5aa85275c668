//! Volumes: before the containers, beside everything else, gone after them.

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, EphemeralContainer, Volume, VolumeMount};

use super::*;
use crate::logic::volumes::volume_states::{MountedVolume, VolumeFailure};

/// The pod, its last container with a volume.
pub(super) fn with_volume(mut pod: Pod) -> Pod {
    let spec = pod.spec.as_mut().expect("has a spec");
    let empty_dir = Some(EmptyDirVolumeSource::default());
    spec.volumes = Some(vec![Volume { name: "v".to_owned(), empty_dir, ..Volume::default() }]);
    let mount = VolumeMount { name: "v".to_owned(), mount_path: "/v".to_owned(), ..VolumeMount::default() };
    spec.containers.last_mut().expect("has a container").volume_mounts = Some(vec![mount]);
    pod
}

pub(super) fn mounted() -> JobEnd {
    mounted_all(&["v"])
}

fn mounted_all(names: &[&str]) -> JobEnd {
    let volumes = names.iter().map(|name| ((*name).to_owned(), MountedVolume::default())).collect();
    JobEnd::VolumesMounted(Ok(Arc::new(MountedVolumes { volumes })))
}

/// The pod, with a volume more and an ephemeral container that mounts it.
fn with_debugger(mut pod: Pod) -> Pod {
    let spec = pod.spec.as_mut().expect("has a spec");
    let empty_dir = Some(EmptyDirVolumeSource::default());
    spec.volumes.get_or_insert_default().push(Volume { name: "w".to_owned(), empty_dir, ..Volume::default() });
    let mount = VolumeMount { name: "w".to_owned(), mount_path: "/w".to_owned(), ..VolumeMount::default() };
    let debugger = EphemeralContainer {
        name: "debugger".to_owned(),
        image: Some("app:1".to_owned()),
        volume_mounts: Some(vec![mount]),
        ..EphemeralContainer::default()
    };
    spec.ephemeral_containers = Some(vec![debugger]);
    pod
}

fn not_mounted(message: &str, seconds: u64) -> JobEnd {
    let retry_after = Duration::from_secs(seconds);
    JobEnd::VolumesMounted(Err(VolumeFailure {
        message: message.to_owned(),
        retry_after,
        in_processing: false,
        rejects: false,
    }))
}

fn image(name: &str) -> JobEnd {
    JobEnd::ImageEnsured(name.to_owned(), Ok(ImageInUse { reference: "app:1".to_owned(), ..ImageInUse::default() }))
}

/// POD-13.
#[test]
fn a_container_waits_for_its_pods_volumes_and_nothing_else_does() {
    let (mut script, actions) = Script::new(with_volume(a_pod("Always", &[], &["a"])));
    assert_eq!(actions, ["volumes", "sandbox 0", "prepare anew", "image a"]);
    script.ends(JobEnd::Prepared(Ok(true)));
    script.ends(image("a"));
    assert_eq!(script.ends(JobEnd::SandboxUp(Ok(ready(0)))), [""; 0]);
    assert_eq!(script.waits(), ["its volumes to be mounted"]);
    assert!(!script.life.has_its_volumes());
    assert_eq!(script.ends(mounted()), ["start a 0 in s0 of app:1"]);
    assert!(script.life.has_its_volumes());
}

/// VOL-03.
#[test]
fn why_a_volume_is_missing_is_told_and_it_is_tried_again() {
    let (mut script, _) = Script::new(with_volume(a_pod("Always", &[], &["a"])));
    script.ends(not_mounted("configmap \"x\" not found", 2));
    let told = script.waits();
    assert!(told.contains(&"its volumes: configmap \"x\" not found, to be tried again".to_owned()), "{told:?}");
    let problem = Some("waits for its volumes: configmap \"x\" not found".to_owned());
    assert_eq!(script.problem(), problem);
    assert_eq!(script.passes(1), [""; 0]);
    assert_eq!(script.passes(1), ["volumes"]);
    assert_eq!(script.problem(), problem, "the same while it is tried again");
    script.ends(mounted());
    assert_eq!(script.problem(), None);
}

/// VOL-50.
#[test]
fn what_changed_is_not_waited_for_any_longer() {
    let (mut script, _) = Script::new(with_volume(a_pod("Always", &[], &["a"])));
    script.ends(not_mounted("secret \"x\" not found", 122));
    assert_eq!(script.passes(1), [""; 0]);
    script.life.volumes_changed();
    assert_eq!(script.passes(0), ["volumes"]);
    script.life.volumes_changed();
    assert_eq!(script.passes(0), [""; 0], "it is under way");
}

#[test]
fn volumes_of_a_pod_that_runs_already_are_looked_after_too() {
    let pod = with_volume(a_pod("Always", &[], &["a"]));
    let mut script = Script::unseen(pod.clone());
    assert_eq!(script.sees(&[ready(0)], &[running(&pod, "a", 0)]), ["volumes", "prepare"]);
    script.ends(JobEnd::Prepared(Ok(false)));
    script.ends(mounted());
    assert_eq!(script.passes(60), [""; 0]);
}

/// POD-22: whether the volumes of before are there by then, or on their way.
#[test]
fn a_volume_that_an_ephemeral_container_mounts_first_is_mounted_for_it() {
    for under_way in [false, true] {
        let pod = with_volume(a_pod("Always", &[], &["a"]));
        let mut script = Script::unseen(pod.clone());
        script.sees(&[ready(0)], &[running(&pod, "a", 0)]);
        script.ends(JobEnd::Prepared(Ok(false)));
        if !under_way {
            script.ends(mounted());
        }
        let mut actions = script.step(Input::Spec(Arc::new(with_debugger(pod))));
        if under_way {
            assert!(!actions.contains(&"volumes".to_owned()), "{actions:?}");
            actions = script.ends(mounted());
        }
        assert!(actions.contains(&"volumes".to_owned()), "{under_way}: {actions:?}");
        assert!(script.life.volumes().is_none());
        script.ends(image("debugger"));
        let actions = script.ends(mounted_all(&["v", "w"]));
        assert_eq!(actions, ["start debugger 0 in s0 of app:1"]);
    }
}

/// PAIN-11.
#[test]
fn a_pod_that_ends_waits_no_longer_for_volumes_and_says_what_keeps_it() {
    let (mut script, _) = Script::new(with_volume(a_pod("Always", &[], &["a"])));
    let actions = script.step(Input::Removed { grace: None });
    assert!(actions.contains(&"cancel MountVolumes".to_owned()), "{actions:?}");
    script.sees(&[], &[]);
    script.ends(JobEnd::CleanedUp(Err("mounted volumes=[v]: busy".to_owned().into())));
    assert_eq!(
        script.problem().as_deref(),
        Some("has ended, waits for its volumes and its cgroup to be released: mounted volumes=[v]: busy")
    );
    let told = script.waits();
    assert_eq!(told, ["its volumes and its cgroup to be released: mounted volumes=[v]: busy, to be tried again"]);
}
