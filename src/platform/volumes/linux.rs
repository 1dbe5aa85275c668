//! Volumes on a Linux node.
//!
//! Keeps the root directory's path and the calls under way.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{FileType, Mode, OFlags};

use super::layout::{Layout, PRIVATE, make_level, open_through};
use super::mounts::{bind, is_mounted, make_read_only};
use super::patient::Patient;
use super::{VolumeError, VolumeHost, atomic_writer, empty_dir, host_path, ownership, sub_path, tear_down};
use crate::logic::ids::PodUid;
use crate::logic::volumes::order::{FilesOrder, Ownership, SetUp, SubPathOrder, VolumePlace};
use crate::platform::beneath::segment;
use crate::platform::clock::Clock;

/// [`VolumeHost`] on real file systems.
#[derive(Clone)]
pub struct LinuxVolumeHost {
    layout: Layout,
    patient: Patient,
}

impl LinuxVolumeHost {
    /// Volumes below `<root_dir>/pods`. `root_dir` is absolute and free of links.
    pub fn new(root_dir: &Path, clock: Arc<dyn Clock>) -> Self {
        Self { layout: Layout::new(root_dir), patient: Patient::new(clock) }
    }
}

#[async_trait]
impl VolumeHost for LinuxVolumeHost {
    fn path_of(&self, place: &VolumePlace) -> String {
        self.layout.path(place).display().to_string()
    }

    async fn set_up(&self, uid: &PodUid, place: Option<&VolumePlace>, order: SetUp) -> Result<(), VolumeError> {
        if let Some(place) = place {
            checked(place)?;
        }
        let key = match (place, &order) {
            (Some(place), _) => place.to_string(),
            (None, SetUp::HostPath { path, .. }) => format!("{uid}{path}"),
            (None, _) => return Ok(()),
        };
        let (layout, place) = (self.layout.clone(), place.cloned());
        self.patient.run(key, "set up", move || set_up(&layout, place.as_ref(), order)).await
    }

    async fn tear_down(&self, place: &VolumePlace) -> Result<(), VolumeError> {
        checked(place)?;
        let (layout, owned) = (self.layout.clone(), place.clone());
        self.patient.run(place.to_string(), "tear down", move || tear_down::volume(&layout, &owned)).await
    }

    async fn prepare_sub_path(&self, order: SubPathOrder) -> Result<String, VolumeError> {
        let layout = self.layout.clone();
        let key = format!("{}/{}/{}/{}", order.uid, order.volume, order.container, order.index);
        let prepare = move || sub_path::prepare(&layout, &order).map_err(|failed| failed.told(&order, &order.volume));
        self.patient.run(key, "prepare subPath", prepare).await
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<VolumePlace>, VolumeError> {
        let (layout, uid) = (self.layout.clone(), uid.clone());
        let path = layout.pod_path(&uid);
        self.patient
            .run(format!("{uid} list"), "list", move || {
                tear_down::volumes_of(&layout, &uid)
                    .map_err(|error| VolumeError::failed("list volumes of", &path, error))
            })
            .await
    }

    async fn release(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let (layout, uid) = (self.layout.clone(), uid.clone());
        let path = layout.pod_path(&uid);
        self.patient
            .run(format!("{uid} release"), "release", move || {
                tear_down::release(&layout, &uid).map_err(|error| VolumeError::failed("release", &path, error))
            })
            .await
    }

    fn hanging(&self) -> Vec<(String, Duration)> {
        self.patient.hanging()
    }
}

/// Names become parts of paths.
fn checked(place: &VolumePlace) -> Result<(), VolumeError> {
    for name in [place.uid.as_str(), &place.plugin, &place.name] {
        segment(name).map_err(|error| VolumeError::Refused(format!("volume {place}: {error}")))?;
    }
    Ok(())
}

fn set_up(layout: &Layout, place: Option<&VolumePlace>, order: SetUp) -> Result<(), VolumeError> {
    match (order, place) {
        (SetUp::HostPath { path, kind }, _) => host_path::check(&path, kind),
        (SetUp::Nothing, _) | (_, None) => Ok(()),
        (SetUp::EmptyDir { medium, ownership }, Some(place)) => {
            empty_dir::set_up(layout, place, medium, ownership).map(drop)
        }
        (SetUp::Files(order), Some(place)) => write_files(layout, place, &order),
        (SetUp::Bind { source, read_only, ownership }, Some(place)) => {
            bind_directory(layout, place, &source, read_only, ownership)
        }
    }
}

fn write_files(layout: &Layout, place: &VolumePlace, order: &FilesOrder) -> Result<(), VolumeError> {
    let path = layout.path(place);
    let was_ready = layout.is_ready(place).unwrap_or(false);
    let volume = empty_dir::set_up(layout, place, order.medium, order.ownership)?;
    let written = atomic_writer::make_mount_points(&volume, &order.mount_points)
        .and_then(|()| atomic_writer::write(&volume, &order.payload, order.ownership, order.now));
    drop(volume); // A descriptor in it would keep it from being unmounted.
    written.map(drop).map_err(|error| {
        if !was_ready {
            // Nothing half made stays behind.
            let _ = tear_down::volume(layout, place);
        }
        VolumeError::failed("write files of", &path, error)
    })
}

/// A directory of the host at the volume's place. Mounted already, it is left as it is.
fn bind_directory(
    layout: &Layout,
    place: &VolumePlace,
    source: &str,
    read_only: bool,
    ownership: Ownership,
) -> Result<(), VolumeError> {
    let path = layout.path(place);
    let failed = |attempt| {
        let path = path.clone();
        move |error: io::Error| VolumeError::failed(attempt, &path, error)
    };
    let opened = rustix::fs::open(source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|errno| VolumeError::failed("open", Path::new(source), io::Error::from(errno)))?;
    let kind = rustix::fs::fstat(&opened).map(|found| FileType::from_raw_mode(found.st_mode));
    if kind != Ok(FileType::Directory) {
        return Err(VolumeError::Refused(format!("{source} is not a directory")));
    }
    let parent = layout.make_parent(place).map_err(failed("make directory of"))?;
    if is_mounted(&parent, &place.name).map_err(failed("look at"))? {
        return Ok(());
    }
    make_level(&parent, &place.name, PRIVATE).map_err(failed("make directory"))?;
    bind(&opened, &parent, &place.name).map_err(failed("bind mount on"))?;
    let finished = if read_only {
        make_read_only(&parent, &place.name)
    } else {
        open_through(&parent, &place.name).and_then(|volume| ownership::apply(&volume, ownership)).map(drop)
    };
    finished.map_err(|error| {
        let _ = tear_down::volume(layout, place);
        failed("finish mount of")(error)
    })
}

#[cfg(test)]
#[path = "linux_tests.rs"]
mod tests;
