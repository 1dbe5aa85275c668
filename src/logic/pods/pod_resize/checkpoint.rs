//! The two files in which it is kept what pods were given: upstream's JSON, with upstream's checksum, so that either node
//! agent goes on from what the other wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceRequirements;
use litemap::LiteMap;
use serde::{Deserialize, Deserializer, Serialize};

use crate::logic::formats::fnv::fnv1a;
use crate::logic::model::ids::PodUid;

/// Resources by name of the container. Several are kept of each pod, of one container most often.
pub type ContainerResources = LiteMap<String, ResourceRequirements>;

/// Resources of one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodResources {
    /// By name of the container; shared, for several actors keep the same.
    #[serde(rename = "ContainerResources", default, deserialize_with = "null_is_none")]
    pub containers: Arc<ContainerResources>,
    /// Of the pod as a whole.
    #[serde(rename = "PodLevelResources", default)]
    pub pod: Option<ResourceRequirements>,
}

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// Not the shape that was written.
    #[error("no checkpoint: {0}")]
    Shape(String),
    /// Its own checksum says that it is another text.
    #[error("checkpoint is corrupted: its checksum is {told}, that of its data {found}")]
    Checksum {
        /// As the file has it.
        told: u64,
        /// As it should be.
        found: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    data: String,
    checksum: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Data {
    #[serde(default, deserialize_with = "null_is_none", skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, PodResources>,
}

fn null_is_none<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// 32-bit FNV-1a over the text as upstream's printer of objects writes it.
fn checksum(data: &str) -> u64 {
    fnv1a(format!("(string){data}").as_bytes()).into()
}

/// The file's text.
pub fn print_checkpoint(entries: &BTreeMap<PodUid, PodResources>) -> Vec<u8> {
    let entries = entries.iter().map(|(uid, resources)| (uid.as_str().to_owned(), resources.clone())).collect();
    let data = serde_json::to_string(&Data { entries }).expect("invariant: text keys alone");
    let checksum = checksum(&data);
    serde_json::to_vec(&Envelope { data, checksum }).expect("invariant: text keys alone")
}

/// The content of a file.
///
/// # Errors
/// The fault in it. Nothing of it is to be believed then.
pub fn parse_checkpoint(bytes: &[u8]) -> Result<BTreeMap<PodUid, PodResources>, Corrupt> {
    let shape = |error: serde_json::Error| Corrupt::Shape(error.to_string());
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(shape)?;
    let found = checksum(&envelope.data);
    if found != envelope.checksum {
        return Err(Corrupt::Checksum { told: envelope.checksum, found });
    }
    let data: Data = serde_json::from_str(&envelope.data).map_err(shape)?;
    Ok(data.entries.into_iter().map(|(uid, resources)| (PodUid::from(uid.as_str()), resources)).collect())
}
