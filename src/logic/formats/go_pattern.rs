//! Whether a regular expression is one of Go's: upstream refuses others before the journal sees them, in that library's
//! words. Nothing is matched here. Names of Unicode classes are taken as they come; the journal knows them.

/// What repetitions inside of each other may come to.
const REPEAT_MAX: u32 = 1000;
/// Groups inside of each other.
const DEPTH_MAX: usize = 1000;
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Says what is wrong with a pattern, as Go does.
///
/// # Errors
/// Go's text.
pub fn check(pattern: &str) -> Result<(), String> {
    Checker { pattern, at: 0, open: vec![], group: Group::default(), repeated: None }
        .run()
        .map_err(|(why, shown)| format!("error parsing regexp: {why}: `{shown}`"))
}

/// What is wrong, and the part of the pattern that is shown with it.
type Wrong<'a> = (&'static str, &'a str);

/// What has been read of a group since it was opened.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// How often what stands before the present place is repeated at most, by itself; none where nothing stands that
    /// could be repeated.
    last: Option<u32>,
    /// The most of any part.
    most: u32,
}

struct Checker<'a> {
    pattern: &'a str,
    at: usize,
    /// Groups around the present one.
    open: Vec<Group>,
    group: Group,
    /// Where the repetition began that stands right before the present place.
    repeated: Option<usize>,
}

impl<'a> Checker<'a> {
    fn run(mut self) -> Result<(), Wrong<'a>> {
        while let Some(next) = self.peek() {
            let repeated = self.repeated.take();
            match next {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.at += 1;
                    self.group.last = None;
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    let from = self.at;
                    self.at += 1;
                    self.repeat(from, repeated, None)?;
                }
                '{' => match counts(self.rest()) {
                    Some((length, counts)) => {
                        let from = self.at;
                        self.at += length;
                        self.repeat(from, repeated, Some(counts))?;
                    }
                    None => self.literal(),
                },
                '\\' => self.escaped()?,
                _ => self.literal(),
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err(("missing closing )", self.pattern)) }
    }

    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn since(&self, from: usize) -> &'a str {
        &self.pattern[from..self.at]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Something that matches stands here.
    fn item(&mut self, most: u32) {
        self.group.most = self.group.most.max(most);
        self.group.last = Some(most);
    }

    fn literal(&mut self) {
        self.take();
        self.item(1);
    }

    fn open(&mut self) -> Result<(), Wrong<'a>> {
        let from = self.at;
        self.at += 1;
        if self.peek() == Some('?') {
            self.at += 1;
            let name = ["P<", "<"].into_iter().find_map(|begin| self.rest().strip_prefix(begin));
            match name {
                Some(name) => self.named(from, name)?,
                None if !self.flags(from)? => return Ok(()),
                None => {}
            }
        }
        if self.open.len() + 1 >= DEPTH_MAX {
            return Err(("expression nests too deeply", self.pattern));
        }
        self.open.push(std::mem::take(&mut self.group));
        Ok(())
    }

    fn named(&mut self, from: usize, name: &'a str) -> Result<(), Wrong<'a>> {
        let why = "invalid named capture";
        let Some((name, rest)) = name.split_once('>') else { return Err((why, &self.pattern[from..])) };
        self.at = self.pattern.len() - rest.len();
        let valid = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        if valid { Ok(()) } else { Err((why, self.since(from))) }
    }

    /// Flags after `(?`; says whether they open a group.
    fn flags(&mut self, from: usize) -> Result<bool, Wrong<'a>> {
        let (mut negative, mut any) = (false, false);
        while let Some(next) = self.take() {
            match next {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negative => (negative, any) = (true, false),
                ':' | ')' if any || !negative => return Ok(next == ':'),
                _ => break,
            }
        }
        Err(("invalid or unsupported Perl syntax", self.since(from)))
    }

    fn close(&mut self) -> Result<(), Wrong<'a>> {
        let Some(around) = self.open.pop() else { return Err(("unexpected )", self.pattern)) };
        self.at += 1;
        let most = std::mem::replace(&mut self.group, around).most;
        self.item(most.max(1));
        Ok(())
    }

    /// A repetition that began at `from`, right behind another that began at `before`, if there is one.
    fn repeat(&mut self, from: usize, before: Option<usize>, counts: Option<Counts>) -> Result<(), Wrong<'a>> {
        if let Some(Counts { least, most }) = counts
            && (least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX || most < least))
        {
            return Err(("invalid repeat count", self.since(from)));
        }
        if self.peek() == Some('?') {
            self.at += 1;
        }
        if let Some(before) = before {
            return Err(("invalid nested repetition operator", self.since(before)));
        }
        let Some(last) = self.group.last else {
            return Err(("missing argument to repetition operator", self.since(from)));
        };
        if let Some(Counts { least, most }) = counts {
            let all = last.saturating_mul(most.unwrap_or(least));
            if all > REPEAT_MAX && (least >= 2 || most.is_some_and(|most| most >= 2)) {
                return Err(("invalid repeat count", self.since(from)));
            }
            self.item(all);
        }
        self.repeated = Some(from);
        Ok(())
    }

    fn escaped(&mut self) -> Result<(), Wrong<'a>> {
        let from = self.at;
        match self.rest().as_bytes().get(1) {
            Some(b'C') => return Err(("invalid escape sequence", &self.pattern[from..from + 2])),
            Some(b'Q') => {
                let quoted = &self.rest()[2..];
                let (inside, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                self.at = self.pattern.len() - rest.len();
                if !inside.is_empty() {
                    self.item(1);
                }
            }
            Some(b'A' | b'b' | b'B' | b'z') => {
                self.at += 2;
                self.item(1);
            }
            _ => {
                if !self.class_escape()? {
                    self.character()?;
                }
                self.item(1);
            }
        }
        Ok(())
    }

    /// `\d` and its like, and `\p{…}`: says whether there was one.
    fn class_escape(&mut self) -> Result<bool, Wrong<'a>> {
        let from = self.at;
        match self.rest().as_bytes() {
            [b'\\', b'd' | b'D' | b's' | b'S' | b'w' | b'W', ..] => self.at += 2,
            [b'\\', b'p' | b'P', b'{', ..] => {
                let why = "invalid character class range";
                let Some(end) = self.rest().find('}') else { return Err((why, self.rest())) };
                self.at += end + 1;
                let name = &self.pattern[from + 3..self.at - 1];
                let name = name.strip_prefix('^').unwrap_or(name);
                if name.is_empty() || !name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
                    return Err((why, self.since(from)));
                }
            }
            [b'\\', b'p' | b'P', _, ..] => {
                self.at += 2;
                let known = self.take().is_some_and(|name| "CLMNPSZ".contains(name));
                if !known {
                    return Err(("invalid character class range", self.since(from)));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// An escaped character; its value.
    fn character(&mut self) -> Result<u32, Wrong<'a>> {
        let from = self.at;
        self.at += 1;
        let Some(next) = self.take() else { return Err(("trailing backslash at end of expression", "")) };
        let octal = |byte: Option<char>| byte.and_then(|digit| digit.to_digit(8));
        let value = match next {
            // One digit alone would be a reference to a group.
            '1'..='7' if octal(self.peek()).is_none() => None,
            '0'..='7' => {
                let mut value = octal(Some(next)).unwrap_or(0);
                for _ in 1..3 {
                    let Some(digit) = octal(self.peek()) else { break };
                    self.at += 1;
                    value = value * 8 + digit;
                }
                Some(value)
            }
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            other => (other.is_ascii() && !other.is_ascii_alphanumeric()).then_some(u32::from(other)),
        };
        value.ok_or_else(|| ("invalid escape sequence", self.since(from)))
    }

    /// Two digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.take()?;
        if first != '{' {
            let second = self.take();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let (mut value, mut any) = (0, false);
        loop {
            match self.take()? {
                '}' => return any.then_some(value),
                digit => value = value * 16 + digit.to_digit(16)?,
            }
            any = true;
            if value > u32::from(char::MAX) {
                return None;
            }
        }
    }

    fn class(&mut self) -> Result<(), Wrong<'a>> {
        let from = self.at;
        self.at += 1;
        if self.peek() == Some('^') {
            self.at += 1;
        }
        let mut first = true;
        while first || self.peek() != Some(']') {
            first = false;
            if self.named_class()? || self.class_escape()? {
                continue;
            }
            let begin = self.at;
            let low = self.class_character(from)?;
            let mut ahead = self.rest().chars();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|next| next != ']') {
                self.at += 1;
                if self.class_character(from)? < low {
                    return Err(("invalid character class range", self.since(begin)));
                }
            }
        }
        self.at += 1;
        self.item(1);
        Ok(())
    }

    /// `[:alpha:]` and its like: says whether there was one.
    fn named_class(&mut self) -> Result<bool, Wrong<'a>> {
        let Some((name, _)) = self.rest().strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
            return Ok(false);
        };
        let from = self.at;
        self.at += name.len() + 4;
        match CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            true => Ok(true),
            false => Err(("invalid character class range", self.since(from))),
        }
    }

    fn class_character(&mut self, class: usize) -> Result<u32, Wrong<'a>> {
        match self.peek() {
            None => Err(("missing closing ]", &self.pattern[class..])),
            Some('\\') => self.character(),
            Some(other) => {
                self.take();
                Ok(u32::from(other))
            }
        }
    }
}

/// `{2}`, `{2,}`, `{2,3}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    least: u32,
    /// None without an end.
    most: Option<u32>,
}

/// Reads counts at the beginning of a text, and how long they are; what is none stands for itself.
fn counts(text: &str) -> Option<(usize, Counts)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |digits: &str| {
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let valid = valid && (digits.len() == 1 || !digits.starts_with('0'));
        // What does not fit is too large in any case.
        valid.then(|| digits.parse::<u32>().unwrap_or(u32::MAX))
    };
    let counts = match inside.split_once(',') {
        None => number(inside).map(|count| Counts { least: count, most: Some(count) })?,
        Some((least, "")) => Counts { least: number(least)?, most: None },
        Some((least, most)) => Counts { least: number(least)?, most: Some(number(most)?) },
    };
    Some((inside.len() + 2, counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRV-32: what Go takes for a pattern.
    #[test]
    fn patterns_are_taken_as_go_takes_them() {
        for pattern in [
            "",
            "a|b|",
            "(a)(?:b)(?i)c(?P<n>d)(?<m>e)",
            "a*?b+?c??",
            "a{2}b{2,}c{2,3}?",
            "{",
            "a{,2}",
            "{\"level\":\"error\"}",
            "x{01}",
            "[a-z]",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[[:alpha:]_]",
            "[[:^digit:]]",
            "[[:foo]",
            r"\d\W[\s\-]",
            r"\Qa(*\E+",
            r"\Q",
            r"\x41\x{1F600}\07\123",
            r"\p{Han}\PL\p{^Greek}",
            r"^\Aa\b$\z",
            r"\_\.",
            "(|a)*",
            "^*",
            "(?i)",
            "(?-s:.)",
            "(a{10}){100}",
            "(a{1000}){0}",
            "ä{2}",
            "(?s-i:a)",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    /// SRV-32: what Go does not, and how it says so.
    #[test]
    fn other_patterns_are_refused_in_gos_words() {
        let deep = "(".repeat(1000);
        for (pattern, why) in [
            ("(", "missing closing ): `(`"),
            ("a(b|c", "missing closing ): `a(b|c`"),
            ("a)b", "unexpected ): `a)b`"),
            ("x[a-z", "missing closing ]: `[a-z`"),
            ("[", "missing closing ]: `[`"),
            ("[]", "missing closing ]: `[]`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(+?)", "missing argument to repetition operator: `+?`"),
            ("a|{2}", "missing argument to repetition operator: `{2}`"),
            ("(?i)*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*?+", "invalid nested repetition operator: `*?+`"),
            ("a{2}{3}?b", "invalid nested repetition operator: `{2}{3}?`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
            ("((a{100}){10}){2}", "invalid repeat count: `{2}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
            ("(?-)", "invalid or unsupported Perl syntax: `(?-)`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
            ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
            (r"(a)\1", r"invalid escape sequence: `\1`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            (r"\C", r"invalid escape sequence: `\C`"),
            (r"\x4", r"invalid escape sequence: `\x4`"),
            (r"\x{}", r"invalid escape sequence: `\x{}`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\pX", r"invalid character class range: `\pX`"),
            (r"\p{Han", r"invalid character class range: `\p{Han`"),
            (r"[\Z]", r"invalid escape sequence: `\Z`"),
            (deep.as_str(), "expression nests too deeply: "),
        ] {
            let told = check(pattern).expect_err(pattern);
            assert!(told.starts_with(&format!("error parsing regexp: {why}")), "{pattern}: {told}");
        }
    }

    proptest::proptest! {
        /// SEC-59.
        #[test]
        fn no_pattern_is_too_strange(pattern in r"[-a(){}\[\]?*+|\\^$.:,0-9pPxQEC<>ä]{0,40}") {
            let _ = check(&pattern);
        }
    }
}
