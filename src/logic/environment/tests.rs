//! Tables and properties of a container's environment.

use serde_json::{Value, from_value, json};

use super::*;

fn pod(annotations: Value) -> Pod {
    from_value(json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "u-1", "annotations": annotations },
        "spec": { "enableServiceLinks": true, "containers": [] },
    }))
    .unwrap()
}

fn sources() -> EnvironmentSources {
    let texts = |entries: &[(&str, &str)]| {
        Arc::new(entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect::<BTreeMap<_, String>>())
    };
    let bytes = |bytes: &[u8]| k8s_openapi::ByteString(bytes.to_vec());
    let data = BTreeMap::from([("PASSWORD".to_owned(), bytes(b"\xff\xfe")), ("USER".to_owned(), bytes(b"root"))]);
    let secret = Secret { data: Some(data), ..Secret::default() };
    let config_map = from_value(json!({ "data": { "A": "cm-a", "B": "cm-b" } })).unwrap();
    EnvironmentSources {
        config_maps: BTreeMap::from([
            ("cm".to_owned(), Looked::There(Arc::new(config_map))),
            ("hidden".to_owned(), Looked::Unknown("configmaps \"hidden\" is forbidden".to_owned())),
        ]),
        secrets: BTreeMap::from([("s".to_owned(), Looked::There(Arc::new(secret)))]),
        services: Some(texts(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("A", "service-a")])),
        resolved: BTreeMap::new(),
        addresses: Addresses { pod_ips: vec!["10.0.0.7".into()], ..Addresses::default() },
    }
}

/// The variables of a container with these fields, invalid bytes shown as `?`.
fn variables(env_from: Value, env: Value, sources: &EnvironmentSources) -> Result<Vec<(String, String)>, String> {
    let container = from_value(json!({ "name": "app", "envFrom": env_from, "env": env })).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace('\u{fffd}', "?");
    let found = container_environment(&pod(json!({})), &container, sources).map_err(|error| error.to_string())?;
    Ok(found.into_variables().into_iter().map(|(name, value)| (name, text(value))).collect())
}

fn expected(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

const SERVICE: (&str, &str) = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");
const SERVICE_A: (&str, &str) = ("A", "service-a");

#[test]
fn variables_come_in_order_and_later_ones_override() {
    let cases = [
        (json!([]), json!([]), vec![SERVICE_A, SERVICE]),
        (
            json!([]),
            json!([{ "name": "Z", "value": "1" }, { "name": "A", "value": "2" }]),
            vec![("Z", "1"), ("A", "2"), SERVICE],
        ),
        (
            json!([]),
            json!([{ "name": "Z", "value": "1" }, { "name": "Z", "value": "2" }]),
            vec![("Z", "2"), SERVICE_A, SERVICE],
        ),
        (json!([]), json!([{ "name": "A" }]), vec![("A", ""), SERVICE]),
        (
            json!([{ "configMapRef": { "name": "cm" } }]),
            json!([{ "name": "B", "value": "own" }]),
            vec![("A", "cm-a"), ("B", "own"), SERVICE],
        ),
        (
            json!([{ "prefix": "P_", "configMapRef": { "name": "cm" } }, { "secretRef": { "name": "s" } }]),
            json!([]),
            vec![("P_A", "cm-a"), ("P_B", "cm-b"), ("PASSWORD", "??"), ("USER", "root"), SERVICE_A, SERVICE],
        ),
        (json!([{ "configMapRef": { "name": "none", "optional": true } }]), json!([]), vec![SERVICE_A, SERVICE]),
    ];
    for (env_from, env, wanted) in cases {
        assert_eq!(variables(env_from.clone(), env.clone(), &sources()), Ok(expected(&wanted)), "{env_from} {env}");
    }
}

#[test]
fn values_expand_what_was_declared_before_and_services() {
    let env = json!([
        { "name": "LATE", "value": "$(Z)" },
        { "name": "Z", "value": "z" },
        { "name": "SEEN", "value": "$(Z)-$(B)-$(KUBERNETES_SERVICE_HOST)-$$(Z)-$(NONE)" },
        { "name": "ONCE", "value": "$(LATE)" },
        { "name": "A", "value": "$(A)+" },
        { "name": "RAW", "value": "<$(PASSWORD)>" },
    ]);
    let from = json!([{ "configMapRef": { "name": "cm" } }, { "secretRef": { "name": "s" } }]);
    let found = variables(from, env, &sources()).unwrap().into_iter().collect::<BTreeMap<_, _>>();
    let wanted = [
        ("LATE", "$(Z)"),
        ("SEEN", "z-cm-b-10.96.0.1-$(Z)-$(NONE)"),
        ("ONCE", "$(Z)"),
        ("A", "cm-a+"),
        ("RAW", "<??>"),
    ];
    for (name, value) in wanted {
        assert_eq!(found[name], value, "{name}");
    }
    let only_service = variables(json!([]), json!([{ "name": "X", "value": "$(A)" }]), &sources()).unwrap();
    assert_eq!(only_service[0].1, "service-a");
}

#[test]
fn sources_give_fields_and_keys() {
    let env = json!([
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
        { "name": "NAME", "value": "", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
        { "name": "KEY", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "B" } } },
        { "name": "USER", "valueFrom": { "secretKeyRef": { "name": "s", "key": "USER" } } },
        { "name": "GONE", "valueFrom": { "secretKeyRef": { "name": "s", "key": "x", "optional": true } } },
        { "name": "LOST", "valueFrom": { "configMapKeyRef": { "name": "x", "key": "x", "optional": true } } },
        { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
        { "name": "FILE", "valueFrom": { "fileKeyRef": { "volumeName": "v", "path": "p", "key": "k", "optional": true } } },
        { "name": "VALUE", "value": "wins", "valueFrom": { "fieldRef": { "fieldPath": "nonsense" } } },
    ]);
    let sources =
        EnvironmentSources { resolved: BTreeMap::from([(6, Ok(Some("2".into()))), (7, Ok(None))]), ..sources() };
    let wanted = [
        ("IP", "10.0.0.7"),
        ("NAME", "web"),
        ("KEY", "cm-b"),
        ("USER", "root"),
        ("CPU", "2"),
        ("VALUE", "wins"),
        SERVICE_A,
        SERVICE,
    ];
    assert_eq!(variables(json!([]), env, &sources), Ok(expected(&wanted)));
}

#[test]
fn what_is_missing_is_told_in_upstreams_words() {
    let from = |source: Value| (json!([source]), json!([]));
    let value_from = |source: Value| (json!([]), json!([{ "name": "X", "valueFrom": source }]));
    let cases = [
        (from(json!({ "configMapRef": { "name": "x" } })), "configmap \"x\" not found"),
        (from(json!({ "secretRef": { "name": "x", "optional": false } })), "secret \"x\" not found"),
        (value_from(json!({ "configMapKeyRef": { "name": "x", "key": "k" } })), "configmap \"x\" not found"),
        (
            value_from(json!({ "configMapKeyRef": { "name": "cm", "key": "k" } })),
            "couldn't find key k in ConfigMap ns/cm",
        ),
        (value_from(json!({ "secretKeyRef": { "name": "s", "key": "k" } })), "couldn't find key k in Secret ns/s"),
        // A field that nobody knows may not be taken for missing, even where it may be missing.
        (
            value_from(json!({ "configMapKeyRef": { "name": "hidden", "key": "k", "optional": true } })),
            "configmaps \"hidden\" is forbidden",
        ),
        (from(json!({ "configMapRef": { "name": "hidden", "optional": true } })), "configmaps \"hidden\" is forbidden"),
        (value_from(json!({ "fieldRef": { "fieldPath": "x" } })), "field label not supported: x"),
        (
            value_from(json!({ "resourceFieldRef": { "resource": "limits.cpu" } })),
            "value of environment variable X is not known",
        ),
    ];
    for ((env_from, env), text) in cases {
        assert_eq!(variables(env_from, env, &sources()), Err(text.into()));
    }
}

/// Forty variables that each name the one before twice.
#[test]
fn variables_that_name_each_other_do_not_grow_without_end() {
    let doubled = (1..40).map(|n| json!({ "name": format!("V{n}"), "value": format!("$(V{})$(V{})", n - 1, n - 1) }));
    let env: Vec<Value> = [json!({ "name": "V0", "value": "0123456789" })].into_iter().chain(doubled).collect();
    let told = variables(json!([]), json!(env[..19]), &sources()).map(|found| found.len());
    assert_eq!(told, Ok(19 + 2), "5 MiB, and what the services give");
    let told = variables(json!([]), json!(env), &sources());
    let expected = "environment variable V19 is longer than 6291456 bytes with its variables expanded, the ones before it included";
    assert_eq!(told, Err(expected.into()));
}

#[test]
fn words_are_bounded_together() {
    let mut environment = Environment::default();
    environment.set("A", vec![b'x'; 1 << 20]);
    environment.set("A", vec![b'y'; 1 << 20]);
    let words = |count: usize| environment.expand(&vec!["$(A)".to_owned(); count]).map(|words| words.len());
    assert_eq!((words(6), words(7)), (Ok(6), Err(TooLong)));
}

#[test]
fn only_static_pods_start_before_services_were_read() {
    let unread = EnvironmentSources { services: None, ..sources() };
    let container = Container::default();
    let of = |pod: &Pod| container_environment(pod, &container, &unread).map(Environment::into_variables).err();
    let source = |source: &str| pod(json!({ "kubernetes.io/config.source": source }));
    assert_eq!(of(&pod(json!({}))), Some(EnvironmentError::ServicesUnread));
    assert_eq!(of(&source("api")), Some(EnvironmentError::ServicesUnread));
    assert_eq!(of(&source("file")), None);
    assert_eq!(of(&source("http")), None);

    let mut unset = source("file");
    unset.spec.as_mut().unwrap().enable_service_links = None;
    assert_eq!(of(&unset), Some(EnvironmentError::ServiceLinksUnset));
}

proptest::proptest! {
    #[test]
    fn no_name_comes_twice_and_the_last_value_wins(values in proptest::collection::vec(("[ABC]", "[a-z]{1,3}"), 0..8)) {
        let env = values.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>();
        let found = variables(json!([]), json!(env), &sources()).unwrap();
        let last = values.into_iter().collect::<BTreeMap<_, _>>();
        let names = found.iter().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>();
        proptest::prop_assert_eq!(names.len(), found.len());
        for (name, value) in last {
            proptest::prop_assert!(found.contains(&(name, value)));
        }
    }
}
