//! English: rules of sentences in comments and pages that a program can see.

use crate::settle;
use crate::source::{text_files, top};

/// Words that begin a sentence without naming its subject. `Whether` is none of them.
const HEADLESS: &[&str] = &["What", "Whatever", "Who", "Whoever", "Whose", "Whom", "Whichever"];
/// Folders whose files have comments, or are pages.
const WRITTEN: &[&str] = &["src", "tests", "proto", "docs", "deploy", "examples", "scripts", "fuzz/fuzz_targets"];

/// The comment in a line, or the line of a page; `None` where there is no sentence of ours. Headings are no sentences.
fn sentences<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    let after = |mark: &str| {
        let mut starts = line.match_indices(mark).map(|(at, _)| at);
        starts.find(|at| line[..*at].ends_with(char::is_whitespace) || *at == 0).map(|at| &line[at + mark.len()..])
    };
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending {
        "rs" | "proto" => after("//").map(|text| text.trim_start_matches(['/', '!'])),
        "md" => (!line.starts_with('#')).then_some(line),
        "json" => None,
        _ => after("# "),
    }
}

/// The words of a text that begin a sentence without naming its subject.
fn headless(text: &str) -> Vec<&str> {
    let text = text.trim_start_matches([' ', '-', '*', '|', '.']);
    let text = text.trim_start_matches(|it: char| it.is_ascii_digit()).trim_start_matches(['.', ' ', '*']);
    let mut found = vec![];
    let mut begins = true;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(['*', '(', ')', '"', '`', ',']);
        if begins && HEADLESS.contains(&bare) {
            found.push(bare);
        }
        begins = word.trim_end_matches(['*', ')', '"', '`']).ends_with(['.', '!', '?', ':', ';']);
    }
    found
}

#[test]
fn a_sentence_names_its_subject() {
    let mut complaints = vec![];
    let mut looked_at = 0;
    for path in text_files(WRITTEN) {
        let Ok(text) = std::fs::read_to_string(top().join(&path)) else { continue };
        for (index, line) in text.lines().enumerate() {
            let Some(text) = sentences(&path, line) else { continue };
            looked_at += 1;
            complaints.extend(headless(text).iter().map(|word| format!("{path}:{}: {word} …", index + 1)));
        }
    }
    assert!(looked_at > 10_000, "comments are found");
    settle("a sentence begins with its subject, not with a headless relative (STYLE, section 8)", complaints);
}

#[test]
fn a_headless_sentence_is_seen_wherever_it_begins() {
    // The marks of comments are put before the words here, so that this file may hold them.
    for (path, mark, text, count) in [
        ("a.rs", "///", "What is kept.", 1),
        ("a.rs", "//!", "One thing. Who asks again gets another.", 1),
        ("a.rs", "    x(); //", concat!("Whoever comes. ", "Whatever it is"), 2),
        ("a.rs", "//", "Says what is kept, and by whom. Whether it is so.", 0),
        ("a.rs", "x(", "What);", 0),
        ("a.proto", "  //", "Whose namespace.", 1),
        ("a.sh", "#", "(Really.) What is left.", 1),
        ("Makefile", "#", "1. **Who** asks.", 1),
        ("a.md", "-", "What is kept.", 1),
        ("a.md", "12.", "Keeps `a`. What is not kept goes.", 1),
        ("a.md", "##", "What works", 0),
        ("a.json", "#", "What", 0),
    ] {
        let line = format!("{mark} {text}");
        assert_eq!(sentences(path, &line).map_or(0, |text| headless(text).len()), count, "{path}: {line}");
    }
}
