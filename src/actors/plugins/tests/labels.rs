//! Volumes that are mounted with a label of SELinux (VOL-31). The driver takes the option and mounts without it.

use super::*;
use crate::logic::volumes::mounting::mount_label::FileLabel;

fn labelling(every_mode: bool) -> Option<Labelling> {
    let policy = "process = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n";
    Some(Labelling { files: FileLabel::of_policy(policy).expect("it names files"), every_mode })
}

/// A node whose driver takes labels, with a volume of this access mode.
async fn setup(every_mode: bool, mode: &str) -> Option<(Setup, Serving)> {
    let setup = Setup::with_labels(labelling(every_mode))?;
    let driver = json!({ "spec": { "attachRequired": false, "seLinuxMount": true } });
    setup.server.put(&format!("{DRIVERS}/drv.test"), driver);
    let serving = setup.serve().await;
    setup.put_volume(&json!({ "accessModes": [mode] }));
    Some((setup, serving))
}

/// A pod whose processes have this level.
fn pod_of(uid: &str, level: &str) -> Arc<Pod> {
    let mut pod = Arc::unwrap_or_clone(pod(uid));
    let spec = pod.spec.as_mut().expect("a pod");
    let security = json!({ "seLinuxOptions": { "level": level } });
    spec.security_context = Some(serde_json::from_value(security).expect("a context"));
    Arc::new(pod)
}

/// The mount options of the newest requests to stage and to publish.
fn options(setup: &Setup) -> [Vec<String>; 2] {
    use crate::platform::plugins::wire::csi_v1::VolumeCapability;
    use crate::platform::plugins::wire::csi_v1::volume_capability::AccessType;
    let flags = |capability: Option<&VolumeCapability>| match capability.and_then(|told| told.access_type.as_ref()) {
        Some(AccessType::Mount(mount)) => mount.mount_flags.clone(),
        _ => vec![],
    };
    let seen = setup.driver.seen();
    let (staged, published) = (seen.staged.as_ref(), seen.published.as_ref());
    [
        flags(staged.and_then(|request| request.volume_capability.as_ref())),
        flags(published.and_then(|request| request.volume_capability.as_ref())),
    ]
}

/// VOL-31.
#[tokio::test]
async fn vol_31_a_volume_for_one_pod_is_mounted_with_its_label_and_unstaged_before_it_gets_another() {
    let Some((setup, _serving)) = setup(false, "ReadWriteOncePod").await else { return };
    setup.ensure(&pod_of("one", "s0:c1,c2")).await.expect("mounted");
    let label = "system_u:object_r:container_file_t:s0:c1,c2";
    let option = vec![format!("context=\"{label}\"")];
    assert_eq!(options(&setup), [option.clone(), option]);
    let data = fs::read_to_string(setup.staging().with_file_name("vol_data.json")).expect("there");
    assert!(data.contains(&format!(r#""seLinuxMountContext":"{label}""#)), "{data}");
    setup.release("one").await;
    let other = pod_of("two", "s0:c3");
    let mut tries = 0;
    while let Err(failure) = setup.ensure(&other).await {
        let waits = "waiting for unmount of volume \"pv-1\", because it is already mounted to a different pod with a \
                     different SELinux label";
        assert!(failure.message.contains(waits), "{}", failure.message);
        tries += 1;
        assert!(tries < 1000, "it is never unstaged");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let calls = setup.driver.calls();
    let unstaged = calls.iter().position(|call| call.starts_with("NodeUnstage")).expect("unstaged");
    assert_eq!(calls[unstaged + 1..], ["NodeStageVolume h-1", "NodePublishVolume h-1"], "{calls:?}");
    assert_eq!(options(&setup)[0], ["context=\"system_u:object_r:container_file_t:s0:c3\""]);
}

/// VOL-31: without the gate volumes of other access modes are labelled file by file; with it, one label at a time.
#[tokio::test]
async fn vol_31_a_shared_volume_has_one_label_where_the_gate_is_on() {
    for every_mode in [false, true] {
        let Some((setup, _serving)) = setup(every_mode, "ReadWriteMany").await else { return };
        setup.ensure(&pod_of("one", "s0:c1")).await.expect("mounted");
        setup.ensure(&pod_of("same", "s0:c1")).await.expect("mounted");
        assert_eq!(options(&setup)[1].len(), usize::from(every_mode));
        let other = setup.ensure(&pod_of("two", "s0:c2")).await;
        let (told, plugin) = (setup.labels.0.lock().expect("not poisoned").clone(), "kubernetes.io/csi/drv.test");
        let conflict = (LabelNews::OtherPod, every_mode, "RWX", plugin.to_owned());
        assert!(told.contains(&conflict), "{told:?}");
        let admitted = told.iter().filter(|(news, ..)| *news == LabelNews::Admitted).count();
        if !every_mode {
            other.expect("mounted");
            assert_eq!(admitted, 3);
            continue;
        }
        assert_eq!(admitted, 2);
        let (there, wanted) = ("system_u:object_r:container_file_t:s0:c1", "system_u:object_r:container_file_t:s0:c2");
        let conflict = format!("conflicting SELinux labels of volume pv-1: {there:?} and {wanted:?}");
        let message = other.expect_err("another pod has it").message;
        assert!(message.contains(&conflict), "{message}");
    }
}

/// VOL-31: a volume that was mounted before anybody knew of labels stays as it is for its pod, also where it is published again.
#[tokio::test]
async fn vol_31_a_pod_keeps_a_volume_that_it_has_without_a_label() {
    let Some((setup, _serving)) = setup(false, "ReadWriteOncePod").await else { return };
    let spec = json!({ "attachRequired": false, "seLinuxMount": true, "requiresRepublish": true });
    setup.server.put(&format!("{DRIVERS}/drv.test"), json!({ "spec": spec }));
    let pod = pod_of("one", "s0:c1");
    setup.ensure(&pod).await.expect("mounted");
    let of_node = setup.staging().with_file_name("vol_data.json");
    let of_pod = setup.path("pods/one/volumes/kubernetes.io~csi/pv-1/vol_data.json");
    let read = |path: &PathBuf| -> Value { serde_json::from_slice(&fs::read(path).expect("there")).expect("JSON") };
    for note in [&of_node, &of_pod] {
        let mut data = read(note);
        data.as_object_mut().expect("an object").remove("seLinuxMountContext").expect("it has a label");
        fs::write(note, data.to_string()).expect("written");
    }
    let refresh = VolumeManagerMsg::Refresh(Arc::clone(&pod));
    setup.played.agent.directory.volume_manager.tell(Cause::outside("test"), refresh).expect("room");
    let published = || setup.driver.calls().iter().filter(|call| call.starts_with("NodePublish")).count();
    setup.eventually("it is published again", || published() >= 2).await;
    assert_eq!(options(&setup)[1], [] as [String; 0]);
    assert_eq!(read(&of_pod).get("seLinuxMountContext"), None);
}

/// VOL-31: a driver that does not say that it takes labels gets none, and the runtime labels the files.
#[tokio::test]
async fn vol_31_a_driver_is_not_given_what_it_does_not_take() {
    let Some((setup, _serving)) = setup(true, "ReadWriteOncePod").await else { return };
    setup.server.put(&format!("{DRIVERS}/drv.test"), json!({ "spec": { "attachRequired": false } }));
    setup.ensure(&pod_of("one", "s0:c1")).await.expect("mounted");
    assert_eq!(options(&setup), [vec![], vec![]] as [Vec<String>; 2]);
}
