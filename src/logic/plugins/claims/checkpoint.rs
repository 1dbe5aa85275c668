//! `dra_manager_state`: upstream's JSON with upstream's checksum, so that either agent goes on from the other's file (RES-50).
//!
//! Pure: from bytes to [`ClaimBook`] and back. The content is JSON within a string, and the checksum is that string's CRC-32.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

use super::book::{ClaimBook, ClaimInfo};
use super::{ClaimId, ClaimKey, PreparedDevice};
use crate::logic::formats::go_text::json_string;
use crate::logic::model::ids::PodUid;

/// The file's name in the root directory.
pub const FILE_NAME: &str = "dra_manager_state";

/// Why a file is not gone on from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Not the text that was written.
    #[error("checkpoint is corrupted")]
    Corrupt,
    /// No JSON, or JSON of another shape.
    #[error("{0}")]
    Shape(String),
}

/// A file that could not be gone on from, as the agent says it when it ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "create ResourceClaim cache: could not initialize checkpoint manager, please drain node and remove DRA state file, \
     err: failed to get checkpoint {FILE_NAME}: {0}"
)]
pub struct Unrestorable(pub RestoreError);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: String,
    #[serde(default)]
    checksum: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    claim_info_state_list: Option<Vec<Claim>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Claim {
    #[serde(default, rename = "ClaimUID")]
    claim_uid: String,
    #[serde(default)]
    claim_name: String,
    #[serde(default)]
    namespace: String,
    #[serde(rename = "PodUIDs")]
    pod_uids: Option<BTreeMap<String, Value>>,
    driver_state: Option<BTreeMap<String, Driver>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Driver {
    devices: Option<Vec<Device>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Device {
    #[serde(default)]
    pool_name: String,
    #[serde(default)]
    device_name: String,
    #[serde(rename = "ShareID")]
    share_id: Option<String>,
    request_names: Option<Vec<String>>,
    #[serde(rename = "CDIDeviceIDs")]
    cdi_device_ids: Option<Vec<String>>,
}

impl From<Claim> for ClaimInfo {
    fn from(claim: Claim) -> Self {
        let key = ClaimKey { namespace: claim.namespace, name: claim.claim_name };
        let devices = |driver: Driver| driver.devices.into_iter().flatten().map(PreparedDevice::from).collect();
        Self {
            id: ClaimId { key, uid: claim.claim_uid },
            pods: claim.pod_uids.into_iter().flatten().map(|(uid, _)| PodUid::from(uid)).collect(),
            drivers: claim.driver_state.into_iter().flatten().map(|(name, driver)| (name, devices(driver))).collect(),
            prepared: false,
        }
    }
}

impl From<Device> for PreparedDevice {
    fn from(device: Device) -> Self {
        Self {
            pool_name: device.pool_name,
            device_name: device.device_name,
            share_id: device.share_id,
            request_names: device.request_names.unwrap_or_default(),
            cdi_device_ids: device.cdi_device_ids.unwrap_or_default(),
        }
    }
}

/// Reads a file. Claims count as not prepared.
///
/// # Errors
/// [`RestoreError`].
pub fn parse(bytes: &[u8]) -> Result<ClaimBook, RestoreError> {
    let shape = |error: serde_json::Error| RestoreError::Shape(error.to_string());
    let file: File = serde_json::from_slice(bytes).map_err(shape)?;
    if crc32(file.data.as_bytes()) != file.checksum {
        return Err(RestoreError::Corrupt);
    }
    let data: Data = serde_json::from_str(&file.data).map_err(shape)?;
    Ok(ClaimBook::of(data.claim_info_state_list.into_iter().flatten().map(ClaimInfo::from)))
}

/// Prints the book as a file.
pub fn print(book: &ClaimBook) -> Vec<u8> {
    let claims: Vec<String> = book.all().map(print_claim).collect();
    let data = format!(
        "{{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{}]}}",
        claims.join(",")
    );
    let checksum = crc32(data.as_bytes());
    format!("{{\"Data\":{},\"Checksum\":{checksum}}}", json_string(&data)).into_bytes()
}

fn print_claim(claim: &ClaimInfo) -> String {
    let pods: Vec<String> = claim.pods.iter().map(|uid| format!("{}:{{}}", json_string(uid.as_str()))).collect();
    let drivers = claim.drivers.iter().map(|(name, devices)| {
        let devices: Vec<String> = devices.iter().map(print_device).collect();
        let devices = if devices.is_empty() { "null".to_owned() } else { format!("[{}]", devices.join(",")) };
        format!("{}:{{\"Devices\":{devices}}}", json_string(name))
    });
    let drivers: Vec<String> = drivers.collect();
    format!(
        "{{\"ClaimUID\":{},\"ClaimName\":{},\"Namespace\":{},\"PodUIDs\":{{{}}},\"DriverState\":{{{}}}}}",
        json_string(&claim.id.uid),
        json_string(&claim.id.key.name),
        json_string(&claim.id.key.namespace),
        pods.join(","),
        drivers.join(",")
    )
}

fn print_device(device: &PreparedDevice) -> String {
    let mut text = format!(
        "{{\"PoolName\":{},\"DeviceName\":{},\"ShareID\":{}",
        json_string(&device.pool_name),
        json_string(&device.device_name),
        device.share_id.as_deref().map_or_else(|| "null".to_owned(), json_string)
    );
    for (name, list) in [("RequestNames", &device.request_names), ("CDIDeviceIDs", &device.cdi_device_ids)] {
        let items: Vec<String> = list.iter().map(|item| json_string(item)).collect();
        // Go has no list where there is nothing in it.
        let items = if items.is_empty() { "null".to_owned() } else { format!("[{}]", items.join(",")) };
        let _ = write!(text, ",\"{name}\":{items}"); // a String takes all
    }
    text + "}"
}

/// CRC-32 as IEEE 802.3 has it.
fn crc32(bytes: &[u8]) -> u32 {
    const REVERSED: u32 = 0xEDB8_8320;
    let of_byte = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ REVERSED } else { crc >> 1 })
    };
    !bytes.iter().fold(u32::MAX, of_byte)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn book() -> ClaimBook {
        let device = PreparedDevice {
            pool_name: "worker-1".to_owned(),
            device_name: "dev-1".to_owned(),
            share_id: None,
            request_names: vec!["req-1".to_owned()],
            cdi_device_ids: vec!["example.com/example=cdi-example".to_owned()],
        };
        let bare = PreparedDevice { share_id: Some("s<1>".to_owned()), ..PreparedDevice::default() };
        let key = ClaimKey { namespace: "default".to_owned(), name: "example".to_owned() };
        let uid = "067798be-454e-4be4-9047-1aa06aea63f7".to_owned();
        ClaimBook::of([ClaimInfo {
            id: ClaimId { key, uid },
            pods: BTreeSet::from([PodUid::from("139cdb46-f989-4f17-9561-ca10cfb509a6")]),
            drivers: BTreeMap::from([
                ("b".to_owned(), vec![]),
                ("test-driver.cdi.k8s.io".to_owned(), vec![device, bare]),
            ]),
            prepared: false,
        }])
    }

    /// RES-50: the text is upstream's to the byte, for a reader in Go.
    #[test]
    fn a_file_is_upstreams() {
        let data = "{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\
            \"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\
            \"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\
            \"b\":{\"Devices\":null},\"test-driver.cdi.k8s.io\":{\"Devices\":[\
            {\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":null,\"RequestNames\":[\"req-1\"],\
            \"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]},\
            {\"PoolName\":\"\",\"DeviceName\":\"\",\"ShareID\":\"s\\u003c1\\u003e\",\"RequestNames\":null,\
            \"CDIDeviceIDs\":null}]}}}]}";
        let printed = String::from_utf8(print(&book())).expect("text");
        let expected = format!("{{\"Data\":{},\"Checksum\":{}}}", json_string(data), crc32(data.as_bytes()));
        assert_eq!(printed, expected);
        assert_eq!(parse(printed.as_bytes()), Ok(book()));
    }

    /// RES-50: a file of upstream's tests, with its checksum.
    #[test]
    fn upstreams_file_is_read() {
        let text = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[{\"ClaimUID\":\"067798be-454e-4be4-9047-1aa06aea63f7\",\"ClaimName\":\"example\",\"Namespace\":\"default\",\"PodUIDs\":{\"139cdb46-f989-4f17-9561-ca10cfb509a6\":{}},\"DriverState\":{\"test-driver.cdi.k8s.io\":{\"Devices\":[{\"PoolName\":\"worker-1\",\"DeviceName\":\"dev-1\",\"ShareID\":null,\"RequestNames\":[\"test request\"],\"CDIDeviceIDs\":[\"example.com/example=cdi-example\"]}]}}}]}","Checksum":2570581864}"#;
        let read = parse(text.as_bytes()).expect("upstream's checksum is ours");
        assert_eq!(String::from_utf8(print(&read)).as_deref(), Ok(text), "and so is the text");
        let empty = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":null}","Checksum":SUM}"#;
        let inner = "{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\
                     \"ClaimInfoStateList\":null}";
        let empty = empty.replace("SUM", &crc32(inner.as_bytes()).to_string());
        assert_eq!(parse(empty.as_bytes()), Ok(ClaimBook::default()));
    }

    /// RES-50.
    #[test]
    fn a_file_that_cannot_be_believed_is_not_gone_on_from() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "the check value of the standard");
        let mut printed = print(&book());
        let at = printed.iter().position(|byte| *byte == b'1').expect("a digit");
        printed[at] = b'2';
        assert_eq!(parse(&printed), Err(RestoreError::Corrupt));
        assert!(matches!(parse(b""), Err(RestoreError::Shape(_))));
        assert!(matches!(parse(b"{\"policyName\":\"none\"}"), Err(RestoreError::Shape(_))));
        let told = Unrestorable(RestoreError::Corrupt).to_string();
        assert!(told.contains("please drain node and remove DRA state file"), "{told}");
    }
}
