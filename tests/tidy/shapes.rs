//! Shapes: how long files and functions are, how many fields structs have and how many variants messages.
//!
//! `cargo test --test tidy -- --nocapture shapes` prints the largest of each. An entry over its bound is in a list,
//! with its size when it was let in and the reason. The lists only shrink: an entry may not grow, and one that is not
//! needed goes.

use crate::settle;
use crate::source::{Source, sources};

/// The most lines of a file.
const FILE_LINES_MAX: usize = 600;
/// The most lines of a function.
const FUNCTION_LINES_MAX: usize = 60;
/// The most lines of a function in tests: a table of cases, or one story told in order, has no parts to name.
const TEST_LINES_MAX: usize = 80;
/// The most fields of a struct of logic or of actors, and of others that decide or act.
const FIELDS_MAX: usize = 15;
/// The most variants of a message.
const VARIANTS_MAX: usize = 10;
/// How many of the largest are printed.
const PRINTED: usize = 8;

/// Where structs have their bound: in wire types and settings the published form decides.
const BOUND_STRUCTS: &[&str] =
    &["src/logic", "src/actors", "src/messages", "src/server", "src/telemetry", "src/launch"];

/// A file, what in it, its size, and why that is so.
type Exception = (&'static str, &'static str, usize, &'static str);

/// Longer files: plain lists that a reader scans and does not follow.
const LONG_FILES: &[Exception] = &[];

/// Longer functions.
const LONG_FUNCTIONS: &[Exception] =
    &[("src/config/tests/defaults.rs", "golden", 103, "the whole default configuration, a line a field")];

/// Larger structs.
const LARGE_STRUCTS: &[Exception] = &[];

/// Messages of more variants.
const LARGE_MESSAGES: &[Exception] = &[
    (
        "src/messages/pods/pod_manager.rs",
        "PodManagerMsg",
        20,
        "one actor decides about pods, so the facts of eleven senders meet in it; messages of its parts are enums already",
    ),
    (
        "src/messages/pods/pod_worker.rs",
        "PodWorkerMsg",
        14,
        "a pod's life takes each fact by itself: enums between would have one variant or two",
    ),
];

/// One measured thing.
struct Shape {
    path: String,
    line: usize,
    name: String,
    size: usize,
    max: usize,
}

/// All things of one kind.
struct Kind {
    what: &'static str,
    unit: &'static str,
    all: Vec<Shape>,
    list: &'static str,
    exceptions: &'static [Exception],
}

impl Kind {
    /// Those over their bounds.
    fn over(&self) -> impl Iterator<Item = &Shape> {
        self.all.iter().filter(|shape| shape.size > shape.max)
    }

    fn print(&mut self) {
        self.all.sort_by(|one, other| (other.size, &one.path).cmp(&(one.size, &other.path)));
        println!("{} {} measured, {} over the bound; the largest:", self.all.len(), self.what, self.over().count());
        for Shape { path, line, name, size, .. } in self.all.iter().take(PRINTED) {
            println!("  {size:4} {} {path}:{line} {name}", self.unit);
        }
    }

    fn complaints(&self) -> Vec<String> {
        let known = |shape: &Shape| {
            self.exceptions.iter().find(|(path, name, ..)| (*path, *name) == (&*shape.path, &*shape.name))
        };
        let new = self.over().filter(|shape| known(shape).is_none_or(|(.., size, _)| shape.size > *size));
        let mut complaints: Vec<String> = new
            .map(|Shape { path, line, name, size, max }| {
                format!("{path}:{line}: {name} has {size} {}, more than {max}", self.unit)
            })
            .collect();
        for (path, name, ..) in self.exceptions {
            if !self.over().any(|shape| (&*shape.path, &*shape.name) == (*path, *name)) {
                complaints.push(format!("{path}: {name} is in {} and needs not be", self.list));
            }
        }
        complaints
    }
}

fn is_bound(source: &Source) -> bool {
    BOUND_STRUCTS.iter().any(|folder| source.path.starts_with(&format!("{folder}/")))
}

/// Everything that has a bound.
fn measured() -> [Kind; 4] {
    let [mut files, mut functions, mut structs, mut messages] = [const { Vec::new() }; 4];
    for source in sources("src").into_iter().chain(sources("tests")) {
        let shape = |line: usize, name: &str, size: usize, max: usize| Shape {
            path: source.path.clone(),
            line,
            name: name.to_owned(),
            size,
            max,
        };
        files.push(shape(1, "", source.lines.len(), FILE_LINES_MAX));
        let in_tests = |line: usize| source.path.starts_with("tests/") || source.is_test(line);
        for (line, name, lines) in source.functions() {
            let max = if in_tests(line) { TEST_LINES_MAX } else { FUNCTION_LINES_MAX };
            functions.push(shape(line, &name, lines, max));
        }
        for (line, name, fields) in
            source.structs().into_iter().filter(|(line, ..)| is_bound(&source) && !in_tests(*line))
        {
            structs.push(shape(line, &name, fields, FIELDS_MAX));
        }
        for (line, name, variants) in source.message_enums() {
            messages.push(shape(line, &name, variants.len(), VARIANTS_MAX));
        }
    }
    [
        Kind { what: "files", unit: "lines", all: files, list: "LONG_FILES", exceptions: LONG_FILES },
        Kind { what: "functions", unit: "lines", all: functions, list: "LONG_FUNCTIONS", exceptions: LONG_FUNCTIONS },
        Kind { what: "structs", unit: "fields", all: structs, list: "LARGE_STRUCTS", exceptions: LARGE_STRUCTS },
        Kind { what: "messages", unit: "variants", all: messages, list: "LARGE_MESSAGES", exceptions: LARGE_MESSAGES },
    ]
}

#[test]
fn shapes() {
    let mut complaints = vec![];
    for mut kind in measured() {
        assert!(kind.all.len() > 20, "{} are found", kind.what);
        kind.print();
        complaints.extend(kind.complaints());
    }
    settle("what is large asks for a name for one of its parts", complaints);
}

#[test]
fn an_exception_neither_grows_nor_outlives_its_need() {
    const EXCEPTIONS: &[Exception] = &[("a.rs", "f", 70, "so"), ("a.rs", "g", 70, "so"), ("a.rs", "h", 70, "so")];
    let shape = |name: &str, size| Shape { path: "a.rs".to_owned(), line: 1, name: name.to_owned(), size, max: 60 };
    let all = vec![shape("f", 70), shape("g", 71), shape("h", 60), shape("i", 61)];
    let kind = Kind { what: "functions", unit: "lines", all, list: "LIST", exceptions: EXCEPTIONS };
    let expected = [
        "a.rs:1: g has 71 lines, more than 60",
        "a.rs:1: i has 61 lines, more than 60",
        "a.rs: h is in LIST and needs not be",
    ];
    assert_eq!(kind.complaints(), expected);
}
