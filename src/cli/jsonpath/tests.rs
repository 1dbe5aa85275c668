//! Tests of templates, after kubectl's own documentation and behaviour.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn document() -> Value {
    json!({
        "kind": "List",
        "items": [
            {
                "kind": "None",
                "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
                "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
            },
            {
                "kind": "None",
                "metadata": {"name": "127.0.0.2"},
                "status": {
                    "capacity": {"cpu": "8"},
                    "addresses": [
                        {"type": "LegacyHostIP", "address": "127.0.0.2"},
                        {"type": "another", "address": "127.0.0.3"},
                    ],
                },
            },
        ],
        "users": [
            {"name": "myself", "user": {}, "age": 7, "load": 61.0},
            {"name": "e2e", "user": {"username": "admin", "password": "secret"}, "age": 70, "load": 0.25, "at": null},
        ],
    })
}

fn shows(template: &str) -> String {
    let read = Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
    read.render(&document()).unwrap_or_else(|error| panic!("{template}: {error}"))
}

#[test]
fn templates_of_kubectls_documentation_print_what_they_say() {
    for (template, expected) in [
        ("kind is {.kind}", "kind is List"),
        ("the object is {['kind']}", "the object is List"),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.users[0].name}", "myself"),
        ("{.items[*]['metadata.name', 'status.capacity']}", r#"127.0.0.1 127.0.0.2 {"cpu":"4"} {"cpu":"8"}"#),
        ("{.items[*]['metadata.labels', 'kind']}", r#"{"kubernetes.io/hostname":"127.0.0.1"} None None"#),
        (r#"{.users[?(@.name=="e2e")].user.password}"#, "secret"),
        (
            r#"{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}"#,
            r#"[127.0.0.1, {"cpu":"4"}] [127.0.0.2, {"cpu":"8"}] "#,
        ),
        (r#"{range .items[*]}{.metadata.name}{"\t"}{end}"#, "127.0.0.1\t127.0.0.2\t"),
        (r"{.items[*].metadata.labels.kubernetes\.io/hostname}", "127.0.0.1"),
        ("{.items[*].metadata.labels['kubernetes.io/hostname']}", "127.0.0.1"),
        (r"{.items[*].metadata.labels['kubernetes\.io/hostname']}", "127.0.0.1"),
        ("{@.kind} {$.kind} {.kind}", "List List List"),
        ("{.users[-1].name} {.users[-1:].name}", "e2e e2e"),
        ("{.users[0,1].name} {.users[0:2:2].name} {.users[::1].name}", "myself e2e myself myself e2e"),
        ("{.users[?(@.age > 7)].name}{.users[?(@.age <= 7.0)].name}", "e2emyself"),
        ("{.users[?(@.user.username)].name} {.users[?(@.age != 7)].name}", "e2e e2e"),
        (r#"{.items[?(@.status.addresses[0].address == "127.0.0.2")].metadata.name}"#, "127.0.0.2"),
        (r#"{.items[*].status.addresses[?(@.type=='another')].address}"#, "127.0.0.3"),
        ("{range .items[*]}{range .status.addresses[*]}{.address},{end};{end}", "127.0.0.1,;127.0.0.2,127.0.0.3,;"),
        ("{range .users[*]}{.name}", "myselfe2e"),
        ("{.users[*].load} {.users[1].at} {.users[0].at}", "61 0.25 <nil> "),
        ("{.users[0].*}", "7 61 myself {}"),
        ("no braces } at all", "no braces } at all"),
        ("{.nothing.below[3]} {.users[*].nothing}", " "),
        ("", ""),
        ("{.users[?(@.user.username == \"ad\\\"min\")].name}{7}{true}{\"a b\"}", "7truea b"),
    ] {
        assert_eq!(shows(template), expected, "{template}");
    }
}

#[test]
fn an_array_at_the_top_has_elements_too() {
    let pods = json!([{"name": "web"}, {"name": "db"}]);
    for (template, expected) in [
        ("{[*].name}", "web db"),
        ("{.[1].name}", "db"),
        (r#"{range [*]}{.name}{"\n"}{end}"#, "web\ndb\n"),
        (r#"{[?(@.name=="db")].name}"#, "db"),
        ("{.}", r#"[{"name":"web"},{"name":"db"}]"#),
    ] {
        assert_eq!(Template::parse(template).expect("good").render(&pods).expect("fits"), expected, "{template}");
    }
}

#[test]
fn a_fault_is_named_with_its_place() {
    for (template, expected) in [
        ("{.kind", "jsonpath, at character 1: unclosed action"),
        ("ab{.users[0.name}", "jsonpath, at character 10: unterminated array"),
        ("{.users[a]}", "jsonpath, at character 9: invalid array index a"),
        ("{.users[]}", "jsonpath, at character 9: invalid array index "),
        ("{.users[0:1:0]}", "jsonpath, at character 9: step must be > 0"),
        ("{.users[?(@.name == \"e2e)]}", "jsonpath, at character 21: unterminated quoted string"),
        ("{.users[?(@.name]}", "jsonpath, at character 8: unterminated filter"),
        ("{.users[?(@.a && @.b)]}", "jsonpath, at character 15: unrecognized character in action: '&'"),
        ("{.users}{end}", "jsonpath, at character 9: not in range, nothing to end"),
        ("{hello}", "jsonpath, at character 2: unrecognized identifier hello"),
        ("{1.2.3}", "jsonpath, at character 2: cannot parse number 1.2.3"),
    ] {
        let error = Template::parse(template).expect_err(template);
        assert_eq!(error.to_string(), expected, "{template}");
    }
    let deep = "{range .a}".repeat(parse::DEPTH_MAX + 1);
    assert!(Template::parse(&deep).expect_err("deep").to_string().contains("nested deeper than 16"));
    let deep = format!("{{{}{}}}", "[?(".repeat(40), ")]".repeat(40));
    assert!(Template::parse(&deep).expect_err("deep").to_string().contains("nested deeper than 16"));
    let long = "x".repeat(parse::CHARACTERS_MAX + 1);
    assert!(Template::parse(&long).expect_err("long").to_string().contains("longer than 16384 characters"));
}

#[test]
fn a_document_that_does_not_fit_is_named_with_the_place_that_wants_it() {
    for (template, expected) in [
        ("{.users[2].name}", "jsonpath, at character 9: array index out of bounds: index 2, length 2"),
        ("{.users[0:3]}", "jsonpath, at character 9: array index out of bounds: index 2, length 2"),
        ("{.users[1:0]}", "jsonpath, at character 9: starting index 1 is greater than ending index 0"),
        ("{.items[0].metadata[*]}", "jsonpath, at character 21: a map is not array or slice"),
        ("{.kind[?(@.x)]}", "jsonpath, at character 7: a string is not array or slice"),
        ("{.users[?(@.* == 1)]}", "jsonpath, at character 8: can only compare one element at a time"),
    ] {
        let error = Template::parse(template).expect("good").render(&document()).expect_err(template);
        assert_eq!(error.to_string(), expected, "{template}");
    }
}

/// Each `..` multiplies what the one before it found.
#[test]
fn a_template_that_multiplies_ends() {
    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let error = Template::parse(&format!("{{{}}}", "..".repeat(40))).expect("good").render(&deep);
    assert!(error.expect_err("too much").to_string().contains("it finds too much"));
}

#[test]
fn fractions_are_written_as_go_writes_them() {
    for (number, expected) in
        [(61.0, "61"), (0.5, "0.5"), (1e-5, "1e-05"), (1.5e21, "1.5e+21"), (123_456_789.0, "123456789")]
    {
        let shown = Template::parse("{.}").expect("good").render(&json!(number)).expect("fits");
        assert_eq!(shown, expected);
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// For any text that a user types and any answer of the agent.
    #[test]
    fn no_template_and_no_document_is_a_panic(template: String, document in any_value()) {
        if let Ok(read) = Template::parse(&template) {
            let _ = read.render(&document);
        }
    }

    /// The same of what looks like a template.
    #[test]
    fn nothing_like_a_template_is_a_panic(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", ".", "..", "[", "]", "[?(", ")]", "@", "$", "*", "a", "b", "range ", "end", "'", "\"", "\\",
                ":", ",", "-1", "0", "9223372036854775807", "-9223372036854775808", "==", "<", " ", "true", "ü",
            ]),
            0..24,
        ),
        document in any_value(),
    ) {
        if let Ok(read) = Template::parse(&pieces.concat()) {
            let _ = read.render(&document);
        }
    }

    /// Text without braces stands for itself.
    #[test]
    fn text_is_left_alone(text in "[^{]{0,40}", document in any_value()) {
        prop_assert_eq!(Template::parse(&text).expect("text").render(&document).expect("text"), text);
    }
}
