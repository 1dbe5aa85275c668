//! Settings, names, the hosts file, messages and the order of addresses.

use super::message::{Family, Question, Reply};
use super::*;

fn settings(text: &str) -> LookupSettings {
    LookupSettings::parse(text, "node-1.rack.example.com")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn server_at(text: &str, zone: &str) -> NameServer {
    NameServer { ip: ip(text), zone: zone.to_owned() }
}

#[test]
fn a_file_without_words_has_gos_defaults() {
    let empty = settings("");
    assert_eq!(empty.servers, [server_at("127.0.0.1", ""), server_at("::1", "")]);
    assert_eq!((empty.ndots, empty.timeout, empty.attempts), (1, Duration::from_secs(5), 2));
    assert_eq!(empty.searches, ["rack.example.com."]);
    assert!(LookupSettings::parse("", "node-1").searches.is_empty());
}

#[test]
fn a_resolv_conf_is_read_as_go_reads_it() {
    let text = "# comment\n; comment\nnameserver 10.0.0.1\nnameserver nonsense\nnameserver fe80::1%eth0\n \
                nameserver 10.0.0.3\nnameserver 10.0.0.4\ndomain a.example.\nsearch b.example c.example. .\n\
                options ndots:99 timeout:0 attempts:70 rotate single-request use-vc edns0 ndots:x\n";
    let read = settings(text);
    assert_eq!(read.servers, [server_at("10.0.0.1", ""), server_at("fe80::1", "eth0"), server_at("10.0.0.3", "")]);
    assert_eq!(read.searches, ["b.example.", "c.example."]);
    assert_eq!((read.ndots, read.timeout, read.attempts), (15, Duration::from_secs(1), 5));
    assert!(read.rotates && read.by_tcp && read.one_by_one);
    assert_eq!(settings("domain a.example b.example").searches, ["a.example."]);
}

#[test]
fn names_are_tried_in_gos_order() {
    let plain = settings("search a.example b.example");
    let deep = settings("search a.example\noptions ndots:3");
    let long = "x".repeat(63);
    let longest = [long.as_str(), &long, &long, &"y".repeat(55)].join(".");
    let cases: [(&LookupSettings, &str, &[&str]); 8] = [
        (&plain, "web", &["web.a.example.", "web.b.example.", "web."]),
        (&plain, "web.ns", &["web.ns.", "web.ns.a.example.", "web.ns.b.example."]),
        (&deep, "web.ns", &["web.ns.a.example.", "web.ns."]),
        (&deep, "web.ns.", &["web.ns."]),
        (&plain, "a_b-1", &["a_b-1.a.example.", "a_b-1.b.example.", "a_b-1."]),
        (&settings("search ."), "web", &["web.rack.example.com.", "web."]),
        (&LookupSettings::parse("", "node"), "web", &["web."]),
        (&plain, &longest, &[&format!("{longest}.")]),
    ];
    for (settings, name, expected) in cases {
        assert_eq!(settings.candidates(name), expected, "{name}");
    }
}

#[test]
fn a_text_that_is_no_name_is_asked_for_nowhere() {
    let long = "x".repeat(64);
    let longer = ["y".repeat(63), "y".repeat(63), "y".repeat(63), "y".repeat(62)].join(".");
    for text in ["", ".", "a..b", "-a", "a-", "a b", "a/b", "127.1", "1", "bücher.example", &long, &longer, ".a"] {
        assert!(settings("").candidates(text).is_empty(), "{text}");
    }
}

#[test]
fn the_hosts_file_knows_names() {
    let file =
        "127.0.0.1 localhost # web\n::1\tLocalHost ip6\nnonsense web\n10.0.0.7 a web.example. web\n10.0.0.7 web\n";
    let of = |name| hosts::addresses(file, name, 8);
    assert_eq!(of("localhost"), [ip("127.0.0.1"), ip("::1")]);
    assert_eq!(of("WEB."), [ip("10.0.0.7")]);
    assert_eq!(of("web.example"), [ip("10.0.0.7")]);
    assert!(of("nobody").is_empty());
    assert_eq!(hosts::addresses(file, "localhost", 1), [ip("127.0.0.1")]);
}

/// An answer to the question: flags, then records of (type, data) under a name that points to the question.
fn answer(question: &Question, flags: u16, records: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = question.message();
    message.truncate(message.len() - 11);
    message[2..4].copy_from_slice(&flags.to_be_bytes());
    message[6..8].copy_from_slice(&u16::try_from(records.len()).expect("few").to_be_bytes());
    message[10..12].copy_from_slice(&[0, 0]);
    for (kind, data) in records {
        message.extend_from_slice(&[0xc0, 12]);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
        message.extend_from_slice(&u16::try_from(data.len()).expect("short").to_be_bytes());
        message.extend_from_slice(data);
    }
    message
}

#[test]
fn a_question_is_written_as_the_protocol_wants_it() {
    let message = Question::new(0x1234, "web.a.", Family::V6).message();
    let expected = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03web\x01a\x00\x00\x1c\x00\x01\x00\x00\x29\x04\xd0\0\0\0\0\0\0";
    assert_eq!(message, expected);
}

#[test]
fn an_answer_is_read_for_what_it_says() {
    let (four, six) = (Question::new(7, "web.", Family::V4), Question::new(7, "web.", Family::V6));
    let alias: (u16, &[u8]) = (5, b"\x01b\x00");
    let v4: (u16, &[u8]) = (1, &[10, 0, 0, 7]);
    let v6: (u16, &[u8]) = (28, &[0; 16]);
    let read = |question: &Question, message: &[u8]| question.reply(message, 2);
    assert_eq!(read(&four, &answer(&four, 0x8180, &[alias, v4, v6])), Reply::Addresses(vec![ip("10.0.0.7")]));
    assert_eq!(read(&six, &answer(&six, 0x8180, &[alias, v4, v6])), Reply::Addresses(vec![ip("::")]));
    assert_eq!(read(&four, &answer(&four, 0x8180, &[v4; 5])), Reply::Addresses(vec![ip("10.0.0.7"); 2]));
    assert_eq!(read(&four, &answer(&four, 0x8180, &[])), Reply::Addresses(vec![]));
    assert_eq!(read(&four, &answer(&four, 0x8000, &[])), Reply::Failed, "a referral");
    assert_eq!(read(&four, &answer(&four, 0x8183, &[])), Reply::NoSuchName);
    assert_eq!(read(&four, &answer(&four, 0x8182, &[])), Reply::Failed);
    assert_eq!(read(&four, &answer(&four, 0x8380, &[v4])), Reply::Cut);
    assert_eq!(read(&four, &answer(&four, 0x8180, &[(1, &[1, 2, 3])])), Reply::Failed, "an address of three bytes");
    let mut short = answer(&four, 0x8180, &[v4]);
    short.pop();
    assert_eq!(read(&four, &short), Reply::Failed);
    // Messages for somebody else, or from somebody else.
    for foreign in [
        answer(&four, 0x0180, &[v4]),
        answer(&Question::new(8, "web.", Family::V4), 0x8180, &[v4]),
        answer(&Question::new(7, "wob.", Family::V4), 0x8180, &[v4]),
        answer(&six, 0x8180, &[v4]),
        vec![],
        vec![0; 12],
    ] {
        assert_eq!(read(&four, &foreign), Reply::Foreign, "{foreign:?}");
    }
    assert_eq!(
        read(&four, &answer(&Question::new(7, "WEB.", Family::V4), 0x8180, &[v4])),
        read(&four, &answer(&four, 0x8180, &[v4]))
    );
}

proptest::proptest! {
    #[test]
    fn any_answer_is_judged(tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80), count in 0..9u16) {
        let question = Question::new(7, "web.", Family::V4);
        let mut message = answer(&question, 0x8180, &[]);
        message[6..8].copy_from_slice(&count.to_be_bytes());
        message.extend_from_slice(&tail);
        match question.reply(&message, 4) {
            Reply::Addresses(found) => proptest::prop_assert!(found.len() <= 4),
            other => proptest::prop_assert_eq!(other, Reply::Failed),
        }
        proptest::prop_assert_eq!(question.reply(&tail, 4), Reply::Foreign);
    }
}

#[test]
fn addresses_that_can_be_reached_come_first() {
    let found =
        |pairs: &[(&str, Option<&str>)]| in_order(pairs.iter().map(|(to, from)| (ip(to), from.map(ip))).collect());
    let (four, six) = (("10.0.0.7", Some("10.0.0.1")), ("2001:db8::7", Some("2001:db8::1")));
    assert_eq!(found(&[four, six]), [ip("2001:db8::7"), ip("10.0.0.7")]);
    assert_eq!(found(&[("2001:db8::7", None), four]), [ip("10.0.0.7"), ip("2001:db8::7")]);
    assert_eq!(found(&[("fd00::7", Some("fd00::1")), four]), [ip("10.0.0.7"), ip("fd00::7")]);
    assert_eq!(found(&[("2001:db8::7", Some("fd00::1")), four]), [ip("10.0.0.7"), ip("2001:db8::7")]);
    assert_eq!(found(&[("127.0.0.1", Some("127.0.0.1")), ("::1", Some("::1"))]), [ip("::1"), ip("127.0.0.1")]);
    let same = [("10.0.0.9", Some("10.0.0.1")), four];
    assert_eq!(found(&same), [ip("10.0.0.9"), ip("10.0.0.7")], "the server's order stays");
}
