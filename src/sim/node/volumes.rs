//! Volumes of the simulated node: which there are, on a disk that is full now and then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::disk::Disk;
use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::cri::Mount;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::volumes::csi::names::unique_name;
use crate::logic::volumes::order::{SetUp, SubPathOrder, VolumePlace};
use crate::platform::volumes::{Progress, VolumeError, VolumeHost};
use crate::sim::faults::Fault;
use crate::sim::invariants::VOLUMES_OUTLIVE;

/// Where volumes are.
fn path(place: &VolumePlace) -> String {
    format!("/var/lib/kubelet/pods/{}/volumes/{}/{}", place.uid, place.plugin, place.name)
}

/// The content of every file of variables.
const VARIABLES: &[u8] = b"KEY='value'\n";
/// From one look whether a dead volume answers again to the next.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

impl Disk {
    /// The Node's names of attached volumes that are mounted here, and of those that drivers staged or may have.
    fn attached(&self) -> BTreeSet<String> {
        let staged = self.csi.devices.values().flatten();
        let staged = staged.map(|data| unique_name(&data.driver_name, &data.volume_handle));
        self.attached.iter().cloned().chain(staged).collect()
    }

    /// Those of a container's mounts that are volumes of its pod and are not there.
    pub(super) fn missing_volumes<'a>(&self, mounts: &'a [Mount]) -> Vec<&'a str> {
        let there: BTreeSet<String> = self.volumes.difference(&self.unmounted).map(path).collect();
        let wanted = mounts.iter().map(|mount| mount.host_path.as_str());
        let of_pods = wanted.filter(|path| path.starts_with("/var/lib/kubelet/pods/") && path.contains("/volumes/"));
        // Those of drivers are looked for where drivers publish them.
        let of_pods = of_pods.filter(|path| !path.contains("/kubernetes.io~csi/"));
        of_pods.filter(|path| !there.contains(*path)).collect()
    }
}

impl Outlet {
    /// Waits for as long as nobody answers behind a volume.
    async fn alive(&self, doing: &str, volume: &str) {
        let node = self.begin_file().await;
        let what = format!("{doing} {volume}");
        while lock(&node.disk).dead.as_ref() == Some(&what) {
            lock(&node.disk).hanging.entry(what.clone()).or_insert_with(|| node.time.now());
            tokio::time::sleep(LOOK_PERIOD).await;
        }
        lock(&node.disk).hanging.remove(&what);
    }

    pub(super) async fn volume<T: Send>(
        &self,
        attempt: &'static str,
        path: String,
        work: impl FnOnce(&super::Node) -> T + Send,
    ) -> Result<T, VolumeError> {
        let node = self.begin_file().await;
        if node.fails_now(attempt) || node.faults.strikes(Fault::Disk, 0.1) {
            node.story.tell("fault", format!("cannot {attempt} {path}"));
            return Err(VolumeError::Failed {
                attempt,
                path,
                problem: "No space left on device (os error 28)".to_owned(),
            });
        }
        let done = work(node);
        self.end_file().await;
        if node.faults.strikes(Fault::HalfVolumes, 0.1) {
            node.story.tell("fault", format!("{attempt} {path} fails half way"));
            return Err(VolumeError::Failed { attempt, path, problem: "Input/output error (os error 5)".to_owned() });
        }
        Ok(done)
    }
}

#[async_trait]
impl VolumeHost for Outlet {
    fn path_of(&self, place: &VolumePlace) -> String {
        path(place)
    }

    fn map_paths(&self, place: &VolumePlace) -> [String; 2] {
        [format!("/var/lib/kubelet/plugins/{}/{}", place.plugin, place.name), path(place)]
    }

    async fn set_up_watched(
        &self,
        uid: &PodUid,
        place: Option<&VolumePlace>,
        _: SetUp,
        _: Arc<Progress>,
    ) -> Result<Option<String>, VolumeError> {
        let (Some(place), uid) = (place.cloned(), uid.clone()) else { return Ok(None) };
        self.alive("set up", &place.name).await;
        self.volume("set up", path(&place), |node| {
            let mut disk = lock(&node.disk);
            disk.pods.entry(uid).or_default();
            disk.unmounted.remove(&place);
            disk.volumes.insert(place);
            None
        })
        .await
    }

    async fn tear_down(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        let place = place.clone();
        self.alive("tear down", &place.name).await;
        if let Some(problem) = self.unmount(&path(&place)).await {
            return Err(VolumeError::Failed { attempt: "unmount", path: path(&place), problem });
        }
        self.volume("tear down", path(&place), |node| {
            if let Some(label) = lock(&node.containers).running_of(&place.uid) {
                node.invariants.broken(VOLUMES_OUTLIVE, format!("{place} went while {label} ran"));
            }
            lock(&node.disk).volumes.remove(&place);
        })
        .await
    }

    async fn prepare_sub_path(&self, order: SubPathOrder) -> Result<String, VolumeError> {
        let path = format!("/var/lib/kubelet/pods/{}/volume-subpaths/{}/{}", order.uid, order.volume, order.index);
        self.alive("prepare", &order.volume).await;
        self.volume("prepare", path.clone(), |_| path).await
    }

    async fn read_file(&self, volume: &str, path: &str, _: usize) -> Result<Option<Vec<u8>>, VolumeError> {
        self.alive("read", volume.rsplit('/').next().unwrap_or_default()).await;
        self.volume("read", format!("{volume}/{path}"), |_| Some(VARIABLES.to_vec())).await
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<VolumePlace>, VolumeError> {
        let uid = uid.clone();
        self.volume("list", uid.to_string(), |node| {
            lock(&node.disk).volumes.iter().filter(|place| place.uid == uid).cloned().collect()
        })
        .await
    }

    async fn release(&self, uid: &PodUid) -> Result<(), VolumeError> {
        self.volume("release", uid.to_string(), |_| ()).await
    }

    async fn attached(&self) -> Result<BTreeSet<String>, VolumeError> {
        self.alive("look for", "attached volumes").await;
        self.volume("look for attached volumes", String::new(), |node| lock(&node.disk).attached()).await
    }

    fn hanging(&self) -> Vec<(String, Moment)> {
        let Some(node) = self.touch() else { return vec![] };
        let disk = lock(&node.disk);
        let hanging = disk.hanging.iter().filter(|_| disk.dead.is_some());
        hanging.map(|(what, since)| (what.clone(), *since)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_without_its_volume_is_seen() {
        let place = VolumePlace {
            uid: "u".into(),
            plugin: "kubernetes.io~empty-dir".into(),
            name: "cache".into(),
            is_device: false,
        };
        let mount = |path: &str| Mount { host_path: path.to_owned(), ..Mount::default() };
        let own = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/cache";
        let mounts = [mount(own), mount("/srv"), mount("/var/lib/kubelet/pods/u/etc-hosts"), mount("")];
        let mut disk = Disk::default();
        assert_eq!(disk.missing_volumes(&mounts), [own]);
        disk.volumes.insert(place);
        assert_eq!(disk.missing_volumes(&mounts), [""; 0]);
        disk.lose_mounts();
        assert_eq!(disk.missing_volumes(&mounts), [own]);
    }
}
