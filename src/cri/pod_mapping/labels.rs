//! Labels and annotations by which the agent knows its sandboxes and containers again.
//!
//! Names are upstream's: they are the agent's memory across its own restarts and across a change of agent.

use k8s_openapi::api::core::v1::{Container, ContainerPort, LifecycleHandler, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::PodNames;
use crate::cri::types::Labels;
use crate::logic::formats::go_text::json_string;
use crate::logic::pods::container_hash::container_hash;

/// The pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// The pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The pod's UID.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// The container's name in its pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// See [`container_hash`]; lower hex.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// How often the container was started before.
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Where in the container its termination message is.
pub const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// `File` or `FallbackToLogsOnError`.
pub const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// JSON of the container's preStop handler.
pub const PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// JSON of the container's ports.
pub const PORTS: &str = "io.kubernetes.container.ports";
/// `spec.terminationGracePeriodSeconds`.
pub const POD_TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
/// `metadata.deletionGracePeriodSeconds`.
pub const POD_DELETION_GRACE_PERIOD: &str = "io.kubernetes.pod.deletionGracePeriod";

/// Labels of a sandbox: the pod's own, and who it is.
pub(super) fn sandbox_labels(pod: &Pod, names: &PodNames<'_>) -> Labels {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(identity(names));
    labels
}

/// Labels of a container: whose it is, and its name. The pod's own labels are the sandbox' alone.
pub(super) fn container_labels(container: &Container, names: &PodNames<'_>) -> Labels {
    let mut labels = Labels::from(identity(names));
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

fn identity(names: &PodNames<'_>) -> [(String, String); 3] {
    [(POD_NAME, names.name), (POD_NAMESPACE, names.namespace), (POD_UID, names.uid)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
}

/// Annotations of a container: `from_devices`, overridden by what the agent must know again.
pub(super) fn container_annotations(
    pod: &Pod,
    container: &Container,
    restart_count: u32,
    from_devices: &Labels,
) -> Labels {
    let mut annotations = from_devices.clone();
    let mut set = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    set(CONTAINER_HASH, container_hash(&container.name, container.image.as_deref().unwrap_or_default()));
    set(RESTART_COUNT, restart_count.to_string());
    set(TERMINATION_MESSAGE_PATH, container.termination_message_path.clone().unwrap_or_default());
    set(TERMINATION_MESSAGE_POLICY, container.termination_message_policy.clone().unwrap_or_default());
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        set(POD_DELETION_GRACE_PERIOD, seconds.to_string());
    }
    if let Some(seconds) = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) {
        set(POD_TERMINATION_GRACE_PERIOD, seconds.to_string());
    }
    if let Some(handler) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) {
        set(PRE_STOP_HANDLER, handler_json(handler));
    }
    if let Some(ports) = container.ports.as_deref().filter(|ports| !ports.is_empty()) {
        set(PORTS, array(ports.iter().map(port_json)));
    }
    annotations
}

/// A JSON object written field by field, in the order and with the omissions of Go's `json.Marshal`.
struct Object(String);

impl Object {
    fn new() -> Self {
        Self(String::from("{"))
    }

    fn raw(mut self, key: &str, json: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&format!("\"{key}\":{json}"));
        self
    }

    fn optional(self, key: &str, json: Option<String>) -> Self {
        match json {
            Some(json) => self.raw(key, &json),
            None => self,
        }
    }

    /// A text, left out when empty.
    fn text(self, key: &str, text: Option<&str>) -> Self {
        self.optional(key, text.filter(|text| !text.is_empty()).map(json_string))
    }

    fn end(self) -> String {
        self.0 + "}"
    }
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn port_json(port: &ContainerPort) -> String {
    Object::new()
        .text("name", port.name.as_deref())
        .optional("hostPort", port.host_port.filter(|port| *port != 0).map(|port| port.to_string()))
        .raw("containerPort", &port.container_port.to_string())
        .text("protocol", port.protocol.as_deref())
        .text("hostIP", port.host_ip.as_deref())
        .end()
}

fn handler_json(handler: &LifecycleHandler) -> String {
    let number_or_name = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => json_string(name),
    };
    let exec = handler.exec.as_ref().map(|exec| {
        let command = exec.command.as_deref().filter(|command| !command.is_empty());
        Object::new().optional("command", command.map(|words| array(words.iter().map(|word| json_string(word))))).end()
    });
    let http_get = handler.http_get.as_ref().map(|get| {
        let headers = get.http_headers.as_deref().filter(|headers| !headers.is_empty()).map(|headers| {
            array(headers.iter().map(|header| {
                Object::new().raw("name", &json_string(&header.name)).raw("value", &json_string(&header.value)).end()
            }))
        });
        Object::new()
            .text("path", get.path.as_deref())
            .raw("port", &number_or_name(&get.port))
            .text("host", get.host.as_deref())
            .text("scheme", get.scheme.as_deref())
            .optional("httpHeaders", headers)
            .end()
    });
    let tcp_socket = handler.tcp_socket.as_ref().map(|socket| {
        Object::new().raw("port", &number_or_name(&socket.port)).text("host", socket.host.as_deref()).end()
    });
    let sleep = handler.sleep.as_ref().map(|sleep| Object::new().raw("seconds", &sleep.seconds.to_string()).end());
    Object::new()
        .optional("exec", exec)
        .optional("httpGet", http_get)
        .optional("tcpSocket", tcp_socket)
        .optional("sleep", sleep)
        .end()
}
