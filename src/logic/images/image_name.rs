//! Names of images: what is valid, and the tag that a name without one gets.
//!
//! The grammar is that of distribution references, with the short names of Docker Hub. The completed form of a name is
//! only for comparing; the runtime gets the pod's own text, at most with `:latest` appended, so that it decides itself
//! what a short name means.

use crate::logic::formats::go_text::quoted;

const HUB: &str = "docker.io";
/// The former name of Docker Hub.
const HUB_LEGACY: &str = "index.docker.io";
/// Prefix of Docker Hub's own images.
const HUB_OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";
/// Longest path of a repository, in bytes.
const PATH_MAX: usize = 255;
/// Longest tag, in bytes.
const TAG_MAX: usize = 128;

/// An image's name in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// Registry and path, such as `docker.io/library/busybox`.
    pub repository: String,
    /// The tag, if written.
    pub tag: Option<String>,
    /// The digest, if written.
    pub digest: Option<String>,
}

/// Why a name is none (`InvalidImageName`). The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name {}: {problem}", quoted(name))]
pub struct ImageNameError {
    /// The name.
    pub name: String,
    /// The fault in it.
    pub problem: Problem,
}

/// A fault in an image's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It might be an image's ID.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// The path has upper case letters.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    /// The registry has letters that are upper case but not ASCII.
    #[error("repository name must be lowercase")]
    UppercaseRegistry,
    /// Not of the grammar.
    #[error("invalid reference format")]
    Format,
    /// The path is too long.
    #[error("repository name must not be more than {PATH_MAX} characters")]
    TooLong,
    /// The digest's algorithm is not known.
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
    /// The digest has not the length of its algorithm.
    #[error("invalid checksum digest length")]
    DigestLength,
    /// The digest is not lower hex.
    #[error("invalid checksum digest format")]
    DigestFormat,
}

impl ImageName {
    /// Reads a name as a pod has it.
    ///
    /// # Errors
    /// When it is not of the grammar.
    pub fn parse(name: &str) -> Result<Self, ImageNameError> {
        parse(name).map_err(|problem| ImageNameError { name: name.to_owned(), problem })
    }
}

/// `name` with `:latest` appended if it has neither tag nor digest.
///
/// # Errors
/// When it is no valid name.
pub fn with_default_tag(name: &str) -> Result<String, ImageNameError> {
    let parsed = ImageName::parse(name)?;
    let complete = parsed.tag.is_some() || parsed.digest.is_some();
    Ok(if complete { name.to_owned() } else { format!("{name}:{DEFAULT_TAG}") })
}

fn parse(name: &str) -> Result<ImageName, Problem> {
    if name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(Problem::Identifier(name.to_owned()));
    }
    let (registry, rest) = split_registry(name);
    let path = rest.split(':').next().unwrap_or_default();
    if path.to_lowercase() != path {
        return Err(Problem::Uppercase(path.to_owned()));
    }
    let full = format!("{registry}/{rest}");
    let Some(parsed) = split_reference(&full) else {
        let lower_is_valid = split_reference(&full.to_lowercase()).is_some();
        return Err(if lower_is_valid { Problem::UppercaseRegistry } else { Problem::Format });
    };
    if path_of(&parsed.repository).len() > PATH_MAX {
        return Err(Problem::TooLong);
    }
    if let Some(digest) = &parsed.digest {
        check_digest(digest)?;
    }
    Ok(parsed)
}

/// Registry and the rest. The first part is a registry if it looks like a host: it has a dot or a port, is `localhost`,
/// or has upper case letters, which no path has.
fn split_registry(name: &str) -> (&str, String) {
    let (registry, rest) = match name.split_once('/') {
        Some((HUB_LEGACY, rest)) => (HUB, rest),
        Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first => {
            (first, rest)
        }
        _ => (HUB, name),
    };
    let official = registry == HUB && !rest.contains('/');
    (registry, if official { format!("{HUB_OFFICIAL}{rest}") } else { rest.to_owned() })
}

/// The parts of a full name; `None` when it is not of the grammar.
fn split_reference(full: &str) -> Option<ImageName> {
    let (tagged, digest) = match full.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (full, None),
    };
    // A colon before the last slash is that of the registry's port.
    let (repository, tag) = match tagged.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (tagged, None),
    };
    let valid =
        path_of(repository).split('/').all(is_path_component) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    valid.then(|| ImageName { repository: repository.to_owned(), tag: owned(tag), digest: owned(digest) })
}

/// A repository's path. A part that looked like a registry and is none, such as `a.b_c/d`, still counts as a path.
fn path_of(repository: &str) -> &str {
    match repository.split_once('/') {
        Some((registry, path)) if is_registry(registry) => path,
        _ => repository,
    }
}

/// A host name or an IPv6 address in brackets, and maybe a port.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, rest)) => {
            if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') {
                return false;
            }
            (None, rest)
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            (Some(&text[..end]), &text[end..])
        }
    };
    let port_is_valid =
        port.is_empty() || port.strip_prefix(':').is_some_and(|digits| !digits.is_empty() && is_number(digits));
    port_is_valid && host.is_none_or(|host| host.split('.').all(is_host_part))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_host_part(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Lower case letters and digits, with a dot, one or two underscores or any number of dashes between them.
fn is_path_component(text: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    let outside_is_plain = text.starts_with(is_plain) && text.ends_with(is_plain);
    outside_is_plain
        && text
            .split(is_plain)
            .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= TAG_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// `algorithm:hex`, the algorithm's parts joined by one of `-_+.`, and at least 32 digits.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_part)
        && hex.len() >= 32
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A digest of the grammar must also be one of an algorithm that is known.
fn check_digest(digest: &str) -> Result<(), Problem> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or_default();
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ if algorithm.bytes().any(|byte| byte.is_ascii_uppercase()) => return Err(Problem::DigestFormat),
        _ => return Err(Problem::DigestAlgorithm),
    };
    if hex.len() != length {
        return Err(Problem::DigestLength);
    }
    if hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(Problem::DigestFormat);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(algorithm: &str, length: usize) -> String {
        format!("{algorithm}:{}", "a".repeat(length))
    }

    /// CRI-21.
    #[test]
    fn a_name_is_completed_as_docker_does() {
        let sha = digest("sha256", 64);
        let cases = [
            ("busybox", "docker.io/library/busybox", None, None),
            ("busybox:1.36", "docker.io/library/busybox", Some("1.36"), None),
            ("me/app", "docker.io/me/app", None, None),
            ("docker.io/busybox", "docker.io/library/busybox", None, None),
            ("index.docker.io/busybox:1", "docker.io/library/busybox", Some("1"), None),
            ("localhost/app", "localhost/app", None, None),
            ("localhost:5000", "docker.io/library/localhost", Some("5000"), None),
            ("localhost:5000/app:v1", "localhost:5000/app", Some("v1"), None),
            ("[::1]:5000/x", "[::1]:5000/x", None, None),
            ("[fd00::a]/x/y:T_1.-", "[fd00::a]/x/y", Some("T_1.-"), None),
            ("registry.example.com/a/b-c/d__e", "registry.example.com/a/b-c/d__e", None, None),
            ("Registry/app", "Registry/app", None, None),
            ("a.b_c/d", "a.b_c/d", None, None),
            ("a/b.c_d---e", "docker.io/a/b.c_d---e", None, None),
            (&format!("busybox@{sha}"), "docker.io/library/busybox", None, Some(sha.as_str())),
            (&format!("r.io:1/a:t@{sha}"), "r.io:1/a", Some("t"), Some(sha.as_str())),
            (&"f".repeat(63), &format!("docker.io/library/{}", "f".repeat(63)), None, None),
        ];
        for (name, repository, tag, digest) in cases {
            let expected =
                ImageName { repository: repository.into(), tag: tag.map(Into::into), digest: digest.map(Into::into) };
            assert_eq!(ImageName::parse(name), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        let id = "f".repeat(64);
        let upper_hex = format!("a@sha256:{}", "A".repeat(64));
        let cases = [
            (id.as_str(), Problem::Identifier(id.clone())),
            ("Busybox", Problem::Uppercase("library/Busybox".into())),
            ("me/App:v1", Problem::Uppercase("me/App".into())),
            ("r.io/A@sha256:x", Problem::Uppercase("A@sha256".into())),
            ("\u{212a}.io/app", Problem::UppercaseRegistry),
            ("", Problem::Format),
            (" busybox", Problem::Format),
            ("busybox ", Problem::Format),
            ("busybox:", Problem::Format),
            ("busybox:-x", Problem::Format),
            (&format!("busybox:{}", "t".repeat(129)), Problem::Format),
            ("a/", Problem::Format),
            ("/a", Problem::Format),
            ("a//b", Problem::Format),
            ("a..b", Problem::Format),
            ("a___b", Problem::Format),
            ("-a", Problem::Format),
            ("a-", Problem::Format),
            ("a._b", Problem::Format),
            ("r.io:x/a", Problem::Format),
            ("r.io:/a", Problem::Format),
            ("-r.io/a", Problem::Format),
            ("r..io/a", Problem::Format),
            ("[::1/a", Problem::Format),
            ("[]/a", Problem::Format),
            ("[::g]/a.b", Problem::Format),
            ("[::1]x.y/a", Problem::Format),
            ("http://r.io/a", Problem::Format),
            ("a@sha256:0123", Problem::Format),
            ("a@", Problem::Format),
            ("a@b@c", Problem::Format),
            (&format!("a/{}", "x".repeat(254)), Problem::TooLong),
            (&format!("a@{}", digest("sha256", 63)), Problem::DigestLength),
            (&format!("a@{}", digest("md5", 32)), Problem::DigestAlgorithm),
            (&format!("a:t@{}", digest("SHA256", 64)), Problem::DigestFormat),
            (&upper_hex, Problem::DigestFormat),
        ];
        for (name, problem) in cases {
            assert_eq!(ImageName::parse(name).unwrap_err().problem, problem, "{name:?}");
        }
        assert_eq!(
            ImageName::parse("a b").unwrap_err().to_string(),
            "couldn't parse image name \"a b\": invalid reference format"
        );
    }

    #[test]
    fn only_a_bare_name_gets_the_default_tag_and_stays_short() {
        let with_digest = format!("busybox@{}", digest("sha512", 128));
        let cases = [
            ("busybox", "busybox:latest"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("[::1]:5000/x", "[::1]:5000/x:latest"),
            ("busybox:1", "busybox:1"),
            ("busybox:latest", "busybox:latest"),
            (&with_digest, &with_digest),
        ];
        for (name, expected) in cases {
            assert_eq!(with_default_tag(name), Ok(expected.into()), "{name}");
        }
        assert!(with_default_tag("Busybox").is_err());
    }

    proptest::proptest! {
        #[test]
        fn the_default_tag_is_appended_once(name in "[a-zA-Z0-9./:@_\\[\\]-]{0,24}") {
            if let Ok(tagged) = with_default_tag(&name) {
                proptest::prop_assert!(tagged.starts_with(&name));
                proptest::prop_assert_eq!(with_default_tag(&tagged), Ok(tagged));
            }
        }

        #[test]
        fn no_text_makes_it_panic(name: String) {
            let _ = ImageName::parse(&name);
        }
    }
}
