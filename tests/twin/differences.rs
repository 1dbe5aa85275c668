//! The differences that are known: `differences.toml`, each with its reason and its row of docs/differences.md.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::compare::Difference;
use crate::generate::RESTARTED;

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
    /// It depends on the moment, so that a run may be without it.
    #[serde(default)]
    pub sometimes: bool,
    /// The values on our node: a pattern; any without it.
    #[serde(default = "anything")]
    pub ours: String,
    /// The values on upstream's node: a pattern; any without it.
    #[serde(default = "anything")]
    pub theirs: String,
}

fn anything() -> String {
    "**".to_owned()
}

impl Known {
    /// The entries of this tree.
    pub fn load(top: &Path) -> Result<Self, String> {
        let path = top.join("tests/twin/differences.toml");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The places of all entries that match. An entry of a scenario counts for it with restarts, too.
    pub fn places(&self, scenario: &str, difference: &Difference) -> Vec<usize> {
        let without_restarts = scenario.strip_prefix(RESTARTED).unwrap_or(scenario);
        let matches = |entry: &Entry| {
            (is_match(&entry.scenario, scenario) || is_match(&entry.scenario, without_restarts))
                && is_match(&entry.path, &difference.path)
                && is_match(&entry.ours, &difference.ours)
                && is_match(&entry.theirs, &difference.theirs)
        };
        self.difference.iter().enumerate().filter(|(_, entry)| matches(entry)).map(|(place, _)| place).collect()
    }
}

/// Whether a pattern matches a whole path: `*` stands for any letters of one step, `**` also for `/`, and both for none.
pub fn is_match(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(left) = text.strip_prefix(first) else { return false };
    let (rest, within) = match rest.strip_prefix('*') {
        Some(rest) => (rest, left.len()),
        None => (rest, left.find('/').unwrap_or(left.len())),
    };
    (0..=within).filter(|at| left.is_char_boundary(*at)).any(|at| is_match(rest, &left[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        assert!(is_match("*", "") && is_match("a*c", "abbc") && is_match("pods/*/cri/**", "pods/a/cri/b/c"));
        assert!(
            is_match("a*", "a") && is_match("**", "a/b") && is_match("a/**/d", "a/b/c/d") && is_match("a*/b", "ax/b")
        );
        assert!(!is_match("a", "ab") && !is_match("a*c", "abcd") && !is_match("*/x", "a/y"));
        assert!(!is_match("a/*", "a/b/c") && !is_match("*", "/") && !is_match("a/*/d", "a/b/c/d"));
    }

    /// The beginning of a row of the page that an entry lists.
    const MARKED: &str = "| † ";

    /// The page with the marks that the entries ask for.
    fn with_marks(page: &str, known: &Known) -> String {
        let is_listed = |line: &str| known.difference.iter().any(|entry| line.contains(&entry.listed));
        let line = |line: &str| match line.strip_prefix(MARKED).or_else(|| line.strip_prefix("| ")) {
            Some(rest) if is_listed(line) => format!("{MARKED}{rest}\n"),
            Some(rest) => format!("| {rest}\n"),
            None => format!("{line}\n"),
        };
        page.lines().map(line).collect()
    }

    #[test]
    fn every_known_difference_is_listed_for_users_and_has_its_mark() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = top.join("docs/differences.md");
        let page = fs::read_to_string(&path).expect("the page is there");
        let known = Known::load(top).unwrap_or_else(|problem| panic!("{problem}"));
        for entry in &known.difference {
            assert!(page.contains(&entry.listed), "docs/differences.md does not say: {}", entry.listed);
            assert!(entry.why.ends_with('.'), "no sentence: {}", entry.why);
        }
        let marked = with_marks(&page, &known);
        if std::env::var_os("MARK").is_some() {
            fs::write(&path, marked).expect("the tree can be written");
        } else {
            assert_eq!(page, marked, "MARK=1 sets the marks of docs/differences.md anew");
        }
    }
}
