//! The values that must not be in a bundle, and the texts that may quote them. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

/// Stands for anything that was cut.
pub(super) const CUT: &str = "(cut)";
/// Shorter values would cut words to pieces.
pub(super) const VALUE_MIN: usize = 4;

/// The values that are known to be secret.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// All values that were cut out of the pods, longest first.
    Values(Vec<String>),
    /// The pods could not be read: every text may hold a secret.
    Nothing,
}

impl Known {
    /// These values and the lines of those with many, without the words that the bundle has anyway.
    pub(super) fn of(values: &BTreeSet<String>, kept: &BTreeSet<String>) -> Self {
        let lines = values.iter().flat_map(|value| [value.as_str()].into_iter().chain(value.lines()).map(str::trim));
        let lines = lines.filter(|line| line.len() >= VALUE_MIN && !kept.contains(*line));
        // As it is, and as JSON and the log quote it.
        let forms = lines.flat_map(|line| [line.to_owned(), quoted(line)]);
        let forms: BTreeSet<String> = forms.collect();
        let mut lines: Vec<String> = forms.into_iter().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.len()));
        Self::Values(lines)
    }

    /// A text of the agent or the runtime, which may quote a pod's values.
    pub(super) fn redacted(&self, text: &str) -> String {
        match self {
            Self::Nothing if text.is_empty() => String::new(),
            Self::Nothing => CUT.to_owned(),
            Self::Values(values) => {
                let present =
                    values.iter().filter(|value| memchr::memmem::find(text.as_bytes(), value.as_bytes()).is_some());
                present.fold(without_credentials(text), |text, value| text.replace(value.as_str(), CUT))
            }
        }
    }

    /// A text that may hold a hook's output, which no value of the pod names.
    pub(super) fn redacted_wait(&self, text: &str) -> String {
        if text.to_lowercase().contains("hook") { CUT.to_owned() } else { self.redacted(text) }
    }
}

/// A text as JSON has it between quotes.
fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// A text whose URLs have neither users nor queries.
pub(super) fn without_credentials(text: &str) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    let is_end = |character: char| character.is_whitespace() || "\"'<>(),;".contains(character);
    let mut out = String::new();
    for piece in text.split_inclusive(is_end) {
        let word = piece.trim_end_matches(is_end);
        let Some((scheme, rest)) = word.split_once("://") else {
            out.push_str(piece);
            continue;
        };
        let path_at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = rest[..path_at].rsplit('@').next().unwrap_or_default();
        let path = rest[path_at..].split(['?', '#']).next().unwrap_or_default();
        out.push_str(&format!("{scheme}://{authority}{path}"));
        out.push_str(&piece[word.len()..]);
    }
    out
}
