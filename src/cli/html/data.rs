//! The answers that the page is made of: the trace and the actors, as the local socket gives them. Plain data.

use serde::Deserialize;

/// `/debug/actors/trace`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Trace {
    pub(super) turns: Vec<Turn>,
}

/// One turn of an actor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Turn {
    pub(super) id: u64,
    pub(super) actor: String,
    pub(super) message: String,
    pub(super) pod: String,
    pub(super) cause: Cause,
    /// RFC 3339.
    pub(super) began: String,
    pub(super) began_uptime_seconds: f64,
    pub(super) waited_seconds: f64,
    pub(super) took_seconds: f64,
    pub(super) ending: String,
}

impl Turn {
    /// Uptime at its beginning.
    pub(super) fn at(&self) -> f64 {
        self.began_uptime_seconds
    }

    /// Uptime at its end.
    pub(super) fn end(&self) -> f64 {
        self.at() + self.took_seconds
    }

    /// Uptime when its message entered the mailbox.
    pub(super) fn sent(&self) -> f64 {
        self.at() - self.waited_seconds
    }

    /// The kind of its actor.
    pub(super) fn kind(&self) -> &str {
        self.actor.split('/').next().unwrap_or_default()
    }

    /// Whether an operation or a timer lies between the turn's cause and the turn.
    pub(super) fn ends_operation(&self) -> bool {
        self.cause.turn.is_some() && self.cause.origin != "turn"
    }
}

/// Why a message was sent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Cause {
    pub(super) turn: Option<u64>,
    pub(super) origin: String,
}

impl Cause {
    /// Whether nothing was under way meanwhile: the agent waited for a time, or for something outside.
    pub(super) fn is_wait(&self) -> bool {
        let waits = ["timer", "watch", "wait", "listen", "serve", "list events", "events"];
        waits.iter().any(|word| self.origin.starts_with(word))
    }
}

/// `/debug/actors`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Actors {
    pub(super) uptime_seconds: f64,
    pub(super) actors: Vec<Actor>,
}

/// One actor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) parent: String,
    pub(super) state: String,
    pub(super) note: Option<String>,
    pub(super) mailbox: Mailbox,
    pub(super) turns: u64,
    pub(super) waited: Spread,
    pub(super) took: Spread,
    pub(super) restarts: u64,
    pub(super) last_failure: Option<String>,
    pub(super) open_turn: Option<Turn>,
    pub(super) operations: Vec<Operation>,
}

/// Its mailbox.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Mailbox {
    pub(super) depth: u64,
    pub(super) capacity: u64,
    pub(super) refused: u64,
}

/// Times of its last turns.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Spread {
    pub(super) mean_seconds: f64,
    pub(super) max_seconds: f64,
}

/// Work under way.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) open_seconds: f64,
}

/// The pod of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pod {
    /// Namespace and name.
    pub(super) name: String,
    pub(super) uid: String,
    /// When its condition Ready became true, in seconds of Unix time.
    pub(super) ready_at: Option<i64>,
}

impl Pod {
    /// The pod that `wanted` (`NAMESPACE/POD`, or a UID) names in the answer to `/pods`. A static pod's name may lack the
    /// node's.
    pub(super) fn find(list: &serde_json::Value, wanted: &str) -> Option<Self> {
        let text = |pod: &serde_json::Value, pointer: &str| {
            pod.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        let is_wanted = |pod: &&serde_json::Value| {
            let name = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            let of_node = format!("{wanted}-{}", text(pod, "/spec/nodeName"));
            text(pod, "/metadata/uid") == wanted || name == wanted || name == of_node
        };
        let pod = list["items"].as_array()?.iter().find(is_wanted)?;
        let conditions = pod.pointer("/status/conditions").and_then(serde_json::Value::as_array);
        let is_ready = |it: &&serde_json::Value| it["type"] == "Ready" && it["status"] == "True";
        let ready = conditions.into_iter().flatten().find(is_ready);
        let at = ready.and_then(|it| it["lastTransitionTime"].as_str()).and_then(unix_seconds);
        Some(Self {
            name: format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name")),
            uid: text(pod, "/metadata/uid"),
            ready_at: at,
        })
    }
}

/// The whole seconds of a time as RFC 3339 writes it.
pub(super) fn unix_seconds(time: &str) -> Option<i64> {
    Some(time.parse::<jiff::Timestamp>().ok()?.as_second())
}
