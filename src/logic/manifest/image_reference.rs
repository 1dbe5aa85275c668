//! The tag of an image reference, as far as the default pull policy needs it.
//!
//! Owned by [`super::defaults`]. Follows the grammar of the distribution project: a name that does not fit it has no
//! tag, not even the implied `latest`.

/// The tag of `image`: `latest` when the reference has neither tag nor digest, empty when it has a digest alone or is
/// malformed.
pub(super) fn tag(image: &str) -> &str {
    parse(image).unwrap_or_default()
}

fn parse(image: &str) -> Option<&str> {
    let bare_digest = image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let (domain, rest) = split_domain(named);
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let fits = !bare_digest
        && domain.is_none_or(is_domain)
        && path.split('/').all(is_path_component)
        && domain.unwrap_or("docker.io/library").len() + 1 + path.len() <= 255
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    fits.then(|| tag.unwrap_or(if digest.is_none() { "latest" } else { "" }))
}

/// The first part is a host when it could not be a name: it has a dot or a port, is `localhost`, or has capitals.
fn split_domain(named: &str) -> (Option<&str>, &str) {
    match named.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || first.chars().any(char::is_uppercase) =>
        {
            (Some(first), rest)
        }
        _ => (None, named),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') => ("v6", port),
        Some(_) => return false,
        None => match domain.find(':') {
            Some(at) => domain.split_at(at),
            None => (domain, ""),
        },
    };
    let port_fits = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    port_fits && host.split('.').all(is_domain_component)
}

fn is_domain_component(part: &str) -> bool {
    !part.is_empty()
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !part.starts_with('-')
        && !part.ends_with('-')
}

/// Letters and digits, joined by one dot, one or two underscores, or any number of hyphens.
fn is_path_component(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let joined = part.split(is_word).filter(|gap| !gap.is_empty());
    part.starts_with(is_word)
        && part.ends_with(is_word)
        && joined.into_iter().all(|gap| matches!(gap, "." | "_" | "__") || gap.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= 128 && tag.starts_with(is_word) && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let lengths = [("sha256", 64), ("sha384", 96), ("sha512", 128)];
    lengths.contains(&(algorithm, hex.len())) && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_found_or_implied() {
        let digest = "a".repeat(64);
        for (image, expected) in [
            ("busybox", "latest"),
            ("busybox:1.36", "1.36"),
            ("busybox:latest", "latest"),
            ("localhost:5000/team/web", "latest"),
            ("localhost:5000/team/web:v2", "v2"),
            ("Registry/web:v2", "v2"),
            ("[fd00::1]:5000/web:v2", "v2"),
            ("a__b/c-.d", ""),
            (&format!("busybox@sha256:{digest}"), ""),
            (&format!("busybox:1@sha256:{digest}"), "1"),
            (digest.as_str(), ""),
            ("Busybox", ""),
            ("busybox:", ""),
            ("busybox@sha256:short", ""),
            ("", ""),
            ("a//b", ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
