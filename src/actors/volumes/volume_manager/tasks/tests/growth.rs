//! Local volumes that are larger than their claims say (VOL-46).

use super::*;
use crate::logic::model::quantity::Quantity;

/// The task's end, the changes of the claim's status, and what the host was to grow.
struct Grown {
    end: TaskEnd,
    patches: Vec<Value>,
    grown: Vec<String>,
}

impl Grown {
    /// The Events of the claim, and whether they warn.
    fn events(&self) -> Vec<(&str, bool)> {
        self.end.secrets.of_claim.iter().map(|event| (event.reason.as_str(), event.is_warning)).collect()
    }
}

/// A claim of 1 GiB, whose volume has 2 GiB by now.
fn objects(mode: &str) -> [(&'static str, Value); 2] {
    let mut claim = claim("Bound");
    claim["status"]["capacity"] = json!({ "storage": "1Gi" });
    claim["spec"]["resources"] = json!({ "requests": { "storage": "2Gi" } });
    let mut volume = local_volume("/dev/disk");
    volume["spec"]["volumeMode"] = mode.into();
    volume["spec"]["capacity"] = json!({ "storage": "2Gi" });
    [("persistentvolumeclaim/data", claim), ("persistentvolume/pv-1", volume)]
}

async fn run(mode: &str, host: Host, change: impl FnOnce(&mut MountTask)) -> Grown {
    let uses = if mode == "Block" { json!("volumeDevices") } else { json!("volumeMounts") };
    let path = if mode == "Block" { "devicePath" } else { "mountPath" };
    let pod = claiming_pod(json!({ uses.as_str().expect("text"): [{ "name": "v", path: "/v" }] }));
    let (api, host) = (Arc::new(api(&objects(mode))), Arc::new(host));
    let mut task = task(api.clone(), host.clone(), pod);
    change(&mut task);
    let end = task.run().await;
    let (patches, grown) = (std::mem::take(&mut *lock(&api.patches)), std::mem::take(&mut *lock(&host.grown)));
    Grown { end, patches, grown }
}

/// VOL-46.
#[tokio::test(start_paused = true)]
async fn vol_46_a_local_volume_is_grown_at_its_mount_and_the_claim_says_so() {
    for (mode, expected) in [("Filesystem", vec!["/dev/disk".to_owned()]), ("Block", vec![])] {
        let mounted = run(mode, Host::default(), |_| {}).await;
        assert!(mounted.end.outcome.is_ok(), "{mode}: {:?}", mounted.end.outcome);
        assert_eq!(mounted.grown, expected, "a device has its size at once");
        let [patch] = &mounted.patches[..] else { panic!("{mode}: {:?}", mounted.patches) };
        assert_eq!(patch["status"]["capacity"]["storage"], "2Gi");
        assert_eq!(mounted.events(), [("FileSystemResizeSuccessful", false)]);
        assert_eq!(
            mounted.end.secrets.size.as_ref().map(|known| known.size),
            Some(Quantity::parse("2Gi").expect("one"))
        );
    }
}

/// VOL-46.
#[tokio::test(start_paused = true)]
async fn vol_46_a_local_volume_that_cannot_be_grown_is_not_given_and_the_claim_stays() {
    let host = Host { cannot_grow: Some("resize of device /dev/disk failed: exit status 1."), ..Host::default() };
    let failed = run("Filesystem", host, |_| {}).await;
    let failure = failed.end.outcome.as_ref().expect_err("it is too small");
    let text = "MountVolume.Setup failed while expanding volume for volume \"pv-1\" : resize of device /dev/disk failed: \
                exit status 1.";
    assert_eq!(failure.message, text);
    assert!(failed.patches.is_empty() && failed.events().is_empty());
}

/// VOL-46.
#[tokio::test(start_paused = true)]
async fn vol_46_a_pod_that_must_not_write_has_a_local_volume_as_it_is() {
    let read_only = |task: &mut MountTask| {
        let VolumeKind::Claim { read_only, .. } = &mut task.plan.kind else { panic!("a claim") };
        *read_only = true;
    };
    let mounted = run("Filesystem", Host::default(), read_only).await;
    assert!(mounted.end.outcome.is_ok() && mounted.grown.is_empty() && mounted.patches.is_empty());
    assert_eq!(mounted.events(), [("FileSystemResizeFailed", true)]);
}

/// VOL-46.
#[tokio::test(start_paused = true)]
async fn vol_46_a_local_volume_grows_while_its_pod_has_it() {
    let in_use = |size: &str| {
        let known = KnownSize {
            claim: "c-1".to_owned(),
            size: Quantity::parse(size).expect("one"),
            in_use: false,
            refused: false,
        };
        move |task: &mut MountTask| {
            (task.csi.was_published, task.csi.only_grows, task.csi.known) = (true, true, Some(known));
        }
    };
    let grown = run("Filesystem", Host::default(), in_use("1Gi")).await;
    assert!(grown.end.outcome.is_ok());
    assert_eq!((grown.grown.len(), grown.patches.len()), (1, 1));
    let known = run("Filesystem", Host::default(), in_use("2Gi")).await;
    assert!(known.end.outcome.is_ok() && known.grown.is_empty() && known.patches.is_empty());
    let host = Host { cannot_grow: Some("no"), ..Host::default() };
    let failed = run("Filesystem", host, in_use("1Gi")).await;
    let failure = failed.end.outcome.as_ref().expect_err("it stays small");
    assert_eq!(failure.message, "NodeExpandVolume.NodeExpandVolume failed for volume \"pv-1\" : no");
}
