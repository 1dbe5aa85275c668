//! Output for crafted files, given in pieces of any size.

use proptest::prelude::*;

use super::*;

fn stamp(second: usize) -> String {
    format!("2026-01-02T03:04:{second:02}Z")
}

fn printed(input: &str, options: PrintOptions) -> String {
    pieces(input.as_bytes(), options, usize::MAX, usize::MAX)
}

/// Shows a file as its reader would: in blocks, with what was not taken given again, and at most `room` bytes kept.
fn pieces(input: &[u8], options: PrintOptions, block: usize, room: usize) -> String {
    let mut printer = Printer::new(options);
    let (mut out, mut kept) = (vec![], Vec::new());
    for piece in input.chunks(block.min(input.len().max(1))) {
        kept.extend_from_slice(piece);
        let rest = if kept.len() >= room { Rest::NoRoom } else { Rest::MayGrow };
        let taken = printer.print(&kept, rest, &mut out).expect("a format");
        kept.drain(..taken);
        assert!(
            rest == Rest::MayGrow || kept.is_empty() || !kept.contains(&b'\n'),
            "lines are taken when they are whole"
        );
    }
    printer.print(&kept, Rest::End, &mut out).expect("a format");
    String::from_utf8(out).expect("text")
}

fn since(second: usize) -> PrintOptions {
    let time = super::super::entry::WrittenTime::parse(stamp(second).as_bytes()).expect("a time").time();
    PrintOptions { since: Some(time), ..PrintOptions::default() }
}

/// SRV-35: pieces of a line are joined, and only its beginning has a time.
#[test]
fn partial_lines_are_joined_under_one_time() {
    let (one, two) = (stamp(1), stamp(2));
    let log = format!("{one} stdout P a\n{one} stdout P b\n{one} stdout F c\n{two} stderr F d\n{two} stdout F\x20\n");
    assert_eq!(printed(&log, PrintOptions::default()), "abc\nd\n\n");
    let stamped = PrintOptions { timestamps: true, ..PrintOptions::default() };
    let (one, two) = ("2026-01-02T03:04:01.000000000Z", "2026-01-02T03:04:02.000000000Z");
    assert_eq!(printed(&log, stamped), format!("{one} abc\n{two} d\n{two} \n"));
}

/// SRV-35: The printer gives out Docker's lines as they are.
#[test]
fn dockers_lines_are_shown() {
    let line = |text: &str| format!("{{\"log\":\"{text}\",\"stream\":\"stdout\",\"time\":\"{}\"}}\n", stamp(1));
    let log = line("one\\n") + &line("half ") + "nonsense\n" + &line("whole\\n");
    assert_eq!(printed(&log, PrintOptions::default()), "one\nhalf whole\n");
}

/// SRV-36: bytes are counted with times, and cut in the middle of a line.
#[test]
fn bytes_are_counted_exactly() {
    let log = format!("{0} stdout F one\n{0} stdout F two\n", stamp(1));
    for timestamps in [false, true] {
        let all = printed(&log, PrintOptions { timestamps, ..PrintOptions::default() });
        for bytes in 1..all.len() + 2 {
            let options = PrintOptions { timestamps, bytes_max: Some(bytes as u64), ..PrintOptions::default() };
            assert_eq!(printed(&log, options), &all[..bytes.min(all.len())], "{bytes} bytes");
        }
    }
}

/// SRV-36: what is older is passed over, line by line, and what is exactly as old is shown.
#[test]
fn older_lines_are_passed_over() {
    let log: String = [1, 3, 5, 2, 6].map(|second| format!("{} stdout F {second}\n", stamp(second))).concat();
    assert_eq!(printed(&log, since(3)), "3\n5\n6\n");
    assert_eq!(printed(&log, since(7)), "");
}

/// SRV-36: lines are those of the file; older ones count, strange ones do not.
#[test]
fn lines_are_counted_in_the_file() {
    let log = format!("{0} stdout P a\nstrange\n{0} stdout F b\n{0} stdout F c\n", stamp(1));
    for (lines, expected) in [(0, ""), (1, "a"), (2, "ab\n"), (3, "ab\nc\n"), (9, "ab\nc\n")] {
        let options = PrintOptions { lines_max: Some(lines), ..PrintOptions::default() };
        assert_eq!(printed(&log, options), expected, "{lines} lines");
    }
    assert_eq!(printed(&log, PrintOptions { lines_max: Some(2), ..since(2) }), "");
}

/// SRV-33: one stream; bytes of the other do not count.
#[test]
fn one_stream_can_be_shown() {
    let log = format!("{0} stdout F out\n{0} stderr F err\n{0} stdout F more\n", stamp(1));
    let only = |stream| PrintOptions { stream: Some(stream), bytes_max: Some(5), ..PrintOptions::default() };
    assert_eq!(printed(&log, only(LogStream::Stdout)), "out\nm");
    assert_eq!(printed(&log, only(LogStream::Stderr)), "err\n");
}

/// SRV-35: an unfinished line is a line once nothing follows it, and no line before.
#[test]
fn an_unfinished_line_waits_for_its_end() {
    let mut printer = Printer::new(PrintOptions::default());
    let mut out = vec![];
    let log = format!("{0} stdout F one\n{0} stdout F tw", stamp(1));
    let taken = printer.print(log.as_bytes(), Rest::MayGrow, &mut out).expect("a format");
    assert_eq!((out.as_slice(), &log[taken..]), (b"one\n".as_slice(), &log[log.len() / 2 + 1..]));
    printer.print(&log.as_bytes()[taken..], Rest::End, &mut out).expect("a format");
    assert_eq!(out, b"one\ntw");
}

#[test]
fn a_file_that_is_no_log_is_refused_by_its_first_line() {
    let mut printer = Printer::new(PrintOptions::default());
    let error = printer.print(b"root:*:19000:0:99999:7:::\n", Rest::MayGrow, &mut vec![]).expect_err("no log");
    assert_eq!(
        error.to_string(),
        "failed to get parse function: unsupported log format: \"root:*:19000:0:99999:7:::\\n\""
    );
}

#[test]
fn strange_lines_are_passed_over_and_counted() {
    let log = format!("{0} stdout F a\nstrange\n\n{0} stdout F b\n", stamp(1));
    let mut printer = Printer::new(PrintOptions::default());
    let mut out = vec![];
    printer.print(log.as_bytes(), Rest::End, &mut out).expect("a format");
    assert_eq!((out.as_slice(), printer.strange_lines()), (b"a\nb\n".as_slice(), 2));
}

/// SEC-14: the printer gives out a line of any length with what little it keeps of the line.
#[test]
fn a_line_without_end_is_shown_in_pieces() {
    for (tag, end) in [("F", "\n"), ("P", "")] {
        let log = format!("{0} stdout {tag} {1}\n{0} stdout F next\n", stamp(1), "x".repeat(100_000));
        let expected = format!("{}{end}next\n", "x".repeat(100_000));
        assert_eq!(pieces(log.as_bytes(), PrintOptions::default(), 1000, 4096), expected, "{tag}");
    }
    let strange = format!("{0} stdout F a\n{1}\n{0} stdout F b\n", stamp(1), "x".repeat(100_000));
    assert_eq!(pieces(strange.as_bytes(), PrintOptions::default(), 1000, 4096), "a\nb\n");
}

/// A file of the runtime's, with strange lines in it.
fn a_log() -> impl Strategy<Value = String> {
    let line = (0_usize..60, prop::bool::ANY, "F|P|P:x|F:P", "[ a-z]{0,30}", 0_u8..12);
    prop::collection::vec(line, 0..30).prop_map(|lines| {
        let first = format!("{} stdout F begins\n", stamp(0));
        let rest = lines.into_iter().map(|(second, out, tags, words, strange)| match strange {
            0 => format!("{words}\n"),
            _ => format!("{} {} {tags} {words}\n", stamp(second), if out { "stdout" } else { "stderr" }),
        });
        std::iter::once(first).chain(rest).collect()
    })
}

fn options() -> impl Strategy<Value = PrintOptions> {
    let some = |range: std::ops::Range<u64>| prop::option::of(range);
    let stream = prop::option::of(prop::sample::select(vec![LogStream::Stdout, LogStream::Stderr]));
    (prop::option::of(0_usize..60), prop::bool::ANY, some(1..400), some(0..40), stream).prop_map(
        |(from, timestamps, bytes_max, lines_max, stream)| PrintOptions {
            since: from.and_then(|from| since(from).since),
            timestamps,
            bytes_max,
            lines_max,
            stream,
        },
    )
}

proptest! {
    /// SRV-35: how a file is cut into blocks, and how little room there is, does not show.
    #[test]
    fn blocks_do_not_show(log in a_log(), cut in 0_usize..40, options in options(), block in 1_usize..90) {
        let log = &log[..log.len() - cut.min(log.len() - 34)];
        let whole = printed(log, options);
        prop_assert_eq!(&pieces(log.as_bytes(), options, block, usize::MAX), &whole);
        prop_assert_eq!(&pieces(log.as_bytes(), options, block, 64), &whole, "with little room");
    }

    /// SRV-36: never a byte more than asked for, and a limit only cuts.
    #[test]
    fn a_limit_only_cuts(log in a_log(), options in options()) {
        let limited = printed(&log, options);
        let whole = printed(&log, PrintOptions { bytes_max: None, ..options });
        prop_assert!(whole.starts_with(&limited));
        let least = options.bytes_max.map_or(whole.len(), |bytes| whole.len().min(bytes as usize));
        prop_assert_eq!(limited.len(), least);
    }

    /// SEC-59.
    #[test]
    fn no_bytes_are_too_strange(
        input in prop::collection::vec(prop::num::u8::ANY, 0..300),
        options in options(),
        block in 1_usize..50,
    ) {
        let mut printer = Printer::new(options);
        let (mut out, mut kept) = (vec![], Vec::new());
        for piece in input.chunks(block) {
            kept.extend_from_slice(piece);
            let rest = if kept.len() > 64 { Rest::NoRoom } else { Rest::MayGrow };
            let Ok(taken) = printer.print(&kept, rest, &mut out) else { return Ok(()) };
            kept.drain(..taken);
            prop_assert!(kept.len() <= 64 + 2 * block);
        }
    }
}
