//! Answers that go on: what is there, then each change, printed as it comes.

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::Value;

use crate::cli::client::{Client, Trouble};
use crate::cli::output::Output;
use crate::server::views::changes::{Change, ChangeKind};
use crate::server::views::table::{Cell, Columns};

/// The longest line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// How changes look to people.
pub(super) struct Shape<'a, T> {
    /// The titles of the columns.
    pub(super) head: Vec<&'a str>,
    /// One change as a row.
    pub(super) row: &'a dyn Fn(ChangeKind, &T) -> Vec<Cell>,
    /// The line in place of a table without rows.
    pub(super) none: &'a str,
}

/// Prints what is there and each change of it, until the agent ends the watch or nobody reads any more.
pub(super) fn follow<T: for<'a> Deserialize<'a>>(
    client: &Client,
    path: &str,
    output: &Output,
    shape: &Shape<'_, T>,
    colours: bool,
) -> Result<(), Trouble> {
    let mut out = io::stdout().lock();
    let mut printer = Printer { output, shape, colours, columns: Columns::default(), first: Some(vec![]) };
    let (mut lines, mut trouble) = (Lines::default(), None);
    // An error ends the stream, whose own result is good then: a reader may have left.
    let taken = client.stream(path, |part| {
        let all = lines.push(part).and_then(|all| all.iter().map(|line| printer.line(line)).collect());
        let text: Vec<String> = all.map_err(|why| {
            trouble = Some(why);
            io::Error::from(io::ErrorKind::InvalidData)
        })?;
        out.write_all(text.concat().as_bytes()).and_then(|()| out.flush())
    });
    match trouble {
        Some(trouble) => Err(trouble),
        None => taken,
    }
}

/// Cuts what comes into lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn push(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, Trouble> {
        self.rest.extend_from_slice(part);
        let mut lines = vec![];
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let mut line: Vec<u8> = self.rest.drain(..=end).collect();
            line.pop();
            lines.push(line);
        }
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(Trouble::Form("a line of it is too long".to_owned()));
        }
        Ok(lines)
    }
}

struct Printer<'a, T> {
    output: &'a Output,
    shape: &'a Shape<'a, T>,
    colours: bool,
    columns: Columns,
    /// The rows that were there, until all of them are here: only then is it known how wide columns are.
    first: Option<Vec<Vec<Cell>>>,
}

impl<T: for<'a> Deserialize<'a>> Printer<'_, T> {
    /// The text that a line prints.
    fn line(&mut self, line: &[u8]) -> Result<String, Trouble> {
        let wrong = |error: serde_json::Error| Trouble::Form(error.to_string());
        let change: Change<T> = serde_json::from_slice(line).map_err(wrong)?;
        match change.kind {
            ChangeKind::Error => return Err(Trouble::Refused(change.message)),
            ChangeKind::Other => return Ok(String::new()),
            ChangeKind::Synced => return Ok(self.synced()),
            ChangeKind::Added | ChangeKind::Modified | ChangeKind::Deleted => {}
        }
        if self.output.is_document() {
            let document: Value = serde_json::from_slice(line).map_err(wrong)?;
            let text = self.output.value(&document)?;
            return Ok(if *self.output == Output::Yaml { format!("---\n{text}") } else { text });
        }
        let Some(object) = &change.object else { return Ok(String::new()) };
        let row = (self.shape.row)(change.kind, object);
        match &mut self.first {
            Some(first) => {
                first.push(row);
                Ok(String::new())
            }
            None => Ok(self.columns.lines(&[row], self.colours)),
        }
    }

    fn synced(&mut self) -> String {
        let Some(rows) = self.first.take().filter(|_| !self.output.is_document()) else { return String::new() };
        let head = self.shape.head.iter().map(|title| Cell::from(*title)).collect();
        let is_empty = rows.is_empty();
        let all: Vec<Vec<Cell>> = std::iter::once(head).chain(rows).collect();
        let text = self.columns.lines(&all, self.colours);
        if is_empty { format!("{}\n{text}", self.shape.none) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: ChangeKind, object: &Value) -> Vec<Cell> {
        vec![format!("{kind:?}").into(), object.as_str().unwrap_or_default().into(), "x".into()]
    }

    fn printed(output: &str, lines: &[&str]) -> Vec<Result<String, String>> {
        let (output, shape) = (
            output.parse().expect("a form"),
            Shape { head: vec!["KIND", "NAME", "X"], row: &row, none: "nothing is there" },
        );
        let first = Some(vec![]);
        let mut printer =
            Printer { output: &output, shape: &shape, colours: false, columns: Columns::default(), first };
        lines.iter().map(|line| printer.line(line.as_bytes()).map_err(|error| error.to_string())).collect()
    }

    const LINES: [&str; 6] = [
        r#"{"type":"ADDED","object":"web"}"#,
        r#"{"type":"SYNCED"}"#,
        r#"{"type":"MODIFIED","object":"a"}"#,
        r#"{"type":"LATER","news":1}"#,
        r#"{"type":"DELETED","object":"longer"}"#,
        r#"{"type":"ERROR","message":"watch client channel closed"}"#,
    ];

    #[test]
    fn a_table_comes_first_and_then_a_line_for_each_change() {
        let expected = [
            Ok(""),
            Ok("KIND    NAME   X\nAdded   web    x\n"),
            Ok("Modified   a      x\n"),
            Ok(""),
            Ok("Deleted    longer   x\n"),
            Err("watch client channel closed"),
        ];
        assert_eq!(printed("text", &LINES), expected.map(|one| one.map(str::to_owned).map_err(str::to_owned)));
        assert_eq!(printed("text", &LINES[1..2]), [Ok("nothing is there\nKIND   NAME   X\n".to_owned())]);
    }

    #[test]
    fn programs_read_a_document_for_each_change() {
        let json = printed("json", &LINES);
        assert_eq!(json[0], Ok("{\n  \"object\": \"web\",\n  \"type\": \"ADDED\"\n}\n".to_owned()));
        assert_eq!(json[1], Ok(String::new()));
        let names = printed("jsonpath={.object};", &LINES);
        assert_eq!((&names[2], &names[4]), (&Ok("a;".to_owned()), &Ok("longer;".to_owned())));
        assert_eq!(printed("yaml", &LINES)[2], Ok("---\nobject: a\ntype: MODIFIED\n".to_owned()));
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"ab").expect("short"), Vec::<Vec<u8>>::new());
        assert_eq!(lines.push(b"c\nd\n\ne").expect("short"), [b"abc".to_vec(), b"d".to_vec(), vec![]]);
        lines.push(&vec![0; LINE_BYTES_MAX]).expect_err("it does not end");
    }
}
