//! Lines as runtimes write them, and as nobody should.

use super::*;

fn printed(text: &str) -> Option<String> {
    let mut out = vec![];
    WrittenTime::parse(text.as_bytes())?.print(&mut out);
    Some(String::from_utf8(out).expect("text"))
}

/// SRV-35: what upstream takes for a time, and how it prints it.
#[test]
fn times_are_printed_in_a_fixed_width() {
    for (text, expected) in [
        ("2026-01-02T03:04:05.123456789Z", Some("2026-01-02T03:04:05.123456789Z")),
        ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05.000000000Z")),
        ("2026-01-02T03:04:05.1Z", Some("2026-01-02T03:04:05.100000000Z")),
        ("2026-01-02T03:04:05,02Z", Some("2026-01-02T03:04:05.020000000Z")),
        ("2026-01-02T03:04:05.1234567899Z", Some("2026-01-02T03:04:05.123456789Z")),
        ("2026-01-02T03:04:05.5+02:00", Some("2026-01-02T03:04:05.500000000+02:00")),
        ("2026-01-02T03:04:05.5-07:30", Some("2026-01-02T03:04:05.500000000-07:30")),
        ("2026-01-02T03:04:05+00:00", Some("2026-01-02T03:04:05.000000000Z")),
        ("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00.000000000Z")),
        ("2026-02-29T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-00-01T00:00:00Z", None),
        ("2026-01-00T00:00:00Z", None),
        ("2026-04-31T00:00:00Z", None),
        ("2026-01-02T24:00:00Z", None),
        ("2026-01-02T00:60:00Z", None),
        ("2026-01-02T00:00:60Z", None),
        ("2026-01-02 03:04:05Z", None),
        ("2026-01-02T03:04:05", None),
        ("2026-01-02T03:04:05.Z", None),
        ("2026-01-02T03:04:05Zx", None),
        ("2026-01-02T03:04:05+0200", None),
        ("2026-01-02T03:04:05+25:00", None),
        ("yesterday", None),
        ("", None),
    ] {
        assert_eq!(printed(text).as_deref(), expected, "{text:?}");
    }
}

#[test]
fn a_line_of_the_runtime_is_read() {
    type Case<'a> = (&'a str, Option<(LogStream, bool, &'a str)>);
    let cases: &[Case<'_>] = &[
        ("2026-01-02T03:04:05Z stdout F some words\n", Some((LogStream::Stdout, false, "some words\n"))),
        ("2026-01-02T03:04:05Z stderr P half \n", Some((LogStream::Stderr, true, "half "))),
        ("2026-01-02T03:04:05Z stderr P:X:F half\n", Some((LogStream::Stderr, true, "half"))),
        ("2026-01-02T03:04:05Z stdout F:P whole\n", Some((LogStream::Stdout, false, "whole\n"))),
        ("2026-01-02T03:04:05Z stdout X whole\n", Some((LogStream::Stdout, false, "whole\n"))),
        ("2026-01-02T03:04:05Z stdout F \n", Some((LogStream::Stdout, false, "\n"))),
        ("2026-01-02T03:04:05Z stdout F unfinished", Some((LogStream::Stdout, false, "unfinished"))),
        ("2026-01-02T03:04:05Z stdout F\n", None),
        ("2026-01-02T03:04:05Z stdnone F words\n", None),
        ("yesterday stdout F words\n", None),
        ("\n", None),
        ("", None),
    ];
    for (line, expected) in cases {
        let found = LogFormat::Cri.parse(line.as_bytes());
        let found =
            found.as_ref().map(|one| (one.stream, one.partial, std::str::from_utf8(&one.content).expect("text")));
        assert_eq!(found, *expected, "{line:?}");
    }
}

#[test]
fn a_line_of_dockers_is_read() {
    let parse = |line: &str| LogFormat::Json.parse(line.as_bytes()).map(|one| (one.stream, one.content.into_owned()));
    let line = r#"{"log":"a \"word\"\n","stream":"stderr","time":"2026-01-02T03:04:05.5Z","attrs":{"x":1}}"#;
    assert_eq!(parse(&format!("{line}\n")), Some((LogStream::Stderr, b"a \"word\"\n".to_vec())));
    assert_eq!(parse(r#"{"stream":"stdout"}"#), Some((LogStream::Stdout, vec![])));
    for strange in [r#"{"log":"x","stream":"other"}"#, r#"{"log":"x","stream":"stdout","time":"x"}"#, "{", "[]", ""] {
        assert_eq!(parse(strange), None, "{strange}");
    }
    let broken = b"{\"log\":\"\xff\",\"stream\":\"stdout\",\"time\":\"2026-01-02T03:04:05Z\"}\n";
    assert_eq!(LogFormat::Json.parse(broken).expect("read").content.as_ref(), "\u{fffd}".as_bytes());
}

#[test]
fn the_format_is_told_by_the_line() {
    assert_eq!(LogFormat::of(b"2026-01-02T03:04:05Z stdout F x\n"), Some(LogFormat::Cri));
    assert_eq!(LogFormat::of(br#"{"log":"x","stream":"stdout","time":"2026-01-02T03:04:05Z"}"#), Some(LogFormat::Json));
    assert_eq!(LogFormat::of(b"root:x:0:0:root:/root:/bin/sh\n"), None);
}

proptest::proptest! {
    #[test]
    fn a_time_is_where_the_calendar_has_it(seconds in -62_135_596_800_i64..253_402_300_800, nanos in 0_u32..1_000_000_000) {
        let stamp = jiff::Timestamp::new(seconds, 0).expect("a time");
        let text = format!("{}.{nanos:09}Z", stamp.strftime("%Y-%m-%dT%H:%M:%S"));
        let read = WrittenTime::parse(text.as_bytes()).expect("a time");
        proptest::prop_assert_eq!(read.time(), LogTime { seconds, nanos });
        proptest::prop_assert_eq!(printed(&text), Some(text));
    }

    #[test]
    fn zones_are_taken_off(hours in 0_i64..24, minutes in 0_i64..60, east in proptest::bool::ANY) {
        let text = format!("2026-06-07T08:09:10{}{hours:02}:{minutes:02}", if east { '+' } else { '-' });
        let read = WrittenTime::parse(text.as_bytes()).expect("a time").time();
        let utc = WrittenTime::parse(b"2026-06-07T08:09:10Z").expect("a time").time();
        let east = if east { 1 } else { -1 };
        proptest::prop_assert_eq!(read.seconds, utc.seconds - east * (hours * 3600 + minutes * 60));
    }

    /// SEC-59.
    #[test]
    fn no_line_is_too_strange(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = LogFormat::of(&line);
    }
}
