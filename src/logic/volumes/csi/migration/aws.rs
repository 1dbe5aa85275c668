//! awsElasticBlockStore.

use k8s_openapi::api::core::v1::{AWSElasticBlockStoreVolumeSource, CSIPersistentVolumeSource};

use super::{NotMigrated, Topology, Translated, plain};

pub(super) const DRIVER: &str = "ebs.csi.aws.com";
pub(super) const TOPOLOGY: Topology = Topology { zone: Some("topology.ebs.csi.aws.com/zone"), region: None };
/// The begin of a volume's name that tells its zone.
const SCHEME: &str = "aws://";

pub(super) fn source(source: &AWSElasticBlockStoreVolumeSource) -> Translated {
    let partition = source.partition.unwrap_or(0).to_string();
    let found = plain(DRIVER, handle(&source.volume_id)?, source.fs_type.as_ref(), &[("partition", &partition)]);
    Ok(CSIPersistentVolumeSource { read_only: source.read_only, ..found })
}

/// The volume's own name of `aws://<zone>/<name>`; one in another form is that name.
fn handle(told: &str) -> Result<String, NotMigrated> {
    let Some(rest) = told.strip_prefix(SCHEME) else { return Ok(told.to_owned()) };
    let name = rest.split_once('/').map_or("", |(_, path)| path.trim_matches('/'));
    if !name.starts_with("vol-") || name.contains('/') {
        return Err(NotMigrated::AwsVolume(told.to_owned()));
    }
    Ok(name.to_owned())
}
