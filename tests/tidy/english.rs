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

/// The most words of a sentence.
const WORDS_MAX: usize = 25;

/// The text of a line that is a comment, or part of a page.
fn said<'a>(path: &str, line: &'a str) -> Option<&'a str> {
    let line = line.trim();
    if path.ends_with(".md") {
        return Some(line);
    }
    line.strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).trim())
}

/// The paragraphs of a text, each with the number of its first line. Headings, tables and code are none.
fn paragraphs(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut open: Option<(usize, String)> = None;
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let words = said(path, line).unwrap_or_default();
        let is_mark = words.starts_with("```");
        is_code ^= is_mark;
        let begins_item =
            words.starts_with("- ") || words.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if is_mark || is_code || words.is_empty() || words.starts_with(['#', '|']) || begins_item {
            found.extend(open.take());
        }
        if !(is_mark || is_code || words.is_empty() || words.starts_with(['#', '|'])) {
            let (_, paragraph) = open.get_or_insert((index + 1, String::new()));
            paragraph.push_str(words);
            paragraph.push(' ');
        }
    }
    found.extend(open);
    found
}

/// The sentences of a paragraph, and the parts between its colons and semicolons.
fn clauses(paragraph: &str) -> Vec<Vec<&str>> {
    let mut found = vec![vec![]];
    for word in paragraph.split_whitespace() {
        found.last_mut().expect("one is open").push(word);
        if word.ends_with(['.', '!', '?', ':', ';']) {
            found.push(vec![]);
        }
    }
    found
}

/// Whether it says that something is told or shown, and not by whom.
fn hides_who_tells(clause: &[&str]) -> bool {
    let bare = |word: &&str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned();
    let words: Vec<String> = clause.iter().map(bare).filter(|word| word != "not").collect();
    let is_form = |word: &str| ["is", "are", "was", "were", "be", "been"].contains(&word);
    let hides = words.windows(2).any(|pair| is_form(&pair[0]) && ["told", "shown"].contains(&pair[1].as_str()));
    hides && !words.iter().any(|word| word == "by")
}

#[test]
fn a_sentence_is_short_and_says_who_tells() {
    let mut complaints = vec![];
    for path in text_files(WRITTEN).iter().filter(|path| path.ends_with(".rs") || path.ends_with(".md")) {
        let Ok(text) = std::fs::read_to_string(top().join(path)) else { continue };
        for (line, paragraph) in paragraphs(path, &text) {
            for clause in clauses(&paragraph) {
                let begin = clause.iter().take(5).copied().collect::<Vec<_>>().join(" ");
                if clause.len() > WORDS_MAX {
                    complaints.push(format!("{path}:{line}: {} words: {begin} …", clause.len()));
                }
                if hides_who_tells(&clause) {
                    complaints.push(format!("{path}:{line}: by whom? {begin} …"));
                }
            }
        }
    }
    settle("a sentence has 25 words at most, and says who tells and shows (STYLE, section 8)", complaints);
}

#[test]
fn long_sentences_and_those_without_an_agent_are_seen() {
    let long = "word ".repeat(26);
    for (path, text, faults) in [
        ("a.rs", format!("/// {long}.\n"), 1),
        ("a.rs", format!("/// {}.\n/// More of it; {}.\n", "word ".repeat(20), "word ".repeat(20)), 0),
        ("a.rs", format!("//! {}\n//! {}.\n", "word ".repeat(13), "word ".repeat(13)), 1),
        ("a.rs", format!("let a = \"{long}\";\n"), 0),
        ("a.rs", format!("//! ```text\n//! {long}\n//! ```\n"), 0),
        ("a.md", format!("| {long} |\n\n# {long}\n"), 0),
        ("a.md", format!("- {}\n- {}\n", "word ".repeat(20), "word ".repeat(20)), 0),
        ("a.rs", concat!("// This is ", "told.\n// That was not ", "shown.\n").to_owned(), 2),
        ("a.rs", concat!("// This is ", "told by an actor.\n").to_owned(), 0),
    ] {
        let found = paragraphs(path, &text);
        let all = found.iter().flat_map(|(_, paragraph)| clauses(paragraph));
        let count = all.filter(|clause| clause.len() > WORDS_MAX || hides_who_tells(clause)).count();
        assert_eq!(count, faults, "{text}");
    }
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
