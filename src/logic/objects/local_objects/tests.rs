//! Tables of files, good and bad.

use super::*;

fn read(text: &str) -> Result<BTreeMap<ObjectKey, Object>, LocalObjectError> {
    objects_of(text.as_bytes(), Readers::Owner)
}

fn refused(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn a_file_holds_objects_of_both_kinds() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, labels: {a: b}}\ndata: {a: x}\nbinaryData: {b: AAE=}\n\
                ---\n\
                apiVersion: v1\nkind: Secret\nmetadata: {name: web, namespace: shop}\nimmutable: true\n\
                data: {a: cGxhaW4=, b: YQ==}\nstringData: {b: wins}\n---\n";
    let objects = read(text).expect("good");
    let (map, secret) =
        (ObjectKey::new(ObjectKind::ConfigMap, "default", "web"), ObjectKey::new(ObjectKind::Secret, "shop", "web"));
    assert_eq!(objects.keys().cloned().collect::<Vec<_>>(), [map.clone(), secret.clone()]);
    let Object::ConfigMap(map) = &objects[&map] else { panic!("a ConfigMap") };
    assert_eq!(map.data, Some([("a".to_owned(), "x".to_owned())].into()));
    assert_eq!(map.binary_data, Some([("b".to_owned(), ByteString(vec![0, 1]))].into()));
    let Object::Secret(secret) = &objects[&secret] else { panic!("a Secret") };
    assert_eq!((secret.immutable, secret.type_.as_deref()), (Some(true), Some("Opaque")));
    let value = |key: &str| secret.data.as_ref().map(|data| data[key].0.clone());
    assert_eq!((value("a"), value("b")), (Some(b"plain".to_vec()), Some(b"wins".to_vec())));
}

#[test]
fn what_is_wrong_is_named_and_no_value_is() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let cases = [
        ("- hunter2\n".to_owned(), "document 1: it is not an object"),
        ("a: [hunter2\n".to_owned(), "yaml: line "),
        (
            format!("{map}---\napiVersion: v1\nkind: Pod\n"),
            "document 2: kind \"Pod\" of version \"v1\" is neither a ConfigMap nor a Secret of version \"v1\"",
        ),
        (format!("{secret}stringDate: {{a: hunter2}}\n"), "document 1: unknown field \"stringDate\""),
        (format!("{secret}data: {{a: hunter2!}}\n"), "document 1: data.a is not base64"),
        (format!("{secret}data: [hunter2]\n"), "document 1: data is not a map"),
        (format!("{secret}stringData: {{a: 5}}\n"), "document 1: stringData.a is not a text"),
        (format!("{secret}immutable: hunter2\n"), "document 1: immutable is not true or false"),
        (
            format!("{map}data: {{a: x}}\nbinaryData: {{a: YQ==}}\n"),
            "document 1: key \"a\" is in data and in binaryData",
        ),
        (format!("{map}data: {{a/b: x}}\n"), "document 1: key \"a/b\" is no valid key"),
        (format!("{map}data: {{..: x}}\n"), "document 1: key \"..\" is no valid key"),
        (format!("{map}---\n{map}"), "document 2: configmap default/a is in this file already"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n".to_owned(), "document 1: metadata.name: "),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n".to_owned(), "document 1: metadata.name: "),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a.b}\n".to_owned(),
            "document 1: metadata.namespace: ",
        ),
        (format!("{map}data: {{a: x}}\ndata: {{a: hunter2}}\n"), "yaml: line 5: key \"data\" already set in map"),
    ];
    for (text, expected) in cases {
        let said = refused(&text);
        assert!(said.starts_with(expected) && !said.contains("hunter2"), "{text}: {said}");
    }
    assert_eq!(objects_of(b"\xff", Readers::Owner), Err(LocalObjectError::NotText));
}

#[test]
fn a_secret_needs_a_file_of_its_owner_alone() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\n";
    let error = objects_of(text.as_bytes(), Readers::Others).expect_err("open");
    assert_eq!(error, LocalObjectError::Document { document: 1, problem: DocumentProblem::Open });
    assert!(
        objects_of(text.replace("Secret", "ConfigMap").replace("stringData", "data").as_bytes(), Readers::Others)
            .is_ok()
    );
}

#[test]
fn an_object_is_as_large_as_in_the_api_at_most() {
    let text = |bytes: usize| {
        let value = "x".repeat(bytes);
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {value}}}\n")
    };
    assert!(read(&text(OBJECT_BYTES_MAX)).is_ok());
    let too_large = LocalObjectError::Document { document: 1, problem: DocumentProblem::TooLarge };
    assert_eq!(read(&text(OBJECT_BYTES_MAX + 1)), Err(too_large));
}

#[test]
fn of_two_files_the_later_counts() {
    let file = |value: &str| {
        read(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {value}}}\n")).expect("good")
    };
    let (first, second) = (file("one"), file("two"));
    let (all, repeated) = together([&first, &second].into_iter());
    let key = ObjectKey::new(ObjectKind::ConfigMap, "default", "a");
    assert_eq!((all.get(&key), repeated), (second.get(&key), [key.clone()].into()));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(apiVersion: v1\nkind: Secret\n)?[-a:*&{}\\[\\]|0-9.e \n#'\"]{0,200}") {
        let _ = read(&text);
    }
}
