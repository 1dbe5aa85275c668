//! Text is the last step: reasons of Events have one home, and errors of adapters are types.

use super::settle;
use super::source::{sources, text_files, top};

/// The home of Event reasons.
const REASONS: &str = "src/logic/events/reasons.rs";
/// The only file that may tell an Event for a reason that is not in the list: it has what admission refused.
const REFUSALS: &str = "src/actors/pods/pod_manager/admission.rs";

/// How often `Result<_, String>` begins in a line; the two may be nested in other types.
fn texts_for_errors(line: &str) -> usize {
    let starts = line.match_indices("Result<").filter(|(start, _)| !line[..*start].ends_with("io::"));
    starts.filter(|(start, opening)| last_argument(&line[start + opening.len()..]) == Some("String")).count()
}

/// The last of the arguments whose list ends with the first `>` that has no partner.
fn last_argument(arguments: &str) -> Option<&str> {
    let (mut depth, mut begin) = (0_i32, None);
    for (place, character) in arguments.char_indices() {
        match character {
            '<' | '(' | '[' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if arguments[..place].ends_with('-') => {}
            '>' if depth == 0 => return begin.map(|begin: usize| arguments[begin..place].trim()),
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => begin = Some(place + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn errors_of_adapters_are_types() {
    let mut complaints = vec![];
    for source in sources("src/platform") {
        for (number, line) in source.product_lines() {
            let found =
                (0..texts_for_errors(line)).map(|_| format!("{}:{number}: an error that is a text", source.path));
            complaints.extend(found);
        }
    }
    settle("an adapter's error is a small `thiserror` enum; the code that prints it turns it into text", complaints);
}

/// `Ended` is how an operation ended: done, failed or panicked, by names.
#[test]
fn an_outcome_in_a_message_is_one_enum() {
    let nested = |line: &str| line.contains("Result<Result<") || line.contains("Result<Option<Result<");
    let mut complaints = vec![];
    for source in sources("src/messages") {
        // The conversion itself.
        for (number, line) in source.product_lines().filter(|_| source.path != "src/messages/mod.rs") {
            if nested(line) {
                complaints.push(format!("{}:{number}: a result within a result", source.path));
            }
        }
    }
    settle("an operation's outcome is `Ended`, which says what nested results leave to the reader", complaints);
}

#[test]
fn a_text_for_an_error_is_seen_wherever_it_stands() {
    for (line, count) in [
        ("fn a() -> Result<(), String>;", 1),
        ("fn a() -> Result<String, FileError>;", 0),
        ("fn a() -> Result<Option<String>, String> {", 1),
        ("read: impl FnOnce() -> Result<Result<bool, String>, Lost>,", 1),
        ("run: Option<BoxFuture<'static, Result<(A, B), String>>>,", 1),
        ("fn a() -> io::Result<String>;", 0),
        ("fn a() -> Result<dyn Fn() -> String, String>", 1),
    ] {
        assert_eq!(texts_for_errors(line), count, "{line}");
    }
}

#[test]
fn reasons_of_events_have_one_home() {
    let mut complaints = vec![];
    let mut used = String::new();
    for source in sources("src") {
        for (number, line) in source.product_lines().filter(|_| source.path != REASONS) {
            if line.contains("NotAdmitted(") && source.path != REFUSALS {
                complaints.push(format!("{}:{number}: a reason that is not in {REASONS}", source.path));
            }
            if line.contains("EventReason::") {
                used.push_str(line);
                used.push('\n');
            }
        }
    }
    let said = |word: &str| {
        let name = format!("EventReason::{word}");
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
        used.match_indices(&name).any(|(place, _)| ends(&used[place + name.len()..]))
    };
    let all = podwright::logic::events::reasons::EventReason::ALL.iter();
    let unsaid = all.filter(|reason| !said(reason.as_str()));
    complaints.extend(unsaid.map(|reason| format!("{REASONS}: nobody tells an Event for {reason}")));
    settle("an Event's reason is in the list, and each in the list is used", complaints);
}

/// An operation has its deadline by its name: a name that no operation has any more would leave one without.
#[test]
fn deadlines_are_those_of_operations() {
    let table = "src/actors/kit/deadline.rs";
    let read = |path: &str| std::fs::read_to_string(top().join(path)).expect("a file of this repository");
    let paths = text_files(&["src/actors"]).into_iter().filter(|path| path.ends_with(".rs") && path != table);
    let others: String = paths.map(|path| read(&path)).collect();
    let text = read(table);
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start_matches([' ', '(']).strip_prefix('"')?.split('"').next())
        .collect();
    assert!(names.len() >= 40, "{names:?}");
    let unused: Vec<&str> = names.into_iter().filter(|name| !others.contains(&format!("\"{name}\""))).collect();
    assert_eq!(unused, [""; 0], "{table} names operations that no actor starts");
}
