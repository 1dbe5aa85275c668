//! How a record grows with each pull of its image.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const APP: &str = "reg.example/app";

fn account(name: &str) -> RecordedAccount {
    RecordedAccount { uid: format!("uid-{name}"), namespace: "ns".into(), name: name.into() }
}

fn later() -> Moment {
    T.plus(Duration::from_secs(60))
}

fn add(record: &PulledRecord, image: &str, access: &RecordedAccess) -> Option<PulledRecord> {
    merged(Some(record.clone()), image, "sha256:1", Some(access), later())
}

/// Upstream's table: what is known, a pull, and what is known then. `None`: nothing has to be written.
#[test]
fn a_pull_adds_what_is_not_known() {
    let secrets = |list: &[(&str, &str)]| -> RecordedAccess {
        with_secrets(&list.iter().map(|(name, hash)| secret(name, hash)).collect::<Vec<_>>())
    };
    let accounts = |names: &[&str]| RecordedAccess {
        kubernetes_service_accounts: names.iter().map(|name| account(name)).collect(),
        ..RecordedAccess::default()
    };
    let both = RecordedAccess { kubernetes_service_accounts: vec![account("r")], ..secrets(&[("a", "1")]) };
    let open = RecordedAccess::of(None);
    let cases = [
        (secrets(&[("a", "1")]), secrets(&[("a", "1")]), None),
        (secrets(&[("a", "1")]), RecordedAccess::default(), None),
        (secrets(&[("a", "1")]), secrets(&[("a", "2")]), Some(secrets(&[("a", "2")]))),
        (secrets(&[("b", "1")]), secrets(&[("a", "1")]), Some(secrets(&[("a", "1"), ("b", "1")]))),
        (secrets(&[("a", "1"), ("b", "2")]), secrets(&[("b", "2")]), None),
        (accounts(&["r"]), accounts(&["r"]), None),
        (accounts(&["r"]), accounts(&["s"]), Some(accounts(&["r", "s"]))),
        (accounts(&["r", "s"]), accounts(&["s"]), None),
        (secrets(&[("a", "1")]), accounts(&["r"]), Some(both.clone())),
        (accounts(&["r"]), secrets(&[("a", "1")]), Some(both.clone())),
        (both, open.clone(), Some(open.clone())),
        (open.clone(), open.clone(), None),
        (open.clone(), secrets(&[("a", "1")]), None),
        (open, accounts(&["r"]), None),
    ];
    for (known, pulled, expected) in cases {
        let found = add(&record(&known), "reg.example/app:2", &pulled);
        let found = found.map(|record| record.credential_mapping[APP].clone());
        assert_eq!(found, expected, "{known:?} and {pulled:?}");
    }
}

/// One image may have names of several registries. Access under one of them proves nothing about another.
#[test]
fn each_name_of_an_image_has_access_of_its_own() {
    let first = record(&with_secrets(&[secret("a", "1")]));
    let second = add(&first, "mirror.example/app:1", &RecordedAccess::of(None)).expect("another name");
    assert_eq!(second.credential_mapping[APP], with_secrets(&[secret("a", "1")]));
    assert_eq!(second.credential_mapping["mirror.example/app"], RecordedAccess::of(None));
    assert_eq!((second.image_ref.as_str(), second.updated()), ("sha256:1", later()));
    assert_eq!(add(&second, "mirror.example/app:7", &with_secrets(&[secret("b", "1")])), None);
}

/// The pull that was interrupted: the image is known as pulled, and nobody may use it unproven.
#[test]
fn a_pull_of_unknown_circumstances_allows_nobody() {
    for access in [None, Some(&RecordedAccess::default())] {
        let new = merged(None, "reg.example/app:1", "sha256:1", access, T).expect("it is new");
        assert_eq!((new.clone(), new.updated()), (PulledRecord::new("sha256:1", T), T), "{access:?}");
        assert_eq!(merged(Some(new), "reg.example/app:1", "sha256:1", access, later()), None, "{access:?}");
    }
    let known = record(&with_secrets(&[secret("a", "1")]));
    assert_eq!(merged(Some(known), "reg.example/app:1", "sha256:1", None, later()), None, "it takes nothing away");
}

/// A Secret is known by namespace, name and UID together. One that was deleted and made anew is another one.
#[test]
fn secrets_differ_by_namespace_name_and_uid_in_this_order() {
    let of = |namespace: &str, name: &str, uid: &str| RecordedSecret {
        uid: uid.into(),
        namespace: namespace.into(),
        name: name.into(),
        credential_hash: "1".into(),
    };
    let sorted = [of("a", "x", "9"), of("b", "a", "7"), of("b", "a", "8"), of("b", "b", "1"), of("c", "a", "0")];
    let mut known = record(&with_secrets(&sorted[4..]));
    for secret in [&sorted[1], &sorted[3], &sorted[0], &sorted[2]] {
        known = add(&known, APP, &with_secrets(std::slice::from_ref(secret))).expect("another one");
    }
    assert_eq!(known.credential_mapping[APP].kubernetes_secrets, sorted);
}

proptest! {
    /// Pods pull in any order; the record is the same in the end, and has each Secret once.
    #[test]
    fn the_order_of_pulls_does_not_matter(names in proptest::collection::vec("[a-d]", 1..8), seed in 0_usize..8) {
        let pull = |names: &[String]| {
            let mut known = PulledRecord::new("sha256:1", T);
            for name in names {
                known = add(&known, APP, &with_secrets(&[secret(name, "1")])).unwrap_or(known);
            }
            known.credential_mapping[APP].clone()
        };
        let mut turned = names.clone();
        turned.rotate_left(seed % names.len());
        let (one, other) = (pull(&names), pull(&turned));
        let distinct: BTreeSet<&String> = names.iter().collect();
        prop_assert_eq!(one.kubernetes_secrets.len(), distinct.len());
        prop_assert_eq!(one, other);
    }

    /// The credential that an image was pulled with opens it afterwards, whatever else was recorded.
    #[test]
    fn a_pull_opens_the_image_to_its_own_secret(
        before in proptest::collection::vec(("[a-d]", "[1-3]"), 0..6), name in "[a-d]", hash in "[1-3]",
    ) {
        let mut known = PulledRecord::new("sha256:1", T);
        for (name, hash) in before.iter().chain([&(name.clone(), hash.clone())]) {
            known = add(&known, "reg.example/app:1", &with_secrets(&[secret(name, hash)])).unwrap_or(known);
        }
        let evidence = Evidence { record: Some(known.clone()), ..Evidence::default() };
        let own = [secret(&name, &hash)];
        match access(&VerificationPolicy::Always, "reg.example/app:2", &evidence, &own) {
            Access::Allowed => {}
            // Another Secret with the same credential was found first. The record has this one as well.
            Access::AllowedBy(by) => prop_assert_eq!(add(&known, APP, &with_secrets(&[by])), None),
            Access::MustPull => prop_assert!(false, "{known:?} {own:?}"),
        }
        let foreign = [secret("z", "9")];
        prop_assert_eq!(access(&VerificationPolicy::Always, "reg.example/app:2", &evidence, &foreign), Access::MustPull);
    }
}
