//! The ends of a call of the API server other than its answer. Owned by the caller; keeps no header, token or body.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

/// The longest wait that a server is granted when it asks to be left alone. One that asks for years, by mistake or out of
/// malice, would else silence whoever heeds it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A call of the API server that had no usable answer. Its text is what upstream's client prints.
///
/// Texts never hold what was sent, nor what was read from an object: those may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server refused, and said why.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// No answer was had: no connection, or it broke.
    #[error("{0}")]
    Transport(String),
    /// No answer was had in time.
    #[error("{request}: context deadline exceeded")]
    Deadline {
        /// Verb and address, as in `Get "https://…"`.
        request: String,
    },
    /// The answer was not what was asked for, or was larger than allowed.
    #[error("{0}")]
    Answer(String),
    /// The call could not be made: a name that no object can have, a body that cannot be written.
    #[error("{0}")]
    Request(String),
}

/// The parts of a `Status` that decisions are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty if the server gave none.
    pub reason: String,
    /// The server's words.
    pub message: String,
    /// How long the server asks to wait before the next try; a minute at most.
    pub retry_after: Option<Duration>,
    /// Whether the code alone came, without a `Status`: who answered may be a proxy, or a server that does not know the
    /// kind of object.
    pub bare: bool,
}

impl ApiError {
    /// The server's refusal, if that is what it was.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// HTTP status code of the refusal, if the server answered with one.
    pub fn code(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.code)
    }

    /// The object is not there. A code alone, such as a proxy's, does not say so: conclusions are drawn from this.
    pub fn is_not_found(&self) -> bool {
        !self.is_bare() && self.has("NotFound", 404)
    }

    /// The object changed since it was read, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.has("Conflict", 409)
    }

    /// An object of this name is there already.
    pub fn is_already_exists(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.reason == "AlreadyExists")
    }

    /// The server knows who asks, and does not allow it.
    pub fn is_forbidden(&self) -> bool {
        self.has("Forbidden", 403)
    }

    /// The object or the patch is not valid: sent again, it would be refused again.
    pub fn is_invalid(&self) -> bool {
        self.has("Invalid", 422) || self.has("BadRequest", 400)
    }

    /// The server does not accept the credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.has("Unauthorized", 401)
    }

    /// The resource version asked for is no longer kept: list anew.
    pub fn is_gone(&self) -> bool {
        self.has("Gone", 410) || self.has("Expired", 410)
    }

    /// The server knows no version as new as the one asked for: list anew. One whose store was restored from a copy.
    pub fn is_too_new(&self) -> bool {
        self.code() == Some(504)
            && self.refusal().is_some_and(|refusal| refusal.message.contains("Too large resource version"))
    }

    /// The server asks for fewer calls.
    pub fn is_too_many(&self) -> bool {
        self.has("TooManyRequests", 429)
    }

    /// The refusal was a code without a `Status`.
    pub fn is_bare(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.bare)
    }

    /// How long the server asks to wait before the next try, if it does; a minute at most.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(|refusal| refusal.retry_after)
    }

    /// Nobody answered: not known whether the call was carried out.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Transport(_) | Self::Deadline { .. })
    }

    /// The same call may well succeed later: nobody answered, or the server was too busy or broken.
    pub fn is_transient(&self) -> bool {
        self.is_unreachable() || self.is_too_many() || self.code().is_some_and(|code| code >= 500 || code == 408)
    }

    /// The server understood the call and will not have it: the same call gets the same answer until somebody changes something.
    /// A code alone may be a proxy's.
    pub fn is_final(&self) -> bool {
        !self.is_bare() && matches!(self.code(), Some(400 | 403 | 405 | 413 | 415 | 422))
    }

    /// A reason counts before the code: as in upstream's client, the code alone speaks only if there is no reason.
    fn has(&self, reason: &str, code: u16) -> bool {
        self.refusal().is_some_and(|refusal| match refusal.reason.as_str() {
            "" | "Unknown" => refusal.code == code,
            given => given == reason,
        })
    }

    /// From the `Status` that came with an answer's code, or as an event of a watch. `code` 0 takes the `Status`' own.
    pub(super) fn from_status(status: &Status, code: u16, retry_after: Option<Duration>) -> Self {
        let own = status.code.and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
        let code = if own == 0 { code } else { own };
        let asked = status.details.as_ref().and_then(|details| details.retry_after_seconds);
        let asked = asked.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
        let refusal = Refusal {
            code,
            reason: status.reason.clone().unwrap_or_default(),
            message: status.message.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned()),
            retry_after: retry_after.or_else(|| asked.map(granted)),
            bare: false,
        };
        Self::Refused(Box::new(refusal))
    }

    /// From an answer whose body is no `Status`: what upstream's client says of the code alone. `said` is the body where
    /// it is text, `about` the call as `(get pods web)`.
    pub(super) fn from_code(code: u16, post: bool, said: &str, about: &str, retry_after: Option<Duration>) -> Self {
        let (reason, text) = words_of(code, post, said);
        let message = if about.is_empty() { text } else { format!("{text} {about}") };
        Self::Refused(Box::new(Refusal { code, reason: reason.to_owned(), message, retry_after, bare: true }))
    }
}

/// How long a server that asks for so many seconds is left alone.
pub(super) fn granted(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(RETRY_AFTER_MAX)
}

/// Reason and text that upstream's client gives a bare status code.
fn words_of(code: u16, post: bool, said: &str) -> (&'static str, String) {
    let (reason, text) = match code {
        409 if post => ("AlreadyExists", "the server reported a conflict"),
        409 => ("Conflict", "the server reported a conflict"),
        404 => ("NotFound", "the server could not find the requested resource"),
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", said),
        406 if said == "unknown" || said.is_empty() => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports")
        }
        406 => ("NotAcceptable", said),
        415 => ("UnsupportedMediaType", said),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
        500.. => {
            let text = format!("an error on the server ({said:?}) has prevented the request from succeeding");
            return ("InternalError", text);
        }
        _ => {
            let text = format!("the server responded with the status code {code} but did not return more information");
            return ("Unknown", text);
        }
    };
    (reason, text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};

    use super::{ApiError, Refusal};

    #[test]
    fn a_reason_counts_before_the_code() {
        let refused = |code, reason: &str| {
            ApiError::Refused(Box::new(Refusal { code, reason: reason.to_owned(), ..Refusal::default() }))
        };
        assert!(refused(409, "AlreadyExists").is_already_exists());
        assert!(!refused(409, "AlreadyExists").is_conflict());
        assert!(refused(409, "Conflict").is_conflict());
        assert!(refused(409, "").is_conflict());
        assert!(refused(404, "").is_not_found());
        assert!(!refused(404, "Expired").is_not_found());
        assert!(refused(404, "NotFound").is_not_found() && refused(404, "Unknown").is_not_found());
        assert!(refused(410, "Expired").is_gone() && refused(410, "Gone").is_gone() && refused(410, "").is_gone());
        assert!(refused(500, "InternalError").is_transient() && refused(429, "TooManyRequests").is_transient());
        assert!(!refused(403, "Forbidden").is_transient() && !refused(403, "Forbidden").is_unreachable());
    }

    #[test]
    fn a_bare_code_has_the_words_of_the_usual_client() {
        let text = |code, post, said: &str, about: &str| ApiError::from_code(code, post, said, about, None).to_string();
        assert_eq!(
            text(404, false, "404 page not found", "(get pods web)"),
            "the server could not find the requested resource (get pods web)"
        );
        assert_eq!(
            text(500, false, "boom", ""),
            "an error on the server (\"boom\") has prevented the request from succeeding"
        );
        assert_eq!(
            text(418, false, "", ""),
            "the server responded with the status code 418 but did not return more information"
        );
        assert!(ApiError::from_code(409, true, "", "", None).is_already_exists());
        assert!(ApiError::from_code(409, false, "", "", None).is_conflict());
    }

    /// A proxy that lost its way must not end what runs.
    #[test]
    fn a_bare_404_does_not_say_that_an_object_is_gone() {
        let bare = ApiError::from_code(404, false, "404 page not found", "(get pods web)", None);
        assert!(bare.is_bare() && !bare.is_not_found());
        assert_eq!(bare.code(), Some(404));
        let told = Status { status: Some("Failure".to_owned()), code: Some(404), ..Status::default() };
        let told = ApiError::from_status(&told, 404, None);
        assert!(!told.is_bare() && told.is_not_found());
    }

    #[test]
    fn nobody_is_silenced_for_longer_than_a_minute() {
        for (seconds, granted) in [(1, 1), (60, 60), (61, 60), (i32::MAX, 60)] {
            let details = StatusDetails { retry_after_seconds: Some(seconds), ..StatusDetails::default() };
            let status = Status { code: Some(429), details: Some(details), ..Status::default() };
            let error = ApiError::from_status(&status, 429, None);
            assert_eq!(error.retry_after(), Some(Duration::from_secs(granted)), "{seconds}");
        }
    }
}
