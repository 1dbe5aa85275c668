//! Rules about credentials for images on disk. Part of `validate`.
//!
//! Patterns as in upstream's `pkg/kubelet/images/pullmanager/image_pull_policies.go`.

use super::Review;

const POLICIES: [&str; 4] =
    ["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"];

impl Review<'_> {
    pub(super) fn image_credentials(&mut self) {
        let policy = &self.config.image_pull_credentials_verification_policy;
        let patterns = &self.config.preloaded_images_verification_allowlist;
        if !self.on("KubeletEnsureSecretPulledImages") {
            let gate = "must not be set if KubeletEnsureSecretPulledImages feature gate is not enabled";
            self.refuse_if(!policy.is_empty(), || format!("`imagePullCredentialsVerificationPolicy` {gate}"));
            self.refuse_if(!patterns.is_empty(), || format!("`preloadedImagesVerificationAllowlist` {gate}"));
            return;
        }
        self.refuse_if(!POLICIES.contains(&policy.as_str()), || {
            format!(
                "option {policy:?} specified for imagePullCredentialsVerificationPolicy. Valid options are \
                 \"NeverVerify\", \"NeverVerifyPreloadedImages\", \"NeverVerifyAllowlistedImages\" or \"AlwaysVerify\""
            )
        });
        if !patterns.is_empty() && policy != "NeverVerifyAllowlistedImages" {
            self.refuse_if(true, || {
                "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not \
                 \"NeverVerifyAllowlistedImages\""
                    .into()
            });
        } else if let Some(error) = patterns.iter().find_map(|pattern| check_pattern(pattern).err()) {
            self.refuse_if(true, || {
                format!("invalid image pattern in `preloadedImagesVerificationAllowlist`: {error}")
            });
        }
    }
}

fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.trim() != pattern {
        return Err(format!("leading/trailing spaces are not allowed: {pattern}"));
    }
    let prefix = pattern.strip_suffix("/*");
    let text = prefix.unwrap_or(pattern);
    if text.is_empty() && prefix.is_none() {
        return Err(format!("the supplied pattern is too short: {pattern}"));
    }
    if text.contains('*') {
        return Err(format!("not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"));
    }
    match prefix {
        Some("") => Err("at least registry hostname is required".into()),
        Some(_) => Ok(()),
        None => check_name(text),
    }
}

/// An image's name without tag or digest: an optional registry, then path components.
fn check_name(image: &str) -> Result<(), String> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    let (name, tag) = match last.split_once(':') {
        // A lone first component with a port would be a registry without a repository: then this is a tag, too.
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    let components: Vec<&str> = name.split('/').collect();
    let (first, path) = components.split_first().expect("invariant: splitting gives at least one part");
    let first_is_registry = !path.is_empty() && is_registry(first);
    let valid = (first_is_registry || is_component(first)) && path.iter().all(|part| is_component(part));
    if !valid {
        let lower_would_do = image.chars().any(|c| c.is_ascii_uppercase());
        let text = if lower_would_do { "repository name must be lowercase" } else { "invalid reference format" };
        return Err(format!("failed to parse as an image name: {text}"));
    }
    if tag.is_some() || digest.is_some() {
        return Err(format!("neither tag nor digest is accepted in an image reference: {image}"));
    }
    Ok(())
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    let is_host = host.split('.').all(|part| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    port.is_none_or(is_port) && (is_host || is_ipv6)
}

/// Lower case words and digits, joined by a dot, one or two underscores, or dashes.
fn is_component(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    let legal = bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(byte));
    let separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let joined = separators
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'));
    edge(bytes.first()) && edge(bytes.last()) && legal && joined
}
