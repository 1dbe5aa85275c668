//! Templates of `-o jsonpath=…`: the language of kubectl, which is not that of RFC 9535.
//!
//! Text stands for itself; `{…}` is replaced by what it finds. `parse` reads a template, `walk` fills it in. Both are pure,
//! and neither panics, whatever they are given. Missing fields give nothing, as with kubectl's default.

mod parse;
mod walk;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// A template that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    /// Text that stands for itself.
    Text(String),
    /// `{…}`.
    Find(Path),
    /// `{range …}` to `{end}`.
    Range(Path, Vec<Part>),
}

/// Steps from the current value, taken one after the other.
type Path = Vec<Step>;

/// One step.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`.
    Field(String),
    /// `['name']`. As kubectl, a name with points is a way through maps too, where no field has it.
    Quoted(String),
    /// `.*`: the values of a map, the elements of a list.
    Children,
    /// `..`: the value and all that is below it, as far as it has anything below it.
    Below,
    /// `[0]`, `[-1:]`, `[::2]`, `[*]`.
    Slice(Slice),
    /// `[0,2]`, `['a','b']`: what each finds, in their order.
    Union(Vec<Path>),
    /// `[?(@.name == "web")]`.
    Filter(Filter),
    /// `"text"`, `7`, `true`.
    Literal(Value),
}

/// Elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// The first; negative from the end.
    from: Option<i64>,
    /// The one behind the last.
    to: To,
    /// Each so many.
    step: usize,
    /// Where it stands in the template.
    at: usize,
}

/// The end of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// There is one element alone.
    Next,
    /// The list's end.
    End,
    /// This one; negative from the end.
    Index(i64),
}

/// The condition of an element.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Path,
    /// The comparison; without one, the left side has to be there.
    compared: Option<(Comparison, Path)>,
    /// Where it stands in the template.
    at: usize,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A fault, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("jsonpath, at character {}: {problem}", .at + 1)]
pub(super) struct JsonPathError {
    /// Characters before it.
    at: usize,
    /// See [`Problem`].
    problem: Problem,
}

/// The faults, in kubectl's words where it has any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("the template is longer than {} characters", parse::CHARACTERS_MAX)]
    TooLong,
    #[error("unclosed action")]
    UnclosedAction,
    #[error("unterminated array")]
    UnterminatedArray,
    #[error("unterminated filter")]
    UnterminatedFilter,
    #[error("unterminated quoted string")]
    UnterminatedQuote,
    #[error("unrecognized character in action: {0:?}")]
    Unrecognized(char),
    #[error("unrecognized identifier {0}")]
    Identifier(String),
    #[error("invalid array index {0}")]
    Index(String),
    #[error("cannot parse number {0}")]
    Number(String),
    #[error("step must be > 0")]
    StepOfZero,
    #[error("not in range, nothing to end")]
    NothingToEnd,
    #[error("ranges or filters are nested deeper than {}", parse::DEPTH_MAX)]
    TooDeep,
    #[error("a {0} is not array or slice")]
    NotAList(&'static str),
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds { index: i64, length: usize },
    #[error("starting index {from} is greater than ending index {to}")]
    Backwards { from: i64, to: i64 },
    #[error("can only compare one element at a time")]
    ManyCompared,
    #[error("it finds too much")]
    TooMuch,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// It is none; the first fault.
    pub(super) fn parse(text: &str) -> Result<Self, JsonPathError> {
        parse::template(text).map(|parts| Self { parts })
    }

    /// Fills it in with a document.
    ///
    /// # Errors
    /// The document has not the shape that the template wants.
    pub(super) fn render(&self, document: &Value) -> Result<String, JsonPathError> {
        walk::render(&self.parts, document)
    }
}
