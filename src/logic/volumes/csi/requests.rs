//! Requests to a driver. Secrets and tokens are in here: nothing of it is printed but the volume.

use std::collections::BTreeMap;
use std::fmt;

/// Texts by name.
pub type Texts = BTreeMap<String, String>;

/// The users that a volume may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the specification's own names")]
pub enum AccessMode {
    SingleNodeWriter,
    SingleNodeSingleWriter,
    SingleNodeMultiWriter,
    MultiNodeReaderOnly,
    MultiNodeMultiWriter,
}

impl AccessMode {
    /// The API's mode in the specification's words. Without the newer modes both of one node are the same.
    ///
    /// # Errors
    /// A mode that nobody knows.
    pub fn of(mode: &str, knows_single_node_modes: bool) -> Result<Self, String> {
        Ok(match (mode, knows_single_node_modes) {
            ("ReadWriteOnce" | "ReadWriteOncePod", false) => Self::SingleNodeWriter,
            ("ReadWriteOnce", true) => Self::SingleNodeMultiWriter,
            ("ReadWriteOncePod", true) => Self::SingleNodeSingleWriter,
            ("ReadOnlyMany", _) => Self::MultiNodeReaderOnly,
            ("ReadWriteMany", _) => Self::MultiNodeMultiWriter,
            _ => return Err(format!("access mode {mode:?} is not known")),
        })
    }
}

/// As what a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A device.
    Block,
    /// A file system.
    Mount {
        /// Its type; empty leaves it to the driver.
        fs_type: String,
        /// Mount options.
        flags: Vec<String>,
        /// The group that the driver gives files to.
        group: Option<u32>,
    },
}

/// How a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// As what.
    pub access: Access,
    /// By whom.
    pub mode: AccessMode,
}

/// `NodeStageVolume`.
#[derive(Clone, PartialEq, Eq)]
pub struct StageRequest {
    /// The driver's name of the volume.
    pub volume: String,
    /// The result of attaching.
    pub publish_context: Texts,
    /// Where.
    pub staging: String,
    /// How it is used.
    pub capability: Capability,
    /// Secret.
    pub secrets: Texts,
    /// The volume's attributes.
    pub context: Texts,
}

/// `NodePublishVolume`.
#[derive(Clone, PartialEq, Eq)]
pub struct PublishRequest {
    /// The driver's name of the volume.
    pub volume: String,
    /// The result of attaching.
    pub publish_context: Texts,
    /// Where it was staged; empty where it was not.
    pub staging: String,
    /// Where.
    pub target: String,
    /// How it is used.
    pub capability: Capability,
    /// Whether nobody may write.
    pub read_only: bool,
    /// Secret.
    pub secrets: Texts,
    /// The volume's attributes, and the pod's where the driver wants them; secret too.
    pub context: Texts,
}

/// `NodeExpandVolume`.
#[derive(Clone, PartialEq, Eq)]
pub struct ExpandRequest {
    /// The driver's name of the volume.
    pub volume: String,
    /// Where it is published or staged.
    pub path: String,
    /// Where it was staged; empty where it was not.
    pub staging: String,
    /// The size in bytes.
    pub required_bytes: i64,
    /// How it is used.
    pub capability: Capability,
    /// Secret.
    pub secrets: Texts,
}

macro_rules! quiet {
    ($($name:ident),+) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("volume", &self.volume).finish_non_exhaustive()
            }
        })+
    };
}

quiet!(StageRequest, PublishRequest, ExpandRequest);

/// Amounts of one unit; negative ones are as the driver said them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Free.
    pub available: i64,
    /// In all.
    pub total: i64,
    /// In use.
    pub used: i64,
}

/// The answer to `NodeGetVolumeStats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeUse {
    /// Bytes.
    pub bytes: Option<Amounts>,
    /// Inodes.
    pub inodes: Option<Amounts>,
    /// The condition of the volume, where the driver tells it: whether it is abnormal, and its words.
    pub condition: Option<(bool, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VOL-41.
    #[test]
    fn access_modes_are_the_specifications() {
        for (mode, older, newer) in [
            ("ReadWriteOnce", AccessMode::SingleNodeWriter, AccessMode::SingleNodeMultiWriter),
            ("ReadWriteOncePod", AccessMode::SingleNodeWriter, AccessMode::SingleNodeSingleWriter),
            ("ReadOnlyMany", AccessMode::MultiNodeReaderOnly, AccessMode::MultiNodeReaderOnly),
            ("ReadWriteMany", AccessMode::MultiNodeMultiWriter, AccessMode::MultiNodeMultiWriter),
        ] {
            assert_eq!((AccessMode::of(mode, false), AccessMode::of(mode, true)), (Ok(older), Ok(newer)), "{mode}");
        }
        AccessMode::of("WriteNever", true).unwrap_err();
    }

    /// CVE-2023-2878, CVE-2024-3744, SEC-40: tokens of a pod's account reach a driver among a volume's attributes or its secrets: neither is printed.
    #[test]
    fn cve_2023_2878_cve_2024_3744_sec_40_a_request_is_printed_without_its_secrets() {
        let secret = Texts::from([("csi.storage.k8s.io/serviceAccount.tokens".to_owned(), "hunter2".to_owned())]);
        let access = Access::Mount { fs_type: String::new(), flags: vec![], group: None };
        let capability = Capability { access, mode: AccessMode::SingleNodeWriter };
        let stage = StageRequest {
            volume: "h".into(),
            publish_context: secret.clone(),
            staging: "/s".into(),
            capability: capability.clone(),
            secrets: secret.clone(),
            context: secret.clone(),
        };
        assert_eq!(format!("{stage:?}"), r#"StageRequest { volume: "h", .. }"#);
        let publish = PublishRequest {
            volume: "h".into(),
            publish_context: secret.clone(),
            staging: "/s".into(),
            target: "/t".into(),
            capability,
            read_only: false,
            secrets: secret.clone(),
            context: secret,
        };
        assert_eq!(format!("{publish:?}"), r#"PublishRequest { volume: "h", .. }"#);
    }
}
