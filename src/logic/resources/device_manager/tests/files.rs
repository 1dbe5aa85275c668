//! The checkpoint, in upstream's form.

use super::*;
use crate::logic::resources::device_manager::checkpoint::{CheckpointError, parse, print};

fn file(entries: &str, registered: &str, sum: u32) -> Vec<u8> {
    let data = format!(r#"{{"PodDeviceEntries":{entries},"RegisteredDevices":{registered}}}"#);
    format!(r#"{{"Data":{data},"Checksum":{sum}}}"#).into_bytes()
}

/// RES-44: upstream's checksums; Go knows a list that is nil from one that is empty.
#[test]
fn checksums_are_upstreams() {
    assert_eq!(print(&Books::default(), &BTreeMap::new()), file("null", "{}", 3_467_439_661));
    for (entries, sum) in [("null", 3_467_439_661), ("[]", 2_932_075_448)] {
        assert_eq!(parse(&file(entries, "{}", sum)), Ok(checkpoint::Checkpoint::default()));
        assert_eq!(parse(&file(entries, "{}", 0)), Err(CheckpointError::Corrupt), "0 is no checksum here");
    }
    let other = r#"[{"PodUID":"a","DeviceIDs":["old"]}]"#;
    assert!(matches!(parse(&file(other, "{}", 1)), Err(CheckpointError::Shape(_))));
}

/// RES-44: assignments are the same in the next agent, with what their plugins gave.
#[test]
fn the_file_has_what_containers_own() {
    let mut managers = with(PolicyKind::None, &gpus(&["a@0", "b@0+1", "c!"]));
    let pod = user("one", 2);
    called(admit(&mut managers, &pod));
    let text =
        |managers: &ResourceManagers| String::from_utf8(managers.files().devices.expect("a file")).expect("text");
    assert!(text(&managers).contains(r#""PodDeviceEntries":null"#), "nothing is given yet");
    let grant = DeviceGrant { envs: [("A".to_owned(), "b".to_owned())].into(), ..DeviceGrant::default() };
    managers.grant(&uid_of(&pod), &need("main"), grant.clone());
    let entry = r#"{"PodUID":"one","ContainerName":"main","ResourceName":"vendor.com/gpu","DeviceIDs":{"0":["a","b"],"1":["b"]},"AllocResp":"CgYKAUESAWI="}"#;
    let data = format!(r#"{{"PodDeviceEntries":[{entry}],"RegisteredDevices":{{"vendor.com/gpu":["a","b"]}}}}"#);
    let dump = "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string)one \
                ContainerName:(string)main ResourceName:(string)vendor.com/gpu \
                DeviceIDs:(checkpoint.DevicesPerNUMA)map[0:[a b] 1:[b]] AllocResp:([]uint8)[10 6 10 1 65 18 1 98]}] \
                RegisteredDevices:(map[string][]string)map[vendor.com/gpu:[a b]]}";
    let sum = crate::logic::formats::fnv::fnv1a(dump.as_bytes());
    assert_eq!(text(&managers), format!(r#"{{"Data":{data},"Checksum":{sum}}}"#));
    let next = self::managers(PolicyKind::None).restored(&managers.files(), ToOwned::to_owned).expect("restored");
    assert_eq!(next.pinning_of(&pod).of("main").devices.grant, grant);
    assert_eq!(next.allocations().of(&uid_of(&pod), "main"), managers.allocations().of(&uid_of(&pod), "main"));
    assert_eq!(text(&next).matches(r#""vendor.com/gpu":[]"#).count(), 1, "its plugin is not here yet");
    let mut over = next.clone();
    assert!(over.keep_only(&BTreeSet::new()));
    assert!(!over.has_state_of(&next) && text(&over).contains("null"), "the file is kept true");
}

/// RES-44: a file that cannot be believed changes nothing.
#[test]
fn a_corrupt_file_is_ignored() {
    let mut managers = with(PolicyKind::None, &gpus(&["a"]));
    given(&mut managers, &user("one", 1));
    let mut files = managers.files();
    let bytes = files.devices.as_mut().expect("a file");
    let at = bytes.iter().position(|byte| *byte == b'o').expect("a letter");
    bytes[at] = b'0';
    assert_eq!(parse(bytes), Err(CheckpointError::Corrupt));
    let next = self::managers(PolicyKind::None).restored(&files, ToOwned::to_owned).expect("restored");
    assert_eq!(next.allocations().containers, BTreeMap::new());
}
