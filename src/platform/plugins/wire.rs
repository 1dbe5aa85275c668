//! The messages and clients of plugins' protocols, as `build.rs` makes them from `proto`.
//!
//! Only this folder uses them, but for the registration of device plugins, which `server::rpc` serves. Tests play plugins
//! with the server halves.

#![allow(
    missing_docs,
    clippy::all,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "generated; the protocols' own comments are in the proto files"
)]

use std::fmt;

pub mod pluginregistration_v1 {
    include!(concat!(env!("OUT_DIR"), "/pluginregistration_v1/pluginregistration.rs"));
}

pub mod deviceplugin_v1beta1 {
    include!(concat!(env!("OUT_DIR"), "/deviceplugin_v1beta1/v1beta1.rs"));
}

pub mod csi_v1 {
    include!(concat!(env!("OUT_DIR"), "/csi_v1/csi.v1.rs"));
}

pub mod dra_v1 {
    include!(concat!(env!("OUT_DIR"), "/dra_v1/k8s.io.kubelet.pkg.apis.dra.v1.rs"));
}

pub mod dra_v1beta1 {
    include!(concat!(env!("OUT_DIR"), "/dra_v1beta1/k8s.io.kubelet.pkg.apis.dra.v1beta1.rs"));
}

pub mod dra_health_v1alpha1 {
    include!(concat!(env!("OUT_DIR"), "/dra_health_v1alpha1/v1alpha1.rs"));
}

impl fmt::Debug for csi_v1::NodeStageVolumeRequest {
    /// The volume alone: what else there is may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeStageVolumeRequest").field("volume_id", &self.volume_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for csi_v1::NodePublishVolumeRequest {
    /// The volume alone: what else there is may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePublishVolumeRequest").field("volume_id", &self.volume_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for csi_v1::NodeExpandVolumeRequest {
    /// The volume alone: what else there is may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeExpandVolumeRequest").field("volume_id", &self.volume_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVE-2023-2878, CVE-2024-3744, SEC-40.
    #[test]
    fn cve_2023_2878_cve_2024_3744_sec_40_a_message_is_printed_without_its_secrets() {
        let secret = || [("csi.storage.k8s.io/serviceAccount.tokens".to_owned(), "hunter2".to_owned())].into();
        let publish = csi_v1::NodePublishVolumeRequest {
            volume_id: "h".into(),
            publish_context: secret(),
            volume_context: secret(),
            secrets: secret(),
            ..Default::default()
        };
        let stage = csi_v1::NodeStageVolumeRequest {
            volume_id: "h".into(),
            publish_context: secret(),
            volume_context: secret(),
            secrets: secret(),
            ..Default::default()
        };
        let expand = csi_v1::NodeExpandVolumeRequest { volume_id: "h".into(), secrets: secret(), ..Default::default() };
        assert_eq!(format!("{publish:?}"), r#"NodePublishVolumeRequest { volume_id: "h", .. }"#);
        assert_eq!(format!("{stage:?}"), r#"NodeStageVolumeRequest { volume_id: "h", .. }"#);
        assert_eq!(format!("{expand:?}"), r#"NodeExpandVolumeRequest { volume_id: "h", .. }"#);
    }
}
