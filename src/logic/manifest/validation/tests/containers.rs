//! The API server's answers about containers.

use super::{check_containers, check_specs};
use serde_json::{Value, json};

#[test]
fn the_fields_of_a_container_are_checked() {
    check_containers(vec![
        (
            json!({"imagePullPolicy": "Maybe", "terminationMessagePolicy": "Log"}),
            &[
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"Log\": supported values: \
                 \"File\", \"FallbackToLogsOnError\"",
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \
                 \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            json!({"restartPolicy": "Often"}),
            &["spec.containers[0].restartPolicy: Unsupported value: \"Often\": supported values: \"Always\", \
               \"Never\", \"OnFailure\""],
        ),
        (
            json!({"restartPolicyRules": [{"action": "Jump"}]}),
            &[
                "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are \
                 used",
                "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Jump\": supported values: \
                 \"Restart\", \"RestartAllContainers\"",
                "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
        ),
        (
            json!({"securityContext": {"runAsUser": -1, "privileged": true, "allowPrivilegeEscalation": false}}),
            &[
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, \
                 inclusive",
                "spec.containers[0].securityContext: Invalid value: \
                 {\"allowPrivilegeEscalation\":false,\"privileged\":true,\"runAsUser\":-1}: cannot set \
                 `allowPrivilegeEscalation` to false and `privileged` to true",
            ],
        ),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": ""}]}),
            &[
                "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
                "spec.containers[0].volumeMounts[0].mountPath: Required value",
            ],
        ),
    ]);
}

#[test]
fn ports_are_checked() {
    check_containers(vec![
        (
            json!({"ports": [{"containerPort": 0}, {"containerPort": 70_000, "hostPort": -1, "protocol": "ICMP"}]}),
            &[
                "spec.containers[0].ports[0].containerPort: Required value",
                "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, \
                 inclusive",
                "spec.containers[0].ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \
                 \"TCP\", \"UDP\"",
            ],
        ),
        (
            json!({"ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}, {"name": "A",
            "containerPort": 3}]}),
            &[
                "spec.containers[0].ports[1].name: Duplicate value: \"a\"",
                "spec.containers[0].ports[2].name: Invalid value: \"A\": must contain only alpha-numeric characters \
                 (a-z, 0-9), and hyphens (-)",
                "spec.containers[0].ports[2].name: Invalid value: \"A\": must contain at least one letter (a-z)",
            ],
        ),
        (
            json!({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80},
                {"containerPort": 3, "hostPort": 80, "protocol": "UDP"}, {"containerPort": 4, "hostPort": 80,
                "hostIP": "10.0.0.1"}]}),
            &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
        ),
    ]);
    check_specs(vec![(
        json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1,
        "hostPort": 2}]}]}),
        &["spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is \
           true"],
    )]);
}

#[test]
fn variables_are_checked() {
    let one = |from: Value| json!({"env": [{"name": "E", "valueFrom": from}]});
    check_containers(vec![
        (json!({"env": [{"name": ""}]}), &["spec.containers[0].env[0].name: Required value"]),
        (
            json!({"env": [{"name": "a=b"}]}),
            &["spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must \
               consist only of printable ASCII characters other than '='"],
        ),
        (
            one(json!({})),
            &["spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, \
               `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"],
        ),
        (
            json!({"env": [{"name": "E", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            &["spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not \
               empty"],
        ),
        (
            one(json!({"fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"resource": "limits.cpu"}})),
            &["spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not have more than one field specified \
               at a time"],
        ),
        (
            one(json!({"fieldRef": {"fieldPath": "status.phase"}})),
            &["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": \
               supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \
               \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \
               \"status.podIPs\""],
        ),
        (
            one(json!({"fieldRef": {"fieldPath": "spec.foo"}})),
            &["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting \
               fieldPath: field label not supported: spec.foo"],
        ),
        (one(json!({"fieldRef": {"fieldPath": "metadata.labels['app']"}})), &[]),
        (one(json!({"fieldRef": {"fieldPath": "metadata.annotations['Example.com/App']"}})), &[]),
        (
            one(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}})),
            &["spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only \
               divisor's values 1m and 1 are supported with the cpu resource"],
        ),
        (
            json!({"envFrom": [{}]}),
            &["spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"],
        ),
    ]);
}

#[test]
fn probes_and_hooks_are_checked() {
    check_containers(vec![
        (
            json!({"readinessProbe": {}}),
            &["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
        ),
        (
            json!({"readinessProbe": {"exec": {}, "httpGet": {"port": 0}}}),
            &[
                "spec.containers[0].readinessProbe.exec.command: Required value",
                "spec.containers[0].readinessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
            ],
        ),
        (
            json!({"readinessProbe": {"httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b",
            "value": ""}]},
                "periodSeconds": -1, "terminationGracePeriodSeconds": 5}}),
            &[
                "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, \
                 inclusive",
                "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \
                 \"HTTP\", \"HTTPS\"",
                "spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header \
                 must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is \
                 '[-A-Za-z0-9]+')",
                "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal \
                 to 0",
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set \
                 for readinessProbes",
            ],
        ),
        (
            json!({"livenessProbe": {"tcpSocket": {"port": "http"}, "successThreshold": 2}}),
            &["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}, "stopSignal": "SIGTERM"}}),
            &[
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than \
                 terminationGracePeriodSeconds (30)",
                "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty \
                 `spec.os.name`",
            ],
        ),
    ]);
}

#[test]
fn resources_are_checked() {
    let limits = |limits: Value| json!({"resources": {"limits": limits}});
    check_containers(vec![
        (limits(json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"})), &[]),
        (
            json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m", "memory": "-1"}}}),
            &[
                "spec.containers[0].resources.requests: Invalid value: \"1500m\": must be less than or equal to cpu \
                 limit of 1",
                "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal \
                 to 0",
            ],
        ),
        (
            limits(json!({"cores": "1"})),
            &[
                "spec.containers[0].resources.limits[cores]: Invalid value: \"cores\": must be a standard resource \
                 type or fully qualified",
                "spec.containers[0].resources.limits[cores]: Invalid value: \"cores\": must be a standard resource \
                 for containers",
                "spec.containers[0].resources.requests[cores]: Invalid value: \"cores\": must be a standard resource \
                 type or fully qualified",
                "spec.containers[0].resources.requests[cores]: Invalid value: \"cores\": must be a standard resource \
                 for containers",
            ],
        ),
        (
            json!({"resources": {"requests": {"example.com/gpu": "1"}}}),
            &["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable \
               resources"],
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "3Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}}),
            &[
                "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive \
                 integer multiple of hugepages-2Mi",
                "spec.containers[0].resources.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit \
                 of 3Mi",
                "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
            ],
        ),
        (
            json!({"resources": {"claims": [{"name": "a"}]}}),
            &["spec.containers[0].resources.claims[0]: Not found: \"a\": must be one of the names in \
               pod.spec.resourceClaims which is empty"],
        ),
    ]);
}
