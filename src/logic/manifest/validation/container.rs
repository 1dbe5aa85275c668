//! The rules about containers and init containers: names, images, ports, and what each kind may not have.

pub(super) mod environment;
mod hooks;
pub(super) mod mounts;
mod probes;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, ContainerResizePolicy};

use super::field::{Errors, FieldPath, text};
use super::volumes::{Volumes, pull_policy};
use super::{names, resources, security};

/// Facts of the pod that the rules about a container need.
pub(super) struct PodFacts<'a> {
    /// The pod's volumes without an error of their own.
    pub volumes: Volumes<'a>,
    /// The names of the pod's resource claims.
    pub claims: BTreeSet<&'a str>,
    /// In seconds.
    pub grace_period: i64,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: &'a str,
    /// The operating system that the pod names, or nothing.
    pub os: &'a str,
    /// Whether the pod lives in the host's user namespace.
    pub host_users: bool,
}

const POLICY_MISSING: &str = "must specify restartPolicy when restart rules are used";
const NOT_FOR_INIT: &str = "may not be set for init containers without restartPolicy=Always";

/// All ordinary containers.
pub(super) fn ordinary(containers: &[Container], pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        common(container, pod, &path, errors);
        if !seen.insert(container.name.as_str()) {
            errors.duplicate(&path.child("name"), container.name.as_str());
        }
        hooks_and_probes(container, pod, &path, errors);
        restart_policy(container, &path, errors);
    }
    host_port_conflicts(containers, path, errors);
}

/// All init containers; `ordinary` are the containers whose names are taken.
pub(super) fn init(
    containers: &[Container],
    ordinary: &[Container],
    pod: &PodFacts,
    path: &FieldPath,
    errors: &mut Errors,
) {
    let mut seen: BTreeSet<&str> = ordinary.iter().map(|container| container.name.as_str()).collect();
    for (index, container) in containers.iter().enumerate() {
        let item = path.index(index);
        common(container, pod, &item, errors);
        match &container.restart_policy {
            // Nothing more is said about rules that have no policy; of an ordinary container it is.
            None if container.restart_policy_rules.as_ref().is_some_and(|rules| !rules.is_empty()) => {
                errors.required(&item.child("restartPolicy"), POLICY_MISSING);
            }
            _ => restart_policy(container, &item, errors),
        }
        if !container.name.is_empty() && !seen.insert(&container.name) {
            errors.duplicate(&item.child("name"), container.name.as_str());
        }
        // One after another: each conflicts only with itself. Upstream names the list's first item then.
        host_port_conflicts(std::slice::from_ref(container), path, errors);
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        if is_sidecar {
            hooks_and_probes(container, pod, &item, errors);
            continue;
        }
        for (name, is_set) in [
            ("lifecycle", container.lifecycle.is_some()),
            ("livenessProbe", container.liveness_probe.is_some()),
            ("readinessProbe", container.readiness_probe.is_some()),
            ("startupProbe", container.startup_probe.is_some()),
        ] {
            if is_set {
                errors.forbidden(&item.child(name), NOT_FOR_INIT);
            }
        }
        for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
            if policy.restart_policy == "RestartContainer" {
                let path = item.child("resizePolicy").index(index).child("restartPolicy");
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.invalid(&path, policy.restart_policy.as_str(), detail);
            }
        }
    }
}

/// The rules of a pod that its template need not meet.
pub(super) fn only_for_pods(containers: &[Container], path: &FieldPath, errors: &mut Errors) {
    for (index, container) in containers.iter().enumerate() {
        let image = text(&container.image);
        if image.trim() != image {
            let path = path.index(index).child("image");
            errors.invalid(&path, image, "must not have leading or trailing whitespace");
        }
    }
}

fn common(container: &Container, pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    match container.name.as_str() {
        "" => errors.required(&path.child("name"), ""),
        name => errors.invalid_each(&path.child("name"), name, names::dns_label(name)),
    }
    if text(&container.image).is_empty() {
        errors.required(&path.child("image"), "");
    }
    let message_policies = ["File", "FallbackToLogsOnError"];
    let message_policy = text(&container.termination_message_policy);
    errors.one_of(&path.child("terminationMessagePolicy"), message_policy, &message_policies);
    ports(container.ports.as_deref().unwrap_or_default(), &path.child("ports"), errors);
    environment::variables(container.env.as_deref().unwrap_or_default(), &path.child("env"), errors);
    environment::sources(container.env_from.as_deref().unwrap_or_default(), &path.child("envFrom"), errors);
    mounts::volume_mounts(container, &pod.volumes, &path.child("volumeMounts"), errors);
    mounts::volume_devices(container, &pod.volumes, &path.child("volumeDevices"), errors);
    pull_policy(text(&container.image_pull_policy), &path.child("imagePullPolicy"), errors);
    if let Some(requirements) = &container.resources {
        resources::of_container(requirements, &pod.claims, &path.child("resources"), errors);
    }
    let resize = container.resize_policy.as_deref().unwrap_or_default();
    resize_policy(resize, pod.restart_policy, &path.child("resizePolicy"), errors);
    if let Some(context) = &container.security_context {
        security::of_container(context, pod.host_users, &path.child("securityContext"), errors);
    }
}

fn hooks_and_probes(container: &Container, pod: &PodFacts, path: &FieldPath, errors: &mut Errors) {
    if let Some(lifecycle) = &container.lifecycle {
        hooks::lifecycle(lifecycle, pod, &path.child("lifecycle"), errors);
    }
    if let Some(probe) = &container.liveness_probe {
        probes::liveness_or_startup(probe, pod, &path.child("livenessProbe"), errors);
    }
    if let Some(probe) = &container.readiness_probe {
        probes::readiness(probe, pod, &path.child("readinessProbe"), errors);
    }
    if let Some(probe) = &container.startup_probe {
        probes::liveness_or_startup(probe, pod, &path.child("startupProbe"), errors);
    }
}

fn ports(ports: &[ContainerPort], path: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(&port.name);
        let messages = if name.is_empty() { Vec::new() } else { names::port_name(name) };
        if !messages.is_empty() {
            errors.invalid_each(&path.child("name"), name, messages);
        } else if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if port.container_port == 0 {
            errors.required(&path.child("containerPort"), "");
        } else {
            number(port.container_port, &path.child("containerPort"), errors);
        }
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            number(host_port, &path.child("hostPort"), errors);
        }
        errors.one_of(&path.child("protocol"), text(&port.protocol), &["SCTP", "TCP", "UDP"]);
    }
}

fn number(number: i32, path: &FieldPath, errors: &mut Errors) {
    for message in names::port_number(number) {
        errors.invalid(path, number, message);
    }
}

fn host_port_conflicts(containers: &[Container], path: &FieldPath, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index).child("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let Some(host_port) = port.host_port.filter(|port| *port != 0) else { continue };
            let place = format!("{}/{}/{host_port}", text(&port.protocol), text(&port.host_ip));
            if !taken.insert(place.clone()) {
                errors.duplicate(&path.index(index).child("hostPort"), place);
            }
        }
    }
}

fn resize_policy(policies: &[ContainerResizePolicy], restart_policy: &str, path: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, policy) in policies.iter().enumerate() {
        if !seen.insert(policy.resource_name.as_str()) {
            errors.duplicate(&path.index(index), policy.resource_name.as_str());
        }
        errors.one_of(path, &policy.resource_name, &["cpu", "memory"]);
        errors.one_of(path, &policy.restart_policy, &["NotRequired", "RestartContainer"]);
        if restart_policy == "Never" && policy.restart_policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, policy.restart_policy.as_str(), detail);
        }
    }
}

/// A container's own restart policy, and the rules that go with it.
fn restart_policy(container: &Container, path: &FieldPath, errors: &mut Errors) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match &container.restart_policy {
        None if rules.is_empty() => return,
        None => {
            errors.required(&path.child("restartPolicy"), POLICY_MISSING);
        }
        Some(policy) if !["Always", "Never", "OnFailure"].contains(&policy.as_str()) => {
            errors.not_supported(&path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
        }
        Some(_) => {}
    }
    if rules.len() > 20 {
        errors.too_many(&path.child("restartPolicyRules"), rules.len(), 20);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.child("restartPolicyRules").index(index);
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&rule.action.as_str()) {
            errors.not_supported(&path.child("action"), &rule.action, &actions);
        }
        let codes_path = path.child("exitCodes");
        let Some(codes) = &rule.exit_codes else {
            errors.required(&codes_path, "must be specified");
            continue;
        };
        if !["In", "NotIn"].contains(&codes.operator.as_str()) {
            errors.not_supported(&codes_path.child("operator"), &codes.operator, &["In", "NotIn"]);
        }
        let count = codes.values.as_ref().map_or(0, Vec::len);
        if count > 255 {
            errors.too_many(&codes_path.child("values"), count, 255);
        }
    }
}
