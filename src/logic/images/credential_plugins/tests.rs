//! Configuration, questions and answers of programs that give credentials.

use super::*;
use crate::logic::images::credential_tokens::Account;

const CONFIG: &str = "
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: helper
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ['*.reg.example', 'reg.example:5000/team']
  defaultCacheDuration: 12h
  args: [get]
  env: [{name: A, value: b}]
";

fn helper() -> Provider {
    parse_config(CONFIG).unwrap().remove(0)
}

/// CFG-50.
#[test]
fn a_configuration_is_read_strictly() {
    let helper = helper();
    assert_eq!((helper.name.as_str(), helper.default_cache), ("helper", Duration::from_secs(12 * 3600)));
    assert_eq!(helper.env, [("A".to_owned(), "b".to_owned())]);
    assert_eq!(validate(&[helper], true), Ok(()));
    let cases = [
        ("kind: CredentialProviderConfig", "kind: Other", "wrong Kind"),
        ("kubelet.config.k8s.io/v1\n", "kubelet.config.k8s.io/v9\n", "registered for version"),
        ("  args:", "  arguments:", "unknown field \"arguments\""),
        ("  defaultCacheDuration: 12h\n", "", "defaultCacheDuration: Required value"),
        ("12h", "-12h", "must be greater than or equal to 0"),
        ("  args: [get]", "  tokenAttributes: {x: y}", "unknown field \"x\""),
    ];
    for (old, new, expected) in cases {
        let error = parse_config(&CONFIG.replace(old, new)).unwrap_err();
        assert!(error.contains(expected), "{new}: {error}");
    }
}

/// SEC-42: a name is a file's name and nothing else.
#[test]
fn names_and_versions_are_checked() {
    let with = |change: fn(&mut Provider)| {
        let mut provider = helper();
        change(&mut provider);
        validate(&[provider], true).unwrap_err()
    };
    assert!(with(|one| one.name = "../x".into()).contains("cannot contain '/'"));
    assert!(with(|one| one.name = "a b".into()).contains("cannot contain spaces"));
    assert!(with(|one| one.name = "..".into()).contains("cannot be '..'"));
    assert!(with(|one| one.name = String::new()).contains("name of a file"));
    assert!(with(|one| one.api_version = "v1".into()).contains("Unsupported value: \"v1\""));
    assert!(with(|one| one.match_images.clear()).contains("at least 1 item in matchImages"));
    assert!(validate(&[helper(), helper()], true).unwrap_err().contains("Duplicate value: \"helper\""));
    assert!(validate(&[], true).unwrap_err().contains("at least 1 item in plugins"));
}

#[test]
fn a_program_is_asked_for_its_own_images() {
    let helper = helper();
    for (repository, expected) in [
        ("a.reg.example/x", true),
        ("a.b.reg.example/x", false),
        ("reg.example:5000/team/x", true),
        ("reg.example:5000/other", false),
        ("reg.example/team/x", false),
    ] {
        assert_eq!(helper.is_for(repository), expected, "{repository}");
    }
    let request: Value = serde_json::from_str(&helper.request("a.reg.example/x", None)).unwrap();
    assert_eq!(request["kind"], "CredentialProviderRequest");
    assert_eq!(request["apiVersion"], "credentialprovider.kubelet.k8s.io/v1");
    assert_eq!(request["image"], "a.reg.example/x");
}

fn printed(key: &str, cache: &str) -> Vec<u8> {
    json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": key,
        "cacheDuration": cache,
        "auth": { "*.reg.example": { "username": "u", "password": "hunter2" } },
    })
    .to_string()
    .into_bytes()
}

#[test]
fn answers_count_for_what_they_are_for_and_as_long_as_they_say() {
    let (helper, now) = (helper(), Duration::from_secs(100));
    let later = now + Duration::from_secs(10);
    // Of a.reg.example/x; which others it counts for.
    let cases = [("Image", [true, false, false]), ("Registry", [true, true, false]), ("Global", [true, true, true])];
    for (key, expected) in cases {
        let answer = parse_answer(&helper, &printed(key, "10s")).unwrap();
        assert_eq!(answer.of("a.reg.example/x").len(), 1);
        assert_eq!(answer.of("other.example/x").len(), 0, "whatever it is kept for");
        let mut cache = AnswerCache::default();
        cache.keep(&helper, "", "a.reg.example/x", &answer, now);
        let repositories = ["a.reg.example/x", "a.reg.example/y", "b.reg.example/x"];
        let found = |at| repositories.map(|repository| cache.find(&helper, "", repository, at).is_some());
        assert_eq!(found(later), expected, "{key}");
        assert_eq!(found(later + Duration::from_nanos(1)), [false; 3], "{key}");
    }
    let answer = parse_answer(&helper, &printed("Image", "0s")).unwrap();
    let mut cache = AnswerCache::default();
    cache.keep(&helper, "", "a.reg.example/x", &answer, now);
    assert!(cache.find(&helper, "", "a.reg.example/x", now).is_none(), "it said so");
}

#[test]
fn what_is_no_answer_is_refused_and_not_repeated() {
    let helper = helper();
    let good = String::from_utf8(printed("Image", "10s")).unwrap();
    let cases = [
        ("hunter2".to_owned(), "error decoding"),
        (good.replace("k8s.io/v1", "k8s.io/v1beta1"), "did not match expected apiVersion"),
        (good.replace("ProviderResponse", "ProviderRequest"), "error decoding"),
        (good.replace("\"Image\"", "\"hunter2\""), "valid cacheKeyType"),
        (good.replace("10s", "hunter2"), "error decoding"),
    ];
    for (text, expected) in cases {
        let error = parse_answer(&helper, text.as_bytes()).unwrap_err();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{text}: {error}");
    }
    let answer = parse_answer(&helper, good.as_bytes()).unwrap();
    assert!(!format!("{answer:?}").contains("hunter2"));
}

/// KEP-4412: the token goes with the question, and the answer counts for the account that it was given for.
#[test]
fn a_token_goes_with_the_question_and_stays_with_its_account() {
    let attributes = "  tokenAttributes: {serviceAccountTokenAudience: reg, requireServiceAccount: true, cacheType: X}";
    let helper = |cache: &str| {
        let config = CONFIG.replace("  args: [get]", &attributes.replace('X', cache));
        parse_config(&config).unwrap().remove(0)
    };
    let account = |name: &str| Account {
        namespace: "ns".into(),
        name: name.into(),
        uid: "u".into(),
        annotations: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
    };
    let token = AccountToken { account: account("robot"), token: "hunter2".into() };
    let wide = helper("ServiceAccount");
    assert_eq!(validate(std::slice::from_ref(&wide), true), Ok(()));
    assert!(validate(std::slice::from_ref(&wide), false).unwrap_err().contains("feature gate is disabled"));
    let request: Value = serde_json::from_str(&wide.request("reg/x", Some(&token))).unwrap();
    assert_eq!(request["serviceAccountToken"], "hunter2");
    assert_eq!(request["serviceAccountAnnotations"], json!({ "a": "b" }));
    let without: Value = serde_json::from_str(&wide.request("reg/x", None)).unwrap();
    assert!(without.get("serviceAccountToken").is_none() && without.get("serviceAccountAnnotations").is_none());
    // A program that gives the token back as a password: only where that counts for the token alone.
    let answer = parse_answer(&wide, &printed("Image", "10s")).unwrap();
    let error = wide.accept(answer.clone(), Some(&token)).unwrap_err();
    assert!(error.contains("service account token as the password") && !error.contains("hunter2"), "{error}");
    assert!(wide.accept(answer.clone(), None).is_ok() && helper("Token").accept(answer.clone(), Some(&token)).is_ok());
    let mut cache = AnswerCache::default();
    let key = |name: &str| account(name).cache_key(None);
    cache.keep(&wide, &key("robot"), "reg/x", &answer, Duration::ZERO);
    let found = |account: &str| cache.find(&wide, account, "reg/x", Duration::ZERO).is_some();
    assert_eq!([found(&key("robot")), found(&key("other")), found("")], [true, false, false]);
}
