//! The texts that credentials are read from, and the texts that are made of them.

use super::*;

fn users(keyring: &Keyring, repository: &str) -> Vec<(String, String)> {
    keyring.of(repository).into_iter().map(|one| (one.username, one.password)).collect()
}

fn entry(fields: &Value) -> Result<Vec<(String, String)>, CredentialsError> {
    let mut keyring = Keyring::default();
    keyring.add(&auths(&json!({ "reg.example": fields })))?;
    Ok(users(&keyring, "reg.example/app"))
}

/// Records of pulls hold a hash of this text, so it has to be upstream's to the byte.
#[test]
fn the_text_to_hash_is_upstreams_json() {
    let of = |username: &str, password: &str, email: &str| {
        let [username, password, email] = [username, password, email].map(ToOwned::to_owned);
        Credential { username, password, email, ..Credential::default() }.text_to_hash()
    };
    assert_eq!(of("u", "p", "e@example"), r#"{"username":"u","password":"p","email":"e@example"}"#);
    assert_eq!(of("u", "", ""), r#"{"username":"u"}"#);
    assert_eq!(of("", "p", ""), r#"{"password":"p"}"#);
    assert_eq!(of("", "", ""), "{}");
    assert_eq!(of("", "a\"<b>&\n", ""), r#"{"password":"a\"\u003cb\u003e\u0026\n"}"#, "as Go writes it");
}

#[test]
fn the_source_does_not_change_the_text_to_hash() {
    let plain = Credential { username: "u".into(), ..Credential::default() };
    let account = RecordedAccount { uid: "1".into(), namespace: "ns".into(), name: "robot".into() };
    let known = Credential { source: Some(SecretSource::default()), account: Some(account), ..plain.clone() };
    assert_eq!(plain.text_to_hash(), known.text_to_hash());
}

/// SEC-40: logs print the source at most.
#[test]
fn a_credential_in_a_log_shows_neither_user_nor_password() {
    let mut keyring = Keyring::default();
    keyring
        .add(&auths(&json!({ "reg.example": { "username": "alice", "password": "hunter2", "email": "a@b" } })))
        .unwrap();
    let text = format!("{:?}", keyring.of("reg.example/app"));
    assert!(text.contains("pull"), "the Secret is named: {text}");
    for secret in ["alice", "hunter2", "a@b"] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// The Secret of a credential is recorded with the pull; credentials of the node are nobody's.
#[test]
fn a_credential_knows_the_secret_that_it_is_from() {
    let mut secret = auths(&json!({ "reg.example": { "username": "u" } }));
    secret.metadata.namespace = Some("ns".into());
    secret.metadata.uid = Some("uid-1".into());
    let mut keyring = Keyring::default();
    keyring.add(&secret).unwrap();
    let source = SecretSource { namespace: "ns".into(), name: "pull".into(), uid: "uid-1".into() };
    assert_eq!(keyring.of("reg.example/app")[0].source, Some(source));
    let mut node = Keyring::default();
    assert!(node.add_file(br#"{"auths":{"reg.example":{"username":"u"}}}"#, ConfigForm::Json));
    assert_eq!(node.of("reg.example/app")[0].source, None);
}

#[test]
fn files_of_the_node_are_read_in_their_form_alone() {
    let (new, old) = (r#"{"auths":{"reg.example":{"username":"u"}}}"#, r#"{"reg.example":{"username":"u"}}"#);
    // content, form, whether it can be read, whether the registry has a credential
    let cases = [
        (new, ConfigForm::Json, true, true),
        (old, ConfigForm::Old, true, true),
        (old, ConfigForm::Json, true, false),
        (new, ConfigForm::Old, true, false),
        (r#"{"credHelpers":{}}"#, ConfigForm::Json, true, false),
        (r#"{"auths":null}"#, ConfigForm::Json, true, false),
        ("null", ConfigForm::Old, true, false),
        ("[]", ConfigForm::Old, false, false),
        (r#"{"auths":"none"}"#, ConfigForm::Json, false, false),
        ("", ConfigForm::Json, false, false),
        (r#"{"reg.example":{"username":"u"}"#, ConfigForm::Old, false, false),
    ];
    for (content, form, readable, found) in cases {
        let mut keyring = Keyring::default();
        assert_eq!(keyring.add_file(content.as_bytes(), form), readable, "{form:?} {content}");
        assert_eq!(!keyring.of("reg.example/app").is_empty(), found, "{form:?} {content}");
    }
}

#[test]
fn fields_of_an_entry_count_as_upstream_reads_them() {
    let pair = |username: &str, password: &str| Some((username.to_owned(), password.to_owned()));
    let cases = [
        (json!({}), pair("", "")),
        (json!(null), pair("", "")),
        (json!({ "auth": "", "username": "u", "password": "p" }), pair("u", "p")),
        (json!({ "auth": null, "username": "u" }), pair("u", "")),
        (json!({ "AUTH": "dTpw", "username": "other" }), pair("u", "p")),
        // An exact name counts over one in another case.
        (json!({ "USERNAME": "other", "username": "u" }), pair("u", "")),
        (json!({ "auth": "Og==" }), pair("", "")),
        (json!({ "auth": "dTpwOnE6" }), pair("u", "p:q:")),
        (json!({ "auth": "dTpw", "email": 7 }), None),
        (json!({ "username": 7 }), None),
        (json!({ "password": ["p"] }), None),
        (json!({ "email": {} }), None),
        (json!([]), None),
        (json!({ "auth": "dTpw!" }), None),
        (json!({ "auth": "dTpw====" }), None),
        (json!({ "auth": " dTpw" }), None),
        // Letters that are no text, and a text without a colon.
        (json!({ "auth": "//86//8=" }), None),
        (json!({ "auth": "dQ==" }), None),
    ];
    for (fields, expected) in cases {
        assert_eq!(entry(&fields).ok().and_then(|mut found| found.pop()), expected, "{fields}");
    }
}

/// Go's decoder does not look at bits behind the last letter, so such Secrets work on other nodes.
#[test]
fn bits_behind_the_last_letter_of_an_auth_are_left_out() {
    // `u:p1` in both; the last digit of the second has bits more.
    for auth in ["dTpwMQ==", "dTpwMR==", "dTpwMR"] {
        assert_eq!(entry(&json!({ "auth": auth })), Ok(vec![("u".to_owned(), "p1".to_owned())]), "{auth}");
    }
}

/// All of a Secret or nothing: half of it would pull some images with the wrong credentials.
#[test]
fn one_bad_registry_keeps_the_others_out() {
    let mut keyring = Keyring::default();
    let entries =
        json!({ "a.example": { "username": "u" }, "b.example": { "auth": "!" }, "c.example": { "username": "u" } });
    let error = keyring.add(&auths(&entries)).unwrap_err();
    assert!(matches!(error, CredentialsError::Auth { registry, .. } if registry == "b.example"));
    for host in ["a.example", "b.example", "c.example"] {
        assert!(keyring.of(&format!("{host}/app")).is_empty(), "{host}");
    }
}

#[test]
fn an_error_names_a_long_registry_in_part() {
    let long = format!("{}.example", "a".repeat(300));
    let mut keyring = Keyring::default();
    match keyring.add(&auths(&json!({ long.clone(): 7 }))) {
        Err(CredentialsError::Auth { name, registry }) => {
            assert_eq!((name.as_str(), registry.as_str()), ("pull", &long[..REGISTRY_MAX]));
        }
        other => panic!("{other:?}"),
    }
    let mut nameless = secret(OLD_FORM.0, OLD_FORM.1, "[]");
    nameless.metadata.name = None;
    let expected = CredentialsError::Form { name: String::new(), key: OLD_FORM.1 };
    assert_eq!(keyring.add(&nameless), Err(expected), "the key is that of the Secret's type");
}
