//! How calls to the runtime are counted and traced: one observer, told once of every call, however it ends.
//!
//! The names are upstream's `operation_type` label of `kubelet_runtime_operations_total`, `_duration_seconds` and
//! `_errors_total`; the metrics themselves belong to `telemetry`.

use std::time::Duration;

use tokio::time::Instant;

use super::open_calls::{Entry, OpenCalls, now};

/// Is told of every call to the runtime.
pub trait CallObserver: Send + Sync {
    /// A call ended, or was abandoned by its caller, which counts as a failure. `operation` is upstream's
    /// `operation_type`, `took` the time from asking to having a checked answer.
    fn called(&self, operation: &'static str, took: Duration, failed: bool);

    /// Metadata to send with the call that is about to begin, such as W3C `traceparent`, by which the runtime's spans
    /// find their parent (OBS-30). Asked in the caller's span; names are lower case, and a pair that gRPC cannot send
    /// is left out.
    fn context(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl CallObserver for Unobserved {
    fn called(&self, _: &'static str, _: Duration, _: bool) {}
}

/// One method of CRI: what errors call it and what metrics call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The protocol's name.
    pub method: &'static str,
    /// Upstream's `operation_type`.
    pub operation: &'static str,
}

macro_rules! calls {
    ($($name:ident $method:literal $operation:literal;)*) => {
        impl Call {
            $(
                #[doc = concat!("`", $method, "`.")]
                pub const $name: Self = Self { method: $method, operation: $operation };
            )*
            /// Every method that the agent calls.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

calls! {
    VERSION "Version" "version";
    STATUS "Status" "status";
    RUNTIME_CONFIG "RuntimeConfig" "runtime_config";
    UPDATE_RUNTIME_CONFIG "UpdateRuntimeConfig" "update_runtime_config";
    RUN_POD_SANDBOX "RunPodSandbox" "run_podsandbox";
    STOP_POD_SANDBOX "StopPodSandbox" "stop_podsandbox";
    REMOVE_POD_SANDBOX "RemovePodSandbox" "remove_podsandbox";
    POD_SANDBOX_STATUS "PodSandboxStatus" "podsandbox_status";
    LIST_POD_SANDBOX "ListPodSandbox" "list_podsandbox";
    UPDATE_POD_SANDBOX_RESOURCES "UpdatePodSandboxResources" "update_podsandbox_resources";
    CREATE_CONTAINER "CreateContainer" "create_container";
    START_CONTAINER "StartContainer" "start_container";
    STOP_CONTAINER "StopContainer" "stop_container";
    REMOVE_CONTAINER "RemoveContainer" "remove_container";
    LIST_CONTAINERS "ListContainers" "list_containers";
    CONTAINER_STATUS "ContainerStatus" "container_status";
    UPDATE_CONTAINER_RESOURCES "UpdateContainerResources" "update_container";
    REOPEN_CONTAINER_LOG "ReopenContainerLog" "reopen_container_log";
    CHECKPOINT_CONTAINER "CheckpointContainer" "checkpoint_container";
    EXEC_SYNC "ExecSync" "exec_sync";
    EXEC "Exec" "exec";
    ATTACH "Attach" "attach";
    PORT_FORWARD "PortForward" "port_forward";
    CONTAINER_STATS "ContainerStats" "container_stats";
    LIST_CONTAINER_STATS "ListContainerStats" "list_container_stats";
    POD_SANDBOX_STATS "PodSandboxStats" "podsandbox_stats";
    LIST_POD_SANDBOX_STATS "ListPodSandboxStats" "list_podsandbox_stats";
    LIST_METRIC_DESCRIPTORS "ListMetricDescriptors" "list_metric_descriptors";
    LIST_POD_SANDBOX_METRICS "ListPodSandboxMetrics" "list_podsandbox_metrics";
    GET_CONTAINER_EVENTS "GetContainerEvents" "get_container_events";
    LIST_IMAGES "ListImages" "list_images";
    IMAGE_STATUS "ImageStatus" "image_status";
    PULL_IMAGE "PullImage" "pull_image";
    REMOVE_IMAGE "RemoveImage" "remove_image";
    IMAGE_FS_INFO "ImageFsInfo" "image_fs_info";
}

/// A call under way. Tells the observer exactly once: when it ends, or when it is dropped before.
pub(super) struct TimedCall<'a> {
    observer: &'a dyn CallObserver,
    operation: &'static str,
    begun: Instant,
    failed: bool,
    _open: Entry,
}

impl<'a> TimedCall<'a> {
    /// Begins to measure.
    pub(super) fn begin(observer: &'a dyn CallObserver, call: Call) -> Self {
        let open = OpenCalls::enter(call.method);
        Self { observer, operation: call.operation, begun: now(), failed: true, _open: open }
    }

    /// The call ended.
    pub(super) fn end(mut self, failed: bool) {
        self.failed = failed;
    }
}

impl Drop for TimedCall<'_> {
    fn drop(&mut self) {
        self.observer.called(self.operation, now().saturating_duration_since(self.begun), self.failed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(&'static str, bool)>>);

    impl CallObserver for Seen {
        fn called(&self, operation: &'static str, _: Duration, failed: bool) {
            self.0.lock().expect("no test panicked").push((operation, failed));
        }
    }

    #[test]
    fn a_call_is_told_once_however_it_ends() {
        let seen = Seen::default();
        TimedCall::begin(&seen, Call::VERSION).end(false);
        TimedCall::begin(&seen, Call::STATUS).end(true);
        drop(TimedCall::begin(&seen, Call::PULL_IMAGE)); // abandoned
        assert_eq!(
            *seen.0.lock().expect("no test panicked"),
            [("version", false), ("status", true), ("pull_image", true)]
        );
    }

    #[test]
    fn no_two_methods_share_a_name() {
        let operations: std::collections::BTreeSet<_> = Call::ALL.iter().map(|call| call.operation).collect();
        let methods: std::collections::BTreeSet<_> = Call::ALL.iter().map(|call| call.method).collect();
        assert_eq!((operations.len(), methods.len()), (Call::ALL.len(), Call::ALL.len()));
    }
}
