//! How a command ended, as `v5.channel.k8s.io` tells it: the runtime's word, read and written anew, as upstream does.

use serde::{Deserialize, Serialize};

const EXIT_CODE: &str = "ExitCode";
const NON_ZERO: &str = "NonZeroExitCode";

/// A `metav1.Status`, its fields in Go's order.
#[derive(Serialize, Deserialize, Default)]
struct Status {
    #[serde(default)]
    metadata: Empty,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
}

#[derive(Serialize, Deserialize, Default)]
struct Empty {}

#[derive(Serialize, Deserialize, Default)]
struct Details {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
}

#[derive(Serialize, Deserialize)]
struct Cause {
    #[serde(default, rename = "reason", skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

/// The command ended well.
pub fn success() -> String {
    json_of(&Status { status: "Success".to_owned(), ..Status::default() })
}

/// The agent, or the runtime, could not do what was asked.
pub fn internal_error(why: &str) -> String {
    json_of(&Status {
        status: "Failure".to_owned(),
        message: format!("Internal error occurred: {why}"),
        reason: "InternalError".to_owned(),
        details: Some(Details { causes: vec![Cause { kind: String::new(), message: why.to_owned() }] }),
        code: Some(500),
        ..Status::default()
    })
}

/// The status that the client of `v5.channel.k8s.io` gets, from the runtime's text in the error stream of
/// `v4.channel.k8s.io`.
pub fn from_runtime(written: &[u8]) -> String {
    match outcome(written) {
        Ok(0) => success(),
        Ok(code) => json_of(&Status {
            status: "Failure".to_owned(),
            message: format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
            reason: NON_ZERO.to_owned(),
            details: Some(Details { causes: vec![Cause { kind: EXIT_CODE.to_owned(), message: code.to_string() }] }),
            ..Status::default()
        }),
        Err(why) => internal_error(&why),
    }
}

/// The exit code, or what went wrong, in the words of upstream's client.
///
/// # Errors
/// The command did not run, or did not run to an end that is known.
pub fn outcome(written: &[u8]) -> Result<u8, String> {
    if written.is_empty() {
        // Upstream takes this for success; but a runtime that says nothing has not said that.
        return Err("the runtime ended the stream without a status".to_owned());
    }
    let status: Status = serde_json::from_slice(written)
        .map_err(|error| format!("error stream protocol error: {error} in {:?}", String::from_utf8_lossy(written)))?;
    match status.status.as_str() {
        "Success" => return Ok(0),
        "Failure" if status.reason == NON_ZERO => {}
        "Failure" => return Err(status.message),
        _ => return Err("error stream protocol error: unknown error".to_owned()),
    }
    let Some(details) = status.details else {
        return Err("error stream protocol error: details must be set".to_owned());
    };
    let Some(cause) = details.causes.iter().find(|cause| cause.kind == EXIT_CODE) else {
        return Err(format!("error stream protocol error: no {EXIT_CODE} cause given"));
    };
    let invalid = || format!("error stream protocol error: invalid exit code value {:?}", cause.message);
    cause.message.parse().map_err(|_| invalid())
}

fn json_of(status: &Status) -> String {
    serde_json::to_string(status).expect("invariant: a status has a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_in_upstreams_bytes() {
        let exit = r#"{"status":"Failure","message":"m","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        let told_exit = r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(from_runtime(exit.as_bytes()), told_exit);
        assert_eq!(from_runtime(br#"{"metadata":{},"status":"Success"}"#), r#"{"metadata":{},"status":"Success"}"#);
        assert_eq!(from_runtime(br#"{"status":"Success"}"#), r#"{"metadata":{},"status":"Success"}"#);
        let failed =
            br#"{"status":"Failure","message":"Internal error occurred: no","reason":"InternalError","code":500}"#;
        let told_failed = r#"{"metadata":{},"status":"Failure","message":"Internal error occurred: Internal error occurred: no","reason":"InternalError","details":{"causes":[{"message":"Internal error occurred: no"}]},"code":500}"#;
        assert_eq!(from_runtime(failed), told_failed);
    }

    #[test]
    fn a_status_that_says_nothing_is_a_failure() {
        for (written, why) in [
            (&b""[..], "the runtime ended the stream without a status"),
            (br#"{}"#, "error stream protocol error: unknown error"),
            (br#"{"status":"Failure","reason":"NonZeroExitCode"}"#, "error stream protocol error: details must be set"),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"999"}]}}"#,
                "error stream protocol error: invalid exit code value \"999\"",
            ),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#,
                "error stream protocol error: no ExitCode cause given",
            ),
        ] {
            assert_eq!(from_runtime(written), internal_error(why));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_word_of_the_runtime_is_too_odd(written: Vec<u8>) {
            let told = from_runtime(&written);
            proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&told).is_ok());
        }
    }
}
