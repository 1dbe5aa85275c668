//! Rules about the operating system, metrics, tracing, endpoints and log files. Part of `validate`.

use super::{Host, Review, logging};
use crate::config::duration::GoDuration;
use crate::config::files::clean;
use crate::config::version;

/// IDs of a user namespace come in units of this many (KEP-127).
const USER_NAMESPACE_UNIT: i64 = 65_536;

impl Review<'_> {
    /// The error names only the first of these, as upstream's does.
    pub(super) fn operating_system(&mut self, host: Host) {
        let c = self.config;
        if host.cgroup_v1 && c.fail_cgroup_v1 {
            self.errors.push(
                "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will \
                 be removed in a future release"
                    .into(),
            );
            return;
        }
        if host.cgroup_v1 && c.single_process_oom_kill == Some(false) {
            self.refuse_if(true, || {
                "singleProcessOOMKill must not be explicitly set to false when using cgroup v1".into()
            });
            return;
        }
        let Some(ids) = c.user_namespaces.and_then(|namespaces| namespaces.ids_per_pod) else { return };
        let (unit, max) = (USER_NAMESPACE_UNIT, i64::from(u32::MAX));
        if ids < unit {
            self.refuse_if(true, || format!("userNamespaces.idsPerPod must not be less than {unit}"));
        } else if ids % unit != 0 {
            self.refuse_if(true, || format!("userNamespaces.idsPerPod must be a multiple of {unit}"));
        } else {
            self.refuse_if(ids > max, || format!("userNamespaces.idsPerPod must not be more than {max}"));
        }
    }

    pub(super) fn observability(&mut self) {
        let shown = &self.config.show_hidden_metrics_for_version;
        if !shown.is_empty() && shown != version::PREVIOUS_MINOR {
            self.errors.push(format!(
                "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: {shown:?}: must be \
                 omitted or have the value '{}'; only the previous minor version is allowed",
                version::PREVIOUS_MINOR
            ));
        }
        self.errors.extend(logging::errors(&self.config.logging, self.gates));
        let Some(tracing) = &self.config.tracing else { return };
        if let Some(rate) = tracing.sampling_rate_per_million {
            let wrong = match rate {
                ..0 => Some("sampling rate must be positive"),
                1_000_001.. => Some("sampling rate per million must be less than or equal to one million"),
                _ => None,
            };
            self.errors
                .extend(wrong.map(|wrong| format!("tracing.samplingRatePerMillion: Invalid value: {rate}: {wrong}")));
        }
        if let Some(Err(error)) = tracing.endpoint.as_deref().map(check_endpoint) {
            self.errors.push(error);
        }
    }

    pub(super) fn endpoints_and_logs(&mut self) {
        let c = self.config;
        self.refuse_if(c.container_runtime_endpoint.is_empty(), || {
            "the containerRuntimeEndpoint was not specified or empty".into()
        });
        // The gate NodeLogQuery is locked on at this release.
        self.refuse_if(c.enable_system_log_query && !c.enable_system_log_handler, || {
            "enableSystemLogHandler is required for enableSystemLogQuery".into()
        });
        self.refuse_if(c.container_log_max_workers < 1, || {
            "containerLogMaxWorkers must be greater than or equal to 1".into()
        });
        self.refuse_if(c.container_log_monitor_interval < GoDuration::from_secs(3), || {
            "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s".into()
        });
        self.refuse_if(c.container_log_max_files <= 1, || "containerLogMaxFiles must be greater than 1".into());
    }

    pub(super) fn pod_logs_directory(&mut self) {
        let path = &self.config.pod_logs_dir;
        self.refuse_if(path.is_empty(), || "podLogsDir was not specified".into());
        self.refuse_if(!path.starts_with('/'), || format!("pod logs path {path:?} must be absolute path"));
        self.refuse_if(clean(path) != *path, || format!("pod logs path {path:?} must be normalized"));
        // The path is a label of metrics. The misspelling is upstream's.
        self.refuse_if(!path.is_ascii(), || format!("pod logs path {path:?} mut contains ASCII characters only"));
    }
}

fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let endpoint = if endpoint.contains("//") { endpoint.to_owned() } else { format!("dns://{endpoint}") };
    let invalid = |detail: String| Err(format!("tracing.endpoint: Invalid value: {endpoint:?}: {detail}"));
    let before_slash = endpoint.split('/').next().unwrap_or_default();
    let scheme = match before_slash.split_once(':') {
        None => "",
        Some((scheme, _)) => scheme,
    };
    let legal = scheme.chars().enumerate().all(|(index, c)| {
        c.is_ascii_alphabetic() || (index > 0 && (c.is_ascii_digit() || ['+', '-', '.'].contains(&c)))
    });
    if !legal {
        return invalid(format!("parse {endpoint:?}: first path segment in URL cannot contain colon"));
    }
    match scheme.to_ascii_lowercase().as_str() {
        "dns" | "unix" | "unix-abstract" => Ok(()),
        other => invalid(format!(
            "unsupported scheme: {other}.  Options are none, dns, unix, or unix-abstract.  See \
             https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )),
    }
}
