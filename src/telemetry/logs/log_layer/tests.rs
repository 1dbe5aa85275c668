//! Tests of the log's lines.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tracing_subscriber::prelude::*;

use super::super::log_filter::LogFilter;
use super::*;

/// The log of a piece of code in a format.
fn logged(format: Format, verbosity: u32, code: impl FnOnce()) -> String {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let layer = LogLayer::new(format, Box::new(move |line, _| sink.lock().expect("whole").extend_from_slice(line)));
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(LogFilter::new(verbosity, &[])));
    tracing::subscriber::with_default(subscriber, code);
    let seen = seen.lock().expect("whole").clone();
    String::from_utf8(seen).expect("text")
}

fn some_lines() {
    tracing::info!(target: "podwright::x", pod = "shop/web", restarts = 3, ready = true, "pod \"changed\"");
    tracing::error!(target: "podwright::x", error = %"no\u{1b} way", output = "one\ntwo\u{1b}[2J", "sync failed");
    tracing::debug!(target: "podwright::x", "detail");
    tracing::error!(target: "ractor", "noise");
    let _span = tracing::info_span!(target: "podwright::turn", "turn").entered();
}

/// OBS-31, CFG-46.
#[test]
fn text_lines_are_klogs() {
    let text = logged(Format::Text, 0, some_lines);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    let (head, rest) = lines[0].split_once("] ").expect("a header");
    assert_eq!(rest, r#""pod \"changed\"" pod="shop/web" restarts=3 ready=true"#);
    let shape: String =
        head.chars().map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
    let (date, place) = shape.split_at(21);
    assert_eq!(date, "I0000 00:00:00.000000");
    let process = format!("{:>7}", std::process::id());
    assert_eq!(head[21..].trim_start_matches(' ').split(' ').next(), Some(process.trim_start()));
    assert!(place.ends_with(" tests.rs:00"), "{place}");
    assert!(lines[1].starts_with('E'));
    assert!(lines[1].ends_with(r#"] "sync failed" err="no\x1b way" output=<"#), "{}", lines[1]);
    assert_eq!(lines[2..], ["\tone", "\ttwo[2J", " >"]);
}

/// Spans are for the export alone: without one they are never made, whatever the verbosity.
#[test]
fn spans_cost_nothing_where_nothing_is_exported() {
    let text = logged(Format::Text, 10, || {
        assert!(tracing::info_span!(target: "podwright::turn", "turn").is_disabled());
        assert!(tracing::error_span!("other").is_disabled());
    });
    assert_eq!(text, "");
}

/// OBS-32, CFG-46.
#[test]
fn json_lines_are_zaps() {
    let text = logged(Format::Json, 4, some_lines);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(
        (&lines[0]["msg"], &lines[0]["v"], &lines[0]["restarts"]),
        (&"pod \"changed\"".into(), &0.into(), &3.into())
    );
    assert!(lines[0]["caller"].as_str().is_some_and(|caller| caller.starts_with("log_layer/tests.rs:")));
    assert!(lines[0]["ts"].as_f64().is_some_and(|millis| millis > 1e12), "milliseconds since the epoch");
    assert_eq!((&lines[1]["err"], lines[1].get("v")), (&"no\u{1b} way".into(), None));
    assert_eq!((&lines[2]["msg"], &lines[2]["v"]), (&"detail".into(), &4.into()));
}

proptest! {
    /// The log of any pod's doings stays one line, or a block no line of which can pose as another line's head.
    #[test]
    fn no_value_can_forge_a_line(value: String, message: String) {
        let text = logged(Format::Text, 0, || tracing::info!(target: "podwright::x", value = value.as_str(), "{message}"));
        let mut lines = text.lines();
        prop_assert!(lines.next().is_some_and(|line| line.starts_with('I')));
        prop_assert!(lines.all(|line| line.starts_with('\t') || line == " >"));
        let text = logged(Format::Json, 0, || tracing::info!(target: "podwright::x", value = value.as_str(), "{message}"));
        prop_assert_eq!(text.matches('\n').count(), 1);
        let parsed: Value = serde_json::from_str(&text).expect("an object");
        prop_assert_eq!(parsed["value"].as_str(), Some(value.as_str()));
    }
}
