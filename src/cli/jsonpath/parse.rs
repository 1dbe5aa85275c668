//! Reads templates. Pure; the position of each fault is its place in the template.

use serde_json::Value;

use super::{Comparison, Filter, JsonPathError, Part, Path, Problem, Slice, Step, To};

/// The longest template.
pub(super) const CHARACTERS_MAX: usize = 16 * 1024;
/// How deep ranges and filters may be nested.
pub(super) const DEPTH_MAX: usize = 16;

type Parsed<T> = Result<T, JsonPathError>;

/// Reads a whole template.
pub(super) fn template(text: &str) -> Parsed<Vec<Part>> {
    let mut parser = Parser { text: text.chars().take(CHARACTERS_MAX + 1).collect(), at: 0, depth: 0 };
    if parser.text.len() > CHARACTERS_MAX {
        return Err(JsonPathError { at: CHARACTERS_MAX, problem: Problem::TooLong });
    }
    parser.template()
}

/// The place of a path, which says where it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// `}`.
    Action,
    /// An operator, or `)`.
    Filter,
}

/// An action.
enum Action {
    Find(Path),
    Range(Path),
    End,
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn starts_with(&self, wanted: &str) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        wanted.chars().enumerate().all(|(index, one)| rest.get(index) == Some(&one))
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_there = self.starts_with(wanted);
        if is_there {
            self.at += wanted.chars().count();
        }
        is_there
    }

    /// All characters from here on of which `holds`.
    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> String {
        let taken: String = self.text.iter().skip(self.at).take_while(|one| holds(**one)).collect();
        self.at += taken.chars().count();
        taken
    }

    fn skip_blanks(&mut self) {
        self.take_while(|one| one == ' ' || one == '\t');
    }

    fn wrong<T>(&self, problem: Problem) -> Parsed<T> {
        Err(JsonPathError { at: self.at, problem })
    }

    fn template(&mut self) -> Parsed<Vec<Part>> {
        let mut open: Vec<(Path, Vec<Part>)> = vec![];
        let mut parts = vec![];
        loop {
            let text = self.take_while(|one| one != '{');
            if !text.is_empty() {
                parts.push(Part::Text(text));
            }
            let begins = self.at;
            if !self.takes("{") {
                break;
            }
            match self.action(begins)? {
                Action::Find(path) => parts.push(Part::Find(path)),
                Action::Range(_) if open.len() >= DEPTH_MAX => {
                    return Err(JsonPathError { at: begins, problem: Problem::TooDeep });
                }
                Action::Range(path) => open.push((path, std::mem::take(&mut parts))),
                Action::End => match open.pop() {
                    Some(range) => close(range, &mut parts),
                    None => return Err(JsonPathError { at: begins, problem: Problem::NothingToEnd }),
                },
            }
        }
        // As kubectl, a range without an end goes on to the template's.
        while let Some(range) = open.pop() {
            close(range, &mut parts);
        }
        Ok(parts)
    }

    fn action(&mut self, begins: usize) -> Parsed<Action> {
        self.skip_blanks();
        let word = self.at;
        let action = match self.take_while(is_of_word).as_str() {
            "range" => Action::Range(self.path(Within::Action)?),
            "end" => {
                self.skip_blanks();
                Action::End
            }
            _ => {
                self.at = word;
                Action::Find(self.path(Within::Action)?)
            }
        };
        match self.peek() {
            Some('}') => self.at += 1,
            None => return Err(JsonPathError { at: begins, problem: Problem::UnclosedAction }),
            Some(other) => return self.wrong(Problem::Unrecognized(other)),
        }
        Ok(action)
    }

    fn path(&mut self, within: Within) -> Parsed<Path> {
        let mut path = vec![];
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('}') => return Ok(path),
                Some(')' | ']' | '=' | '!' | '<' | '>') if within == Within::Filter => return Ok(path),
                // The current value, where the path is anyway.
                Some('@' | '$') => self.at += 1,
                Some('.') if self.takes("..") => {
                    path.push(Step::Below);
                    path.extend(self.field(within)?);
                }
                Some('.') => {
                    self.at += 1;
                    path.extend(self.field(within)?);
                }
                Some('[') => path.push(self.bracket()?),
                Some(quote @ ('"' | '\'')) => path.push(Step::Literal(self.quoted(quote)?.into())),
                Some('+' | '-' | '0'..='9') => path.push(Step::Literal(self.number()?)),
                Some(other) if is_of_word(other) => path.push(self.word()?),
                Some(other) => return self.wrong(Problem::Unrecognized(other)),
            }
        }
    }

    /// The name behind a point; none in `{.}`.
    fn field(&mut self, within: Within) -> Parsed<Option<Step>> {
        let mut name = String::new();
        let begins = self.at;
        while let Some(one) = self.peek() {
            match one {
                '\\' => match self.text.get(self.at + 1) {
                    Some(escaped) => {
                        name.push(*escaped);
                        self.at += 2;
                        continue;
                    }
                    None => return self.wrong(Problem::UnclosedAction),
                },
                ' ' | '\t' | '.' | '[' | ']' | '$' | '@' | '{' | '}' => break,
                '=' | '!' | '<' | '>' | ')' if within == Within::Filter => break,
                other => name.push(other),
            }
            self.at += 1;
        }
        Ok(match name.as_str() {
            "" => None,
            // An escaped star is a name.
            "*" if self.at == begins + 1 => Some(Step::Children),
            _ => Some(Step::Field(name)),
        })
    }

    fn bracket(&mut self) -> Parsed<Step> {
        let begins = self.at;
        if self.takes("[?(") {
            return self.filter(begins);
        }
        self.at += 1;
        let mut all: Vec<Step> = vec![];
        loop {
            self.skip_blanks();
            all.push(match self.peek() {
                Some(quote @ ('"' | '\'')) => Step::Quoted(self.quoted(quote)?),
                _ => self.slice(begins)?,
            });
            self.skip_blanks();
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => break self.at += 1,
                Some(other) => return self.wrong(Problem::Unrecognized(other)),
                None => return Err(JsonPathError { at: begins, problem: Problem::UnterminatedArray }),
            }
        }
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => Ok(Step::Union(all.into_iter().chain(last).map(|one| vec![one]).collect())),
        }
    }

    fn slice(&mut self, begins: usize) -> Parsed<Step> {
        let at = self.at;
        let text = self.take_while(|one| !matches!(one, ',' | ']' | '}'));
        if self.peek().is_none_or(|one| one == '}') {
            return Err(JsonPathError { at: begins, problem: Problem::UnterminatedArray });
        }
        let text = text.trim();
        let wrong = || JsonPathError { at, problem: Problem::Index(text.to_owned()) };
        if text == "*" {
            return Ok(Step::Slice(Slice { from: None, to: To::End, step: 1, at }));
        }
        let numbers: Vec<Option<i64>> = text
            .split(':')
            .map(|part| match part {
                "" => Ok(None),
                number if number.starts_with('+') => Err(wrong()),
                number => number.parse().map(Some).map_err(|_| wrong()),
            })
            .collect::<Parsed<_>>()?;
        let (from, to, step) = match numbers.as_slice() {
            [Some(only)] => (Some(*only), To::Next, None),
            [from, to] => (*from, to.map_or(To::End, To::Index), None),
            [from, to, step] => (*from, to.map_or(To::End, To::Index), *step),
            _ => return Err(wrong()),
        };
        let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0);
        let step = step.ok_or(JsonPathError { at, problem: Problem::StepOfZero })?;
        Ok(Step::Slice(Slice { from, to, step, at }))
    }

    /// Behind `[?(`.
    fn filter(&mut self, begins: usize) -> Parsed<Step> {
        if self.depth >= DEPTH_MAX {
            return self.wrong(Problem::TooDeep);
        }
        self.depth += 1;
        let left = self.path(Within::Filter)?;
        let operators = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let compared = match operators.into_iter().find(|(text, _)| self.takes(text)) {
            Some((_, comparison)) => Some((comparison, self.path(Within::Filter)?)),
            None => None,
        };
        self.depth -= 1;
        match self.peek() {
            Some(')') if self.takes(")]") => Ok(Step::Filter(Filter { left, compared, at: begins })),
            Some(other @ ('=' | '!' | '<' | '>')) => self.wrong(Problem::Unrecognized(other)),
            _ => Err(JsonPathError { at: begins, problem: Problem::UnterminatedFilter }),
        }
    }

    /// Text in quotes, with the escapes of Go.
    fn quoted(&mut self, quote: char) -> Parsed<String> {
        let unterminated = JsonPathError { at: self.at, problem: Problem::UnterminatedQuote };
        let mut text = String::new();
        self.at += 1;
        while let Some(one) = self.peek() {
            self.at += 1;
            match one {
                one if one == quote => return Ok(text),
                '\\' => {
                    let escaped = self.peek().ok_or(unterminated.clone())?;
                    self.at += 1;
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                other => text.push(other),
            }
        }
        Err(unterminated)
    }

    fn number(&mut self) -> Parsed<Value> {
        let at = self.at;
        let text = self.take_while(|one| matches!(one, '+' | '-' | '.' | 'e' | 'E' | '0'..='9'));
        let whole = text.strip_prefix('+').unwrap_or(&text).parse::<i64>().ok().map(Value::from);
        let number = whole.or_else(|| text.parse::<f64>().ok().filter(|one| one.is_finite()).map(Value::from));
        number.ok_or(JsonPathError { at, problem: Problem::Number(text) })
    }

    fn word(&mut self) -> Parsed<Step> {
        let at = self.at;
        match self.take_while(is_of_word).as_str() {
            "true" => Ok(Step::Literal(true.into())),
            "false" => Ok(Step::Literal(false.into())),
            other => Err(JsonPathError { at, problem: Problem::Identifier(other.to_owned()) }),
        }
    }
}

fn is_of_word(one: char) -> bool {
    one == '_' || one.is_alphanumeric()
}

/// A range ends: its parts become one of those around it.
fn close((path, outer): (Path, Vec<Part>), parts: &mut Vec<Part>) {
    let inner = std::mem::replace(parts, outer);
    parts.push(Part::Range(path, inner));
}
