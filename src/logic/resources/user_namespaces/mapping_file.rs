//! The file `userns` in a pod's directory, which keeps the pod's range: upstream's form.

use serde::{Deserialize, Serialize};

use super::IdRange;

/// The file's name.
pub const NAME: &str = "userns";
/// No more of a file is read: one that the agent wrote has less than 200 bytes.
pub const BYTES_MAX: u64 = 64 << 10;

#[derive(Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Content {
    uid_mappings: Option<Vec<Mapping>>,
    gid_mappings: Option<Vec<Mapping>>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

/// Why a file cannot be followed; upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// It cannot be read.
    #[error("{0}")]
    Unread(String),
    /// It is no such JSON.
    #[error("invalid user namespace mappings file: {0}")]
    Json(String),
    /// It has several ranges, or none.
    #[error("invalid user namespace configuration: no more than one mapping allowed.")]
    NotOne,
    /// It has more ranges of groups than of users, or fewer.
    #[error("invalid user namespace configuration: GID and UID mappings should be identical.")]
    Numbers,
    /// Groups and users have other ranges.
    #[error("invalid user namespace configuration: GID and UID mapping should be identical")]
    Differ,
    /// The pod's root is nobody on the host.
    #[error("invalid user namespace configuration: UID 0 must be mapped")]
    NoRoot,
    /// The range has another size than those of this configuration.
    #[error("wrong user namespace length {0}")]
    Length(u32),
    /// The range begins in the middle of a slot.
    #[error("wrong user namespace offset specified {0}")]
    Offset(u32),
    /// The range is none of those that pods may have.
    #[error("id {0} is out of range")]
    OutOfRange(u32),
    /// The range, or a part of it, is another pod's.
    #[error("range picked for pod {0:?} already taken")]
    Taken(String),
}

/// The file's content for a range.
pub fn print(range: IdRange) -> Vec<u8> {
    let mapping = Mapping { host_id: range.first, container_id: 0, length: range.length };
    let content = Content { uid_mappings: Some(vec![mapping]), gid_mappings: Some(vec![mapping]) };
    serde_json::to_vec(&content).expect("invariant: numbers under text keys")
}

/// The range that a file says.
///
/// # Errors
/// When it says none, or not one that the agent could have written.
pub fn parse(bytes: &[u8]) -> Result<IdRange, FileProblem> {
    let content: Content = serde_json::from_slice(bytes).map_err(|error| FileProblem::Json(error.to_string()))?;
    let (users, groups) = (content.uid_mappings.unwrap_or_default(), content.gid_mappings.unwrap_or_default());
    match (&users[..], &groups[..]) {
        ([users], [groups]) if users != groups => Err(FileProblem::Differ),
        ([users], [_]) if users.container_id != 0 => Err(FileProblem::NoRoot),
        ([users], [_]) => Ok(IdRange { first: users.host_id, length: users.length }),
        ([_], _) => Err(FileProblem::Numbers),
        _ => Err(FileProblem::NotOne),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RES-63: the names and their order, so that either agent goes on from the other's file.
    #[test]
    fn res_63_the_file_has_upstreams_form() {
        let range = IdRange { first: 131_072, length: 65_536 };
        let text = r#"{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}"#;
        assert_eq!(String::from_utf8(print(range)).expect("text"), text);
        assert_eq!(parse(text.as_bytes()), Ok(range));
    }

    /// RES-63.
    #[test]
    fn res_63_a_file_that_nobody_wrote_so_is_told_in_upstreams_words() {
        let one = r#"{"hostId":65536,"containerId":0,"length":65536}"#;
        let inner = r#"{"hostId":65536,"containerId":1,"length":65536}"#;
        for (users, groups, problem) in [
            ("", "", FileProblem::NotOne),
            (&*format!("{one},{one}"), one, FileProblem::NotOne),
            (one, "", FileProblem::Numbers),
            (one, &*format!("{one},{one}"), FileProblem::Numbers),
            (one, inner, FileProblem::Differ),
            (inner, inner, FileProblem::NoRoot),
        ] {
            let text = format!(r#"{{"uidMappings":[{users}],"gidMappings":[{groups}]}}"#);
            assert_eq!(parse(text.as_bytes()), Err(problem), "{text}");
        }
        for text in ["", "{", "[1]", r#"{"uidMappings":[{"hostId":-1}]}"#, r#"{"uidMappings":[{"hostId":4294967296}]}"#]
        {
            let told = parse(text.as_bytes()).expect_err(text).to_string();
            assert!(told.starts_with("invalid user namespace mappings file: "), "{told}");
        }
        assert_eq!(parse(b"{}"), Err(FileProblem::NotOne));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(first: u32, length: u32) {
            let range = IdRange { first, length };
            prop_assert_eq!(parse(&print(range)), Ok(range));
        }

        #[test]
        fn no_content_is_a_reason_to_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
