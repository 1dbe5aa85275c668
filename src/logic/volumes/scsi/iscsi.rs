//! A disk of an iSCSI target, as a pod or a persistent volume names it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ISCSIPersistentVolumeSource, ISCSIVolumeSource};
use serde::{Deserialize, Serialize};

use super::{DiskError, PATHS_MAX, check_text};

/// The port of a portal that names none.
const PORT: &str = "3260";
/// The interface of a volume that names none.
const INTERFACE: &str = "default";
/// The beginning of an interface's folder.
const FOLDER: &str = "iface-";
/// The greatest logical unit that the API allows.
const LUN_MAX: u32 = 255;
/// The longest name of a target or an initiator.
const NAME_BYTES_MAX: usize = 223;
/// The kinds of such names.
const NAMES: [&str; 3] = ["iqn.", "eui.", "naa."];

/// The file in a disk's folder that says how it was attached; upstream's name.
pub const RECORD: &str = "iscsi.json";

/// See the module. The fields are those of upstream's file, where it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IscsiDisk {
    /// The volume's name: the persistent volume's, or that in the pod.
    pub vol_name: String,
    /// The portals of the target, each with a port; the volume's main one first.
    pub portals: Vec<String>,
    /// The target.
    pub iqn: String,
    /// The logical unit, as upstream writes it: a number.
    pub lun: String,
    /// The interface that the volume names.
    pub init_iface: String,
    /// The interface that is used: that one, or a copy of it.
    pub iface: String,
    /// The initiator's name for this volume; empty for the node's own.
    pub initiator_name: String,
    /// The main portal as the volume names it: the Node's status has it so. Not in upstream's file.
    pub target_portal: String,
    /// Whether discovery authenticates.
    pub discovery_chap: bool,
    /// Whether sessions authenticate.
    pub session_chap: bool,
}

/// The fields that the two kinds of sources have in common.
struct Fields<'a> {
    portal: &'a str,
    portals: Option<&'a Vec<String>>,
    iqn: &'a str,
    lun: i32,
    interface: Option<&'a String>,
    initiator: Option<&'a String>,
    chap: [Option<bool>; 2],
}

impl Fields<'_> {
    fn disk(self, name: &str) -> IscsiDisk {
        let all = std::iter::once(self.portal).chain(self.portals.into_iter().flatten().map(String::as_str));
        let mut seen = BTreeSet::new();
        let portals: Vec<String> = all.map(with_port).filter(|portal| seen.insert(portal.clone())).collect();
        let named = self.interface.filter(|text| !text.is_empty());
        let init_iface = named.cloned().unwrap_or_else(|| INTERFACE.to_owned());
        let initiator_name = self.initiator.cloned().unwrap_or_default();
        let iface = if initiator_name.is_empty() { init_iface.clone() } else { format!("{}:{name}", portals[0]) };
        let [discovery_chap, session_chap] = self.chap.map(|wanted| wanted.unwrap_or(false));
        IscsiDisk {
            vol_name: name.to_owned(),
            portals,
            iqn: self.iqn.to_owned(),
            lun: self.lun.to_string(),
            init_iface,
            iface,
            initiator_name,
            target_portal: self.portal.to_owned(),
            discovery_chap,
            session_chap,
        }
    }
}

/// A portal with a port. As upstream, an address with a colon has one.
fn with_port(portal: &str) -> String {
    if portal.contains(':') { portal.to_owned() } else { format!("{portal}:{PORT}") }
}

impl IscsiDisk {
    /// The disk of a volume that the pod brings along.
    pub fn of_pod(source: &ISCSIVolumeSource, name: &str) -> Self {
        let fields = Fields {
            portal: &source.target_portal,
            portals: source.portals.as_ref(),
            iqn: &source.iqn,
            lun: source.lun,
            interface: source.iscsi_interface.as_ref(),
            initiator: source.initiator_name.as_ref(),
            chap: [source.chap_auth_discovery, source.chap_auth_session],
        };
        fields.disk(name)
    }

    /// The disk of a persistent volume.
    pub fn of_volume(source: &ISCSIPersistentVolumeSource, name: &str) -> Self {
        let fields = Fields {
            portal: &source.target_portal,
            portals: source.portals.as_ref(),
            iqn: &source.iqn,
            lun: source.lun,
            interface: source.iscsi_interface.as_ref(),
            initiator: source.initiator_name.as_ref(),
            chap: [source.chap_auth_discovery, source.chap_auth_session],
        };
        fields.disk(name)
    }

    /// The disk that is mounted in this folder, below that of its interface.
    pub(super) fn of_folders(interface: &str, name: &str) -> Option<Self> {
        let iface = interface.strip_prefix(FOLDER)?;
        let at = NAMES.iter().filter_map(|kind| name.find(&format!("-{kind}"))).min()?;
        let (portal, rest) = (&name[..at], &name[at + 1..]);
        let (iqn, lun) = rest.rsplit_once("-lun-")?;
        Some(Self {
            portals: vec![portal.to_owned()],
            iqn: iqn.to_owned(),
            lun: lun.to_owned(),
            init_iface: iface.to_owned(),
            iface: iface.to_owned(),
            target_portal: portal.to_owned(),
            ..Self::default()
        })
    }

    /// The disk of upstream's file, which does not have all. `folders` is what the file's folder tells.
    ///
    /// # Errors
    /// It is no such file.
    pub fn of_record(bytes: &[u8], folders: Self) -> Result<Self, String> {
        let mut read: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if read.target_portal.is_empty() {
            read.target_portal = folders.target_portal;
        }
        Ok(read)
    }

    /// The Node's name of it.
    pub(super) fn unique_name(&self) -> String {
        format!("kubernetes.io/iscsi/{}:{}:{}", self.target_portal, self.iqn, self.lun)
    }

    /// The folder of the interface, and in it that of the disk.
    pub(super) fn folders(&self) -> Vec<String> {
        let portal = self.portals.first().map(String::as_str).unwrap_or_default();
        vec![format!("{FOLDER}{}", self.iface), format!("{portal}-{}-lun-{}", self.iqn, self.lun)]
    }

    /// Whether the folder of a disk is one of this target: its session stays as long as there is another such folder.
    pub fn shares_target(&self, folder: &str) -> bool {
        folder.contains(&format!("-{}-lun-", self.iqn))
    }

    /// Whether anybody authenticates.
    pub fn needs_secret(&self) -> bool {
        self.discovery_chap || self.session_chap
    }

    /// The logical unit.
    pub fn unit(&self) -> u32 {
        self.lun.parse().unwrap_or_default()
    }

    /// Whether the interface is a copy, made for this volume.
    pub fn has_own_interface(&self) -> bool {
        let portal = self.portals.first().map(String::as_str).unwrap_or_default();
        !self.initiator_name.is_empty() && self.iface == format!("{portal}:{}", self.vol_name)
    }

    pub(super) fn check(&self) -> Result<(), DiskError> {
        if self.portals.len() > PATHS_MAX {
            return Err(DiskError::Paths(self.portals.len()));
        }
        let of_address = |letter: char| letter.is_ascii_alphanumeric() || ".:-_[]%".contains(letter);
        for portal in self.portals.iter().chain([&self.target_portal]) {
            check_text("portal", portal, NAME_BYTES_MAX, of_address)?;
        }
        let of_name = |letter: char| !letter.is_whitespace() && !letter.is_control() && !"/\\,;*&$|".contains(letter);
        let is_named = |text: &str| ["iqn", "eui", "naa"].iter().any(|kind| text.starts_with(kind));
        let named = [("iqn", &self.iqn), ("initiatorName", &self.initiator_name)];
        for (what, text) in named.into_iter().filter(|(what, text)| *what == "iqn" || !text.is_empty()) {
            check_text(what, text, NAME_BYTES_MAX, of_name)?;
            if what == "iqn" && !is_named(text) {
                return Err(DiskError::Text { what, text: text.clone() });
            }
        }
        for interface in [&self.init_iface, &self.iface] {
            check_text("iscsiInterface", interface, NAME_BYTES_MAX, |letter| of_address(letter) || letter == '@')?;
        }
        match self.lun.parse::<u32>() {
            Ok(lun) if lun <= LUN_MAX && lun.to_string() == self.lun => Ok(()),
            _ => Err(DiskError::Text { what: "lun", text: self.lun.clone() }),
        }
    }
}
