//! Kinds of volumes that need more than files in a directory, one file per kind.

pub(super) mod csi_data;
pub(super) mod csi_device;
pub(super) mod device;
pub(super) mod empty_dir;
pub(super) mod format;
pub(super) mod host_path;
pub(super) mod local;
pub(super) mod nfs;
pub(super) mod scsi;
