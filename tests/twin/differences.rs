//! The differences that are known: `differences.toml`, each with its reason and its row of docs/differences.md.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::compare::Difference;

/// Known differences.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The entries.
    #[serde(default)]
    pub difference: Vec<Entry>,
}

/// One known difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The scenarios it may be in: a name, or a pattern.
    pub scenario: String,
    /// The paths of its leaves: a pattern.
    pub path: String,
    /// The sentence that says why.
    pub why: String,
    /// Words of its row in docs/differences.md.
    pub listed: String,
}

impl Known {
    /// The entries of this tree.
    pub fn load(top: &Path) -> Result<Self, String> {
        let path = top.join("tests/twin/differences.toml");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The place of the first entry that matches.
    pub fn place(&self, scenario: &str, difference: &Difference) -> Option<usize> {
        let matches = |entry: &Entry| is_match(&entry.scenario, scenario) && is_match(&entry.path, &difference.path);
        self.difference.iter().position(matches)
    }
}

/// Whether a pattern matches a whole text: `*` stands for any letters, also none, and also `/`.
pub fn is_match(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(left) = text.strip_prefix(first) else { return false };
    (0..=left.len()).filter(|at| left.is_char_boundary(*at)).any(|at| is_match(rest, &left[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        assert!(is_match("*", "") && is_match("a*c", "abbc") && is_match("pods/*/cri/*", "pods/a/cri/b/c"));
        assert!(!is_match("a", "ab") && !is_match("a*c", "abcd") && !is_match("*/x", "a/y"));
    }

    #[test]
    fn every_known_difference_is_listed_for_users() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = fs::read_to_string(top.join("docs/differences.md")).expect("the page is there");
        let known = Known::load(top).unwrap_or_else(|problem| panic!("{problem}"));
        for entry in &known.difference {
            assert!(page.contains(&entry.listed), "docs/differences.md does not say: {}", entry.listed);
            assert!(entry.why.ends_with('.'), "no sentence: {}", entry.why);
        }
    }
}
