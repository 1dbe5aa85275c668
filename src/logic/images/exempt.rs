//! Images that image garbage collection leaves alone, by patterns of the node's own setting `--image-gc-exempt`.
//!
//! A pattern is compared with the whole names that the runtime lists; `*` stands for any characters. One without tag and
//! digest means all of its repository.

use std::fmt;
use std::sync::Arc;

use crate::logic::formats::go_text::quoted;

/// The most patterns.
const PATTERNS_MAX: usize = 100;
/// The longest pattern, in bytes: a registry, a path and a digest.
const BYTES_MAX: usize = 512;

/// Why a pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("image-gc-exempt: invalid pattern {}: {problem}", quoted(pattern))]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// The fault in it.
    pub problem: PatternProblem,
}

/// The fault in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternProblem {
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// It would turn the collection off.
    #[error("it matches every image; imageGCHighThresholdPercent: 100 turns image garbage collection off")]
    Everything,
    /// No name can be like it.
    #[error("names of images have letters, digits and any of ./:@_- alone, beside * for any characters")]
    Characters,
    /// It cannot match what the runtime lists.
    #[error("it must begin with the registry, as in docker.io/library/nginx")]
    Registry,
    /// See the limit.
    #[error("it must not be longer than {BYTES_MAX} bytes")]
    Long,
    /// See the limit.
    #[error("there must not be more than {PATTERNS_MAX} patterns")]
    Many,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExemptImages(Arc<[String]>);

impl ExemptImages {
    /// Of these patterns.
    ///
    /// # Errors
    /// All that are none.
    pub fn new(patterns: &[String]) -> Result<Self, Vec<PatternError>> {
        let fault = |pattern: &String, problem| PatternError { pattern: pattern.clone(), problem };
        let mut errors: Vec<_> =
            patterns.iter().filter_map(|pattern| Some(fault(pattern, check(pattern).err()?))).collect();
        errors.extend(patterns.get(PATTERNS_MAX).map(|first| fault(first, PatternProblem::Many)));
        if errors.is_empty() { Ok(Self(patterns.into())) } else { Err(errors) }
    }

    /// Whether an image of these names stays.
    pub fn has(&self, names: &[String]) -> bool {
        self.0.iter().any(|pattern| names.iter().any(|name| is_like(pattern, name)))
    }
}

impl fmt::Display for ExemptImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

fn check(pattern: &str) -> Result<(), PatternProblem> {
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"./:@_-*".contains(&byte);
    if pattern.is_empty() {
        return Err(PatternProblem::Empty);
    }
    if pattern.len() > BYTES_MAX {
        return Err(PatternProblem::Long);
    }
    if !pattern.bytes().all(is_part_of_name) {
        return Err(PatternProblem::Characters);
    }
    if pattern.bytes().all(|byte| b"*/:@".contains(&byte)) {
        return Err(PatternProblem::Everything);
    }
    let is_registry = |part: &str| part.contains(['.', ':', '*']) || part == "localhost";
    match pattern.split_once('/') {
        Some((registry, _)) if is_registry(registry) => Ok(()),
        // `*` may stand for the registry and more.
        None if pattern.starts_with('*') => Ok(()),
        _ => Err(PatternProblem::Registry),
    }
}

fn is_like(pattern: &str, name: &str) -> bool {
    if matches(pattern.as_bytes(), name.as_bytes()) {
        return true;
    }
    let last = pattern.rsplit('/').next().unwrap_or(pattern);
    if last.contains([':', '@']) {
        return false;
    }
    let repository = name.split('@').next().unwrap_or(name);
    let tag = repository.rfind(':').filter(|at| repository.rfind('/').is_none_or(|slash| slash < *at));
    matches(pattern.as_bytes(), repository.get(..tag.unwrap_or(repository.len())).unwrap_or(repository).as_bytes())
}

/// Whether `text` is like `pattern`, in time that grows with both lengths multiplied, whatever the stars.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where the last star is, and how much of the text it stands for up to.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((place, until)) = star else { return false };
                star = Some((place, until + 1));
                at = place + 1;
                seen = until + 1;
            }
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exempt(patterns: &[&str]) -> Result<ExemptImages, Vec<PatternError>> {
        ExemptImages::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
    }

    fn stays(pattern: &str, name: &str) -> bool {
        exempt(&[pattern]).expect("a pattern").has(&[name.to_owned()])
    }

    #[test]
    fn patterns_mean_whole_names() {
        for (pattern, name, expected) in [
            ("docker.io/library/nginx", "docker.io/library/nginx:1.27", true),
            ("docker.io/library/nginx", "docker.io/library/nginx@sha256:ab", true),
            ("docker.io/library/nginx", "docker.io/library/nginx-extra:1", false),
            ("docker.io/library/nginx:1.*", "docker.io/library/nginx:1.27", true),
            ("docker.io/library/nginx:1.*", "docker.io/library/nginx:2.1", false),
            ("reg.example:5000/team/*", "reg.example:5000/team/a/b:1", true),
            ("reg.example:5000/team/*", "reg.example:5000/other/a:1", false),
            ("reg.example:5000/team/app", "reg.example:5000/team/app:1", true),
            ("*/infra-*", "reg.example/x/infra-agent:3", true),
            ("*-agent", "reg.example/x/infra-agent:3", true),
            ("localhost/app", "localhost/app:1", true),
            ("*.example/a*b*c", "reg.example/aXbYbZc", true),
            ("*.example/a*b*c", "reg.example/aXbYbZ", false),
        ] {
            assert_eq!(stays(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!ExemptImages::default().has(&["a.b/c:1".to_owned()]));
        assert!(exempt(&["a.b/c"]).expect("a pattern").has(&["x.y/z:1".to_owned(), "a.b/c:2".to_owned()]), "any name");
    }

    #[test]
    fn what_is_no_pattern_is_refused_all_of_it_together() {
        let errors = exempt(&["", "*", "nginx", "docker.io/a b", "library/nginx", "a.b/c"]).expect_err("five are bad");
        let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "image-gc-exempt: invalid pattern \"\": it is empty",
                "image-gc-exempt: invalid pattern \"*\": it matches every image; imageGCHighThresholdPercent: 100 turns \
                 image garbage collection off",
                "image-gc-exempt: invalid pattern \"nginx\": it must begin with the registry, as in docker.io/library/nginx",
                "image-gc-exempt: invalid pattern \"docker.io/a b\": names of images have letters, digits and any of ./:@_- \
                 alone, beside * for any characters",
                "image-gc-exempt: invalid pattern \"library/nginx\": it must begin with the registry, as in \
                 docker.io/library/nginx",
            ]
        );
        let long = format!("a.b/{}", "c".repeat(BYTES_MAX));
        assert_eq!(exempt(&[&long]).expect_err("long")[0].problem, PatternProblem::Long);
        let many: Vec<String> = (0..=PATTERNS_MAX).map(|number| format!("a.b/{number}")).collect();
        assert_eq!(ExemptImages::new(&many).expect_err("many")[0].problem, PatternProblem::Many);
    }

    proptest! {
        /// A star stands for whatever is put in its place.
        #[test]
        fn a_star_stands_for_anything(parts in prop::collection::vec("[a-c]{0,4}", 1..5), fill in "[a-c/:]{0,6}") {
            prop_assert!(matches(parts.join("*").as_bytes(), parts.join(&fill).as_bytes()));
        }
    }
}
