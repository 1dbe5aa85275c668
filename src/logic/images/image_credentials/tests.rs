//! Credentials of pull secrets and of the node's files, and the images that they are for.

mod forms;
mod places;

use proptest::prelude::*;
use serde_json::json;

use k8s_openapi::ByteString;

use super::*;

fn secret(kind: &str, key: &str, content: &str) -> Secret {
    Secret {
        type_: Some(kind.to_owned()),
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(content.into()))])),
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("pull".into()),
            ..Default::default()
        },
        ..Secret::default()
    }
}

fn auths(registries: &Value) -> Secret {
    secret(JSON_FORM.0, JSON_FORM.1, &json!({ "auths": registries }).to_string())
}

fn keyring(registries: &[&str]) -> Keyring {
    let mut keyring = Keyring::default();
    for registry in registries {
        keyring.add(&auths(&json!({ *registry: { "username": registry, "password": "p" } }))).unwrap();
    }
    keyring
}

fn of_all(registries: serde_json::Map<String, Value>) -> Keyring {
    let mut keyring = Keyring::default();
    keyring.add(&auths(&Value::Object(registries))).unwrap();
    keyring
}

#[test]
fn credentials_match_by_host_port_and_path() {
    let cases: [(&[&str], &str, &[&str]); 22] = [
        (&["reg.example"], "reg.example/team/app", &["reg.example"]),
        (&["https://reg.example"], "reg.example/app", &["https://reg.example"]),
        (&["http://reg.example/"], "reg.example/app", &["http://reg.example/"]),
        (&["https://reg.example/v1/"], "reg.example/app", &["https://reg.example/v1/"]),
        (&["reg.example/v2/team"], "reg.example/team/app", &["reg.example/v2/team"]),
        (&["reg.example/v3/"], "reg.example/app", &[]),
        (&["reg.example:5000"], "reg.example/app", &[]),
        (&["reg.example:5000"], "reg.example:5000/app", &["reg.example:5000"]),
        (&["reg.example"], "reg.example:5000/app", &[]),
        (&["example"], "reg.example/app", &[]),
        (&["*.example"], "reg.example/app", &["*.example"]),
        (&["*.example"], "a.reg.example/app", &[]),
        (&["r*g.example"], "reg.example/app", &["r*g.example"]),
        (&["re[a-h].example", "re[^g].example"], "reg.example/app", &["re[a-h].example"]),
        // The most specific first; a prefix is one of letters, not of parts.
        (
            &["reg.example", "reg.example/te", "reg.example/team", "reg.example/other"],
            "reg.example/team/app",
            &["reg.example/team", "reg.example/te", "reg.example"],
        ),
        (&["https://index.docker.io/v1/"], "docker.io/library/app", &["https://index.docker.io/v1/"]),
        (&["index.docker.io", "docker.io"], "docker.io/library/app", &["docker.io"]),
        (&["index.docker.io"], "reg.example/app", &[]),
        (&["index.docker.io"], "localhost:5000/app", &[]),
        (&["index.docker.io"], "library/app", &["index.docker.io"]),
        (&[""], "reg.example/app", &[]),
        (&["re[.example"], "re[.example/app", &[]),
    ];
    for (registries, repository, expected) in cases {
        let found: Vec<String> =
            keyring(registries).of(repository).into_iter().map(|credential| credential.username).collect();
        assert_eq!(found, expected, "{registries:?} {repository}");
    }
}

#[test]
fn both_forms_of_pull_secrets_are_read() {
    let entry = json!({ "username": "u", "password": "p", "email": "e@example" });
    let cases = [
        (auths(&json!({ "reg.example": entry })), Some(("u", "p"))),
        // `user:pass:word`, padded, not padded, and broken into lines; it counts over the plain fields.
        (auths(&json!({ "reg.example": { "auth": "dXNlcjpwYXNzOndvcmQ=" } })), Some(("user", "pass:word"))),
        (
            auths(&json!({ "reg.example": { "auth": "dXNlcjpwYXNzOndvcmQ", "username": "u" } })),
            Some(("user", "pass:word")),
        ),
        (auths(&json!({ "reg.example": { "auth": "dXNlcjpw\r\nYXNzOndvcmQ=\n" } })), Some(("user", "pass:word"))),
        (secret(JSON_FORM.0, JSON_FORM.1, r#"{"Auths":{"reg.example":{"Username":"u"}}}"#), Some(("u", ""))),
        (secret(OLD_FORM.0, OLD_FORM.1, &json!({ "reg.example": entry }).to_string()), Some(("u", "p"))),
        (secret(JSON_FORM.0, JSON_FORM.1, "{}"), None),
        (secret("Opaque", JSON_FORM.1, &json!({ "auths": { "reg.example": entry } }).to_string()), None),
        (secret(OLD_FORM.0, JSON_FORM.1, &json!({ "auths": { "reg.example": entry } }).to_string()), None),
        (secret(JSON_FORM.0, JSON_FORM.1, ""), None),
        (Secret::default(), None),
    ];
    for (secret, expected) in cases {
        let mut keyring = Keyring::default();
        assert_eq!(keyring.add(&secret), Ok(()));
        let found = keyring.of("reg.example/app");
        let found: Vec<_> = found.iter().map(|one| (one.username.as_str(), one.password.as_str())).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }
}

/// CVE-2020-8564, SEC-40.
#[test]
fn cve_2020_8564_what_cannot_be_read_is_named_and_not_shown() {
    let form = "pull secret pull: .dockerconfigjson is not a JSON object of registries";
    let auth = "pull secret pull: auth of registry \"reg.example\" is not base64 of username:password";
    let cases = [
        (secret(JSON_FORM.0, JSON_FORM.1, "hunter2"), form),
        (secret(JSON_FORM.0, JSON_FORM.1, r#"{"auths": ["hunter2"]}"#), form),
        (auths(&json!({ "reg.example": { "auth": "hunter2!" } })), auth),
        (auths(&json!({ "reg.example": { "auth": "aHVudGVyMg==" } })), auth),
        (auths(&json!({ "https://user:hunter2@reg.example": { "auth": 7 } })), auth),
        (auths(&json!({ "reg.example": "hunter2" })), auth),
    ];
    for (secret, expected) in cases {
        let mut keyring = keyring(&["reg.example"]);
        assert_eq!(keyring.add(&secret).unwrap_err().to_string(), expected);
        assert_eq!(keyring.of("reg.example/app").len(), 1, "what was there stays");
    }
}

/// CRI-23: pods write both the registries of a Secret and the image.
#[test]
fn a_large_secret_is_searched_at_once_for_a_long_name() {
    let part = "a".repeat(63);
    let registries = (0..4000).map(|one| (format!("{}{one}.example", "*a".repeat(120)), json!({})));
    let keyring = of_all(registries.chain([(format!("{part}.example"), json!({}))]).collect());
    assert_eq!(keyring.of(&format!("{part}.example/app")).len(), 1);
    let longest = format!("{}.example", "a".repeat(REGISTRY_MAX - 8));
    let keyring =
        of_all([&*longest, &format!("a{longest}")].map(|one| (one.to_owned(), json!({}))).into_iter().collect());
    assert_eq!(keyring.of(&format!("{longest}/app")).len(), 1);
    assert!(keyring.of(&format!("a{longest}/app")).is_empty());
    let keyring = of_all((0..4000).map(|one| (format!("*.{one}"), json!({}))).collect());
    assert!(keyring.of(&format!("{}/app", "a.".repeat(500_000))).is_empty());
}

#[test]
fn all_credentials_of_one_place_are_kept_in_their_order() {
    let mut keyring = Keyring::default();
    for user in ["b", "a"] {
        keyring.add(&auths(&json!({ "reg.example": { "username": user, "password": "p" } }))).unwrap();
    }
    let users: Vec<String> = keyring.of("reg.example/app").into_iter().map(|one| one.username).collect();
    assert_eq!(users, ["b", "a"]);
}

proptest! {
    #[test]
    fn credentials_of_one_host_never_go_to_another(
        host in "[a-z]{1,5}\\.[a-z]{1,5}", other in "[a-z]{1,5}\\.[a-z]{1,5}", path in "[a-z/]{0,8}",
    ) {
        let found = keyring(&[&host, &format!("https://{host}/{path}")]).of(&format!("{other}/app"));
        prop_assert!(found.is_empty() || host == other);
    }

    #[test]
    fn a_secret_of_any_content_is_read_or_refused(content in ".{0,64}", registry in ".{0,16}", auth in ".{0,16}") {
        let mut keyring = Keyring::default();
        let _ = keyring.add(&secret(JSON_FORM.0, JSON_FORM.1, &content));
        let _ = keyring.add(&auths(&json!({ registry: { "auth": auth } })));
        keyring.of("reg.example/app");
    }
}
