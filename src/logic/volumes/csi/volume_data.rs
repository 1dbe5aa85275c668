//! `vol_data.json`: which volume a directory is of. The only source for taking it down, after any restart and by any agent.

use serde::{Deserialize, Serialize};

/// A volume that a pod's claim or the cluster keeps.
pub const PERSISTENT: &str = "Persistent";
/// A volume that a pod brings along itself.
pub const EPHEMERAL: &str = "Ephemeral";

/// The content of the file. Of a file system of the whole node it has the driver, the handle and the name, where upstream's has
/// no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeData {
    /// The VolumeAttachment's name.
    #[serde(rename = "attachmentID", skip_serializing_if = "String::is_empty")]
    pub attachment: String,
    /// The driver's name.
    pub driver_name: String,
    /// This node's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The label that it is mounted with, where SELinux decides.
    #[serde(rename = "seLinuxMountContext", skip_serializing_if = "String::is_empty")]
    pub selinux_context: String,
    /// The volume's name in its place. Of a file system of the whole node it is empty where several persistent volumes may lead
    /// to it.
    #[serde(rename = "specVolID", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The driver's name of the volume.
    pub volume_handle: String,
    /// [`PERSISTENT`] or [`EPHEMERAL`].
    #[serde(rename = "volumeLifecycleMode", skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

impl VolumeData {
    /// As the file has it.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts have a JSON form")
    }

    /// The note of a staged file system, where this note is there already: one that several persistent volumes lead to names
    /// none of them.
    #[must_use]
    pub fn beside(mut self, there: Option<&Self>) -> Self {
        let is_same =
            |there: &&Self| (&there.driver_name, &there.volume_handle) == (&self.driver_name, &self.volume_handle);
        if there.filter(is_same).is_some_and(|there| there.name != self.name) {
            self.name.clear();
        }
        self
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is no such file, or names no volume.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let data: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if data.driver_name.is_empty() || data.volume_handle.is_empty() {
            return Err("it names no volume".to_owned());
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VOL-41.
    #[test]
    fn the_file_has_upstreams_keys() {
        let of_node = VolumeData { driver_name: "d".into(), volume_handle: "h".into(), ..VolumeData::default() };
        assert_eq!(of_node.to_json(), br#"{"driverName":"d","volumeHandle":"h"}"#);
        let of_pod = VolumeData {
            attachment: "csi-1".into(),
            node_name: "n".into(),
            name: "pv".into(),
            mode: PERSISTENT.into(),
            ..of_node
        };
        let text = r#"{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h","volumeLifecycleMode":"Persistent"}"#;
        assert_eq!(String::from_utf8(of_pod.to_json()).unwrap(), text);
        assert_eq!(VolumeData::parse(text.as_bytes()), Ok(of_pod));
        for broken in ["", "[]", "{}", r#"{"driverName":"d"}"#, r#"{"driverName":1,"volumeHandle":"h"}"#] {
            VolumeData::parse(broken.as_bytes()).unwrap_err();
        }
    }

    /// VOL-45: which persistent volumes lead to a staged volume is known as long as it is one.
    #[test]
    fn a_staged_volume_of_several_persistent_volumes_names_none() {
        let note = |handle: &str, name: &str| VolumeData {
            driver_name: "d".into(),
            volume_handle: handle.into(),
            name: name.into(),
            ..VolumeData::default()
        };
        for (there, expected) in [
            (None, "pv-1"),
            (Some(note("h", "pv-1")), "pv-1"),
            (Some(note("h", "pv-2")), ""),
            (Some(note("h", "")), ""),
            (Some(note("other", "pv-2")), "pv-1"),
        ] {
            assert_eq!(note("h", "pv-1").beside(there.as_ref()), note("h", expected), "{there:?}");
        }
    }
}
