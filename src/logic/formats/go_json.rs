//! Why Go's `encoding/json` refuses a text.
//!
//! Pure. State files that upstream also reads are refused with upstream's words, because an operator searches for them.
//! The texts are those of Go 1.26, with which upstream 1.36 is built.

/// The first thing that is wrong with a text; `Display` is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text is cut off.
    #[error("unexpected end of JSON input")]
    End,
    /// A character where it cannot be.
    #[error("invalid character {} {place}", quoted_char(*.character))]
    Character {
        /// The character; of a longer one its first byte, as Go has it.
        character: u8,
        /// Where it is.
        place: String,
    },
}

/// Checks a whole text.
///
/// # Errors
/// The first [`SyntaxError`] in it.
pub fn check(text: &[u8]) -> Result<(), SyntaxError> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.value()?;
    scanner.skip_blanks();
    match scanner.text.get(scanner.at) {
        None => Ok(()),
        Some(_) => scanner.refuse("after top-level value"),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// An array or object that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Array,
    Object,
}

impl Scanner<'_> {
    fn refuse<T>(&self, place: &str) -> Result<T, SyntaxError> {
        let character = *self.text.get(self.at).ok_or(SyntaxError::End)?;
        Err(SyntaxError::Character { character, place: place.to_owned() })
    }

    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
    }

    fn takes(&mut self, byte: u8) -> bool {
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// Without recursion, so that a deep text needs no stack.
    fn value(&mut self) -> Result<(), SyntaxError> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.skip_blanks();
            let mut is_complete = true;
            if self.takes(b'[') {
                self.skip_blanks();
                if !self.takes(b']') {
                    open.push(Open::Array);
                    is_complete = false;
                }
            } else if self.takes(b'{') {
                self.skip_blanks();
                if !self.takes(b'}') {
                    open.push(Open::Object);
                    self.key()?;
                    is_complete = false;
                }
            } else {
                self.scalar()?;
            }
            if is_complete && self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    /// After a value: leaves what ends here; true when nothing is open any more, false when another value follows.
    fn close(&mut self, open: &mut Vec<Open>) -> Result<bool, SyntaxError> {
        while let Some(last) = open.last().copied() {
            self.skip_blanks();
            let (end, place) = match last {
                Open::Array => (b']', "after array element"),
                Open::Object => (b'}', "after object key:value pair"),
            };
            if self.takes(b',') {
                if last == Open::Object {
                    self.skip_blanks();
                    self.key()?;
                }
                return Ok(false);
            }
            if !self.takes(end) {
                return self.refuse(place);
            }
            open.pop();
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        if !self.takes(b'"') {
            return self.refuse("looking for beginning of object key string");
        }
        self.string()?;
        self.skip_blanks();
        if self.takes(b':') { Ok(()) } else { self.refuse("after object key") }
    }

    fn scalar(&mut self) -> Result<(), SyntaxError> {
        if self.takes(b'"') {
            return self.string();
        }
        for literal in ["true", "false", "null"] {
            if self.text.get(self.at) == literal.as_bytes().first() {
                return self.literal(literal);
            }
        }
        match self.text.get(self.at) {
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.refuse("looking for beginning of value"),
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), SyntaxError> {
        for expected in literal.bytes() {
            if !self.takes(expected) {
                return self.refuse(&format!("in literal {literal} (expecting {})", quoted_char(expected)));
            }
        }
        Ok(())
    }

    /// The rest of a string after its first quote.
    fn string(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                _ => return self.refuse("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.text.get(self.at) {
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.text.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                        return self.refuse("in \\u hexadecimal character escape");
                    }
                    self.at += 1;
                }
                Ok(())
            }
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {
                self.at += 1;
                Ok(())
            }
            _ => self.refuse("in string escape code"),
        }
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits("in numeric literal")?;
        }
        if self.takes(b'.') {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _ = self.takes(b'+') || self.takes(b'-');
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), SyntaxError> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits == 0 { self.refuse(place) } else { Ok(()) }
    }
}

/// A byte as Go quotes it: in single quotes, escaped where it cannot be printed.
fn quoted_char(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = super::go_text::quoted(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The texts of Go 1.26.
    #[test]
    fn a_text_is_refused_with_gos_words() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":\"b", "unexpected end of JSON input"),
            ("{\"a\":tr", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" \"b\"}", "invalid character '\"' after object key"),
            ("{\"a\":01}", "invalid character '1' after object key:value pair"),
            ("{\"a\":1]", "invalid character ']' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            ("\u{0}", "invalid character '\\x00' looking for beginning of value"),
        ] {
            assert_eq!(check(text.as_bytes()).expect_err("not JSON").to_string(), expected, "{text:?}");
        }
        for text in ["{}", " [ ] ", "{\"a\":[1,-2.5e+3,{\"b\":null}],\"c\":\"\\u00e4\\n\"}", "0", "true"] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_check_agrees_with_the_parser(text in "[\\[\\]{}\",:0-9a-f\\\\ntrue.\\-e ]{0,12}") {
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            prop_assert_eq!(check(text.as_bytes()).is_ok(), parsed.is_ok(), "{:?}", parsed);
        }

        #[test]
        fn a_text_that_is_cut_off_ends_unexpectedly(keep in 0_usize..50) {
            let text = b"{\"policyName\":\"Static\",\"machineState\":{\"0\":[true]}}";
            let cut = check(&text[..keep]);
            prop_assert_eq!(cut, if keep == text.len() { Ok(()) } else { Err(SyntaxError::End) });
        }
    }
}
