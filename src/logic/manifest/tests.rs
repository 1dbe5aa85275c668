//! Tests of [`super`]: whole manifests, good, broken and hostile.

use super::*;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

fn source() -> Source {
    Source::File { path: "/etc/kubernetes/manifests/web.yaml".to_owned() }
}

fn check(text: &str) -> Result<Checked, ManifestError> {
    check_static(text.as_bytes(), &source(), "node-1")
}

fn refusal(text: &str) -> String {
    check(text).expect_err("must be refused").to_string()
}

const WEB: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: nginx:1.27
    ports: [{containerPort: 80}]
";

#[test]
fn a_manifest_becomes_a_pod_of_this_node() {
    let checked = check(WEB).expect("a good manifest");
    let pod = checked.pod;
    assert_eq!(pod.metadata.name.as_deref(), Some("web-node-1"));
    assert_eq!(pod.metadata.uid.as_deref().map(str::len), Some(32));
    let spec = pod.spec.expect("given");
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("IfNotPresent"));
    assert_eq!(checked.warnings, Vec::<String>::new());
}

#[test]
fn json_is_as_good_as_yaml_and_gives_the_same_pod() {
    let json = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]}}"#;
    assert_eq!(check(json), check(WEB));
}

/// POD-27: the gate `UserNamespacesHostNetworkSupport`.
#[test]
fn a_user_namespace_on_the_hosts_network_is_let_in_by_its_gate() {
    let text = WEB.replace("spec:\n", "spec:\n  hostUsers: false\n  hostNetwork: true\n");
    let refusal = |host_network_users| {
        let gates = ManifestGates { host_network_users, ..ManifestGates::default() };
        check(&text).and_then(|checked| checked.within(gates)).err().map(|error| error.to_string())
    };
    assert_eq!(refusal(true), None);
    let why = "invalid pod: [spec.hostNetwork: Forbidden: when `hostUsers` is false]";
    assert_eq!(refusal(false).as_deref(), Some(why));
}

#[test]
fn typos_and_further_documents_are_told() {
    let text = format!(
        "# ours\n---\n{}---\nkind: Other\n",
        WEB.replace("    image:", "    imagePullPolici: Never\n    image:")
    );
    let checked = check(&text).expect("a good manifest");
    assert_eq!(
        checked.warnings,
        ["only the first of the manifest's documents is used", "unknown field \"spec.containers[0].imagePullPolici\""]
    );
    let end_marker = format!("---\n{WEB}---\n# nothing more\n");
    assert_eq!(check(&end_marker).expect("a good manifest").warnings, Vec::<String>::new());
}

#[test]
fn what_follows_the_first_document_is_not_even_read() {
    for rest in ["}{][", "kind: [", "\t- x", "a: *unknown\n"] {
        assert_eq!(
            check(&format!("{WEB}---\n{rest}")).map(|checked| checked.pod),
            check(WEB).map(|checked| checked.pod)
        );
    }
}

#[test]
fn anchors_and_merged_keys_are_followed() {
    let text = WEB.replace("    image:", "    env: [&e {name: A, value: x}, {<<: *e, name: B}, *e]\n    image:");
    let checked = check(&text).expect("a good manifest");
    let spec = checked.pod.spec.expect("given");
    let variables: Vec<_> =
        spec.containers[0].env.iter().flatten().map(|one| (one.name.as_str(), one.value.as_deref())).collect();
    assert_eq!(variables, [("A", Some("x")), ("B", Some("x")), ("A", Some("x"))]);
}

#[test]
fn a_copied_mirror_pod_is_a_static_pod_again() {
    let mirror = "  name: web\n  annotations: {kubernetes.io/config.mirror: abc, a: b}\nspec";
    let checked = check(&WEB.replace("  name: web\nspec", mirror)).expect("a good manifest");
    let annotations = checked.pod.metadata.annotations.expect("given");
    assert!(annotations.contains_key("a") && !annotations.contains_key("kubernetes.io/config.mirror"));
    assert_eq!(checked.warnings.len(), 1);
}

#[test]
fn of_keys_given_twice_the_last_counts() {
    let checked = check(&WEB.replace("  name: web\nspec", "  name: one\n  name: two\nspec")).expect("a good manifest");
    assert_eq!(checked.pod.metadata.name.as_deref(), Some("two-node-1"));
}

#[test]
fn what_is_no_pod_is_refused_with_the_reason() {
    for (text, expected) in [
        ("", "the manifest is empty"),
        ("# nothing\n", "the manifest is empty"),
        ("- a\n", "the manifest is not an object"),
        ("a: b\n", "Object 'Kind' is missing in the manifest"),
        ("kind: Pod\n", "Object 'apiVersion' is missing in the manifest"),
        ("kind: Pod\napiVersion: v2\n", "no kind \"Pod\" is registered for version \"v2\""),
        ("kind: PodList\napiVersion: v1\nitems: []\n", "invalid pod: the manifest is a \"PodList\", not a \"Pod\""),
        ("kind: Pod\napiVersion: v1\n", "invalid pod: name is needed for the pod"),
        ("a\0b", "the manifest is not text: it has a NUL byte, line 1"),
        (
            "kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - name: 5\n",
            "Pod in version \"v1\" cannot be handled as a Pod: spec.containers[0].name: cannot unmarshal number into \
             a field of type string",
        ),
    ] {
        assert_eq!(refusal(text), expected, "{text:?}");
    }
}

#[test]
fn half_written_files_are_syntax_errors_with_a_line() {
    for text in ["a: [1, 2\n", "{\"kind\": \"Pod\", \"meta", "kind: Pod\nmetadata: {name\n", "a: b\n c: d\n"] {
        match check(text) {
            Err(ManifestError::Syntax { line: Some(line), .. }) => assert!(line >= 1, "{text:?}"),
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn what_is_not_text_is_refused() {
    let error = decode_pod(b"kind: Pod\nname: \xff\xfe\n", MANIFEST_SIZE_MAX).expect_err("not UTF-8");
    assert_eq!(error, ManifestError::NotText { why: "it is not UTF-8", line: 2 });
}

#[test]
fn a_manifest_above_the_limit_is_not_even_parsed() {
    assert_eq!(decode_pod(&[0; 11], 10).expect_err("too large"), ManifestError::TooLarge { limit: 10 });
    let padded = format!("{WEB}#{}", " ".repeat(MANIFEST_SIZE_MAX));
    assert_eq!(check(&padded).expect_err("too large"), ManifestError::TooLarge { limit: MANIFEST_SIZE_MAX });
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = level - 1;
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{below}"); 10].join(", ")));
    }
    assert!(matches!(check(&text), Err(ManifestError::Syntax { .. })));
}

#[test]
fn json_of_countless_values_is_refused_before_it_is_built() {
    let text = format!("{{\"kind\": \"Pod\", \"x\": [{}0]}}", "{},".repeat(500_000));
    assert_eq!(refusal(&text), "the manifest cannot be parsed: has more than 250000 values");
    let harmless =
        WEB.replace("name: web\nspec", &format!("name: web\n  annotations: {{a: \"{}\"}}\nspec", ",[{".repeat(80_000)));
    assert!(check(&harmless).is_ok(), "punctuation inside of texts does not count");
}

#[test]
fn nesting_without_end_is_refused() {
    for open in ["[", "{\"a\":"] {
        assert!(matches!(check(&open.repeat(100_000)), Err(ManifestError::Syntax { .. })), "{open}");
    }
}

/// CVE-2019-11253, CVE-2019-11254, SEC-18: the decoder refuses a small text that means a large object before it makes one.
/// That holds for YAML and JSON, from a file and from a URL.
#[test]
fn cve_2019_11253_cve_2019_11254_sec_18_a_small_manifest_cannot_mean_a_large_object() {
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        aliases.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", ")));
    }
    let merges = format!("x: &x {{a: 1}}\ny: {{<<: [{}]}}\n", "*x, ".repeat(200_000));
    let keys = format!("? {}\n", "[".repeat(50_000));
    let http = Source::Http { url: "http://host/".to_owned() };
    for text in [aliases, merges, keys, "{\"a\":".repeat(200_000), format!("[{}", "[],".repeat(300_000))] {
        let (file, url) = (check(&text), check_static_list(text.as_bytes(), &http, "node1"));
        assert!(file.is_err() && url.is_err(), "{}", &text[..60]);
    }
}

/// CVE-2024-10220, CVE-2025-1767, SEC-08, VOL-51: a repository is never fetched for a pod.
#[test]
fn cve_2024_10220_cve_2025_1767_sec_08_a_volume_of_a_repository_is_refused() {
    for repository in ["https://git.example/r.git", "/var/lib/kubelet/pods/other/volumes/r"] {
        let volume = format!("{{name: v, gitRepo: {{repository: {repository}, directory: g/.git}}}}");
        let told = refusal(&format!("{WEB}  volumes: [{volume}]\n"));
        assert!(told.contains("spec.volumes[0].gitRepo: "), "{told}");
    }
}

/// SEC-17: each name of a manifest that becomes a part of a path is one segment, or the pod is refused.
#[test]
fn sec_17_a_name_that_climbs_out_of_its_directory_is_refused() {
    let text = WEB.replace("  name: web\nspec", "  name: web\n  uid: ../../x\nspec");
    assert_eq!(refusal(&text), "invalid pod: [metadata.uid: Invalid value: \"../../x\": may not contain '/']");
    for climbing in ["../../x", "..", ".", "a/b", "/etc", "%2e%2e", "a\\0b"] {
        let pod = |metadata: &str, container: &str, volume: &str| {
            let json = format!(
                "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"web\"{metadata}}}, \"spec\": {{
                 \"containers\": [{{\"name\": \"{container}\", \"image\": \"i\"}}],
                 \"volumes\": [{{\"name\": \"{volume}\", \"emptyDir\": {{}}}}]}}}}"
            );
            check(&json.replace("\\0", "\\u0000"))
        };
        assert!(pod("", "c", "v").is_ok(), "nothing else is wrong with it");
        let field = |name: &str| pod(&format!(", \"{name}\": \"{climbing}\""), "c", "v");
        for (place, found) in [
            ("metadata.name", check(&WEB.replace("name: web\nspec", &format!("name: \"{climbing}\"\nspec")))),
            ("metadata.namespace", field("namespace")),
            ("metadata.uid", field("uid")),
            ("spec.containers[0].name", pod("", climbing, "v")),
            ("spec.volumes[0].name", pod("", "c", climbing)),
        ] {
            let told = found.expect_err(climbing).to_string();
            assert!(told.contains(place), "{climbing}: {told}");
        }
    }
}

/// CVE-2025-4563: a static pod that names resource claims is refused, so that no mirror of it asks the API server for them.
#[test]
fn cve_2025_4563_a_static_pod_with_resource_claims_is_refused() {
    let claims = format!("{WEB}  resourceClaims: [{{name: gpu, resourceClaimName: of-another-pod}}]\n");
    let template = format!("{WEB}  resourceClaims: [{{name: gpu, resourceClaimTemplateName: big}}]\n");
    let http = Source::Http { url: "http://host/".to_owned() };
    for text in [claims, template] {
        assert_eq!(refusal(&text), "static pods may not reference resourceclaims");
        assert!(check_static_list(text.as_bytes(), &http, "node1").is_err());
    }
}

#[test]
fn references_to_the_api_are_refused_before_what_is_not_supported() {
    let text = format!("{WEB}  serviceAccountName: admin\n  volumes: [{{name: v, emptyDir: {{}}}}]\n");
    assert_eq!(refusal(&text), "static pods may not reference serviceaccounts");
}

#[test]
fn what_this_version_does_not_do_is_refused_with_every_path() {
    let text = format!(
        "{WEB}  volumes: [{{name: v, gitRepo: {{repository: r}}}}, {{name: w, flexVolume: {{driver: d/d}}}}]\n"
    );
    assert_eq!(
        refusal(&text),
        "unsupported pod: [spec.volumes[0].gitRepo: volumes of this kind are not supported by this version, \
         spec.volumes[1].flexVolume: volumes of this kind are not supported by this version]"
    );
}

#[test]
fn http_may_answer_with_a_list() {
    let http = Source::Http { url: "http://host/".to_owned() };
    let list = "kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: c, image: \
                i}], x: 1}\n- metadata: {name: b}\n  spec: {containers: [{name: c, image: i}]}\n";
    let checked = check_static_list(list.as_bytes(), &http, "n").expect("a good list");
    let names: Vec<_> = checked.iter().filter_map(|checked| checked.pod.metadata.name.as_deref()).collect();
    assert_eq!(names, ["a-n", "b-n"]);
    assert_eq!(checked[0].warnings, ["unknown field \"items[0].spec.x\""]);
    assert_eq!(check_static_list(WEB.as_bytes(), &http, "n").expect("one pod").len(), 1);
    let broken = list.replace("name: b", "name: [b]");
    let error = check_static_list(broken.as_bytes(), &http, "n").expect_err("one broken item");
    assert!(error.to_string().contains("items[1].metadata.name: cannot unmarshal array"), "{error}");
}

fn a_pod() -> impl Strategy<Value = Pod> {
    let text = "[a-z0-9 :#'\"{}\\[\\]\\\\\n\t-]{0,12}";
    (
        text,
        proptest::collection::btree_map("[a-z]{1,6}", text, 0..4),
        proptest::collection::vec(text, 0..4),
        proptest::option::of(0_i64..99),
    )
        .prop_map(|(name, labels, args, grace)| {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                "spec": {"containers": [{"name": name, "args": args}], "terminationGracePeriodSeconds": grace},
            }))
            .expect("a pod")
        })
}

proptest! {
    /// SEC-59.
    #[test]
    fn sec_59_arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = check_static(&bytes, &source(), "node-1");
    }

    #[test]
    fn arbitrary_yaml_like_text_never_panics(text in "(kind: Pod|apiVersion: v1|spec:|  containers:|  - name: \
                                                      a|[-&*a-z: \\[\\]{}\"'|>#%!0-9.]{0,9})(\n[ -]{0,4}[&*a-z]{1,3}: \
                                                      ?[\\[\\]{}a-z0-9\"]{0,5}){0,8}") {
        let _ = check_static(text.as_bytes(), &source(), "node-1");
    }

    #[test]
    fn a_pod_survives_being_written_and_read(pod in a_pod()) {
        let text = serde_json::to_vec(&pod).expect("serialises");
        let decoded = decode_pod(&text, MANIFEST_SIZE_MAX);
        prop_assert_eq!(decoded, Ok(Decoded { pod, warnings: vec![] }));
    }

    #[test]
    fn every_cut_of_a_manifest_is_handled(at in 0..WEB.len()) {
        let _ = check(&WEB[..at]);
    }
}
