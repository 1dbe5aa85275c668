//! Leaves `managedFields` out of an object's JSON before it is decoded.
//!
//! The record of each field's owner is often half of an object. Decoded, it is a tree of hundreds of values that nobody here
//! reads.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// The object's JSON with `null` in their place. A text that is no object is left as it is: its decoder says what is wrong.
pub(super) fn left_out(json: &[u8]) -> Cow<'_, [u8]> {
    match found(json) {
        Some(place) => [&json[..place.start], b"null", &json[place.end..]].concat().into(),
        None => json.into(),
    }
}

fn found(json: &[u8]) -> Option<Range<usize>> {
    let object: Object<'_> = serde_json::from_slice(json).ok()?;
    let metadata: Metadata<'_> = serde_json::from_str(object.metadata?.get()).ok()?;
    let fields = metadata.managed_fields?.get();
    // Both were borrowed from it.
    let start = fields.as_ptr().addr() - json.as_ptr().addr();
    Some(start..start + fields.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_has_none_and_all_else() {
        for (json, expected) in [
            (
                r#"{"metadata": {"name": "n", "managedFields": [{"fieldsV1": {"f:x": {}}}], "uid": "u"}, "a": 1}"#,
                r#"{"metadata": {"name": "n", "managedFields": null, "uid": "u"}, "a": 1}"#,
            ),
            (
                r#"{"managedFields":[1],"metadata":{"labels":{"a":"\"managedFields\":[2]"},"managedFields":[]}}"#,
                r#"{"managedFields":[1],"metadata":{"labels":{"a":"\"managedFields\":[2]"},"managedFields":null}}"#,
            ),
            (r#"{"metadata":{"managedFields":null}}"#, r#"{"metadata":{"managedFields":null}}"#),
            (r#"{"spec":{"managedFields":[1]}}"#, r#"{"spec":{"managedFields":[1]}}"#),
            (r#"{"metadata":{"managedFields":[1]}"#, r#"{"metadata":{"managedFields":[1]}"#),
            (r#"{"metadata":7}"#, r#"{"metadata":7}"#),
        ] {
            assert_eq!(std::str::from_utf8(&left_out(json.as_bytes())), Ok(expected));
        }
    }
}
