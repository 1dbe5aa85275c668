//! Pods that have drivers' volumes, as the disk tells it: which volume a pod has, or may have where its file cannot be read
//! (VOL-10, VOL-31, VOL-45).
//!
//! A file that cannot be read speaks for its own volume alone. The folder's name still says which persistent volume that is.

use super::names::DevicePlace;
use super::volume_data::VolumeData;
use crate::logic::volumes::order::VolumePlace;

/// A pod's use of a driver's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUser {
    /// Where the pod has it.
    pub place: VolumePlace,
    /// The content of its file; `None` where nobody can read that.
    pub data: Option<VolumeData>,
}

impl VolumeUser {
    /// Whether the pod has this volume: by the driver's names or, without them, by that of the persistent volume.
    pub fn has(&self, driver: &str, handle: &str, name: &str) -> bool {
        match &self.data {
            Some(data) => data.driver_name == driver && data.volume_handle == handle,
            None => self.place.name == name,
        }
    }

    /// Whether the pod has, or may have, what is staged here. A staged file system whose note names no persistent volume may
    /// be of any.
    pub fn may_have(&self, device: &DevicePlace, staged: &VolumeData) -> bool {
        let name = match device {
            DevicePlace::Block { name } => name,
            DevicePlace::FileSystem { .. } => &staged.name,
        };
        let is_any = self.data.is_none() && name.is_empty() && !self.place.is_device;
        is_any || self.has(&staged.driver_name, &staged.volume_handle, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::PodUid;
    use crate::logic::volumes::order::plugin;

    /// VOL-45: on what is known of a pod's volume, and what is known of a staged one.
    #[test]
    fn vol_45_a_file_that_cannot_be_read_holds_back_its_own_volume_alone() {
        let note = |handle: &str, name: &str| VolumeData {
            driver_name: "drv".to_owned(),
            volume_handle: handle.to_owned(),
            name: name.to_owned(),
            ..VolumeData::default()
        };
        let user = |name: &str, is_device, data| {
            let (uid, plugin, name) = (PodUid::from("u"), plugin::CSI.to_owned(), name.to_owned());
            VolumeUser { place: VolumePlace { uid, plugin, name, is_device }, data }
        };
        let files = DevicePlace::FileSystem { driver: "drv".to_owned(), digest: "0a".to_owned() };
        let block = DevicePlace::block("pv-1");
        for (user, place, staged, expected) in [
            (user("pv-1", false, Some(note("h-1", "pv-1"))), &files, note("h-1", "pv-1"), true),
            (user("pv-2", false, Some(note("h-1", "pv-2"))), &files, note("h-1", "pv-1"), true),
            (user("pv-2", false, Some(note("h-2", "pv-2"))), &files, note("h-1", ""), false),
            (user("pv-1", false, None), &files, note("h-1", "pv-1"), true),
            (user("pv-2", false, None), &files, note("h-1", "pv-1"), false),
            (user("pv-2", false, None), &files, note("h-1", ""), true),
            (user("pv-1", true, None), &files, note("h-1", ""), false),
            (user("pv-1", true, None), &block, note("h-1", "pv-1"), true),
            (user("pv-2", true, None), &block, note("h-1", "pv-1"), false),
        ] {
            assert_eq!(user.may_have(place, &staged), expected, "{user:?} {place} {staged:?}");
        }
    }
}
