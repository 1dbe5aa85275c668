//! The files that keep allocations: their form, and the faults they are refused for.

use proptest::prelude::*;

use super::*;
use crate::logic::formats::fnv::fnv1a;
use crate::logic::model::quantity::Quantity;

/// A file with this text of data, and with the sum that belongs to it.
fn file(data: &str) -> Vec<u8> {
    let sum = u64::from(fnv1a(format!("(string){data}").as_bytes()));
    json!({ "data": data, "checksum": sum }).to_string().into_bytes()
}

fn one(cpu: &str) -> BTreeMap<PodUid, PodResources> {
    BTreeMap::from([(uid("pod-1"), given_to(&[("c", requirements(cpu, ""))], None))])
}

/// RES-55: upstream's text and upstream's sum, so that either agent goes on from what the other wrote.
#[test]
fn a_checkpoint_has_upstreams_form() {
    let entries = one("cpu=1");
    let text = String::from_utf8(print_checkpoint(&entries)).expect("text");
    let data = r#"{\"entries\":{\"pod-1\":{\"ContainerResources\":{\"c\":{\"requests\":{\"cpu\":\"1\"}}},\"PodLevelResources\":null}}}"#;
    assert!(text.starts_with(&format!(r#"{{"data":"{data}","checksum":"#)), "{text}");
    assert_eq!(parse_checkpoint(text.as_bytes()), Ok(entries));
    // The vector of the reference, and upstream's text for a Go map without entries.
    assert_eq!(
        parse_checkpoint(r#"{"data":"{\"entries\":{}}","checksum":1057365947}"#.as_bytes()),
        Ok(BTreeMap::new())
    );
    assert!(print_checkpoint(&BTreeMap::new()).starts_with(r#"{"data":"{}","checksum":"#.as_bytes()));
}

#[test]
fn the_pods_own_resources_are_kept_beside_those_of_its_containers() {
    let given = given_to(&[("c", requirements("cpu=1", "memory=1Gi"))], Some(requirements("cpu=2", "cpu=4")));
    let text = String::from_utf8(print_checkpoint(&BTreeMap::from([(uid("p"), given)]))).expect("text");
    let own = r#"\"PodLevelResources\":{\"limits\":{\"cpu\":\"4\"},\"requests\":{\"cpu\":\"2\"}}"#;
    assert!(text.contains(own), "{text}");
    let container = r#"\"ContainerResources\":{\"c\":{\"limits\":{\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"1\"}}}"#;
    assert!(text.contains(container), "{text}");
}

/// An older agent knew no resources of pods; a newer one may write fields that this one does not know.
#[test]
fn fields_that_are_absent_null_or_unknown_do_no_harm() {
    let containers = given_to(&[("c", requirements("cpu=1Ki,memory=1Ki", ""))], None);
    let own = given_to(&[], Some(requirements("", "cpu=2")));
    let of_pod = |given: &PodResources| BTreeMap::from([(uid("p"), given.clone())]);
    for (data, expected) in [
        (
            r#"{"entries":{"p":{"ContainerResources":{"c":{"requests":{"cpu":"1Ki","memory":"1Ki"}}}}}}"#,
            of_pod(&containers),
        ),
        (r#"{"entries":{"p":{"ContainerResources":null,"PodLevelResources":{"limits":{"cpu":"2"}}}}}"#, of_pod(&own)),
        (r#"{"entries":{"p":{"PodLevelResources":{"limits":{"cpu":"2"}},"Since":7}},"version":2}"#, of_pod(&own)),
        (r#"{"entries":{"p":{}}}"#, of_pod(&PodResources::default())),
        (r#"{"entries":null}"#, BTreeMap::new()),
        (r"{}", BTreeMap::new()),
    ] {
        assert_eq!(parse_checkpoint(&file(data)), Ok(expected), "{data}");
    }
    assert!(PodResources::default().is_empty() && !own.is_empty() && !containers.is_empty());
}

/// Each way to write an amount comes back with the value that it had.
#[test]
fn amounts_come_back_in_every_unit() {
    for factor in ["1", "0.1", "0.03", "100", "1024"] {
        for unit in ["n", "u", "m", "", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"] {
            let text = format!("{factor}{unit}");
            let entries = one(&format!("cpu={text},memory={text}"));
            let read = parse_checkpoint(&print_checkpoint(&entries)).expect("as it was written");
            let given = read[&uid("pod-1")].containers.get("c").expect("the container").clone();
            let amount = |name: &str| given.requests.as_ref().expect("requests")[name].0.clone();
            for name in ["cpu", "memory"] {
                assert_eq!(Quantity::parse(&amount(name)), Quantity::parse(&text), "{text}");
            }
        }
    }
}

/// SEC-58.
#[test]
fn a_checkpoint_with_a_flipped_bit_is_not_believed() {
    let good = print_checkpoint(&one("cpu=1"));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        // A bit in the name of a field that is not read changes nothing; none may change what is read.
        if let Ok(read) = parse_checkpoint(&bad) {
            assert_eq!(Ok(read), parse_checkpoint(&good), "bit of byte {at}");
        }
    }
}

/// A write that was cut off leaves a shorter file, whatever its length.
#[test]
fn a_checkpoint_that_was_cut_off_is_not_believed() {
    let good = print_checkpoint(&one("cpu=1"));
    for length in 0..good.len() {
        assert!(parse_checkpoint(&good[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let wrong = parse_checkpoint(r#"{"data":"{}","checksum":1}"#.as_bytes()).expect_err("another sum");
    let found = u64::from(fnv1a(b"(string){}"));
    assert_eq!(wrong, Corrupt::Checksum { told: 1, found });
    assert_eq!(wrong.to_string(), format!("checkpoint is corrupted: its checksum is 1, that of its data {found}"));
    for text in ["", "[]", "{}", r#"{"data":"{}"}"#, r#"{"data":7,"checksum":1}"#] {
        let error = parse_checkpoint(text.as_bytes()).expect_err("no checkpoint");
        assert!(matches!(error, Corrupt::Shape(_)), "{text}: {error}");
    }
    // The sum is right, and yet that is nothing that was ever written.
    for data in ["", r#"{"entries":[]}"#, r#"{"entries":{"p":7}}"#, r#"{"entries":{"p":{"ContainerResources":7}}}"#] {
        let error = parse_checkpoint(&file(data)).expect_err("no data of pods");
        assert!(matches!(error, Corrupt::Shape(_)), "{data}: {error}");
    }
}

proptest! {
    #[test]
    fn a_checkpoint_reads_as_it_was_written(names in prop::collection::btree_map("[a-z]{1,8}", "[1-9][0-9]{0,3}m", 0..6)) {
        let entries: BTreeMap<PodUid, PodResources> = names
            .iter()
            .map(|(name, cpu)| {
                let own = requirements(&format!("cpu={cpu}"), "memory=1Gi");
                (uid(name), given_to(&[(name, own.clone())], cpu.starts_with('1').then_some(own)))
            })
            .collect();
        prop_assert_eq!(parse_checkpoint(&print_checkpoint(&entries)), Ok(entries));
    }

    /// Any text is read or refused.
    #[test]
    fn no_text_brings_the_reader_down(bytes in prop::collection::vec(any::<u8>(), 0..200), data in ".{0,80}") {
        let _ = parse_checkpoint(&bytes);
        let _ = parse_checkpoint(&file(&data));
    }
}
