//! Files of records: their form, their age, and when they go.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[test]
fn the_access_of_the_node_and_of_accounts_is_written_as_upstream_writes_it() {
    let account = RecordedAccount { uid: "u".into(), namespace: "ns".into(), name: "robot".into() };
    let of_account = "{\"kubernetesServiceAccounts\":[{\"uid\":\"u\",\"namespace\":\"ns\",\"name\":\"robot\"}]}";
    let cases = [
        (RecordedAccess::of(None), "{\"nodePodsAccessible\":true}"),
        (RecordedAccess::of_account(account), of_account),
        (RecordedAccess::default(), "{}"),
    ];
    for (access, text) in cases {
        assert_eq!(serde_json::to_string(&access).expect("plain data"), text);
        assert_eq!(serde_json::from_str::<RecordedAccess>(text).expect("it was written so"), access);
    }
    let empty = PulledRecord::new("sha256:1", T).to_text();
    assert!(!empty.contains("credentialMapping"), "a record that allows nobody has no mapping: {empty}");
    assert_eq!(PulledRecord::parse(empty.as_bytes()), Some(PulledRecord::new("sha256:1", T)));
}

/// A pull with a Secret is for that Secret alone; a pull without one is for the whole node.
#[test]
fn a_pull_opens_an_image_to_the_node_only_without_a_secret() {
    let source = SecretSource { namespace: "ns".into(), name: "a".into(), uid: "uid-a".into() };
    let recorded = RecordedSecret::new(&source, "h".to_owned());
    assert_eq!(recorded, secret("a", "h"));
    assert_eq!(RecordedAccess::of(Some(recorded)), with_secrets(&[secret("a", "h")]));
    let open = RecordedAccess::of(None);
    assert!(open.node_pods_accessible && open.kubernetes_secrets.is_empty());
}

#[test]
fn a_file_of_another_kind_or_group_is_no_record() {
    let record = PulledRecord::new("sha256:1", T).to_text();
    let intent = PullIntent::new("busybox").to_text();
    // Kind and group are changed one at a time.
    for (from, to) in [("ImagePull", "ImageKeep"), ("kubelet.config.k8s.io/", "kubelet.example/")] {
        let (record, intent) = (record.replace(from, to), intent.replace(from, to));
        assert_eq!(PulledRecord::parse(record.as_bytes()), None, "{record}");
        assert_eq!(PullIntent::parse(intent.as_bytes()), None, "{intent}");
    }
    assert_eq!(PullIntent::parse(intent.as_bytes()), Some(PullIntent::new("busybox")));
    let torn = &record.as_bytes()[..record.len() / 2];
    assert_eq!(PulledRecord::parse(torn), None, "the write was cut off");
    let newer = record.replace("\"imageRef\"", "\"fieldOfTomorrow\":[1],\"imageRef\"");
    assert_eq!(PulledRecord::parse(newer.as_bytes()), Some(PulledRecord::new("sha256:1", T)));
    let nameless = record.replace("imageRef", "image");
    assert_eq!(PulledRecord::parse(nameless.as_bytes()), None, "nobody knows of which image it is");
}

#[test]
fn the_age_of_a_record_is_its_time_in_whole_seconds() {
    let at = T.plus(Duration::from_millis(1_900));
    assert_eq!(PulledRecord::new("sha256:1", at).updated(), T.plus(Duration::from_secs(1)));
    let written = |time: Option<&str>| {
        let mut record = PulledRecord::new("sha256:1", T);
        record.last_updated_time = time.map(ToOwned::to_owned);
        PulledRecord::parse(record.to_text().as_bytes()).expect("a record").updated()
    };
    let cases = [
        (Some("2026-01-01T00:00:00Z"), T),
        (Some("2026-01-01T02:00:00+02:00"), T),
        (Some("yesterday"), Moment::EPOCH),
        (None, Moment::EPOCH),
    ];
    for (time, expected) in cases {
        assert_eq!(written(time), expected, "{time:?}");
    }
}

/// Names of images in the runtime are full; pods write them as they like.
#[test]
fn an_interrupted_pull_is_found_by_any_form_of_its_name() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let cases = [
        ("busybox", "busybox", true),
        ("busybox", "docker.io/library/busybox:latest", true),
        ("docker.io/busybox:1", "docker.io/library/busybox:1", true),
        ("reg.example/app:1", "reg.example/app:1", true),
        ("reg.example/app:1", "reg.example/app:2", false),
        ("reg.example/app", "mirror.example/app:latest", false),
        (&format!("app@{digest}"), &format!("docker.io/library/app@{digest}"), true),
        (&format!("app@{digest}"), "docker.io/library/app:latest", false),
        // Neither is a name: they are one image only if they are the same text.
        ("UPPER", "UPPER", true),
        ("UPPER", "OTHER", false),
        ("UPPER", "docker.io/library/upper:latest", false),
    ];
    for (image, name, expected) in cases {
        assert_eq!(PullIntent::new(image).is_of(name), expected, "{image} {name}");
    }
}

/// Records of images that are there stay, however old. Of the others those go that were written before the look began.
#[test]
fn only_old_records_of_images_that_are_gone_are_pruned() {
    let began = T.plus(Duration::from_secs(5));
    let images = BTreeSet::from(["sha256:here".to_owned()]);
    let cases = [
        ("sha256:gone", T, true),
        ("sha256:gone", T.plus(Duration::from_secs(4)), true),
        ("sha256:gone", began, false),
        ("sha256:gone", began.plus(Duration::from_secs(1)), false),
        ("sha256:here", T, false),
        ("sha256:her", T, true),
    ];
    for (image, written, goes) in cases {
        let record = PulledRecord::new(image, written);
        let expected: &[&str] = if goes { &[image] } else { &[] };
        assert_eq!(to_prune([&record], &images, began), expected, "{image} of {written:?}");
    }
    let mut timeless = PulledRecord::new("sha256:gone", began);
    timeless.last_updated_time = None;
    assert_eq!(to_prune([&timeless], &images, began), ["sha256:gone"], "it counts as old");
}

/// Times of records have whole seconds. A pull that ended after the look began is newer, also within the same second:
/// without its record the image would count as preloaded, and be free for all pods.
#[test]
fn a_record_of_the_second_in_which_the_look_began_stays() {
    let second = T.plus(Duration::from_secs(5));
    let began = second.plus(Duration::from_millis(200));
    let cases = [
        (second.plus(Duration::from_millis(700)), false),
        (second, false),
        (T.plus(Duration::from_millis(4_999)), true),
    ];
    for (written, goes) in cases {
        let record = PulledRecord::new("sha256:1", written);
        assert_eq!(!to_prune([&record], &BTreeSet::new(), began).is_empty(), goes, "{written:?}");
    }
}

proptest! {
    #[test]
    fn a_name_loses_its_tag_and_digest_alone(
        host in "([a-z]{1,8}\\.example(:[1-9][0-9]{1,3})?/)?", path in "[a-z]{1,8}(/[a-z]{1,8}){0,2}",
        tag in proptest::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,8}"), digest in proptest::option::of("[0-9a-f]{64}"),
    ) {
        let name = format!("{host}{path}");
        let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
        let digest = digest.map(|digest| format!("@sha256:{digest}")).unwrap_or_default();
        prop_assert_eq!(without_tag(&format!("{name}{tag}{digest}")), name);
    }

    /// Files of records are from the disk: any bytes may be in them.
    #[test]
    fn no_text_makes_a_record_panic(text in ".{0,64}") {
        prop_assert_eq!(PulledRecord::parse(text.as_bytes()), None);
        prop_assert_eq!(PullIntent::parse(text.as_bytes()), None);
        let intent = PullIntent::new(&text);
        prop_assert!(intent.is_of(&text));
        prop_assert_eq!(PullIntent::parse(intent.to_text().as_bytes()), Some(intent));
    }
}
