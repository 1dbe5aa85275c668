//! A pod's sandbox.

use super::*;
use crate::cri::pod_mapping::{MappingError, SandboxFacts, sandbox_config};
use crate::cri::types::*;
use crate::logic::network::dns::{NodeDns, Resolver};

fn facts() -> SandboxFacts {
    SandboxFacts {
        attempt: 2,
        pod_logs: "/var/log/pods".into(),
        cgroup_parent: "/kubepods.slice/kubepods-besteffort.slice/x.slice".into(),
        dns: NodeDns {
            host: Some(Resolver {
                servers: texts(&["1.1.1.1"]),
                searches: texts(&["corp"]),
                options: texts(&["rotate"]),
            }),
            cluster_dns: vec!["10.96.0.10".parse().unwrap()],
            cluster_domain: "cluster.local".into(),
            node_ips: vec![],
            ignores_hostname_override: false,
        },
        resources: LinuxContainerResources { cpu_shares: 2, ..Default::default() },
        overhead: LinuxContainerResources { cpu_shares: 10, ..Default::default() },
        ..SandboxFacts::default()
    }
}

fn config(changes: Value) -> PodSandboxConfig {
    sandbox_config(&pod(changes), &facts()).unwrap().0
}

/// The sandbox of a plain pod, field by field.
fn plain() -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: PodSandboxMetadata { name: "web".into(), uid: UID.into(), namespace: "shop".into(), attempt: 2 },
        hostname: "web".into(),
        log_directory: format!("/var/log/pods/shop_web_{UID}"),
        dns: Some(DnsConfig {
            servers: texts(&["10.96.0.10"]),
            searches: texts(&["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp"]),
            options: texts(&["ndots:5"]),
        }),
        port_mappings: vec![],
        labels: labels(&[
            ("app", "web"),
            ("io.kubernetes.pod.name", "web"),
            ("io.kubernetes.pod.namespace", "shop"),
            ("io.kubernetes.pod.uid", UID),
        ]),
        annotations: labels(&[("kubernetes.io/config.source", "api"), ("team", "a")]),
        linux: LinuxPodSandboxConfig {
            cgroup_parent: "/kubepods.slice/kubepods-besteffort.slice/x.slice".into(),
            security_context: LinuxSandboxSecurityContext {
                namespace_options: NamespaceOptions {
                    network: NamespaceMode::Pod,
                    pid: NamespaceMode::Container,
                    ipc: NamespaceMode::Pod,
                    target_id: String::new(),
                    userns: Some(UserNamespace { mode: NamespaceMode::Node, uids: vec![], gids: vec![] }),
                },
                selinux_options: None,
                run_as_user: None,
                run_as_group: None,
                readonly_rootfs: false,
                supplemental_groups: vec![],
                supplemental_groups_policy: SupplementalGroupsPolicy::Merge,
                privileged: false,
                seccomp: Some(SecurityProfile::RuntimeDefault),
                apparmor: None,
            },
            sysctls: labels(&[]),
            overhead: LinuxContainerResources { cpu_shares: 10, ..Default::default() },
            resources: LinuxContainerResources { cpu_shares: 2, ..Default::default() },
        },
    }
}

#[test]
fn a_plain_pods_sandbox() {
    let (config, warnings) = sandbox_config(&pod(json!({})), &facts()).unwrap();
    assert_eq!(config, plain());
    assert_eq!(warnings, []);
}

#[test]
fn a_host_network_pods_sandbox() {
    let mut expected = plain();
    expected.hostname = String::new();
    expected.dns =
        Some(DnsConfig { servers: texts(&["1.1.1.1"]), searches: texts(&["corp"]), options: texts(&["rotate"]) });
    let namespaces = &mut expected.linux.security_context.namespace_options;
    namespaces.network = NamespaceMode::Node;
    namespaces.pid = NamespaceMode::Node;
    namespaces.ipc = NamespaceMode::Node;
    let on_host = json!({ "hostNetwork": true, "hostPID": true, "hostIPC": true, "hostname": "ignored" });
    assert_eq!(config(on_host), expected);
}

#[test]
fn a_sandbox_with_a_security_context() {
    let mappings = vec![IdMapping { host_id: 65536, container_id: 0, length: 65536 }];
    let userns = UserNamespace { mode: NamespaceMode::Pod, uids: mappings.clone(), gids: mappings };
    let facts = SandboxFacts { user_namespace: Some(userns.clone()), volume_groups: vec![7], ..facts() };
    let context = json!({
        "runAsUser": 1000,
        "runAsGroup": 2000,
        "fsGroup": 3000,
        "supplementalGroups": [8, 9],
        "supplementalGroupsPolicy": "Strict",
        "seLinuxOptions": { "user": "u", "role": "r", "type": "t", "level": "l" },
        "seccompProfile": { "type": "Unconfined" },
        "appArmorProfile": { "type": "Unconfined" },
        "sysctls": [
            { "name": "net/ipv4/conf/eno2.100/rp_filter", "value": "1" },
            { "name": "net.ipv4.conf.eno2/200.rp_filter", "value": "2" },
            { "name": "kernel.shm_rmid_forced", "value": "3" },
            { "name": "plain", "value": "4" },
        ],
    });
    let mut expected = plain().linux.security_context;
    expected.run_as_user = Some(1000);
    expected.run_as_group = Some(2000);
    expected.supplemental_groups = vec![3000, 7, 8, 9];
    expected.supplemental_groups_policy = SupplementalGroupsPolicy::Strict;
    expected.selinux_options =
        Some(SeLinuxOption { user: "u".into(), role: "r".into(), kind: "t".into(), level: "l".into() });
    expected.namespace_options.userns = Some(userns);
    expected.namespace_options.pid = NamespaceMode::Pod;
    let pod = pod(json!({ "securityContext": context, "hostUsers": false, "shareProcessNamespace": true }));
    let linux = sandbox_config(&pod, &facts).unwrap().0.linux;
    assert_eq!(linux.security_context, expected);
    let sysctls = labels(&[
        ("net.ipv4.conf.eno2/100.rp_filter", "1"),
        ("net.ipv4.conf.eno2/200.rp_filter", "2"),
        ("kernel.shm_rmid_forced", "3"),
        ("plain", "4"),
    ]);
    assert_eq!(linux.sysctls, sysctls);
}

#[test]
fn any_privileged_container_makes_the_sandbox_privileged() {
    let privileged = json!([{ "name": "x", "securityContext": { "privileged": true } }]);
    let plain = json!([{ "name": "x", "securityContext": { "privileged": false } }]);
    let cases = [
        ("containers", &privileged, true),
        ("initContainers", &privileged, true),
        ("ephemeralContainers", &privileged, true),
        ("initContainers", &plain, false),
    ];
    for (field, containers, expected) in cases {
        let mut changes = json!({});
        changes[field] = containers.clone();
        assert_eq!(config(changes).linux.security_context.privileged, expected, "{field}");
    }
}

#[test]
fn ports_of_regular_containers_are_mapped_once_for_each_name() {
    let mapping = |protocol, container_port, host_port, host_ip: &str| PortMapping {
        protocol,
        container_port,
        host_port,
        host_ip: host_ip.into(),
    };
    let ports = json!([
        { "name": "http", "containerPort": 80, "hostPort": 8080, "protocol": "TCP" },
        { "name": "http", "containerPort": 81, "protocol": "TCP" },
        { "containerPort": 53, "protocol": "UDP" },
        { "containerPort": 53, "protocol": "UDP" },
        { "containerPort": 53, "protocol": "TCP" },
        { "containerPort": 53, "hostPort": 53, "hostIP": "192.0.2.1", "protocol": "UDP" },
        { "containerPort": 53, "hostPort": 53, "hostIP": "fd00::1", "protocol": "UDP" },
        { "containerPort": 9, "protocol": "SCTP" },
    ]);
    let other = json!([{ "name": "http", "containerPort": 82 }]);
    let found = config(json!({
        "initContainers": [{ "name": "init", "ports": [{ "containerPort": 1 }] }],
        "containers": [{ "name": "a", "ports": ports }, { "name": "b", "ports": other }, { "name": "c" }],
    }));
    let expected = [
        mapping(Protocol::Tcp, 80, 8080, ""),
        mapping(Protocol::Udp, 53, 0, ""),
        mapping(Protocol::Tcp, 53, 0, ""),
        mapping(Protocol::Udp, 53, 53, "192.0.2.1"),
        mapping(Protocol::Udp, 53, 53, "fd00::1"),
        mapping(Protocol::Sctp, 9, 0, ""),
        mapping(Protocol::Tcp, 82, 0, ""),
    ];
    assert_eq!(found.port_mappings, expected);
}

#[test]
fn the_kernels_name_may_be_the_full_one() {
    let cases = [
        (json!({ "hostname": "host", "subdomain": "sub" }), "host"),
        (
            json!({ "hostname": "host", "subdomain": "sub", "setHostnameAsFQDN": true }),
            "host.sub.shop.svc.cluster.local",
        ),
        (json!({ "hostname": "host", "setHostnameAsFQDN": true }), "host"),
        (json!({ "hostnameOverride": "other.name", "subdomain": "sub", "setHostnameAsFQDN": true }), "other.name"),
    ];
    for (changes, expected) in cases {
        assert_eq!(config(changes.clone()).hostname, expected, "{changes}");
    }
    let long = pod(json!({ "hostname": "h".repeat(60), "subdomain": "sub", "setHostnameAsFQDN": true }));
    assert!(matches!(sandbox_config(&long, &facts()), Err(MappingError::Hostname(_))));
}

#[test]
fn names_that_leave_the_log_directory_are_refused() {
    for (field, value) in [("name", "../x"), ("namespace", "a/b"), ("uid", ".."), ("uid", ""), ("name", "a\0b")] {
        let mut bad = pod(json!({}));
        let value = Some(value.to_owned());
        match field {
            "name" => bad.metadata.name = value,
            "namespace" => bad.metadata.namespace = value,
            _ => bad.metadata.uid = value,
        }
        let found = sandbox_config(&bad, &facts()).unwrap_err();
        assert!(matches!(found, MappingError::UnsafeName { .. }), "{field}: {found}");
    }
}

#[test]
fn what_upstream_refuses_is_refused() {
    let cases = [
        (
            json!({ "securityContext": { "supplementalGroupsPolicy": "Some" } }),
            "unsupported supplementalGroupsPolicy: Some",
        ),
        (json!({ "hostUsers": false }), "no user namespace was set up for the pod"),
    ];
    for (changes, text) in cases {
        assert_eq!(sandbox_config(&pod(changes), &facts()).unwrap_err().to_string(), text);
    }
}
