//! The files of a configMap or secret volume, by path (VOL-23, VOL-24), and the rules of such paths (VOL-17).
//!
//! Contents may be secret: nothing here prints one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, Secret};

/// The longest element of a path, in bytes.
const ELEMENT_BYTES_MAX: usize = 255;
/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// One file.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadFile {
    /// Its content.
    pub content: Arc<[u8]>,
    /// Permission bits, exactly, whatever the umask.
    pub mode: u32,
    /// The owner; `None` leaves root.
    pub owner: Option<u32>,
}

impl fmt::Debug for PayloadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, mode {:o}, owner {:?}", self.content.len(), self.mode, self.owner)
    }
}

/// Files by path, relative to the volume.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Payload {
    /// The files.
    pub files: BTreeMap<String, PayloadFile>,
}

/// Why a volume's files cannot be computed. Texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The API gives every such volume one.
    #[error("no defaultMode used, not even the default value for it")]
    NoDefaultMode,
    /// A ConfigMap lacks a key.
    #[error("configmap references non-existent config key: {0}")]
    NoConfigKey(String),
    /// A Secret lacks a key.
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    /// A path that must not be.
    #[error("{0}")]
    Path(String),
    /// Several things, each a sentence.
    #[error("{}", aggregate(.0))]
    Several(Vec<String>),
}

/// Several errors in one text, as upstream joins them: equal ones once.
pub(super) fn aggregate(texts: &[String]) -> String {
    let mut once: Vec<&str> = Vec::new();
    for text in texts {
        if !once.contains(&text.as_str()) {
            once.push(text);
        }
    }
    match once.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

impl Payload {
    /// Adds a file; a later one of the same path takes the place of an earlier.
    pub fn insert(&mut self, path: &str, content: impl Into<Arc<[u8]>>, mode: u32, owner: Option<u32>) {
        self.files.insert(path.to_owned(), PayloadFile { content: content.into(), mode, owner });
    }

    /// The same files by their paths in simple form, each checked: none may leave the volume, or be taken for one of the
    /// names that the agent itself keeps there.
    ///
    /// # Errors
    /// Upstream's text about the first bad path; a file and a directory of one name.
    pub fn checked(&self) -> Result<Self, PayloadError> {
        let mut files = BTreeMap::new();
        for (path, file) in &self.files {
            check_path(path)?;
            files.insert(clean(path), file.clone());
        }
        for path in files.keys() {
            let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
            if let Some(parent) = parents.into_iter().find(|parent| files.contains_key(*parent)) {
                return Err(PayloadError::Path(format!("{parent} is both a file and a directory of {path}")));
            }
        }
        Ok(Self { files })
    }
}

/// Upstream's rules for the path of a file in such a volume.
fn check_path(path: &str) -> Result<(), PayloadError> {
    let refuse = |text: String| Err(PayloadError::Path(text));
    if path.is_empty() || clean(path).is_empty() {
        return refuse(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return refuse(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > PATH_BYTES_MAX {
        return refuse(format!("invalid path: must be less than or equal to {PATH_BYTES_MAX} characters"));
    }
    for element in path.split('/') {
        if element == ".." {
            return refuse(format!("invalid path: must not contain '..': {path}"));
        }
        if element.len() > ELEMENT_BYTES_MAX {
            return refuse(format!(
                "invalid path: filenames must be less than or equal to {ELEMENT_BYTES_MAX} characters"
            ));
        }
    }
    if clean(path).starts_with("..") {
        return refuse(format!("invalid path: must not start with '..': {path}"));
    }
    if path.contains('\0') {
        return refuse("invalid path: must not contain NUL".to_owned());
    }
    Ok(())
}

/// A relative path without doubled slashes and `.`; it holds no `..`.
pub(super) fn clean(path: &str) -> String {
    let elements: Vec<&str> = path.split('/').filter(|element| !element.is_empty() && *element != ".").collect();
    elements.join("/")
}

/// A mode of the API as permission bits; the API allows 0 to 0777.
pub(super) fn permission_bits(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or(0) & 0o777
}

/// The files of a ConfigMap. With `items` only those keys; else every key, of `data` and `binaryData` both.
///
/// # Errors
/// A key that is named and missing, unless `optional`.
pub fn config_map_payload(
    items: &[KeyToPath],
    object: &ConfigMap,
    default_mode: Option<i32>,
    optional: bool,
) -> Result<Payload, PayloadError> {
    let find = |key: &str| {
        let text = object.data.as_ref().and_then(|data| data.get(key)).map(|text| Arc::from(text.as_bytes()));
        let bytes = || object.binary_data.as_ref()?.get(key).map(|bytes| Arc::from(bytes.0.as_slice()));
        text.or_else(bytes)
    };
    let data = object.data.iter().flat_map(BTreeMap::keys);
    let keys: Vec<&str> = data.chain(object.binary_data.iter().flat_map(BTreeMap::keys)).map(String::as_str).collect();
    keyed(items, &keys, find, default_mode, optional, PayloadError::NoConfigKey)
}

/// The files of a Secret.
///
/// # Errors
/// A key that is named and missing, unless `optional`.
pub fn secret_payload(
    items: &[KeyToPath],
    object: &Secret,
    default_mode: Option<i32>,
    optional: bool,
) -> Result<Payload, PayloadError> {
    let find = |key: &str| object.data.as_ref()?.get(key).map(|bytes| Arc::from(bytes.0.as_slice()));
    let keys: Vec<&str> = object.data.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    keyed(items, &keys, find, default_mode, optional, PayloadError::NoSecretKey)
}

fn keyed(
    items: &[KeyToPath],
    keys: &[&str],
    find: impl Fn(&str) -> Option<Arc<[u8]>>,
    default_mode: Option<i32>,
    optional: bool,
    missing: fn(String) -> PayloadError,
) -> Result<Payload, PayloadError> {
    let default_mode = default_mode.ok_or(PayloadError::NoDefaultMode)?;
    let mut payload = Payload::default();
    if items.is_empty() {
        for key in keys {
            if let Some(content) = find(key) {
                payload.insert(key, content, permission_bits(default_mode), None);
            }
        }
        return Ok(payload);
    }
    for item in items {
        match find(&item.key) {
            Some(content) => {
                payload.insert(&item.path, content, permission_bits(item.mode.unwrap_or(default_mode)), None);
            }
            None if optional => {}
            None => return Err(missing(item.key.clone())),
        }
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use proptest::prelude::*;

    use super::*;

    fn config_map() -> ConfigMap {
        ConfigMap {
            data: Some(BTreeMap::from([("a".into(), "1".into()), ("b".into(), "2".into())])),
            binary_data: Some(BTreeMap::from([("raw".into(), ByteString(vec![0, 255]))])),
            ..ConfigMap::default()
        }
    }

    fn item(key: &str, path: &str, mode: Option<i32>) -> KeyToPath {
        KeyToPath { key: key.into(), path: path.into(), mode }
    }

    fn files_of(payload: &Payload) -> Vec<(String, Vec<u8>, u32)> {
        payload.files.iter().map(|(path, file)| (path.clone(), file.content.to_vec(), file.mode)).collect()
    }

    /// VOL-23.
    #[test]
    fn without_items_every_key_is_a_file() {
        let payload = config_map_payload(&[], &config_map(), Some(0o640), false).unwrap();
        let expected = [("a", vec![b'1'], 0o640), ("b", vec![b'2'], 0o640), ("raw", vec![0, 255], 0o640)];
        assert_eq!(files_of(&payload), expected.map(|(path, content, mode)| (path.to_owned(), content, mode)));
    }

    /// VOL-23.
    #[test]
    fn items_choose_keys_paths_and_modes() {
        let items = [item("a", "deep/er/one", None), item("raw", "bytes", Some(0o400))];
        let payload = config_map_payload(&items, &config_map(), Some(0o644), false).unwrap();
        let expected = [("bytes", vec![0, 255], 0o400), ("deep/er/one", vec![b'1'], 0o644)];
        assert_eq!(files_of(&payload), expected.map(|(path, content, mode)| (path.to_owned(), content, mode)));
    }

    /// VOL-24.
    #[test]
    fn a_missing_key_fails_in_upstreams_words_unless_optional() {
        let items = [item("nope", "x", None)];
        let error = config_map_payload(&items, &config_map(), Some(0o644), false).unwrap_err();
        assert_eq!(error.to_string(), "configmap references non-existent config key: nope");
        let error = secret_payload(&items, &Secret::default(), Some(0o644), false).unwrap_err();
        assert_eq!(error.to_string(), "references non-existent secret key: nope");
        assert_eq!(secret_payload(&items, &Secret::default(), Some(0o644), true), Ok(Payload::default()));
        let error = secret_payload(&[], &Secret::default(), None, true).unwrap_err();
        assert_eq!(error.to_string(), "no defaultMode used, not even the default value for it");
    }

    /// SEC-40.
    #[test]
    fn what_is_in_a_file_is_not_printed() {
        let mut payload = Payload::default();
        payload.insert("key", b"hunter2".as_slice(), 0o400, Some(7));
        assert_eq!(format!("{payload:?}"), "Payload { files: {\"key\": 7 bytes, mode 400, owner Some(7)} }");
    }

    /// SEC-05.
    #[test]
    fn bad_paths_are_refused() {
        let long = "a".repeat(256);
        let cases = ["", ".", "/etc/passwd", "../x", "a/../../x", "a/..", "..data", "..2026", "./..x", "a\0b", &long];
        for path in cases {
            let mut payload = Payload::default();
            payload.insert(path, b"".as_slice(), 0o644, None);
            assert!(payload.checked().is_err(), "{path:?}");
        }
        for path in ["a", "a..", "a/..b", ".hidden", "a//b", "./a"] {
            let mut payload = Payload::default();
            payload.insert(path, b"".as_slice(), 0o644, None);
            assert!(payload.checked().is_ok(), "{path:?}");
        }
        let mut payload = Payload::default();
        payload.insert("a", b"".as_slice(), 0o644, None);
        payload.insert("a/b", b"".as_slice(), 0o644, None);
        assert!(payload.checked().is_err(), "a file cannot be a directory");
    }

    proptest! {
        #[test]
        fn a_checked_path_stays_in_the_volume_and_off_the_agents_names(path in "[ab./]{0,10}") {
            let mut payload = Payload::default();
            payload.insert(&path, b"".as_slice(), 0o644, None);
            for checked in payload.checked().into_iter().flat_map(|payload| payload.files.into_keys()) {
                prop_assert!(!checked.starts_with(".."));
                prop_assert!(checked.split('/').all(|part| !part.is_empty() && part != "." && part != ".."));
            }
        }
    }
}
