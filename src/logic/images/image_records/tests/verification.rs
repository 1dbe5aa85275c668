//! Policies, and pods that ask for an image that is there.

use super::*;

fn allowlist(patterns: &[&str]) -> VerificationPolicy {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    VerificationPolicy::from_config(true, "NeverVerifyAllowlistedImages", &patterns)
}

fn evidence(access: &RecordedAccess) -> Evidence {
    Evidence { record: Some(record(access)), ..Evidence::default() }
}

fn asked(evidence: &Evidence, secrets: &[RecordedSecret]) -> Access {
    access(&VerificationPolicy::NeverPreloaded, "reg.example/app:1", evidence, secrets)
}

#[test]
fn the_configuration_says_what_is_recorded_and_what_is_looked_up() {
    let listed =
        VerificationPolicy::NeverAllowlisted(vec!["reg.example/app".to_owned()], vec!["b.example/".to_owned()]);
    let patterns = ["reg.example/app".to_owned(), "b.example/*".to_owned()];
    // gate, policy, what it means, whether pulls are recorded, whether records are read
    let cases = [
        (true, "NeverVerify", VerificationPolicy::Never, true, false),
        (true, "NeverVerifyPreloadedImages", VerificationPolicy::NeverPreloaded, true, true),
        (true, "", VerificationPolicy::NeverPreloaded, true, true),
        (true, "NeverVerifyAllowlistedImages", listed, true, true),
        (true, "AlwaysVerify", VerificationPolicy::Always, true, true),
        (false, "AlwaysVerify", VerificationPolicy::Off, false, false),
        (false, "", VerificationPolicy::Off, false, false),
    ];
    for (gate, policy, expected, records, asks) in cases {
        let found = VerificationPolicy::from_config(gate, policy, &patterns);
        assert_eq!((found.records(), found.asks_records()), (records, asks), "{gate} {policy}");
        assert_eq!(found, expected, "{gate} {policy}");
    }
    assert_eq!(VerificationPolicy::default(), VerificationPolicy::Off);
}

#[test]
fn an_allowlist_frees_exact_names_and_all_below_a_prefix() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let cases: [(&[&str], &str, bool); 12] = [
        (&["reg.example/app"], "reg.example/app", true),
        (&["reg.example/app"], &format!("reg.example/app:1@{digest}"), true),
        (&["reg.example/app"], "reg.example/app/more", false),
        (&["reg.example/app"], "reg.example:5000/app", false),
        (&["busybox"], "docker.io/library/busybox", false),
        (&["reg.example/*"], "reg.example/a/b/c:1", true),
        (&["reg.example/*"], "reg.example.evil/app", false),
        (&["reg.example/team/*"], "reg.example/team", false),
        (&["reg.example/team/*"], "reg.example/team/app", true),
        (&["a.example/*", "reg.example/app"], "reg.example/app:1", true),
        // No name at all is compared as it is, as upstream does.
        (&["reg.example/*"], "reg.example/UPPER", true),
        (&[], "reg.example/app", false),
    ];
    for (patterns, image, free) in cases {
        let policy = allowlist(patterns);
        // Whether the kubelet pulled the image makes no difference here.
        for intent in [false, true] {
            let evidence = Evidence { intent, ..Evidence::default() };
            assert_eq!(needs_proof(&policy, image, &evidence), !free, "{patterns:?} {image}");
            let expected = if free { Access::Allowed } else { Access::MustPull };
            assert_eq!(access(&policy, image, &evidence, &[]), expected, "{patterns:?} {image}");
        }
    }
}

/// By default only images that the kubelet pulled need proof, and a pull that was not seen to end counts as one.
#[test]
fn a_record_or_an_intent_makes_an_image_need_proof() {
    let recorded = || Some(record(&RecordedAccess::of(None)));
    let policies = [VerificationPolicy::Off, VerificationPolicy::Never, VerificationPolicy::Always];
    for (record, intent, pulled) in
        [(None, false, false), (None, true, true), (recorded(), false, true), (recorded(), true, true)]
    {
        let evidence = Evidence { record, intent, ..Evidence::default() };
        assert_eq!(needs_proof(&VerificationPolicy::NeverPreloaded, "a", &evidence), pulled, "{evidence:?}");
        let found = policies.clone().map(|policy| needs_proof(&policy, "a", &evidence));
        assert_eq!(found, [false, false, true], "{evidence:?}");
    }
}

/// Records that cannot be read prove nothing, even where they would have freed the image.
#[test]
fn records_that_cannot_be_read_force_a_pull_where_they_count() {
    let unreadable = Evidence { unreadable: true, ..evidence(&RecordedAccess::of(None)) };
    let cases = [
        (VerificationPolicy::Off, Access::Allowed),
        (VerificationPolicy::Never, Access::Allowed),
        (VerificationPolicy::NeverPreloaded, Access::MustPull),
        (allowlist(&["reg.example/app"]), Access::MustPull),
        (VerificationPolicy::Always, Access::MustPull),
    ];
    for (policy, expected) in cases {
        assert_eq!(access(&policy, "reg.example/app:1", &unreadable, &[]), expected, "{policy:?}");
    }
    let open = evidence(&RecordedAccess::of(None));
    assert_eq!(access(&VerificationPolicy::Always, "reg.example/app:1", &open, &[]), Access::Allowed);
}

/// The same Secret by place or the same credential by hash opens an image. Neither half of a place is enough.
#[test]
fn a_secret_counts_by_its_whole_place_or_by_its_hash() {
    let known = secret("a", "h1");
    let with = |change: fn(&mut RecordedSecret)| {
        let mut changed = secret("a", "h2");
        change(&mut changed);
        changed
    };
    let cases = [
        (with(|_| {}), true),
        (with(|secret| secret.uid = "uid-b".into()), false),
        (with(|secret| secret.namespace = "other".into()), false),
        (with(|secret| secret.name = "b".into()), false),
        (with(|secret| (secret.namespace, secret.credential_hash) = ("other".into(), "h1".into())), true),
    ];
    for (own, opens) in cases {
        let expected = if opens { Access::AllowedBy(own.clone()) } else { Access::MustPull };
        let found = asked(&evidence(&with_secrets(std::slice::from_ref(&known))), std::slice::from_ref(&own));
        assert_eq!(found, expected, "{own:?}");
    }
    // A hash that could not be made is no hash: it is the same for all Secrets.
    let hashless = evidence(&with_secrets(&[secret("a", "")]));
    assert_eq!(asked(&hashless, &[secret("b", "")]), Access::MustPull);
    assert_eq!(asked(&hashless, &[secret("a", "")]), Access::AllowedBy(secret("a", "")));
}

/// At a hundred Secrets a record grows no more by mere use. An equal credential still opens the image; an equal place
/// does not.
#[test]
fn a_full_record_opens_to_known_credentials_alone() {
    let many = |count: usize| (0..count).map(|number| secret(&format!("s{number:03}"), "h1")).collect::<Vec<_>>();
    let (moved, renewed) = (secret("new", "h1"), secret("s000", "h2"));
    let cases = [
        (99, &moved, Access::AllowedBy(moved.clone())),
        (99, &renewed, Access::AllowedBy(renewed.clone())),
        (100, &moved, Access::Allowed),
        (100, &renewed, Access::MustPull),
        (101, &moved, Access::Allowed),
    ];
    for (count, own, expected) in cases {
        let found = asked(&evidence(&with_secrets(&many(count))), std::slice::from_ref(own));
        assert_eq!(found, expected, "{count} {own:?}");
    }
    let found = asked(&evidence(&with_secrets(&many(100))), &[renewed, secret("s099", "h1")]);
    assert_eq!(found, Access::Allowed, "the pod's next Secret is known");
}

/// A service account counts with its namespace, name and UID, and opens the image without a Secret.
#[test]
fn an_account_opens_an_image_only_as_a_whole() {
    let robot = RecordedAccount { uid: "1".into(), namespace: "ns".into(), name: "robot".into() };
    let pulled = record(&RecordedAccess::of_account(robot.clone()));
    let cases = [
        (robot.clone(), Access::Allowed),
        (RecordedAccount { uid: "2".into(), ..robot.clone() }, Access::MustPull),
        (RecordedAccount { namespace: "other".into(), ..robot.clone() }, Access::MustPull),
        (RecordedAccount { name: "human".into(), ..robot }, Access::MustPull),
    ];
    for (account, expected) in cases {
        let evidence = Evidence { record: Some(pulled.clone()), account: Some(account.clone()), ..Evidence::default() };
        assert_eq!(asked(&evidence, &[secret("a", "h")]), expected, "{account:?}");
        let elsewhere = access(&VerificationPolicy::Always, "mirror.example/app:1", &evidence, &[]);
        assert_eq!(elsewhere, Access::MustPull, "it was pulled under another name");
    }
    assert!(!Evidence::default().names_accounts("reg.example/app:1"), "there is no record");
}
