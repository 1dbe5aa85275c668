//! Whether the cluster has attached a volume to this node (VOL-09), and whether it says that there is no room (VOL-12).

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::requests::Texts;

/// gRPC's number of `ResourceExhausted`.
const RESOURCE_EXHAUSTED: i32 = 8;

/// Why a volume is not attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAttached {
    /// The Node does not say yet that the volume is in use: it might be detached under the pod.
    #[error("Volume has not been added to the list of VolumesInUse in the node's volume status for volume.")]
    NotInUse,
    /// The Node does not list it as attached.
    #[error("Volume not attached according to node status")]
    NotListed,
    /// Attaching failed.
    #[error("{message}")]
    Failed {
        /// The attacher's words.
        message: String,
        /// Whether the node has no room for another one.
        is_full: bool,
    },
    /// It is not known.
    #[error("volume {handle} has GET error for volume attachment {name}: {why}")]
    Unknown {
        /// The volume.
        handle: String,
        /// The VolumeAttachment.
        name: String,
        /// The API server's words.
        why: String,
    },
    /// Attaching goes on.
    #[error("volume {handle} is not attached for volume attachment {name}")]
    Pending {
        /// The volume.
        handle: String,
        /// The VolumeAttachment.
        name: String,
    },
}

impl NotAttached {
    /// Whether the node has no room for another volume of the driver.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Failed { is_full: true, .. })
    }
}

/// Looks in the Node's status: the volume must be in use there before anybody relies on its attachment.
///
/// # Errors
/// The first thing that is missing.
pub fn check_node(node: Option<&Node>, unique_name: &str) -> Result<(), NotAttached> {
    let status = node.and_then(|node| node.status.as_ref());
    let in_use = status
        .and_then(|status| status.volumes_in_use.as_ref())
        .is_some_and(|all| all.iter().any(|name| name == unique_name));
    if !in_use {
        return Err(NotAttached::NotInUse);
    }
    let attached = status.and_then(|status| status.volumes_attached.as_ref());
    let is_attached = attached.is_some_and(|all| all.iter().any(|one| one.name == unique_name));
    if is_attached { Ok(()) } else { Err(NotAttached::NotListed) }
}

/// Looks at the VolumeAttachment; gives what attaching said for the driver.
///
/// # Errors
/// It is not attached, and why.
pub fn check_attachment(attachment: &VolumeAttachment, handle: &str) -> Result<Texts, NotAttached> {
    let name = attachment.metadata.name.clone().unwrap_or_default();
    let handle = handle.to_owned();
    if attachment.metadata.deletion_timestamp.is_some() {
        let message = format!("volume attachment {name} is being deleted");
        return Err(NotAttached::Failed { message, is_full: false });
    }
    let Some(status) = &attachment.status else { return Err(NotAttached::Pending { handle, name }) };
    if status.attached {
        return Ok(status.attachment_metadata.clone().unwrap_or_default());
    }
    match &status.attach_error {
        Some(error) => {
            let is_full = error.error_code == Some(RESOURCE_EXHAUSTED);
            Err(NotAttached::Failed { message: error.message.clone().unwrap_or_default(), is_full })
        }
        None => Err(NotAttached::Pending { handle, name }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NAME: &str = "kubernetes.io/csi/d^h";

    fn node(status: Value) -> Node {
        serde_json::from_value(json!({ "status": status })).unwrap()
    }

    /// VOL-09.
    #[test]
    fn a_volume_is_in_use_before_its_attachment_counts() {
        let attached = json!([{ "name": NAME, "devicePath": "" }]);
        for (status, expected) in [
            (json!({}), Err(NotAttached::NotInUse)),
            (json!({ "volumesAttached": attached }), Err(NotAttached::NotInUse)),
            (json!({ "volumesInUse": [NAME] }), Err(NotAttached::NotListed)),
            (json!({ "volumesInUse": [NAME], "volumesAttached": attached }), Ok(())),
        ] {
            assert_eq!(check_node(Some(&node(status.clone())), NAME), expected, "{status}");
        }
        assert_eq!(check_node(None, NAME), Err(NotAttached::NotInUse));
    }

    /// VOL-09, VOL-12.
    #[test]
    fn an_attachment_says_why_it_is_not_there() {
        let check = |status: Value| {
            let spec = json!({ "attacher": "d", "nodeName": "n", "source": {} });
            let tree = json!({ "metadata": { "name": "csi-1" }, "spec": spec, "status": status });
            check_attachment(&serde_json::from_value(tree).unwrap(), "h")
                .map_err(|why| (why.to_string(), why.is_full()))
        };
        let context = check(json!({ "attached": true, "attachmentMetadata": { "lun": "3" } }));
        assert_eq!(context, Ok(Texts::from([("lun".to_owned(), "3".to_owned())])));
        let pending = "volume h is not attached for volume attachment csi-1".to_owned();
        assert_eq!(check(json!(null)), Err((pending.clone(), false)));
        assert_eq!(check(json!({ "attached": false })), Err((pending, false)));
        let failed =
            |code: Value| check(json!({ "attached": false, "attachError": { "message": "no", "errorCode": code } }));
        assert_eq!(failed(json!(8)), Err(("no".to_owned(), true)));
        assert_eq!(failed(json!(13)), Err(("no".to_owned(), false)));
        assert_eq!(failed(json!(null)), Err(("no".to_owned(), false)));
    }
}
