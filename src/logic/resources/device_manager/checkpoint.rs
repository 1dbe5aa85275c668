//! `kubelet_internal_checkpoint`: upstream's JSON with upstream's checksum, so that either agent goes on from the other's file.
//!
//! Pure. The checksum is a hash of a text that Go's printer of objects makes of the data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::books::{Books, Owned};
use super::calls::Need;
use super::grant_bytes;
use crate::logic::formats::fnv::fnv1a;
use crate::logic::formats::go_text::json_string;
use crate::logic::model::ids::PodUid;

/// The file's name in the directory of device plugins.
pub const FILE_NAME: &str = "kubelet_internal_checkpoint";

/// Why a file cannot be gone on from. As upstream, the agent then goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Not the text that was written.
    #[error("checkpoint is corrupted")]
    Corrupt,
    /// No JSON, or JSON of another shape.
    #[error("{0}")]
    Shape(String),
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The devices that containers own.
    pub books: Books,
    /// The healthy devices of each resource.
    pub registered: BTreeMap<String, BTreeSet<String>>,
}

/// Go's values: `None` is nil.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Data {
    pod_device_entries: Option<Vec<Entry>>,
    registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

impl Default for Data {
    /// As upstream has it before it reads the file.
    fn default() -> Self {
        Self { pod_device_entries: Some(vec![]), registered_devices: Some(BTreeMap::new()) }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    container_name: String,
    resource_name: String,
    #[serde(rename = "DeviceIDs")]
    device_ids: Option<BTreeMap<i64, Option<Vec<String>>>>,
    /// Base64.
    alloc_resp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct File {
    data: Data,
    checksum: u64,
}

/// The file's text. Devices that their plugin has not given yet are not in it.
pub fn print(books: &Books, registered: &BTreeMap<String, BTreeSet<String>>) -> Vec<u8> {
    let entries: Vec<Entry> =
        books.pods().flat_map(|(uid, book)| book.iter().filter_map(|(need, owned)| entry(uid, need, owned))).collect();
    let names = |(resource, ids): (&String, &BTreeSet<String>)| (resource.clone(), Some(ids.iter().cloned().collect()));
    let data = Data {
        pod_device_entries: Some(entries).filter(|entries| !entries.is_empty()),
        registered_devices: Some(registered.iter().map(names).collect()),
    };
    let sum = checksum(&data).unwrap_or_default();
    let entries = data.pod_device_entries.as_ref().map_or_else(
        || "null".to_owned(),
        |entries| format!("[{}]", entries.iter().map(entry_json).collect::<Vec<_>>().join(",")),
    );
    let list = |ids: &Option<Vec<String>>| json_list(ids.iter().flatten());
    let registered = json_map(data.registered_devices.iter().flatten().map(|(name, ids)| (name.clone(), list(ids))));
    format!("{{\"Data\":{{\"PodDeviceEntries\":{entries},\"RegisteredDevices\":{registered}}},\"Checksum\":{sum}}}")
        .into_bytes()
}

fn entry(uid: &PodUid, need: &Need, owned: &Owned) -> Option<Entry> {
    let grant = owned.grant.as_ref()?;
    let ids = owned.nodes.iter().map(|(node, ids)| (*node, Some(ids.iter().cloned().collect())));
    Some(Entry {
        pod_uid: uid.as_str().to_owned(),
        container_name: need.container.clone(),
        resource_name: need.resource.clone(),
        device_ids: Some(ids.collect()),
        alloc_resp: Some(STANDARD.encode(grant_bytes::print(grant))),
    })
}

fn entry_json(entry: &Entry) -> String {
    let mut nodes: Vec<(String, String)> = entry.device_ids.iter().flatten().map(node_json).collect();
    // Go sorts the keys of a map as texts.
    nodes.sort();
    format!(
        "{{\"PodUID\":{},\"ContainerName\":{},\"ResourceName\":{},\"DeviceIDs\":{},\"AllocResp\":{}}}",
        json_string(&entry.pod_uid),
        json_string(&entry.container_name),
        json_string(&entry.resource_name),
        json_map(nodes.into_iter()),
        json_string(entry.alloc_resp.as_deref().unwrap_or_default())
    )
}

fn node_json((node, ids): (&i64, &Option<Vec<String>>)) -> (String, String) {
    (node.to_string(), json_list(ids.iter().flatten()))
}

fn json_list<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    format!("[{}]", texts.map(|text| json_string(text)).collect::<Vec<_>>().join(","))
}

/// A map whose values are JSON already.
fn json_map(entries: impl Iterator<Item = (String, String)>) -> String {
    let entries = entries.map(|(key, value)| format!("{}:{value}", json_string(&key)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

/// The content of a file.
///
/// # Errors
/// Why nobody can go on from it.
pub fn parse(bytes: &[u8]) -> Result<Checkpoint, CheckpointError> {
    let file: File = serde_json::from_slice(bytes).map_err(|error| CheckpointError::Shape(error.to_string()))?;
    if checksum(&file.data).map(u64::from) != Some(file.checksum) {
        return Err(CheckpointError::Corrupt);
    }
    let mut checkpoint = Checkpoint::default();
    for entry in file.data.pod_device_entries.into_iter().flatten() {
        // Upstream drops an entry whose answer it cannot read, and so the devices are free.
        let answer = STANDARD.decode(entry.alloc_resp.unwrap_or_default()).ok();
        let Some(grant) = answer.and_then(|bytes| grant_bytes::parse(&bytes).ok()) else { continue };
        let ids = entry.device_ids.into_iter().flatten();
        let nodes = ids.map(|(node, ids)| (node, ids.into_iter().flatten().collect())).collect();
        let need = Need { container: entry.container_name, resource: entry.resource_name };
        checkpoint.books.insert(&PodUid::from(entry.pod_uid.as_str()), need, Owned { nodes, grant: Some(grant) });
    }
    let registered = file.data.registered_devices.into_iter().flatten();
    checkpoint.registered = registered.map(|(name, ids)| (name, ids.into_iter().flatten().collect())).collect();
    Ok(checkpoint)
}

/// The checksum of the data; `None` when an answer is no base64.
fn checksum(data: &Data) -> Option<u32> {
    let mut out = "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)".to_owned();
    match &data.pod_device_entries {
        None => out.push_str("<nil>"),
        Some(entries) => {
            let dumps: Option<Vec<String>> = entries.iter().map(dump_entry).collect();
            out.push_str(&format!("[{}]", dumps?.join(" ")));
        }
    }
    out.push_str(" RegisteredDevices:(map[string][]string)");
    out.push_str(&dump_map(data.registered_devices.as_ref().map(|map| map.iter())));
    out.push('}');
    Some(fnv1a(out.as_bytes()))
}

fn dump_entry(entry: &Entry) -> Option<String> {
    let answer = match &entry.alloc_resp {
        None => "<nil>".to_owned(),
        Some(text) => {
            let bytes = STANDARD.decode(text).ok()?;
            format!("[{}]", bytes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        }
    };
    Some(format!(
        "{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} \
         DeviceIDs:(checkpoint.DevicesPerNUMA){} AllocResp:([]uint8){answer}}}",
        entry.pod_uid,
        entry.container_name,
        entry.resource_name,
        dump_map(entry.device_ids.as_ref().map(|map| map.iter()))
    ))
}

/// A map of lists in the order of its keys; `None` is nil.
fn dump_map<'a, K: std::fmt::Display + 'a>(
    entries: Option<impl Iterator<Item = (&'a K, &'a Option<Vec<String>>)>>,
) -> String {
    let Some(entries) = entries else { return "<nil>".to_owned() };
    let mut out = "map[".to_owned();
    for (at, (key, ids)) in entries.enumerate() {
        let separator = if at == 0 { "" } else { " " };
        let ids = ids.as_ref().map_or_else(|| "<nil>".to_owned(), |ids| format!("[{}]", ids.join(" ")));
        write!(out, "{separator}{key}:{ids}").expect("invariant: a String takes all text");
    }
    out.push(']');
    out
}
