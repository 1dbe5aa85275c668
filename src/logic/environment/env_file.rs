//! Files of variables that `fileKeyRef` names (KEP-3721; upstream's `pkg/kubelet/util/env`).
//!
//! Pure. A strict part of the shell's syntax: `NAME='value'`, one after the other. Text between the quotes is taken as
//! it is and may span lines; nothing is expanded. Values may be secret: no error holds one.

/// The largest file that is read, in bytes. Upstream reads any.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;
/// The longest line, in bytes; as upstream, whose scanner takes no longer ones.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Why a file cannot be read as variables; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvFileError {
    /// A line is not of the form.
    #[error("invalid environment variable format at line {line}: {problem}")]
    Line {
        /// Where.
        line: usize,
        /// The fault in it.
        problem: &'static str,
    },
    /// A quote that no other one ends.
    #[error("invalid environment variable format starting at line {line}: unclosed single quote")]
    Unclosed {
        /// Where it begins.
        line: usize,
    },
    /// A line that is too long to be one.
    #[error("line {line} has more than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// Which.
        line: usize,
    },
}

/// The value of `key`: empty when the file does not set it, or sets it to nothing. Reads no further than that.
///
/// # Errors
/// When a line before it is not of the form.
pub fn value_of(text: &str, key: &str) -> Result<String, EnvFileError> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let checked = |(number, line): (usize, &'_ str)| -> Result<usize, EnvFileError> {
        if line.len() > LINE_BYTES_MAX { Err(EnvFileError::TooLong { line: number }) } else { Ok(number) }
    };
    while let Some((number, line)) = lines.next() {
        checked((number, line))?;
        let wrong = |problem| EnvFileError::Line { line: number, problem };
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, assigned) = line.split_once('=').ok_or_else(|| wrong("missing '='"))?;
        let bare = name.trim_end_matches(BLANKS);
        if bare.is_empty() {
            return Err(wrong("empty variable name"));
        }
        if bare != name {
            return Err(wrong("whitespace before '=' is not allowed"));
        }
        if assigned.starts_with(BLANKS) {
            // As in a shell: the variable is empty, and the rest is another word.
            if name == key {
                return Ok(String::new());
            }
            continue;
        }
        let mut rest = assigned.strip_prefix('\'').ok_or_else(|| wrong("value must be enclosed in single quotes"))?;
        let (mut value, mut last) = (String::new(), number);
        let after = loop {
            if let Some((end, after)) = rest.split_once('\'') {
                value.push_str(end);
                break after.trim_start_matches(BLANKS);
            }
            value.push_str(rest);
            value.push('\n');
            let next = lines.next().ok_or(EnvFileError::Unclosed { line: number })?;
            last = checked(next)?;
            rest = next.1;
        };
        if !after.is_empty() && !after.starts_with('#') {
            return Err(EnvFileError::Line { line: last, problem: "unexpected content after closing quote" });
        }
        if name == key {
            return Ok(value);
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_taken_as_they_are() {
        let text = "# about\n\n  A='one'\r\nB='two # $X \\n' # a comment\n\tC='first\nsecond\n'\nD= 'not this'\nE=''\nA='late'\n";
        let cases = [("A", "one"), ("B", "two # $X \\n"), ("C", "first\nsecond\n"), ("D", ""), ("E", ""), ("F", "")];
        for (key, value) in cases {
            assert_eq!(value_of(text, key), Ok(value.to_owned()), "{key}");
        }
    }

    #[test]
    fn what_is_not_of_the_form_is_told_by_its_line() {
        let starting = "invalid environment variable format at line 2: ";
        for (line, problem) in [
            ("A", "missing '='"),
            ("='x'", "empty variable name"),
            ("A ='x'", "whitespace before '=' is not allowed"),
            ("A=x", "value must be enclosed in single quotes"),
            ("A=\"x\"", "value must be enclosed in single quotes"),
            ("A='x'y", "unexpected content after closing quote"),
        ] {
            let error = value_of(&format!("Z='1'\n{line}\n"), "A").expect_err(line);
            assert_eq!(error.to_string(), format!("{starting}{problem}"), "{line}");
        }
        let error = value_of("Z='1'\nA='x\ny\n", "A").expect_err("unclosed");
        assert_eq!(error.to_string(), "invalid environment variable format starting at line 2: unclosed single quote");
        // Text after the variable is not looked at.
        assert_eq!(value_of("A='x'\nbroken", "A"), Ok("x".to_owned()));
        let long = format!("#{}\nA='x'", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(value_of(&long, "A"), Err(EnvFileError::TooLong { line: 1 }));
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_quoted_values_come_back(text in "[A='\n# x]{0,40}", value in "[^'\r]{1,40}") {
            let _ = value_of(&text, "A");
            prop_assert_eq!(value_of(&format!("A='{value}'"), "A"), Ok(value));
        }
    }
}
