//! The API server's answers about metadata, volumes and the pod as a whole.

use super::{check_specs, errors_of, merge};
use serde_json::{Value, json};

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                          must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used \
                          for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                              or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
                              regex used for validation is \
                              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[test]
fn metadata_is_checked() {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let key_rule = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                    is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value_rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                      and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                      '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
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
        assert_eq!(errors_of(metadata, spec.clone()), expected);
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
            json!({"initContainers": [{"name": "a", "image": "i", "restartPolicyRules": [{"action": "Jump"}]}]}),
            &[
                "spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are \
               used",
            ],
        ),
        (
            json!({"initContainers": [
                {"name": "a", "image": "i", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["true"]}}},
                {"name": "b", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [
                    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}},
                ]},
            ]}),
            &[],
        ),
        (
            json!({"initContainers": [{"name": "a", "image": "i", "lifecycle": {}, "readinessProbe": {}}]}),
            &[
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without \
                 restartPolicy=Always",
                "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without \
                 restartPolicy=Always",
            ],
        ),
        (
            json!({"ephemeralContainers": [{"name": "e"}]}),
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
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
                "spec.volumes[0].hostPath.type: Unsupported value: \"Pipe\": supported values: \"\", \
                 \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \
                 \"Socket\"",
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
fn policies_and_dns_are_checked() {
    check_specs(vec![
        (
            json!({"restartPolicy": "Sometimes", "dnsPolicy": "Any"}),
            &[
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \
                 \"Never\"",
                "spec.dnsPolicy: Unsupported value: \"Any\": supported values: \"ClusterFirstWithHostNet\", \
                 \"ClusterFirst\", \"Default\", \"None\"",
            ],
        ),
        (
            json!({"dnsPolicy": "None"}),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"dnsConfig": {"nameservers": ["1.2.3", "010.1.1.1", "::ffff:1.2.3.4"], "options": [{}]}}),
            &[
                "spec.dnsConfig.nameservers[0]: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 \
                 or 2001:db8::ffff)",
                "spec.dnsConfig.nameservers[1]: Invalid value: \"010.1.1.1\": must not have leading 0s",
                "spec.dnsConfig.nameservers[2]: Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 \
                 address",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        ),
    ]);
}

#[test]
fn names_numbers_and_tolerations_are_checked() {
    check_specs(vec![
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
            json!({"tolerations": [{"operator": "Equal"}, {"key": "k", "operator": "Exists", "value": "v"},
            {"key": "k", "effect": "No"}, {"key": "k", "operator": "Gt", "value": "-5"},
            {"key": "k", "operator": "Lt", "value": "05"}]}),
            &[
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is \
                 empty, which means \"match all values and all keys\"",
                "spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
                "spec.tolerations[2].effect: Unsupported value: \"No\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
                "spec.tolerations[4].value: Invalid value: \"05\": must be a valid decimal integer in canonical form",
            ],
        ),
        (
            json!({"os": {"name": "beos"}}),
            &["spec.os: Unsupported value: \"beos\": supported values: \"linux\", \"windows\""],
        ),
    ]);
}

#[test]
fn scheduling_and_security_are_checked() {
    check_specs(vec![
        (
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In"}]}]}}}}),
            &["spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
                 .matchExpressions[0].values: \
                 Required value: must be specified when `operator` is 'In' or 'NotIn'"],
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
            json!({"securityContext": {"sysctls": [{"name": "Net", "value": ""}],
            "seccompProfile": {"type": "Localhost"}}}),
            &[
                "spec.securityContext.sysctls[0].name: Invalid value: \"Net\": must have at most 253 characters and \
                 match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type \
                 is Localhost",
            ],
        ),
        (
            json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"hostProcess": true}}}),
            &["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"],
        ),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            &["spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when \
                 serviceAccountName is not set"],
        ),
        (
            json!({"schedulingGates": [{"name": "a"}]}),
            &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
    ]);
}

/// KEP-2837.
#[test]
fn a_pods_own_resources_have_room_for_its_containers() {
    let container = |name: &str, resources: Value| json!({"name": name, "image": "i", "resources": resources});
    let spec = |own: Value, containers: Vec<Value>| json!({"resources": own, "containers": containers});
    let small = || container("c", json!({"requests": {"cpu": "600m"}, "limits": {"memory": "1Gi"}}));
    check_specs(vec![
        (spec(json!({"requests": {"cpu": "1200m", "memory": "2Gi"}}), vec![small(), container("d", json!({}))]), &[]),
        (spec(json!({"limits": {"cpu": "1", "memory": "2Gi"}}), vec![small()]), &[]),
        (
            spec(
                json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}),
                vec![small(), container("d", json!({"requests": {"cpu": "600m", "memory": "1Gi"}}))],
            ),
            &[
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate \
                 container requests of 1200m",
                "spec.resources.requests[memory]: Invalid value: \"1Gi\": must be greater than or equal to aggregate \
                 container requests of 2Gi",
            ],
        ),
        (
            spec(
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"memory": "1Gi", "cpu": "100m"}}),
                vec![
                    container("c", json!({"limits": {"cpu": "100m"}})),
                    container(
                        "d",
                        json!({"requests": {"cpu": "0", "memory": "0"}, "limits": {"cpu": "1500m", "memory": "2Gi"}}),
                    ),
                ],
            ),
            &[
                "spec.resources.containers[1][cpu].limits: Invalid value: \"1500m\": must be less than or equal to pod \
                 limits of 1",
                "spec.resources.containers[1][memory].limits: Invalid value: \"2Gi\": must be less than or equal to \
                 pod limits of 1Gi",
            ],
        ),
        (
            spec(
                json!({"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}),
                vec![
                    container("c", json!({"limits": {"memory": "100Mi", "hugepages-2Mi": "4Mi"}})),
                    container("d", json!({"limits": {"memory": "100Mi", "hugepages-2Mi": "2Mi"}})),
                ],
            ),
            &[
                "spec.resources.requests[hugepages-2Mi]: Invalid value: \"4Mi\": must be greater than or equal to \
                 aggregate container requests of 6Mi",
                "spec.resources.limits[hugepages-2Mi]: Invalid value: \"4Mi\": must be greater than or equal to \
                 aggregate container limits of 6Mi",
            ],
        ),
        (
            spec(json!({"limits": {"cpu": "1"}, "claims": [{"name": "a"}]}), vec![container("c", json!({}))]),
            &[
                "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
                "spec.resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which \
                 is empty",
            ],
        ),
    ]);
}

#[test]
fn annotations_that_others_read_have_their_form() {
    let tolerations = "scheduler.alpha.kubernetes.io/tolerations";
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    let with = |annotations: Value| {
        errors_of(
            json!({"name": "web", "annotations": annotations}),
            json!({"containers": [{"name": "c", "image": "i"}]}),
        )
    };
    let good = ["", "null", "[]", r#"[{"key": "a", "operator": "Exists", "effect": "NoExecute", "more": 1}]"#];
    for text in good {
        assert_eq!(with(json!({tolerations: text})), Vec::<String>::new(), "{text}");
    }
    let said = with(json!({tolerations: r#"[{"operator": "Exists", "value": "a"}, {"key": "a", "effect": "x"}]"#}));
    assert_eq!(
        said,
        [
            "metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Invalid value: \"a\": value \
             must be empty when `operator` is 'Exists'",
            "metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[1].effect: Unsupported value: \"x\": \
             supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ]
    );
    for text in ["{", r#"{"key": "a"}"#, "7"] {
        let said = with(json!({tolerations: text}));
        let expected = format!("metadata.annotations: Invalid value: \"{tolerations}\": ");
        assert!(said.len() == 1 && said[0].starts_with(&expected), "{text}: {said:?}");
    }
    for text in ["0", "10", "-10", "2147483647", "-2147483648"] {
        assert_eq!(with(json!({cost: text})), Vec::<String>::new(), "{text}");
    }
    for text in ["", "+10", "007", "2147483648", "1.5", "a", "-"] {
        let expected = format!("metadata.annotations[{cost}]: Invalid value: \"{text}\": must be a 32bit integer");
        assert_eq!(with(json!({cost: text})), [expected], "{text}");
    }
}
