//! Why a request for a stream is refused, with the status and the text that upstream answers.

use axum::http::{HeaderValue, StatusCode, header};

use super::super::reply::{self, Reply};
use crate::actors::kit::address::AskError;
use crate::cri::CriError;
use crate::logic::serving::streams::limits::TooMany;
use crate::platform::network::runtime_stream::StreamError;

/// The time that upstream names to whom comes too often: how long a URL of the runtime's is good for.
const RETRY_AFTER: &str = "60";

/// See the module.
#[derive(Debug)]
pub(in crate::server) struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// 400.
    pub(in crate::server) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 403.
    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// 404.
    pub(in crate::server) fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 500.
    pub(in crate::server) fn internal(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// The answer.
    pub(in crate::server) fn reply(self) -> Reply {
        let mut answer = reply::text(self.status, self.text);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        answer
    }
}

impl From<CriError> for Problem {
    /// SRV-48.
    fn from(error: CriError) -> Self {
        let status = match &error {
            CriError::NotFound { .. } => StatusCode::NOT_FOUND,
            CriError::Other { code: "ResourceExhausted", .. } => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<TooMany> for Problem {
    fn from(error: TooMany) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, error.to_string())
    }
}

impl From<StreamError> for Problem {
    fn from(error: StreamError) -> Self {
        Self::internal(format!("{error}\n"))
    }
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, format!("Internal Error: StatusManager: {error}\n"))
    }
}
