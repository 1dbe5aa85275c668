//! Which registry, and which path below it, a credential is for.

use super::*;

/// Upstream's `URLsMatch`: pattern, image, whether they match.
#[test]
fn a_place_is_for_an_image_by_port_path_and_each_part_of_the_host() {
    let cases = [
        ("reg.example", "reg.example", true),
        ("reg.example/", "reg.example", false),
        ("reg.example/", "reg.example/app", true),
        ("reg.example/app", "reg.example/app", true),
        ("reg.example/app/", "reg.example/app", false),
        ("reg.example/App", "reg.example/app", false),
        ("reg.example/a*", "reg.example/app", false),
        ("*.example/app", "reg.example/app", true),
        ("*.*", "reg.example/app", true),
        ("*", "reg.example/app", false),
        ("*.*.*", "reg.example/app", false),
        ("reg.*", "reg.example/app", true),
        ("?eg.example", "reg.example/app", true),
        ("reg*.example:5000", "reg1.example:5000/app", true),
        ("reg.example:*", "reg.example:5000/app", false),
        ("reg.example:5000", "reg.example:50001/app", false),
        ("reg.example:", "reg.example/app", true),
        ("", "", false),
        ("/app", "/app", false),
        (":5000", ":5000/app", false),
    ];
    for (index, repository, expected) in cases {
        assert_eq!(matches(index, repository), expected, "{index} {repository}");
    }
}

/// In a cluster with IPv6 alone a registry may be named by address: brackets are a pattern of letters only without a port,
/// as upstream reads them.
#[test]
fn a_registry_at_an_ipv6_address_with_a_port_is_matched() {
    let cases = [
        ("[fd00::5]:5000", "[fd00::5]:5000/app", true),
        ("[fd00::5]:5000/team", "[fd00::5]:5000/team/app", true),
        ("[fd00::5]:5000", "[fd00::6]:5000/app", false),
        ("[fd00::5]:5000", "[fd00::5]:5001/app", false),
        ("[fd00::5]", "[fd00::5]:5000/app", false),
        ("[fd00::5]", "[fd00::5]/app", false),
        ("[fd00::5]:50:00", "[fd00::5]:50:00/app", false),
        ("fd00::5", "[fd00::5]:5000/app", false),
    ];
    for (index, repository, expected) in cases {
        assert_eq!(matches(index, repository), expected, "{index} {repository}");
    }
}

/// The longest host that is looked at has 255 bytes, its port included; longer ones match nothing, not even themselves.
#[test]
fn a_host_that_no_registry_can_have_matches_nothing() {
    for (length, expected) in [(REGISTRY_MAX - 1, true), (REGISTRY_MAX, true), (REGISTRY_MAX + 1, false)] {
        let host = "a".repeat(length);
        assert_eq!(matches(&host, &format!("{host}/app")), expected, "{length}");
        assert_eq!(matches(&host, &host), expected, "{length} without a path");
    }
}

/// Secrets write registries as URLs of all kinds.
#[test]
fn a_registry_is_known_by_host_and_path_alone() {
    let cases = [
        ("reg.example", "reg.example"),
        ("reg.example/", "reg.example"),
        ("https://reg.example", "reg.example"),
        ("http://reg.example:5000/", "reg.example:5000"),
        ("https://user:pass@reg.example/app", "reg.example/app"),
        ("user@a@reg.example", "reg.example"),
        ("reg.example/app?insecure=true", "reg.example/app"),
        ("reg.example#part", "reg.example"),
        ("https://reg.example/v1/", "reg.example"),
        ("https://reg.example/v2/", "reg.example"),
        ("reg.example/v1/team", "reg.example/team"),
        // The version of the protocol has a path below it.
        ("reg.example/v1", "reg.example/v1"),
        ("reg.example/v2", "reg.example/v2"),
        ("reg.example/v10/", "reg.example/v10/"),
        ("reg.example/team/v1/", "reg.example/team/v1/"),
        ("reg.example/team@2", "reg.example/team@2"),
        ("", ""),
    ];
    for (registry, expected) in cases {
        assert_eq!(index_of(registry), expected, "{registry}");
    }
}

/// Credentials of Docker Hub are for names without a registry too, and only where nothing is nearer.
#[test]
fn the_default_registry_is_for_names_without_one() {
    let cases = [
        ("app", true),
        ("library/app", true),
        ("localhost/app", true),
        ("docker.io/library/app", true),
        ("index.docker.io/library/app", true),
        ("registry-1.docker.io/library/app", false),
        ("reg.example/app", false),
        ("localhost:5000/app", false),
        ("", false),
        ("/app", false),
    ];
    for (repository, expected) in cases {
        assert_eq!(is_of_default_registry(repository), expected, "{repository}");
        let found = keyring(&["https://index.docker.io/v1/", "zzz.example"]).of(repository);
        assert_eq!(!found.is_empty(), expected, "{repository}");
    }
    let nearer = keyring(&["index.docker.io", "docker.io/library"]);
    let users = |repository: &str| -> Vec<String> {
        nearer.of(repository).into_iter().map(|credential| credential.username).collect()
    };
    assert_eq!(users("docker.io/library/app"), ["docker.io/library"]);
    assert_eq!(users("docker.io/team/app"), ["index.docker.io"]);
    assert!(Keyring::default().of("docker.io/library/app").is_empty());
}

/// A program's answer names places as Secrets do, and keeps the account that it was asked for.
#[test]
fn a_credential_of_a_program_is_found_by_its_place() {
    let account = RecordedAccount { uid: "1".into(), namespace: "ns".into(), name: "robot".into() };
    let of = |username: &str| Credential {
        username: username.to_owned(),
        account: Some(account.clone()),
        ..Credential::default()
    };
    let mut keyring = Keyring::default();
    for (registry, user) in
        [("https://reg.example/v2/", "first"), ("reg.example", "second"), ("reg.example/team", "third")]
    {
        keyring.add_one(registry, of(user));
    }
    assert_eq!(keyring.of("reg.example/app"), [of("first"), of("second")]);
    assert_eq!(keyring.of("reg.example/team/app"), [of("third"), of("first"), of("second")]);
    assert!(keyring.of("other.example/app").is_empty());
}

proptest! {
    /// More of the path is nearer: the nearest place comes first, whatever the order in the Secret.
    #[test]
    fn the_longest_path_comes_first(
        path in "[a-z]{1,4}(/[a-z]{1,4}){0,3}", cuts in proptest::collection::vec(0_usize..16, 1..5),
    ) {
        let image = format!("reg.example/{path}/app");
        let place = |cut: &usize| format!("reg.example/{}", &path[..(*cut).min(path.len())]);
        let places: Vec<String> = cuts.iter().map(place).collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let found: Vec<usize> = keyring(&places).of(&image).iter().map(|one| index_of(&one.username).len()).collect();
        prop_assert_eq!(found.len(), places.len());
        prop_assert!(found.is_sorted_by(|nearer, farther| nearer >= farther), "{:?}", found);
    }

    /// Places are from Secrets and images from pods: no text may be too strange.
    #[test]
    fn a_plain_place_matches_itself_and_all_below_it(
        host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,3}(:[0-9]{1,5})?", path in "(/[a-z*?]{1,6}){0,3}", any in ".{0,24}",
    ) {
        let place = format!("{host}{path}");
        let below = format!("{place}/more");
        prop_assert!(matches(&place, &place));
        prop_assert!(matches(&place, &below));
        prop_assert!(!matches(&below, &place));
        let _ = matches(&any, &place);
        let _ = index_of(&any);
    }
}
