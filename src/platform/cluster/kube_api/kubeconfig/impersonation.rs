//! As whom the server is called, where that is not the kubeconfig's own user: the headers that say so. Plain data.

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use kube::config::AuthInfo;

use super::KubeconfigError;
use super::file::text;

/// The headers of `as`, `as-uid`, `as-groups` and `as-user-extra`; none where nobody is named.
///
/// # Errors
/// When a value cannot stand in a header; the text names the field.
pub(super) fn headers(user: &AuthInfo) -> Result<HeaderMap, KubeconfigError> {
    let mut headers = HeaderMap::new();
    let mut add = |field: &str, header: &str, value: &str| {
        let wrong = || KubeconfigError(format!("invalid {field}: it cannot be sent in a header"));
        let name = HeaderName::from_bytes(header.as_bytes()).map_err(|_| wrong())?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong())?);
        Ok(())
    };
    for (field, header, value) in
        [("as", "impersonate-user", &user.impersonate), ("as-uid", "impersonate-uid", &user.impersonate_uid)]
    {
        let value = text(value);
        if !value.is_empty() {
            add(field, header, value)?;
        }
    }
    for group in user.impersonate_groups.iter().flatten() {
        add("as-groups", "impersonate-group", group)?;
    }
    let extra: BTreeMap<_, _> = user.impersonate_user_extra.iter().flatten().collect();
    for (key, values) in extra {
        let header = format!("impersonate-extra-{}", escaped(key));
        for value in values {
            add("as-user-extra", &header, value)?;
        }
    }
    Ok(headers)
}

/// A key as a part of a header's name: what cannot stand there, and `%`, is written as `%2F`, as upstream's client does.
fn escaped(key: &str) -> String {
    key.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02X}");
        }
        text
    })
}
