//! A disk of a Fibre Channel network, as a pod or a persistent volume names it.

use k8s_openapi::api::core::v1::FCVolumeSource;
use serde::{Deserialize, Serialize};

use super::{DiskError, PATHS_MAX, check_text};

/// The longest name of a target or a disk.
const NAME_BYTES_MAX: usize = 200;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FcDisk {
    /// Names of targets; none where the disk has names of its own.
    pub wwns: Vec<String>,
    /// The logical unit of the targets.
    pub lun: u32,
    /// The disk's own names, as the volume has them.
    pub wwids: Vec<String>,
}

impl FcDisk {
    /// The disk of a volume.
    ///
    /// # Errors
    /// The volume names none.
    pub fn of_source(source: &FCVolumeSource) -> Result<Self, DiskError> {
        let wwns = source.target_wwns.clone().unwrap_or_default();
        let wwids = source.wwids.clone().unwrap_or_default();
        match source.lun {
            Some(lun) if !wwns.is_empty() => {
                let lun = u32::try_from(lun).map_err(|_| DiskError::Text { what: "lun", text: lun.to_string() })?;
                Ok(Self { wwns, lun, wwids: vec![] })
            }
            _ if !wwids.is_empty() => Ok(Self { wwns: vec![], lun: 0, wwids }),
            _ => Err(DiskError::NoFcDisk),
        }
    }

    /// The disk that is mounted in this folder.
    pub(super) fn of_folder(name: &str) -> Option<Self> {
        let names = |text: &str| text.split('-').map(str::to_owned).collect::<Vec<_>>();
        match name.rsplit_once("-lun-") {
            Some((wwns, lun)) => Some(Self { wwns: names(wwns), lun: lun.parse().ok()?, wwids: vec![] }),
            None => Some(Self { wwns: vec![], lun: 0, wwids: names(name) }),
        }
    }

    /// The Node's name of it: upstream prints a list in brackets, divided by blanks.
    pub(super) fn unique_name(&self) -> String {
        match self.wwns.is_empty() {
            true => format!("kubernetes.io/fc/[{}]", self.wwids.join(" ")),
            false => format!("kubernetes.io/fc/[{}]:{}", self.wwns.join(" "), self.lun),
        }
    }

    /// The disk's folder.
    pub(super) fn folder(&self) -> String {
        match self.wwns.is_empty() {
            true => self.ids().join("-"),
            false => format!("{}-lun-{}", self.wwns.join("-"), self.lun),
        }
    }

    /// The disk's own names, as links to it have them.
    fn ids(&self) -> Vec<String> {
        self.wwids.iter().map(|id| id.replace(' ', "_")).collect()
    }

    /// The folder of `/dev/disk` with links to such disks.
    pub fn links(&self) -> &'static str {
        if self.wwns.is_empty() { "by-id" } else { "by-path" }
    }

    /// Whether a link of that folder leads to the disk.
    pub fn is_link(&self, name: &str) -> bool {
        if self.wwns.is_empty() {
            return name.strip_prefix("scsi-").is_some_and(|id| self.ids().iter().any(|own| own == id));
        }
        self.wwns.iter().any(|wwn| {
            let Some(way) = name.strip_suffix(&format!("-0x{wwn}-lun-{}", self.lun)) else { return false };
            way == "fc" || (way.starts_with("pci-") && way.ends_with("-fc"))
        })
    }

    pub(super) fn check(&self) -> Result<(), DiskError> {
        let count = self.wwns.len() + self.wwids.len();
        if count > PATHS_MAX {
            return Err(DiskError::Paths(count));
        }
        if count == 0 {
            return Err(DiskError::NoFcDisk);
        }
        for wwn in &self.wwns {
            check_text("targetWWNs", wwn, NAME_BYTES_MAX, |letter| letter.is_ascii_alphanumeric())?;
        }
        for id in &self.wwids {
            let allowed = |letter: char| (letter.is_ascii_graphic() && letter != '/') || letter == ' ';
            check_text("wwids", id, NAME_BYTES_MAX, allowed)?;
        }
        // A folder of this name holds devices.
        match self.folder().as_str() {
            super::DEVICES => Err(DiskError::Text { what: "wwids", text: super::DEVICES.to_owned() }),
            _ => Ok(()),
        }
    }
}
