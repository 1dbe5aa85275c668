//! Pods and their explanations as a bundle may have them. Pure.
//!
//! Fails closed: a text of a pod is kept where this file says so, and cut everywhere else. Numbers and switches are kept.

use std::collections::BTreeSet;

use serde_json::Value;

use super::known::{CUT, Known};
use crate::server::views::{Explanation, PluginRow, PodRow};

/// Texts that are kept, by their path in a pod. `*` is any one name or place, `**` all that is below. `@spec` is each list
/// of containers, `@status` each list of their statuses.
const KEPT: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata/name",
    "metadata/generateName",
    "metadata/namespace",
    "metadata/uid",
    "metadata/resourceVersion",
    "metadata/creationTimestamp",
    "metadata/deletionTimestamp",
    "metadata/finalizers/*",
    "metadata/ownerReferences/*/*",
    "metadata/labels/app",
    "metadata/labels/app.kubernetes.io~1name",
    "metadata/labels/app.kubernetes.io~1component",
    "metadata/labels/app.kubernetes.io~1version",
    "metadata/labels/k8s-app",
    "metadata/labels/component",
    "metadata/labels/tier",
    "metadata/labels/pod-template-hash",
    "metadata/labels/controller-revision-hash",
    "metadata/annotations/kubernetes.io~1config.source",
    "metadata/annotations/kubernetes.io~1config.seen",
    "metadata/annotations/kubernetes.io~1config.hash",
    "metadata/annotations/kubernetes.io~1config.mirror",
    "metadata/annotations/podwright.io~1cpu-burst",
    "spec/nodeName",
    "spec/schedulerName",
    "spec/serviceAccountName",
    "spec/serviceAccount",
    "spec/restartPolicy",
    "spec/dnsPolicy",
    "spec/priorityClassName",
    "spec/preemptionPolicy",
    "spec/runtimeClassName",
    "spec/hostname",
    "spec/subdomain",
    "spec/os/name",
    "spec/overhead/*",
    "spec/resources/**",
    "spec/imagePullSecrets/*/name",
    "spec/readinessGates/*/conditionType",
    "spec/resourceClaims/*/*",
    "spec/tolerations/*/key",
    "spec/tolerations/*/operator",
    "spec/tolerations/*/effect",
    "spec/securityContext/seccompProfile/*",
    "spec/securityContext/appArmorProfile/*",
    "spec/securityContext/seLinuxOptions/*",
    "spec/securityContext/fsGroupChangePolicy",
    "spec/securityContext/supplementalGroupsPolicy",
    "@spec/name",
    "@spec/image",
    "@spec/imagePullPolicy",
    "@spec/restartPolicy",
    "@spec/terminationMessagePath",
    "@spec/terminationMessagePolicy",
    "@spec/targetContainerName",
    "@spec/env/*/name",
    "@spec/env/*/valueFrom/*/name",
    "@spec/env/*/valueFrom/*/key",
    "@spec/env/*/valueFrom/*/fieldPath",
    "@spec/env/*/valueFrom/*/resource",
    "@spec/env/*/valueFrom/*/containerName",
    "@spec/envFrom/*/prefix",
    "@spec/envFrom/*/*/name",
    "@spec/ports/*/name",
    "@spec/ports/*/protocol",
    "@spec/ports/*/hostIP",
    "@spec/resources/**",
    "@spec/resizePolicy/*/*",
    "@spec/volumeMounts/*/*",
    "@spec/volumeDevices/*/*",
    "@spec/livenessProbe/httpGet/scheme",
    "@spec/livenessProbe/httpGet/port",
    "@spec/livenessProbe/tcpSocket/port",
    "@spec/readinessProbe/httpGet/scheme",
    "@spec/readinessProbe/httpGet/port",
    "@spec/readinessProbe/tcpSocket/port",
    "@spec/startupProbe/httpGet/scheme",
    "@spec/startupProbe/httpGet/port",
    "@spec/startupProbe/tcpSocket/port",
    "@spec/securityContext/capabilities/*/*",
    "@spec/securityContext/seccompProfile/*",
    "@spec/securityContext/appArmorProfile/*",
    "@spec/securityContext/seLinuxOptions/*",
    "@spec/securityContext/procMount",
    "spec/volumes/*/name",
    "spec/volumes/*/secret/secretName",
    "spec/volumes/*/configMap/name",
    "spec/volumes/*/persistentVolumeClaim/claimName",
    "spec/volumes/*/hostPath/*",
    "spec/volumes/*/emptyDir/*",
    "spec/volumes/*/csi/driver",
    "spec/volumes/*/image/reference",
    "spec/volumes/*/image/pullPolicy",
    "spec/volumes/*/projected/sources/*/secret/name",
    "spec/volumes/*/projected/sources/*/configMap/name",
    "spec/volumes/*/projected/sources/*/serviceAccountToken/path",
    "status/phase",
    "status/reason",
    "status/startTime",
    "status/hostIP",
    "status/hostIPs/*/ip",
    "status/podIP",
    "status/podIPs/*/ip",
    "status/qosClass",
    "status/resize",
    "status/conditions/*/type",
    "status/conditions/*/status",
    "status/conditions/*/reason",
    "status/conditions/*/lastProbeTime",
    "status/conditions/*/lastTransitionTime",
    "@status/name",
    "@status/image",
    "@status/imageID",
    "@status/containerID",
    "@status/stopSignal",
    "@status/state/*/reason",
    "@status/state/*/startedAt",
    "@status/state/*/finishedAt",
    "@status/state/*/containerID",
    "@status/lastState/*/reason",
    "@status/lastState/*/startedAt",
    "@status/lastState/*/finishedAt",
    "@status/lastState/*/containerID",
    "@status/resources/**",
    "@status/allocatedResources/*",
    "@status/volumeMounts/*/*",
];

/// The beginnings that `@spec` and `@status` stand for.
const CONTAINERS: [&str; 3] = ["spec/initContainers/*", "spec/containers/*", "spec/ephemeralContainers/*"];
const STATUSES: [&str; 3] =
    ["status/initContainerStatuses/*", "status/containerStatuses/*", "status/ephemeralContainerStatuses/*"];

/// Conditions whose messages are the agent's own.
const OWN_CONDITIONS: &[&str] = &[
    "Ready",
    "ContainersReady",
    "Initialized",
    "PodScheduled",
    "PodReadyToStartContainers",
    "DisruptionTarget",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
];

/// Reasons of a waiting container whose messages are the agent's or the runtime's own.
const OWN_WAITS: &[&str] = &[
    "ContainerCreating",
    "PodInitializing",
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// Reasons of Events whose messages hold nothing that a container said.
const OWN_EVENTS: &[&str] = &[
    "Created",
    "Started",
    "Killing",
    "Preempting",
    "BackOff",
    "Pulling",
    "Pulled",
    "Failed",
    "ErrImageNeverPull",
    "FailedCreatePodSandBox",
    "FailedKillPod",
    "FailedMount",
    "FailedSync",
    "SandboxChanged",
    "NetworkNotReady",
    "NodeNotReady",
    "Evicted",
    "RestartRequested",
    "BackOffReset",
    "DeadlineExceeded",
    "FailedPostStartHook",
];

/// Pods as a bundle has them, and the texts of pods that are cut and those that are kept.
#[derive(Debug, Default)]
pub(super) struct Redacted {
    pub(super) cut: BTreeSet<String>,
    pub(super) kept: BTreeSet<String>,
}

impl Redacted {
    /// Cuts a list of pods in place.
    pub(super) fn cut_pods(&mut self, list: &mut Value) {
        let rules = rules();
        for pod in list["items"].as_array_mut().into_iter().flatten() {
            // The owners of fields: long, and keys of maps are names there.
            pod["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
            self.walk(pod, &mut vec![], &rules);
        }
    }

    fn walk(&mut self, value: &mut Value, path: &mut Vec<String>, rules: &[Vec<String>]) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    path.push(name.replace('/', "~1"));
                    self.walk(field, path, rules);
                    path.pop();
                }
            }
            Value::Array(items) => {
                for (place, item) in items.iter_mut().enumerate() {
                    path.push(place.to_string());
                    self.walk(item, path, rules);
                    path.pop();
                }
            }
            Value::String(text) if rules.iter().any(|rule| fits(rule, path)) => {
                self.kept.insert(text.clone());
            }
            Value::String(text) => {
                self.cut.insert(std::mem::replace(text, CUT.to_owned()));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The paths of [`KEPT`], each in parts.
fn rules() -> Vec<Vec<String>> {
    let expanded = KEPT.iter().flat_map(|rule| match rule.split_once('/') {
        Some(("@spec", rest)) => CONTAINERS.map(|list| format!("{list}/{rest}")).to_vec(),
        Some(("@status", rest)) => STATUSES.map(|list| format!("{list}/{rest}")).to_vec(),
        _ => vec![(*rule).to_owned()],
    });
    expanded.map(|rule| rule.split('/').map(str::to_owned).collect()).collect()
}

fn fits(rule: &[String], path: &[String]) -> bool {
    let open = rule.last().is_some_and(|last| last == "**");
    let rule = if open { &rule[..rule.len() - 1] } else { rule };
    let lengths = if open { path.len() > rule.len() } else { path.len() == rule.len() };
    lengths && rule.iter().zip(path).all(|(wanted, part)| wanted == "*" || wanted == part)
}

/// A row of `podwright ps`.
pub(super) fn cut_row(row: PodRow, known: &Known) -> PodRow {
    let waits = |lines: Vec<String>| lines.iter().map(|line| known.redacted_wait(line)).collect();
    PodRow { waiting: waits(row.waiting), waiting_for: waits(row.waiting_for), ..row }
}

/// An explanation. Its summary repeats the other parts, also those that are cut, and is left out.
pub(super) fn cut_explanation(mut found: Explanation, known: &Known) -> Explanation {
    found.pod = cut_row(found.pod, known);
    found.why.clear();
    found.message = known.redacted_wait(&found.message);
    for condition in &mut found.conditions {
        let is_own = OWN_CONDITIONS.contains(&condition.kind.as_str());
        condition.message = if is_own { known.redacted_wait(&condition.message) } else { cut(&condition.message) };
    }
    for container in &mut found.containers {
        let is_own = container.state == "waiting" && OWN_WAITS.contains(&container.reason.as_str());
        container.message = if is_own { known.redacted(&container.message) } else { cut(&container.message) };
        // Both are texts in which a message may be.
        container.detail.clone_from(&container.reason);
        container.last = cut(&container.last);
    }
    for event in &mut found.events {
        let is_own = OWN_EVENTS.contains(&event.reason.as_str());
        event.message = if is_own { known.redacted(&event.message) } else { cut(&event.message) };
    }
    let lines = |lines: Vec<String>| lines.iter().map(|line| known.redacted(line)).collect();
    found.hardware = lines(found.hardware);
    found.node_problems = lines(found.node_problems);
    if let Some(worker) = &mut found.worker {
        worker.last_failure = worker.last_failure.as_deref().map(|why| known.redacted_wait(why));
        worker.operations.iter_mut().for_each(|operation| operation.about = known.redacted(&operation.about));
    }
    found
}

/// A plugin.
pub(super) fn cut_plugin(row: PluginRow, known: &Known) -> PluginRow {
    let mut row = PluginRow { last_error: known.redacted(&row.last_error), ..row };
    row.calls.iter_mut().for_each(|call| call.about = known.redacted(&call.about));
    row
}

fn cut(text: &str) -> String {
    if text.is_empty() { String::new() } else { CUT.to_owned() }
}
