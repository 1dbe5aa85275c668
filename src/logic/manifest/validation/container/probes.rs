//! The rules about probes, and about the actions that probes and hooks share.

use k8s_openapi::api::core::v1::{ExecAction, GRPCAction, HTTPGetAction, Probe, SleepAction, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::PodFacts;
use crate::logic::manifest::validation::field::{Errors, FieldPath, text};
use crate::logic::manifest::validation::names;

/// Abilities of a probe or hook.
#[derive(Default)]
pub(super) struct Handler<'a> {
    pub exec: Option<&'a ExecAction>,
    pub http_get: Option<&'a HTTPGetAction>,
    pub tcp_socket: Option<&'a TCPSocketAction>,
    pub grpc: Option<&'a GRPCAction>,
    pub sleep: Option<&'a SleepAction>,
}

/// A liveness or startup probe.
pub(super) fn liveness_or_startup(probe: &Probe, pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    any_probe(probe, pod, path, errors);
    let success = probe.success_threshold.unwrap_or_default();
    if success != 1 {
        errors.invalid(&path.child("successThreshold"), success, "must be 1");
    }
}

/// A readiness probe.
pub(super) fn readiness(probe: &Probe, pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    any_probe(probe, pod, path, errors);
    if let Some(seconds) = probe.termination_grace_period_seconds {
        errors.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must not be set for readinessProbes");
    }
}

fn any_probe(probe: &Probe, pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    let handler = Handler {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    one_handler(&handler, pod.grace_period, path, errors);
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        errors.nonnegative(&path.child(field), number.unwrap_or_default().into());
    }
    if let Some(seconds) = probe.termination_grace_period_seconds.filter(|seconds| *seconds <= 0) {
        errors.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

/// Exactly one action; those after the first are refused unseen.
pub(super) fn one_handler(handler: &Handler, grace_period: i64, path: &FieldPath, errors: &mut Errors) {
    type Check<'a> = Box<dyn Fn(&FieldPath, &mut Errors) + 'a>;
    let checks: [(&str, Option<Check>); 5] = [
        (
            "exec",
            handler.exec.map(|exec| Box::new(|path: &_, errors: &mut _| exec_action(exec, path, errors)) as Check),
        ),
        (
            "httpGet",
            handler.http_get.map(|http| Box::new(|path: &_, errors: &mut _| http_get(http, path, errors)) as Check),
        ),
        (
            "tcpSocket",
            handler.tcp_socket.map(|tcp| {
                Box::new(|path: &FieldPath, errors: &mut _| port(&tcp.port, &path.child("port"), errors)) as Check
            }),
        ),
        (
            "grpc",
            handler.grpc.map(|grpc| {
                let number = IntOrString::Int(grpc.port);
                Box::new(move |path: &FieldPath, errors: &mut _| port(&number, &path.child("port"), errors)) as Check
            }),
        ),
        (
            "sleep",
            handler.sleep.map(|action| {
                Box::new(move |path: &_, errors: &mut _| sleep(action.seconds, grace_period, path, errors)) as Check
            }),
        ),
    ];
    let mut given = checks.iter().filter_map(|(field, check)| check.as_ref().map(|check| (field, check)));
    let Some((field, check)) = given.next() else { return errors.required(path, "must specify a handler type") };
    check(&path.child(field), errors);
    for (field, _) in given {
        errors.forbidden(&path.child(field), "may not specify more than 1 handler type");
    }
}

fn exec_action(exec: &ExecAction, path: &FieldPath, errors: &mut Errors) {
    if exec.command.as_ref().is_none_or(Vec::is_empty) {
        errors.required(&path.child("command"), "");
    }
}

fn http_get(http: &HTTPGetAction, path: &FieldPath, errors: &mut Errors) {
    if text(&http.path).is_empty() {
        errors.required(&path.child("path"), "");
    }
    port(&http.port, &path.child("port"), errors);
    let scheme = text(&http.scheme);
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in http.http_headers.iter().flatten() {
        errors.invalid_each(&path.child("httpHeaders"), &header.name, names::header_name(&header.name));
    }
}

fn port(port: &IntOrString, path: &FieldPath, errors: &mut Errors) {
    match port {
        IntOrString::Int(number) => {
            for message in names::port_number(*number) {
                errors.invalid(path, *number, message);
            }
        }
        IntOrString::String(name) => errors.invalid_each(path, name, names::port_name(name)),
    }
}

fn sleep(seconds: i64, grace_period: i64, path: &FieldPath, errors: &mut Errors) {
    if seconds < 0 || seconds > grace_period {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
        errors.invalid(path, seconds, detail);
    }
}
