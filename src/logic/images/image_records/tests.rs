//! Records of pulls, and who may use what is there.

mod files;
mod merging;
mod verification;

use super::*;

const T: Moment = Moment(1_767_225_600_000_000_000);

fn secret(name: &str, hash: &str) -> RecordedSecret {
    RecordedSecret {
        uid: format!("uid-{name}"),
        namespace: "ns".into(),
        name: name.into(),
        credential_hash: hash.into(),
    }
}

fn with_secrets(secrets: &[RecordedSecret]) -> RecordedAccess {
    RecordedAccess { kubernetes_secrets: secrets.to_vec(), ..RecordedAccess::default() }
}

fn record(access: &RecordedAccess) -> PulledRecord {
    merged(None, "reg.example/app:1", "sha256:1", Some(access), T).expect("it is new")
}

/// The very bytes that upstream writes.
#[test]
fn records_are_written_as_upstream_writes_them() {
    assert_eq!(
        PullIntent::new("reg.example/app:1").to_text(),
        "{\"kind\":\"ImagePullIntent\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"image\":\"reg.example/app:1\"}\n"
    );
    let text = record(&with_secrets(&[secret("a", "h")])).to_text();
    assert_eq!(
        text,
        "{\"kind\":\"ImagePulledRecord\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\
         \"lastUpdatedTime\":\"2026-01-01T00:00:00Z\",\"imageRef\":\"sha256:1\",\"credentialMapping\":{\
         \"reg.example/app\":{\"kubernetesSecrets\":[{\"uid\":\"uid-a\",\"namespace\":\"ns\",\"name\":\"a\",\
         \"credentialHash\":\"h\"}]}}}\n"
    );
    let parsed = PulledRecord::parse(text.as_bytes()).expect("it is one");
    assert_eq!((parsed.updated(), parsed.to_text()), (T, text));
    let older = PulledRecord::new("sha256:1", T).to_text().replace("v1beta1", "v1alpha1");
    assert!(PulledRecord::parse(older.as_bytes()).is_some());
    for wrong in ["", "{}", "{\"kind\":\"ImagePullIntent\",\"apiVersion\":\"v1\",\"image\":\"a\"}"] {
        assert_eq!((PulledRecord::parse(wrong.as_bytes()), PullIntent::parse(wrong.as_bytes())), (None, None));
    }
}

#[test]
fn names_lose_tag_and_digest_and_nothing_else() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let cases = [
        ("busybox", "busybox"),
        ("busybox:1", "busybox"),
        ("reg.example:5000/app", "reg.example:5000/app"),
        ("reg.example:5000/app:1", "reg.example:5000/app"),
        (&format!("app@{digest}"), "app"),
        (&format!("app:1@{digest}"), "app"),
    ];
    for (image, name) in cases {
        assert_eq!(without_tag(image), name);
    }
    assert!(PullIntent::new("busybox").is_of("docker.io/library/busybox:latest"));
    assert!(!PullIntent::new("busybox:1").is_of("docker.io/library/busybox:latest"));
}

#[test]
fn what_a_policy_lets_through() {
    let config = |policy: &str, list: &[&str]| {
        let list: Vec<String> = list.iter().map(|one| (*one).to_owned()).collect();
        VerificationPolicy::from_config(true, policy, &list)
    };
    let allowlist = config("NeverVerifyAllowlistedImages", &["reg.example/app", "reg.example/team/*"]);
    // image, pulled by the kubelet, whether it is to be verified
    let cases = [
        (config("NeverVerify", &[]), "a", true, false),
        (config("NeverVerifyPreloadedImages", &[]), "a", true, true),
        (config("NeverVerifyPreloadedImages", &[]), "a", false, false),
        (config("AlwaysVerify", &[]), "a", false, true),
        (allowlist.clone(), "reg.example/app:1", true, false),
        (allowlist.clone(), "reg.example/apps:1", true, true),
        (allowlist.clone(), "reg.example/team/x/y:1", true, false),
        (allowlist, "reg.example/teams/x:1", false, true),
        (VerificationPolicy::from_config(false, "AlwaysVerify", &[]), "a", true, false),
    ];
    for (policy, image, intent, verify) in cases {
        let evidence = Evidence { intent, ..Evidence::default() };
        let expected = if verify { Access::MustPull } else { Access::Allowed };
        assert_eq!(access(&policy, image, &evidence, &[]), expected, "{policy:?} {image}");
    }
}

#[test]
fn a_pod_may_use_what_its_secret_or_anybody_pulled() {
    let by_secret = with_secrets(&[secret("a", "h1")]);
    let open = RecordedAccess::of(None);
    let full = with_secrets(&(0..SECRETS_MAX).map(|number| secret(&format!("s{number:03}"), "h1")).collect::<Vec<_>>());
    let cases = [
        (&open, vec![], Access::Allowed),
        (&by_secret, vec![], Access::MustPull),
        (&by_secret, vec![secret("a", "h1")], Access::Allowed),
        (&by_secret, vec![secret("x", "h2"), secret("b", "h1")], Access::AllowedBy(secret("b", "h1"))),
        (&by_secret, vec![secret("a", "h2")], Access::AllowedBy(secret("a", "h2"))),
        (&by_secret, vec![secret("b", "h2")], Access::MustPull),
        (&full, vec![secret("b", "h1")], Access::Allowed),
        (&full, vec![secret("s000", "h2")], Access::MustPull),
    ];
    for (recorded, secrets, expected) in cases {
        let evidence = Evidence { record: Some(record(recorded)), ..Evidence::default() };
        let found = access(&VerificationPolicy::NeverPreloaded, "reg.example/app:2", &evidence, &secrets);
        assert_eq!(found, expected, "{secrets:?}");
    }
    let other = Evidence { record: Some(record(&open)), ..Evidence::default() };
    assert_eq!(access(&VerificationPolicy::NeverPreloaded, "mirror.example/app:1", &other, &[]), Access::MustPull);
    let unreadable = Evidence { unreadable: true, ..Evidence::default() };
    assert_eq!(access(&VerificationPolicy::NeverPreloaded, "a", &unreadable, &[]), Access::MustPull);
    assert_eq!(access(&VerificationPolicy::Never, "a", &unreadable, &[]), Access::Allowed);
}

/// KEP-4412: whoever runs as the service account that an image was pulled for may use it.
#[test]
fn an_account_that_an_image_was_pulled_for_may_use_it() {
    let account = |uid: &str| RecordedAccount { uid: uid.into(), namespace: "ns".into(), name: "robot".into() };
    let pulled = record(&RecordedAccess::of_account(account("1")));
    for (account, expected) in
        [(Some(account("1")), Access::Allowed), (Some(account("2")), Access::MustPull), (None, Access::MustPull)]
    {
        let evidence = Evidence { record: Some(pulled.clone()), account, ..Evidence::default() };
        assert!(evidence.names_accounts("reg.example/app:2"));
        assert!(!evidence.names_accounts("mirror.example/app:2"));
        assert_eq!(access(&VerificationPolicy::NeverPreloaded, "reg.example/app:2", &evidence, &[]), expected);
    }
    let by_secret = record(&with_secrets(&[secret("a", "h1")]));
    assert!(!Evidence { record: Some(by_secret), ..Evidence::default() }.names_accounts("reg.example/app:2"));
}

#[test]
fn a_record_grows_until_anybody_may() {
    let first = record(&with_secrets(&[secret("b", "h1")]));
    let later = T.plus(std::time::Duration::from_secs(60));
    let add = |record: &PulledRecord, access: &RecordedAccess| {
        merged(Some(record.clone()), "reg.example/app:2", "sha256:1", Some(access), later)
    };
    assert_eq!(add(&first, &with_secrets(&[secret("b", "h1")])), None, "it says so already");
    let second = add(&first, &with_secrets(&[secret("a", "h1"), secret("b", "h2")])).expect("it changed");
    let known = &second.credential_mapping["reg.example/app"].kubernetes_secrets;
    assert_eq!(*known, [secret("a", "h1"), secret("b", "h2")]);
    assert_eq!(second.updated(), later);
    let open = add(&second, &RecordedAccess::of(None)).expect("it changed");
    assert_eq!(open.credential_mapping["reg.example/app"], RecordedAccess::of(None));
    assert_eq!(add(&open, &with_secrets(&[secret("a", "h3")])), None);
    assert_eq!(merged(Some(open), "reg.example/app:2", "sha256:1", None, later), None);
    let unknown = merged(None, "reg.example/app:2", "sha256:1", None, T).expect("it is new");
    assert!(unknown.credential_mapping.is_empty());
}

#[test]
fn records_of_images_that_are_gone_go_unless_they_are_newer() {
    let (old, new) = (
        PulledRecord::new("sha256:old", T),
        PulledRecord::new("sha256:new", T.plus(std::time::Duration::from_secs(9))),
    );
    let here = PulledRecord::new("sha256:here", T);
    let images = BTreeSet::from(["sha256:here".to_owned()]);
    let began = T.plus(std::time::Duration::from_secs(5));
    assert_eq!(to_prune([&old, &new, &here], &images, began), ["sha256:old"]);
}
