//! Source files as tidy reads them: lines, the same with comments and strings blanked, and which of them are tests.

use std::path::{Path, PathBuf};

/// A name, with the number of the line that it is in.
pub type Named = (usize, String);

/// One Rust file.
pub struct Source {
    /// From the top of the repository.
    pub path: String,
    /// As written.
    pub lines: Vec<String>,
    /// With comments, strings and characters blanked; as many lines.
    code: Vec<String>,
    /// Whether the line belongs to tests.
    is_test: Vec<bool>,
}

/// The top of the repository.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below these folders, and those of text at the top, in order.
pub fn text_files(folders: &[&str]) -> Vec<String> {
    let mut found = vec![];
    for folder in folders {
        walk(&top().join(folder), &mut found);
    }
    let listed = std::fs::read_dir(top()).expect("the top can be listed").flatten().map(|entry| entry.path());
    found.extend(listed.filter(|path| path.extension().is_some_and(|end| end == "md" || end == "toml")));
    let relative = |path: PathBuf| path.strip_prefix(top()).ok().map(|path| path.to_string_lossy().into_owned());
    let mut names: Vec<String> = found.into_iter().filter_map(relative).collect();
    names.sort();
    names
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

/// The Rust files below a folder, in order.
pub fn sources(folder: &str) -> Vec<Source> {
    let mut paths = vec![];
    walk(&top().join(folder), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    paths.sort();
    assert!(!paths.is_empty(), "{folder} holds no source");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file is text");
        let name = path.strip_prefix(top()).expect("found below the top").to_string_lossy().into_owned();
        Source::new(name, &text)
    };
    paths.into_iter().map(read).collect()
}

impl Source {
    /// A file of this path and text.
    pub fn new(path: String, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let code: Vec<String> = blanked(text).lines().map(str::to_owned).collect();
        let name = path.rsplit('/').next().unwrap_or_default();
        let whole = path.split('/').any(|part| part == "tests" || part == "testing")
            || name == "tests.rs"
            || name == "testing.rs";
        let is_test = if whole { vec![true; lines.len()] } else { test_lines(&code) };
        Self { path, lines, code, is_test }
    }

    /// Code that is not the tests', by line number from 1.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().zip(&self.is_test).enumerate();
        lines.filter(|(_, (_, is_test))| !**is_test).map(|(index, (line, _))| (index + 1, line.as_str()))
    }

    /// Code that is not the tests', in one piece, with as many lines as the file.
    pub fn product_text(&self) -> String {
        let lines =
            self.code.iter().zip(&self.is_test).map(|(line, is_test)| if *is_test { "" } else { line.as_str() });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether a line, by its number, belongs to tests.
    pub fn is_test(&self, number: usize) -> bool {
        self.is_test[number - 1]
    }

    /// Structs with named fields: the line and the name of each, and how many fields it has.
    pub fn structs(&self) -> Vec<(usize, String, usize)> {
        let mut found = vec![];
        for (index, line) in self.code.iter().enumerate() {
            let words: Vec<&str> = identifiers(line).collect();
            let is_item = line.trim_start().starts_with("pub") || line.trim_start().starts_with("struct ");
            let Some(place) = words.iter().position(|word| *word == "struct").filter(|_| is_item) else { continue };
            let (Some(name), Some(end)) = (words.get(place + 1), self.block_end(index)) else { continue };
            let (mut fields, mut depth) = (0, 0_i32);
            for line in &self.code[index..end] {
                fields += usize::from(depth == 1 && is_field(line));
                depth += balance(line, "{([", "})]");
            }
            found.push((index + 1, (*name).to_owned(), fields));
        }
        found
    }

    /// Functions with a body: the line they begin on, their names, and how many lines they take.
    pub fn functions(&self) -> Vec<(usize, String, usize)> {
        let mut found = vec![];
        for (index, line) in self.code.iter().enumerate() {
            let words: Vec<&str> = identifiers(line).collect();
            let is_item = line.trim_start().chars().next().is_some_and(char::is_alphabetic);
            let Some(place) = words.iter().position(|word| *word == "fn").filter(|_| is_item) else { continue };
            let (Some(name), Some(end)) = (words.get(place + 1), self.block_end(index)) else { continue };
            found.push((index + 1, (*name).to_owned(), end - index + 1));
        }
        found
    }

    /// Variants of enums whose names end in `Msg`: the line and the name of each.
    pub fn variants_of_messages(&self) -> Vec<(usize, String)> {
        self.message_enums().into_iter().flat_map(|(_, _, variants)| variants).collect()
    }

    /// Enums whose names end in `Msg`: the line, the name and the variants of each.
    pub fn message_enums(&self) -> Vec<(usize, String, Vec<Named>)> {
        let mut found = vec![];
        for (index, line) in self.code.iter().enumerate() {
            let words: Vec<&str> = identifiers(line).collect();
            let is_message = matches!(words.as_slice(), ["pub", "enum", name, ..] if name.ends_with("Msg"));
            let Some(end) = self.block_end(index).filter(|_| is_message) else { continue };
            let (mut depth, mut variants) = (0_i32, vec![]);
            for (inside, line) in self.code.iter().enumerate().take(end).skip(index) {
                let first = line.trim_start().chars().next();
                if depth == 1 && first.is_some_and(char::is_uppercase) {
                    variants.push((inside + 1, identifiers(line).next().unwrap_or_default().to_owned()));
                }
                depth += balance(line, "{([", "})]");
            }
            found.push((index + 1, words[2].to_owned(), variants));
        }
        found
    }

    /// The doc comment above a line.
    pub fn doc_before(&self, number: usize) -> Vec<&str> {
        let above = self.lines[..number - 1].iter().rev().map(|line| line.trim());
        let attached = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
        let mut doc: Vec<&str> = attached.filter(|line| line.starts_with("///")).collect();
        doc.reverse();
        doc
    }

    /// `allow` and `expect` attributes, each with its whole text.
    pub fn lint_exceptions(&self) -> Vec<(usize, String)> {
        let mut found = vec![];
        for (index, line) in self.code.iter().enumerate() {
            let line = line.trim_start();
            let begins =
                ["#[allow(", "#![allow(", "#[expect(", "#![expect("].iter().any(|start| line.starts_with(start));
            let mut depth = 0;
            let closes = |line: &String| {
                depth += balance(line, "[", "]");
                depth <= 0
            };
            if let Some(length) = self.code[index..].iter().position(closes).filter(|_| begins) {
                found.push((index + 1, self.code[index..=index + length].join(" ").trim().to_owned()));
            }
        }
        found
    }

    /// The index of the line that closes the first block opened at or after this line; none for a bare declaration.
    fn block_end(&self, start: usize) -> Option<usize> {
        let (mut depth, mut nested) = (0_i32, 0_i32);
        for (index, line) in self.code.iter().enumerate().skip(start) {
            for character in line.chars() {
                match character {
                    '(' | '[' => nested += 1,
                    ')' | ']' => nested -= 1,
                    ';' if depth == 0 && nested == 0 => return None,
                    '{' => depth += 1,
                    '}' => {
                        depth -= 1;
                        if depth <= 0 {
                            return Some(index);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }
}

/// Whether a line begins with the name of a field and a colon.
fn is_field(line: &str) -> bool {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub").map(str::trim_start) {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, rest)| rest.trim_start()),
        Some(rest) => rest,
        None => line,
    };
    let rest = line.trim_start_matches("r#").trim_start_matches(|it: char| it.is_alphanumeric() || it == '_');
    rest.len() < line.len() && rest.starts_with(':') && !rest.starts_with("::")
}

/// Opened minus closed brackets.
fn balance(line: &str, open: &str, close: &str) -> i32 {
    let value = |character: char| i32::from(open.contains(character)) - i32::from(close.contains(character));
    line.chars().map(value).sum()
}

/// Lines of modules and items under `#[cfg(test)]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut is_test = vec![false; code.len()];
    let mut index = 0;
    while index < code.len() {
        let line = code[index].trim();
        if !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test") {
            index += 1;
            continue;
        }
        let mut depth = 0;
        while index < code.len() {
            is_test[index] = true;
            depth += balance(&code[index], "{", "}");
            let line = code[index].trim_end();
            index += 1;
            if depth == 0 && (line.ends_with('}') || line.ends_with(';')) {
                break;
            }
        }
    }
    is_test
}

/// Words of letters, digits and `_`.
pub fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !(character.is_alphanumeric() || character == '_')).filter(|word| !word.is_empty())
}

/// Whether the line names this path (`std::fs`), as a whole and from its beginning.
pub fn names(line: &str, path: &str) -> bool {
    let joins = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        // A crate is named by a path or a `use`; a variable of the same name is not meant.
        let is_path = path.contains("::") || path == "async" || line[at + path.len()..].starts_with("::");
        let is_bare_use = line.trim_start().starts_with(&format!("use {path};"));
        before.is_none_or(|it| !joins(it) && it != ':' && it != '.')
            && after.is_none_or(|it| !joins(it))
            && (is_path || is_bare_use)
    })
}

/// The paths that follow `root::` in the line, opened braces taken apart: `crate::{a, b::c}` gives `a` and `b::c`.
pub fn paths_after(line: &str, root: &str) -> Vec<String> {
    let start = format!("{root}::");
    let mut found = vec![];
    for (at, _) in line.match_indices(&start) {
        if line[..at].ends_with(|character: char| character.is_alphanumeric() || character == '_' || character == '$') {
            continue;
        }
        let rest = &line[at + start.len()..];
        let list = rest.strip_prefix('{').map_or(rest, |inside| inside);
        let parts: Vec<&str> = if rest.starts_with('{') { list.split(',').collect() } else { vec![list] };
        for part in parts {
            let path: String =
                part.trim().chars().take_while(|it| it.is_alphanumeric() || *it == '_' || *it == ':').collect();
            if !path.is_empty() {
                found.push(path.trim_end_matches(':').to_owned());
            }
        }
    }
    found
}

/// The text with comments, strings and characters blanked, line by line as long as before.
fn blanked(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = opaque_end(&characters, at);
        if end == at {
            out.push(characters[at]);
            at += 1;
        } else {
            out.extend(characters[at..end].iter().map(|character| if *character == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment, string or character that begins here ends; `at` when none does.
fn opaque_end(text: &[char], at: usize) -> usize {
    let next = |offset: usize| text.get(at + offset).copied();
    let after_word = at > 0 && (text[at - 1].is_alphanumeric() || text[at - 1] == '_');
    match (text[at], next(1)) {
        ('/', Some('/')) => text[at..].iter().position(|it| *it == '\n').map_or(text.len(), |length| at + length),
        ('/', Some('*')) => block_comment_end(text, at),
        ('"', _) => string_end(text, at),
        ('r', Some('"' | '#')) if !after_word => raw_string_end(text, at).unwrap_or(at),
        // A character; a lifetime has no closing quote behind its first letter.
        ('\'', Some('\\')) => {
            let close = text.iter().skip(at + 3).position(|it| *it == '\'');
            close.map_or(text.len(), |length| at + 3 + length + 1)
        }
        ('\'', Some(_)) if next(2) == Some('\'') => at + 3,
        _ => at,
    }
}

fn block_comment_end(text: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn string_end(text: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn raw_string_end(text: &[char], start: usize) -> Option<usize> {
    let hashes = text[start + 1..].iter().take_while(|it| **it == '#').count();
    let open = start + 1 + hashes;
    (text.get(open) == Some(&'"')).then_some(())?;
    let closes =
        |at: &usize| text[*at] == '"' && text[at + 1..].iter().take(hashes).filter(|it| **it == '#').count() == hashes;
    Some((open + 1..text.len()).find(closes).map_or(text.len(), |at| at + 1 + hashes))
}

#[test]
fn comments_strings_and_characters_are_blanked_and_nothing_else() {
    let text = "let a = \"// no \\\" {\"; // gone {\nlet b = r#\"\" {\"#; /* { /* } */ */ let c: &'a str = '{';";
    let expected = ["let a = ;", "let b = ; let c: &'a str = ;"];
    let joined = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(blanked(text).lines().map(joined).collect::<Vec<_>>().len(), 2);
    for (line, wanted) in blanked(text).lines().map(joined).zip(expected) {
        assert_eq!(line.replace(' ', ""), wanted.replace(' ', ""));
    }
}

#[test]
fn paths_are_taken_apart() {
    assert_eq!(paths_after("use crate::{actors::context, sim};", "crate"), ["actors::context", "sim"]);
    assert_eq!(paths_after("use crate::logic::ids::{A, B};", "crate"), ["logic::ids"]);
    assert_eq!(paths_after("pub(crate) fn f()", "crate"), [""; 0]);
    assert!(names("use std::fs;", "std::fs") && names("let x = std::fs::read(y);", "std::fs"));
    assert!(names("tokio::spawn(x)", "tokio") && !names("mytokio::spawn(x)", "tokio"));
    assert!(!names("use rustix::fs;", "std::fs"));
}

#[test]
fn functions_and_variants_are_found() {
    let text = "pub enum AMsg {\n    /// From B: x.\n    One(u8),\n    Two {\n        Three: u8,\n    },\n}\n\nfn f(\n    a: u8,\n) {\n    { }\n}\ntrait T {\n    fn g(&self);\n}\n";
    let source = Source::new("x.rs".to_owned(), text);
    assert_eq!(source.variants_of_messages(), [(3, "One".to_owned()), (4, "Two".to_owned())]);
    assert_eq!(source.doc_before(3), ["/// From B: x."]);
    assert_eq!(source.functions(), [(9, "f".to_owned(), 5)]);
    let text = "pub struct A<T: B> {\n    one: u8,\n    /// Two: it.\n    pub(super) two: Vec<\n        x::Y,\n    >,\n    pub r#type: (u8, u8),\n}\nstruct C(u8);\npub struct D;\n";
    assert_eq!(Source::new("x.rs".to_owned(), text).structs(), [(1, "A".to_owned(), 3)]);
}
