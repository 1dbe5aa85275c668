//! The rules about lifecycle hooks and stop signals.

use k8s_openapi::api::core::v1::{Lifecycle, LifecycleHandler};

use super::PodFacts;
use super::probes::{Handler, one_handler};
use crate::logic::manifest::validation::field::{Errors, FieldPath};

/// The hooks and the stop signal of a container.
pub(super) fn lifecycle(lifecycle: &Lifecycle, pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(hook) = hook {
            one_handler(&handler_of_hook(hook), pod.grace_period, &path.child(field), errors);
        }
    }
    if let Some(signal) = &lifecycle.stop_signal {
        stop_signal(signal, pod.os, &path.child("stopSignal"), errors);
    }
}

fn handler_of_hook(hook: &LifecycleHandler) -> Handler<'_> {
    Handler {
        exec: hook.exec.as_ref(),
        http_get: hook.http_get.as_ref(),
        tcp_socket: hook.tcp_socket.as_ref(),
        grpc: None,
        sleep: hook.sleep.as_ref(),
    }
}

/// The signals that a Linux container can be stopped with, besides the real-time ones.
const SIGNALS: [&str; 35] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGRTMIN",
];

fn stop_signal(signal: &str, os: &str, path: &FieldPath, errors: &mut Errors) {
    if os.is_empty() {
        return errors.forbidden(path, "may not be set for containers with empty `spec.os.name`");
    }
    let up = (1..=15).map(|step| format!("SIGRTMIN+{step}"));
    let down = (1..=14).map(|step| format!("SIGRTMAX-{step}"));
    let real_time: Vec<String> = up.chain(down).chain(["SIGRTMAX".to_owned()]).collect();
    let mut supported: Vec<&str> = match os {
        "windows" => vec!["SIGKILL", "SIGTERM"],
        _ => SIGNALS.iter().copied().chain(real_time.iter().map(String::as_str)).collect(),
    };
    supported.sort_unstable();
    if !supported.contains(&signal) {
        errors.not_supported(path, signal, &supported);
    }
}
