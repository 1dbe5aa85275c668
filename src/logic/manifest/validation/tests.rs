//! Tests of [`super`]: one table a theme, each case a change to a good pod and what the API server says to it.

use super::validate;
use crate::logic::manifest::defaults::apply_defaults;
use crate::logic::manifest::identity::{Source, static_identity};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What the API server says to a pod with this spec.
fn said(metadata: Value, spec: Value) -> Vec<String> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
    apply_defaults(&mut pod);
    static_identity(&mut pod, &Source::Http { url: "http://host/".to_owned() }, "node");
    validate(&pod).iter().map(ToString::to_string).collect()
}

fn check_specs(cases: Vec<(Value, &[&str])>) {
    for (fields, expected) in cases {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        merge(&mut spec, &fields);
        assert_eq!(said(json!({"name": "web"}), spec), expected, "{fields}");
    }
}

fn check_containers(cases: Vec<(Value, &[&str])>) {
    for (fields, expected) in cases {
        let mut container = json!({"name": "c", "image": "i"});
        merge(&mut container, &fields);
        assert_eq!(said(json!({"name": "web"}), json!({"containers": [container]})), expected, "{fields}");
    }
}

fn merge(into: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().expect("fields") {
        into[field] = value.clone();
    }
}

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                          and end with an alphanumeric character (e.g. 'my-name', or '123-abc', regex used for validation is \
                          '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                              and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                              validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[test]
fn a_plain_pod_has_nothing_said_about_it() {
    check_specs(vec![(json!({}), &[])]);
}

#[test]
fn metadata_is_checked() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let key_rule = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value_rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                      start and end with an alphanumeric character (e.g. 'MyValue', or 'my_value', or '12345', regex used for \
                      validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let long = "x".repeat(256 * 1024);
    for (metadata, expected) in [
        (json!({"name": "A"}), vec![format!("metadata.name: Invalid value: \"A-node\": {SUBDOMAIN_RULE}")]),
        (
            json!({"name": "a", "namespace": "a.b"}),
            vec!["metadata.namespace: Invalid value: \"a.b\": must not contain dots".to_owned()],
        ),
        (json!({"name": "a", "uid": ".."}), vec!["metadata.uid: Invalid value: \"..\": may not be '..'".to_owned()]),
        (
            json!({"name": "a", "labels": {"-k": "v", "k": "v v"}}),
            vec![
                format!("metadata.labels: Invalid value: \"-k\": {key_rule}"),
                format!("metadata.labels: Invalid value: \"v v\": {value_rule}"),
            ],
        ),
        (
            json!({"name": "a", "annotations": {"k": long}}),
            vec!["metadata.annotations: Too long: may not be more than 262144 bytes".to_owned()],
        ),
    ] {
        assert_eq!(said(metadata, spec.clone()), expected);
    }
}

#[test]
fn a_pod_needs_containers_with_names_and_images() {
    let bad = format!("spec.containers[0].name: Invalid value: \"C_1\": {LABEL_RULE}");
    check_specs(vec![
        (json!({"containers": []}), &["spec.containers: Required value"]),
        (
            json!({"containers": [{"name": "", "image": ""}]}),
            &["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        (json!({"containers": [{"name": "C_1", "image": "i"}]}), &[&bad]),
        (
            json!({"containers": [{"name": "c", "image": " i"}]}),
            &["spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace"],
        ),
        (
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
            &["spec.containers[1].name: Duplicate value: \"c\""],
        ),
        (
            json!({"initContainers": [{"name": "c", "image": "i"}]}),
            &["spec.initContainers[0].name: Duplicate value: \"c\""],
        ),
        (
            json!({"initContainers": [{"name": "a", "image": "i", "lifecycle": {}, "readinessProbe": {}}]}),
            &[
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
                "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            json!({"ephemeralContainers": [{"name": "e"}]}),
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
    ]);
}

#[test]
fn the_fields_of_a_container_are_checked() {
    check_containers(vec![
        (
            json!({"imagePullPolicy": "Maybe", "terminationMessagePolicy": "Log"}),
            &[
                "spec.containers[0].terminationMessagePolicy: Unsupported value: \"Log\": supported values: \"File\", \
                 \"FallbackToLogsOnError\"",
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \
                 \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            json!({"restartPolicy": "Often"}),
            &[
                "spec.containers[0].restartPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"Never\", \
               \"OnFailure\"",
            ],
        ),
        (
            json!({"restartPolicyRules": [{"action": "Jump"}]}),
            &[
                "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Jump\": supported values: \"Restart\", \
                 \"RestartAllContainers\"",
                "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
        ),
        (
            json!({"securityContext": {"runAsUser": -1, "privileged": true, "allowPrivilegeEscalation": false}}),
            &[
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
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
                "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            json!({"ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}, {"name": "A", "containerPort": 3}]}),
            &[
                "spec.containers[0].ports[1].name: Duplicate value: \"a\"",
                "spec.containers[0].ports[2].name: Invalid value: \"A\": must contain only alpha-numeric characters (a-z, 0-9), \
                 and hyphens (-)",
                "spec.containers[0].ports[2].name: Invalid value: \"A\": must contain at least one letter (a-z)",
            ],
        ),
        (
            json!({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80},
                {"containerPort": 3, "hostPort": 80, "protocol": "UDP"}, {"containerPort": 4, "hostPort": 80, "hostIP": "10.0.0.1"}]}),
            &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
        ),
    ]);
    check_specs(vec![(
        json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}]}]}),
        &[
            "spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
        ],
    )]);
}

#[test]
fn variables_are_checked() {
    let one = |from: Value| json!({"env": [{"name": "E", "valueFrom": from}]});
    check_containers(vec![
        (json!({"env": [{"name": ""}]}), &["spec.containers[0].env[0].name: Required value"]),
        (
            json!({"env": [{"name": "a=b"}]}),
            &[
                "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of \
               printable ASCII characters other than '='",
            ],
        ),
        (
            one(json!({})),
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, \
               `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ],
        ),
        (
            json!({"env": [{"name": "E", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        ),
        (
            one(json!({"fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"resource": "limits.cpu"}})),
            &[
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
            ],
        ),
        (
            one(json!({"fieldRef": {"fieldPath": "status.phase"}})),
            &[
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values: \
               \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \
               \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
            ],
        ),
        (
            one(json!({"fieldRef": {"fieldPath": "spec.foo"}})),
            &[
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting fieldPath: \
               field label not supported: spec.foo",
            ],
        ),
        (one(json!({"fieldRef": {"fieldPath": "metadata.labels['app']"}})), &[]),
        (one(json!({"fieldRef": {"fieldPath": "metadata.annotations['Example.com/App']"}})), &[]),
        (
            one(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}})),
            &[
                "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values \
               1m and 1 are supported with the cpu resource",
            ],
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
            json!({"readinessProbe": {"httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]},
                "periodSeconds": -1, "terminationGracePeriodSeconds": 5}}),
            &[
                "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
                "spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist \
                 of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
                "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for \
                 readinessProbes",
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
                "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`",
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
                "spec.containers[0].resources.requests: Invalid value: \"1500m\": must be less than or equal to cpu limit of 1",
                "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            limits(json!({"cores": "1"})),
            &[
                "spec.containers[0].resources.limits[cores]: Invalid value: \"cores\": must be a standard resource type or fully \
                 qualified",
                "spec.containers[0].resources.limits[cores]: Invalid value: \"cores\": must be a standard resource for containers",
                "spec.containers[0].resources.requests[cores]: Invalid value: \"cores\": must be a standard resource type or fully \
                 qualified",
                "spec.containers[0].resources.requests[cores]: Invalid value: \"cores\": must be a standard resource for containers",
            ],
        ),
        (
            json!({"resources": {"requests": {"example.com/gpu": "1"}}}),
            &[
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "3Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}}),
            &[
                "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple \
                 of hugepages-2Mi",
                "spec.containers[0].resources.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 3Mi",
                "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
            ],
        ),
        (
            json!({"resources": {"claims": [{"name": "a"}]}}),
            &[
                "spec.containers[0].resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which \
               is empty",
            ],
        ),
    ]);
}

#[test]
fn volumes_are_checked() {
    let volume = |fields: Value| {
        let mut volume = json!({"name": "v"});
        merge(&mut volume, &fields);
        json!({"volumes": [volume]})
    };
    check_specs(vec![
        (volume(json!({})), &[]),
        (volume(json!({"hostPath": {"path": ""}})), &["spec.volumes[0].hostPath.path: Required value"]),
        (
            volume(json!({"hostPath": {"path": "/a/../b", "type": "Pipe"}})),
            &[
                "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "spec.volumes[0].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \"BlockDevice\", \
                 \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        ),
        (
            volume(json!({"emptyDir": {}, "hostPath": {"path": "/a"}})),
            &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            json!({"volumes": [{"name": "v"}, {"name": "v"}, {"name": ""}]}),
            &["spec.volumes[1].name: Duplicate value: \"v\"", "spec.volumes[2].name: Required value"],
        ),
        (
            volume(json!({"downwardAPI": {"items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]}})),
            &["spec.volumes[0].downwardAPI.path: Invalid value: \"../x\": must not contain '..'"],
        ),
    ]);
}

#[test]
fn the_pod_as_a_whole_is_checked() {
    check_specs(vec![
        (
            json!({"restartPolicy": "Sometimes", "dnsPolicy": "Any"}),
            &[
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                "spec.dnsPolicy: Unsupported value: \"Any\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \
                 \"Default\", \"None\"",
            ],
        ),
        (
            json!({"dnsPolicy": "None"}),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"dnsConfig": {"nameservers": ["1.2.3", "010.1.1.1", "::ffff:1.2.3.4"], "options": [{}]}}),
            &[
                "spec.dnsConfig.nameservers[0]: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or \
                 2001:db8::ffff)",
                "spec.dnsConfig.nameservers[1]: Invalid value: \"010.1.1.1\": must not have leading 0s",
                "spec.dnsConfig.nameservers[2]: Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            json!({"hostname": "a.b", "subdomain": "a.b"}),
            &[
                "spec.hostname: Invalid value: \"a.b\": must not contain dots",
                "spec.subdomain: Invalid value: \"a.b\": must not contain dots",
            ],
        ),
        (
            json!({"tolerations": [{"operator": "Equal"}, {"key": "k", "operator": "Exists", "value": "v"}, {"key": "k", "effect": "No"}]}),
            &[
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \
                 \"match all values and all keys\"",
                "spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                "spec.tolerations[2].effect: Unsupported value: \"No\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \
                 \"NoExecute\"",
            ],
        ),
        (
            json!({"os": {"name": "beos"}}),
            &["spec.os: Unsupported value: \"beos\": supported values: \"linux\", \"windows\""],
        ),
        (
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "In"}]}]}}}}),
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]\
               .values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Wait"}]}),
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Wait\": supported values: \
                 \"DoNotSchedule\", \"ScheduleAnyway\"",
            ],
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "Net", "value": ""}], "seccompProfile": {"type": "Localhost"}}}),
            &[
                "spec.securityContext.sysctls[0].name: Invalid value: \"Net\": must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            ],
        ),
        (
            json!({"schedulingGates": [{"name": "a"}]}),
            &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
    ]);
}

proptest! {
    /// Whatever a name is, it is either refused or safe as a path and as a host name.
    #[test]
    fn names_that_pass_are_safe_in_paths(name in "[a-zA-Z0-9._/%\n-]{0,12}") {
        let spec = json!({"containers": [{"name": name, "image": "i"}], "volumes": [{"name": name}]});
        if said(json!({"name": "web"}), spec).is_empty() {
            prop_assert!(crate::logic::path_segment::is_safe_segment(&name).is_ok());
            prop_assert!(!name.contains('.') && name.to_lowercase() == name);
        }
    }

    #[test]
    fn validation_never_panics(port in any::<i32>(), text in ".{0,9}", number in any::<i64>()) {
        said(json!({"name": text, "labels": {(text.as_str()): text}}), json!({
            "containers": [{"name": text, "image": text, "ports": [{"containerPort": port, "hostPort": port, "name": text}],
                "env": [{"name": text, "valueFrom": {"fieldRef": {"fieldPath": text}}}],
                "lifecycle": {"preStop": {"sleep": {"seconds": number}}}}],
            "dnsConfig": {"nameservers": [text], "searches": [text]}, "activeDeadlineSeconds": number,
            "volumes": [{"name": text, "hostPath": {"path": text}}],
        }));
    }
}
