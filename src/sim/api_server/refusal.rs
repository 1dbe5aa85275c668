//! A refusal of the simulated API server, in the words of a real one.

use std::time::Duration;

use serde_json::{Value, json};

use super::resources::{Resource, Target};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status code.
    pub code: u16,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// When to come back.
    pub retry_after: Option<Duration>,
}

impl Refused {
    /// With these words.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), retry_after: None }
    }

    /// The server asks to come back later.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// There is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.full_name()))
    }

    /// There is one already.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", resource.full_name()))
    }

    /// The object is another than was meant.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let what = format!("Operation cannot be fulfilled on {} {name:?}", resource.full_name());
        Self::new(409, "Conflict", format!("{what}: {why}"))
    }

    /// The caller has no right to it.
    pub fn forbidden(user: &str, verb: &str, target: &Target, why: &str) -> Self {
        let Target { resource, namespace, name, .. } = target;
        let place = match namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let object = name.as_ref().map_or_else(String::new, |name| format!(" {name:?}"));
        let (full, plural, group) = (resource.full_name(), resource.plural, resource.group);
        let text = format!(
            "{full}{object} is forbidden: User {user:?} cannot {verb} resource {plural:?} in API group {group:?} {place}"
        );
        Self::new(403, "Forbidden", if why.is_empty() { text } else { format!("{text}: {why}") })
    }

    /// The version asked for is no longer kept.
    pub fn expired(version: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {version} ({oldest})"))
    }

    /// There is no version as new as the one asked for.
    pub fn too_new(version: u64, newest: u64) -> Self {
        let text = format!("Too large resource version: {version}, current: {newest}");
        Self::new(504, "Timeout", text).retry_after(Duration::from_secs(1))
    }

    /// As the `Status` of an answer, or of a watch's last event.
    pub fn status(&self) -> Value {
        let Self { code, reason, message, retry_after } = self;
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        if let Some(wait) = retry_after {
            status["details"] = json!({ "retryAfterSeconds": wait.as_secs() });
        }
        status
    }
}
