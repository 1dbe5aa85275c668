//! Whether a text may stand as one segment of a path: the check between a name that came from outside and the disk.
//!
//! Pure. Used wherever a pod's UID, name, namespace, container name or volume name becomes part of a path (SEC-17):
//! the agent runs as root, and a UID such as `../../etc` must never leave the agent's own directories.

/// The longest segment a Linux file system takes, in bytes (`NAME_MAX`).
pub const SEGMENT_LENGTH_MAX: usize = 255;

/// Why a text must not be used as a path segment.
///
/// The first four are upstream's rules for names in the API (`IsValidPathSegmentName`), with upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeSegment {
    /// Nothing at all: the path would name the directory itself.
    #[error("may not be empty")]
    Empty,
    /// The directory itself.
    #[error("may not be '.'")]
    Dot,
    /// The parent directory.
    #[error("may not be '..'")]
    DotDot,
    /// More than one segment.
    #[error("may not contain '/'")]
    Slash,
    /// Could be decoded to another character by a reader of URLs.
    #[error("may not contain '%'")]
    Percent,
    /// NUL ends a path in the kernel's eyes; the other control characters forge lines of logs.
    #[error("may not contain control characters")]
    Control,
    /// Longer than [`SEGMENT_LENGTH_MAX`].
    #[error("must be no more than 255 bytes")]
    TooLong,
}

/// Says whether `text` can be one segment of a path, and nothing but that segment.
///
/// # Errors
/// The first rule that the text breaks.
pub fn is_safe_segment(text: &str) -> Result<(), UnsafeSegment> {
    match text {
        "" => Err(UnsafeSegment::Empty),
        "." => Err(UnsafeSegment::Dot),
        ".." => Err(UnsafeSegment::DotDot),
        _ if text.contains('/') => Err(UnsafeSegment::Slash),
        _ if text.contains('%') => Err(UnsafeSegment::Percent),
        _ if text.chars().any(char::is_control) => Err(UnsafeSegment::Control),
        _ if text.len() > SEGMENT_LENGTH_MAX => Err(UnsafeSegment::TooLong),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn names_as_the_api_gives_them_are_safe() {
        for text in ["web-0", "6f1c1a2b-0c3d-4e5f-8a9b-001122334455", "...", "a.b", "..a", "a..", "kube~secret"] {
            assert_eq!(is_safe_segment(text), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn a_text_that_could_leave_its_directory_is_refused_with_the_reason() {
        let long = "a".repeat(SEGMENT_LENGTH_MAX + 1);
        for (text, why) in [
            ("", UnsafeSegment::Empty),
            (".", UnsafeSegment::Dot),
            ("..", UnsafeSegment::DotDot),
            ("../../x", UnsafeSegment::Slash),
            ("/etc", UnsafeSegment::Slash),
            ("a/", UnsafeSegment::Slash),
            ("%2e%2e", UnsafeSegment::Percent),
            ("a\0b", UnsafeSegment::Control),
            ("a\nb", UnsafeSegment::Control),
            (long.as_str(), UnsafeSegment::TooLong),
        ] {
            assert_eq!(is_safe_segment(text), Err(why), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_safe_segment_is_exactly_one_ordinary_component(text in "[a-z./%\u{0}\n-]{0,8}") {
            if is_safe_segment(&text).is_ok() {
                let path = Path::new("/var/lib/pods").join(&text);
                let tail: Vec<_> = path.components().skip(4).collect();
                prop_assert_eq!(tail, vec![Component::Normal(text.as_ref())]);
            }
        }
    }
}
