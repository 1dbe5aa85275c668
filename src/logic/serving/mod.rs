//! Serving: who may ask the server for what, and the streams that run through it.
//!
//! May import `formats` and `model`.

pub mod any_authority;
pub mod call_rate;
pub mod crowding;
pub mod review_places;
pub mod server_access;
pub mod spdy;
pub mod streams;
pub mod timed_cache;

use std::time::Duration;

use streams::limits::StreamLimits;

/// The logs that are answered over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServedLogs {
    /// Gate `PodLogsQuerySplitStreams`: one stream of a container's log may be asked for alone.
    pub split_streams: bool,
    /// `enableSystemLogHandler`: the node's own log files.
    pub system: bool,
    /// `enableSystemLogQuery`: these, and the journal, by service.
    pub system_query: bool,
}

/// The configuration of exec, attach, port forward and checkpoints. Units are in the types.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Gate `ExtendWebSocketsToKubelet`: `v5.channel.k8s.io` and tunnels end at the agent, not at the runtime.
    pub websockets_end_here: bool,
    /// `streamingConnectionIdleTimeout`: a stream on which nothing moves for this long ends; zero for never.
    pub idle_max: Duration,
    /// How many there may be.
    pub limits: StreamLimits,
    /// Which web pages may open a stream, by their `Origin`; `None` for all, as upstream (SEC-36).
    pub origins: Option<Vec<String>>,
    /// Whether a stream by `GET`, which is how WebSocket begins, needs the right to `create`, too (SEC-35).
    pub get_needs_create: bool,
    /// Gate `ContainerCheckpoint`.
    pub checkpoints: bool,
    /// Where checkpoints lie.
    pub checkpoints_dir: String,
    /// How many there may be; `None` for no limit, as upstream (SEC-39).
    pub checkpoints_max: Option<usize>,
}

impl Default for StreamSettings {
    /// Upstream's defaults, and nowhere for checkpoints to lie.
    fn default() -> Self {
        Self {
            websockets_end_here: true,
            idle_max: Duration::from_secs(4 * 3600),
            limits: StreamLimits::default(),
            origins: None,
            get_needs_create: false,
            checkpoints: true,
            checkpoints_dir: String::new(),
            checkpoints_max: None,
        }
    }
}
