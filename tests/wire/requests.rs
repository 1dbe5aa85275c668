//! The agent's requests arrive whole: each message as the runtime got it, beside the one that it should be. The
//! expected messages name every field, so that a field that a later protocol adds stops the build here.

use std::time::Duration;

use podwright::cri::{self as own, ImageService, RuntimeService, wire};

use crate::answers::{
    map, own_image_spec, own_mount, own_resources, texts, wire_image_spec, wire_mount, wire_resources,
};
use crate::fake::{Fake, Host};

fn own_namespaces() -> own::NamespaceOptions {
    own::NamespaceOptions {
        network: own::NamespaceMode::Node,
        pid: own::NamespaceMode::Target,
        ipc: own::NamespaceMode::Container,
        target_id: "target".into(),
        userns: Some(own::UserNamespace {
            mode: own::NamespaceMode::Pod,
            uids: vec![own::IdMapping { host_id: 1, container_id: 2, length: 3 }],
            gids: vec![own::IdMapping { host_id: 4, container_id: 5, length: 6 }],
        }),
    }
}

fn wire_namespaces() -> wire::NamespaceOption {
    wire::NamespaceOption {
        network: wire::NamespaceMode::Node.into(),
        pid: wire::NamespaceMode::Target.into(),
        ipc: wire::NamespaceMode::Container.into(),
        target_id: "target".into(),
        userns_options: Some(wire::UserNamespace {
            mode: wire::NamespaceMode::Pod.into(),
            uids: vec![wire::IdMapping { host_id: 1, container_id: 2, length: 3 }],
            gids: vec![wire::IdMapping { host_id: 4, container_id: 5, length: 6 }],
        }),
    }
}

fn own_selinux() -> own::SeLinuxOption {
    own::SeLinuxOption { user: "user".into(), role: "role".into(), kind: "type".into(), level: "level".into() }
}

fn wire_selinux() -> wire::SeLinuxOption {
    wire::SeLinuxOption { user: "user".into(), role: "role".into(), r#type: "type".into(), level: "level".into() }
}

fn wire_profile(kind: wire::security_profile::ProfileType, name: &str) -> wire::SecurityProfile {
    wire::SecurityProfile { profile_type: kind.into(), localhost_ref: name.into() }
}

/// A sandbox, every field set to a value of its own.
fn own_sandbox() -> own::PodSandboxConfig {
    own::PodSandboxConfig {
        metadata: own::PodSandboxMetadata {
            name: "name".into(),
            uid: "uid".into(),
            namespace: "namespace".into(),
            attempt: 7,
        },
        hostname: "host".into(),
        log_directory: "/logs".into(),
        dns: Some(own::DnsConfig { servers: texts("server"), searches: texts("search"), options: texts("option") }),
        port_mappings: vec![own::PortMapping {
            protocol: own::Protocol::Sctp,
            container_port: 80,
            host_port: 8080,
            host_ip: "127.0.0.1".into(),
        }],
        labels: map("label"),
        annotations: map("annotation"),
        linux: own::LinuxPodSandboxConfig {
            cgroup_parent: "/kubepods".into(),
            security_context: own::LinuxSandboxSecurityContext {
                namespace_options: own_namespaces(),
                selinux_options: Some(own_selinux()),
                run_as_user: Some(0),
                run_as_group: Some(12),
                readonly_rootfs: true,
                supplemental_groups: vec![13, 14],
                supplemental_groups_policy: own::SupplementalGroupsPolicy::Strict,
                privileged: true,
                seccomp: Some(own::SecurityProfile::RuntimeDefault),
                apparmor: Some(own::SecurityProfile::Unconfined),
            },
            sysctls: map("sysctl"),
            overhead: own_resources(100),
            resources: own_resources(200),
        },
    }
}

#[expect(deprecated, reason = "every field is named")]
fn wire_sandbox() -> wire::PodSandboxConfig {
    use wire::security_profile::ProfileType;
    wire::PodSandboxConfig {
        metadata: Some(wire::PodSandboxMetadata {
            name: "name".into(),
            uid: "uid".into(),
            namespace: "namespace".into(),
            attempt: 7,
        }),
        hostname: "host".into(),
        log_directory: "/logs".into(),
        dns_config: Some(wire::DnsConfig {
            servers: texts("server"),
            searches: texts("search"),
            options: texts("option"),
        }),
        port_mappings: vec![wire::PortMapping {
            protocol: wire::Protocol::Sctp.into(),
            container_port: 80,
            host_port: 8080,
            host_ip: "127.0.0.1".into(),
        }],
        labels: map("label"),
        annotations: map("annotation"),
        linux: Some(wire::LinuxPodSandboxConfig {
            cgroup_parent: "/kubepods".into(),
            security_context: Some(wire::LinuxSandboxSecurityContext {
                namespace_options: Some(wire_namespaces()),
                selinux_options: Some(wire_selinux()),
                run_as_user: Some(wire::Int64Value { value: 0 }),
                run_as_group: Some(wire::Int64Value { value: 12 }),
                readonly_rootfs: true,
                supplemental_groups: vec![13, 14],
                supplemental_groups_policy: wire::SupplementalGroupsPolicy::Strict.into(),
                privileged: true,
                seccomp: Some(wire_profile(ProfileType::RuntimeDefault, "")),
                apparmor: Some(wire_profile(ProfileType::Unconfined, "")),
                seccomp_profile_path: String::new(),
            }),
            sysctls: map("sysctl"),
            overhead: Some(wire_resources(100)),
            resources: Some(wire_resources(200)),
        }),
        windows: None,
    }
}

/// A container, every field set to a value of its own.
fn own_container() -> own::ContainerConfig {
    own::ContainerConfig {
        metadata: own::ContainerMetadata { name: "name".into(), attempt: 8 },
        image: own_image_spec("image"),
        command: texts("command"),
        args: texts("arg"),
        working_dir: "/work".into(),
        envs: vec![("B".into(), b"1".to_vec()), ("A".into(), vec![0xff])],
        mounts: vec![own_mount()],
        devices: vec![own::Device {
            container_path: "/dev/in".into(),
            host_path: "/dev/out".into(),
            permissions: "rwm".into(),
        }],
        cdi_devices: texts("cdi"),
        labels: map("label"),
        annotations: map("annotation"),
        log_path: "name/8.log".into(),
        stdin: true,
        stdin_once: true,
        tty: true,
        stop_signal: Some("SIGUSR1".into()),
        resources: own_resources(300),
        security_context: own::LinuxContainerSecurityContext {
            add_capabilities: texts("add"),
            drop_capabilities: texts("drop"),
            add_ambient_capabilities: texts("ambient"),
            privileged: true,
            namespace_options: own_namespaces(),
            selinux_options: Some(own_selinux()),
            run_as_user: Some(-1),
            run_as_group: Some(22),
            run_as_username: "somebody".into(),
            readonly_rootfs: true,
            supplemental_groups: vec![23],
            supplemental_groups_policy: own::SupplementalGroupsPolicy::Strict,
            no_new_privs: true,
            masked_paths: texts("masked"),
            readonly_paths: texts("readonly"),
            seccomp: Some(own::SecurityProfile::Localhost("seccomp.json".into())),
            apparmor: Some(own::SecurityProfile::Localhost("profile".into())),
        },
    }
}

#[expect(deprecated, reason = "every field is named")]
fn wire_container() -> wire::ContainerConfig {
    use wire::security_profile::ProfileType;
    wire::ContainerConfig {
        metadata: Some(wire::ContainerMetadata { name: "name".into(), attempt: 8 }),
        image: Some(wire_image_spec("image")),
        command: texts("command"),
        args: texts("arg"),
        working_dir: "/work".into(),
        envs: vec![
            wire::KeyValue { key: "B".into(), value: b"1".to_vec() },
            wire::KeyValue { key: "A".into(), value: vec![0xff] },
        ],
        mounts: vec![wire_mount()],
        devices: vec![wire::Device {
            container_path: "/dev/in".into(),
            host_path: "/dev/out".into(),
            permissions: "rwm".into(),
        }],
        labels: map("label"),
        annotations: map("annotation"),
        log_path: "name/8.log".into(),
        stdin: true,
        stdin_once: true,
        tty: true,
        linux: Some(wire::LinuxContainerConfig {
            resources: Some(wire_resources(300)),
            security_context: Some(wire::LinuxContainerSecurityContext {
                capabilities: Some(wire::Capability {
                    add_capabilities: texts("add"),
                    drop_capabilities: texts("drop"),
                    add_ambient_capabilities: texts("ambient"),
                }),
                privileged: true,
                namespace_options: Some(wire_namespaces()),
                selinux_options: Some(wire_selinux()),
                run_as_user: Some(wire::Int64Value { value: -1 }),
                run_as_group: Some(wire::Int64Value { value: 22 }),
                run_as_username: "somebody".into(),
                readonly_rootfs: true,
                supplemental_groups: vec![23],
                supplemental_groups_policy: wire::SupplementalGroupsPolicy::Strict.into(),
                no_new_privs: true,
                masked_paths: texts("masked"),
                readonly_paths: texts("readonly"),
                seccomp: Some(wire_profile(ProfileType::Localhost, "seccomp.json")),
                apparmor: Some(wire_profile(ProfileType::Localhost, "profile")),
                apparmor_profile: "localhost/profile".into(),
                seccomp_profile_path: String::new(),
            }),
        }),
        windows: None,
        cdi_devices: vec![wire::CdiDevice { name: "cdi-1".into() }, wire::CdiDevice { name: "cdi-2".into() }],
        stop_signal: wire::Signal::Sigusr1.into(),
    }
}

/// POD-24.
#[tokio::test]
async fn sandboxes_and_containers_are_told_whole() {
    let fake = Fake::new();
    fake.answer(wire::RunPodSandboxResponse { pod_sandbox_id: "sandbox".into() });
    fake.answer(wire::CreateContainerResponse { container_id: "container".into() });
    let host = Host::of(&fake);
    let runtime = host.connect();
    let sandbox = runtime.run_pod_sandbox(&own_sandbox(), "handler").await.unwrap();
    assert_eq!(sandbox.as_str(), "sandbox");
    let told = wire::RunPodSandboxRequest { config: Some(wire_sandbox()), runtime_handler: "handler".into() };
    assert_eq!(fake.asked::<wire::RunPodSandboxRequest>(), [told]);

    let container = runtime.create_container(&sandbox, &own_container(), &own_sandbox()).await.unwrap();
    assert_eq!(container.as_str(), "container");
    let told = wire::CreateContainerRequest {
        pod_sandbox_id: "sandbox".into(),
        config: Some(wire_container()),
        sandbox_config: Some(wire_sandbox()),
    };
    assert_eq!(fake.asked::<wire::CreateContainerRequest>(), [told]);
}

#[tokio::test]
async fn what_is_not_set_is_left_out_and_not_told_as_zero() {
    let fake = Fake::new();
    fake.answer(wire::RunPodSandboxResponse { pod_sandbox_id: "sandbox".into() });
    fake.answer(wire::CreateContainerResponse { container_id: "container".into() });
    let host = Host::of(&fake);
    let runtime = host.connect();
    let (sandbox, container) = (own::PodSandboxConfig::default(), own::ContainerConfig::default());
    runtime.run_pod_sandbox(&sandbox, "").await.unwrap();
    runtime.create_container(&"s".into(), &container, &sandbox).await.unwrap();
    let told = fake.asked::<wire::RunPodSandboxRequest>().remove(0).config.unwrap();
    assert_eq!(told.dns_config, None);
    let context = told.linux.unwrap().security_context.unwrap();
    assert_eq!((context.run_as_user, context.run_as_group), (None, None));
    assert_eq!((context.seccomp, context.apparmor, context.selinux_options), (None, None, None));
    assert_eq!(context.namespace_options.unwrap().userns_options, None);
    let told = fake.asked::<wire::CreateContainerRequest>().remove(0).config.unwrap();
    let context = told.linux.unwrap().security_context.unwrap();
    assert_eq!((context.run_as_user, context.run_as_group), (None, None));
    assert_eq!((context.seccomp, context.apparmor, context.selinux_options), (None, None, None));
    assert_eq!(told.stop_signal, 0);
}

#[tokio::test]
async fn every_choice_has_its_number() {
    let fake = Fake::new();
    fake.answer(wire::RunPodSandboxResponse { pod_sandbox_id: "sandbox".into() });
    let host = Host::of(&fake);
    let runtime = host.connect();
    let protocols = [(own::Protocol::Tcp, 0), (own::Protocol::Udp, 1), (own::Protocol::Sctp, 2)];
    for (protocol, number) in protocols {
        let mut config = own_sandbox();
        config.port_mappings[0].protocol = protocol;
        runtime.run_pod_sandbox(&config, "").await.unwrap();
        let told = fake.asked::<wire::RunPodSandboxRequest>().pop().unwrap().config.unwrap();
        assert_eq!(told.port_mappings[0].protocol, number);
    }
    let modes = [
        (own::NamespaceMode::Pod, 0),
        (own::NamespaceMode::Container, 1),
        (own::NamespaceMode::Node, 2),
        (own::NamespaceMode::Target, 3),
    ];
    for (mode, number) in modes {
        let mut config = own_sandbox();
        config.linux.security_context.namespace_options.pid = mode;
        runtime.run_pod_sandbox(&config, "").await.unwrap();
        let told = fake.asked::<wire::RunPodSandboxRequest>().pop().unwrap().config.unwrap();
        let context = told.linux.unwrap().security_context.unwrap();
        assert_eq!(context.namespace_options.unwrap().pid, number);
    }
}

#[tokio::test]
async fn filters_are_told_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    for (state, number) in [(own::SandboxState::Ready, 0), (own::SandboxState::NotReady, 1)] {
        let filter =
            own::PodSandboxFilter { id: Some("s".into()), state: Some(state), label_selector: map("selector") };
        runtime.list_pod_sandboxes(&filter).await.unwrap();
        let told = wire::PodSandboxFilter {
            id: "s".into(),
            state: Some(wire::PodSandboxStateValue { state: number }),
            label_selector: map("selector"),
        };
        assert_eq!(fake.asked::<wire::ListPodSandboxRequest>().pop().unwrap().filter, Some(told));
    }
    let states = [
        (own::ContainerState::Created, 0),
        (own::ContainerState::Running, 1),
        (own::ContainerState::Exited, 2),
        (own::ContainerState::Unknown, 3),
    ];
    for (state, number) in states {
        let filter = own::ContainerFilter {
            id: Some("c".into()),
            state: Some(state),
            sandbox_id: Some("s".into()),
            label_selector: map("selector"),
        };
        runtime.list_containers(&filter).await.unwrap();
        let told = wire::ContainerFilter {
            id: "c".into(),
            state: Some(wire::ContainerStateValue { state: number }),
            pod_sandbox_id: "s".into(),
            label_selector: map("selector"),
        };
        assert_eq!(fake.asked::<wire::ListContainersRequest>().pop().unwrap().filter, Some(told));
    }
    runtime.list_containers(&Default::default()).await.unwrap();
    let told = fake.asked::<wire::ListContainersRequest>().pop().unwrap().filter;
    assert_eq!(told, Some(wire::ContainerFilter::default()), "no state means all states");

    let filter =
        own::StatsFilter { id: Some("c".into()), sandbox_id: Some("s".into()), label_selector: map("selector") };
    runtime.list_container_stats(&filter).await.unwrap();
    let told =
        wire::ContainerStatsFilter { id: "c".into(), pod_sandbox_id: "s".into(), label_selector: map("selector") };
    assert_eq!(fake.asked::<wire::ListContainerStatsRequest>().pop().unwrap().filter, Some(told));
    runtime.list_pod_sandbox_stats(&filter).await.unwrap();
    let told = wire::PodSandboxStatsFilter { id: "c".into(), label_selector: map("selector") };
    assert_eq!(fake.asked::<wire::ListPodSandboxStatsRequest>().pop().unwrap().filter, Some(told));
}

#[tokio::test]
async fn calls_about_one_thing_name_it() {
    let fake = Fake::new();
    fake.answer(wire::ExecResponse { url: "http://exec".into() });
    fake.answer(wire::AttachResponse { url: "http://attach".into() });
    fake.answer(wire::PortForwardResponse { url: "http://forward".into() });
    fake.answer(wire::ExecSyncResponse { stdout: b"out".to_vec(), stderr: b"err".to_vec(), exit_code: 3 });
    let host = Host::of(&fake);
    let runtime = host.connect();
    let (id, sandbox) = ("c".into(), "s".into());
    let command = texts("command");

    runtime.stop_pod_sandbox(&sandbox).await.unwrap();
    assert_eq!(fake.asked::<wire::StopPodSandboxRequest>()[0].pod_sandbox_id, "s");
    runtime.remove_pod_sandbox(&sandbox).await.unwrap();
    assert_eq!(fake.asked::<wire::RemovePodSandboxRequest>()[0].pod_sandbox_id, "s");
    runtime.start_container(&id).await.unwrap();
    assert_eq!(fake.asked::<wire::StartContainerRequest>()[0].container_id, "c");
    runtime.stop_container(&id, Duration::from_millis(30_900)).await.unwrap();
    let told = wire::StopContainerRequest { container_id: "c".into(), timeout: 30 };
    assert_eq!(fake.asked::<wire::StopContainerRequest>(), [told]);
    runtime.remove_container(&id).await.unwrap();
    assert_eq!(fake.asked::<wire::RemoveContainerRequest>()[0].container_id, "c");
    runtime.reopen_container_log(&id).await.unwrap();
    assert_eq!(fake.asked::<wire::ReopenContainerLogRequest>()[0].container_id, "c");
    runtime.checkpoint_container(&id, "/archive.tar", Duration::from_secs(90)).await.unwrap();
    let told =
        wire::CheckpointContainerRequest { container_id: "c".into(), location: "/archive.tar".into(), timeout: 90 };
    assert_eq!(fake.asked::<wire::CheckpointContainerRequest>(), [told]);

    let outcome = runtime.exec_sync(&id, &command, Duration::from_secs(9)).await.unwrap();
    let told = wire::ExecSyncRequest { container_id: "c".into(), cmd: command.clone(), timeout: 9 };
    assert_eq!(fake.asked::<wire::ExecSyncRequest>(), [told]);
    let expected = own::ExecOutcome { stdout: b"out".to_vec(), stderr: b"err".to_vec(), exit_code: 3 };
    assert_eq!(outcome, expected);
    for (stdin, stdout, stderr, tty) in [
        (true, false, false, false),
        (false, true, false, false),
        (false, false, true, false),
        (false, false, false, true),
    ] {
        let streams = own::Streams { stdin, stdout, stderr, tty };
        assert_eq!(runtime.exec(&id, &command, streams).await.as_deref(), Ok("http://exec"));
        let told = wire::ExecRequest { container_id: "c".into(), cmd: command.clone(), tty, stdin, stdout, stderr };
        assert_eq!(fake.asked::<wire::ExecRequest>().pop(), Some(told));
        assert_eq!(runtime.attach(&id, streams).await.as_deref(), Ok("http://attach"));
        let told = wire::AttachRequest { container_id: "c".into(), stdin, tty, stdout, stderr };
        assert_eq!(fake.asked::<wire::AttachRequest>().pop(), Some(told));
    }
    assert_eq!(runtime.port_forward(&sandbox, &[80, 65535]).await.as_deref(), Ok("http://forward"));
    let told = wire::PortForwardRequest { pod_sandbox_id: "s".into(), port: vec![80, 65535] };
    assert_eq!(fake.asked::<wire::PortForwardRequest>(), [told]);
}

#[tokio::test]
async fn changes_of_resources_and_configuration_are_told_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    runtime.update_container_resources(&"c".into(), &own_resources(1), &map("annotation")).await.unwrap();
    let told = wire::UpdateContainerResourcesRequest {
        container_id: "c".into(),
        linux: Some(wire_resources(1)),
        windows: None,
        annotations: map("annotation"),
    };
    assert_eq!(fake.asked::<wire::UpdateContainerResourcesRequest>(), [told]);
    runtime.update_pod_sandbox_resources(&"s".into(), &own_resources(2), &own_resources(3)).await.unwrap();
    let told = wire::UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: "s".into(),
        overhead: Some(wire_resources(2)),
        resources: Some(wire_resources(3)),
    };
    assert_eq!(fake.asked::<wire::UpdatePodSandboxResourcesRequest>(), [told]);
    runtime.update_runtime_config("10.1.0.0/24").await.unwrap();
    let network_config = Some(wire::NetworkConfig { pod_cidr: "10.1.0.0/24".into() });
    let told = wire::UpdateRuntimeConfigRequest { runtime_config: Some(wire::RuntimeConfig { network_config }) };
    assert_eq!(fake.asked::<wire::UpdateRuntimeConfigRequest>(), [told]);
}

#[tokio::test]
async fn pulls_and_questions_about_images_are_told_whole() {
    let fake = Fake::new();
    fake.answer(wire::PullImageResponse { image_ref: "ref".into() });
    let host = Host::of(&fake);
    let runtime = host.connect();
    let auth = own::AuthConfig {
        username: "user".into(),
        password: "password".into(),
        auth: "auth".into(),
        server_address: "server".into(),
        identity_token: "identity".into(),
        registry_token: "registry".into(),
    };
    runtime.pull_image(&own_image_spec("image"), Some(&auth), &own_sandbox()).await.unwrap();
    let told = wire::PullImageRequest {
        image: Some(wire_image_spec("image")),
        auth: Some(wire::AuthConfig {
            username: "user".into(),
            password: "password".into(),
            auth: "auth".into(),
            server_address: "server".into(),
            identity_token: "identity".into(),
            registry_token: "registry".into(),
        }),
        sandbox_config: Some(wire_sandbox()),
    };
    assert!(fake.asked::<wire::PullImageRequest>() == [told], "secrets are not printed");
    runtime.image_status(&own_image_spec("status")).await.unwrap();
    assert_eq!(fake.asked::<wire::ImageStatusRequest>()[0].image, Some(wire_image_spec("status")));
    runtime.remove_image(&own_image_spec("remove")).await.unwrap();
    assert_eq!(fake.asked::<wire::RemoveImageRequest>()[0].image, Some(wire_image_spec("remove")));
    runtime.list_images(None).await.unwrap();
    runtime.list_images(Some(&own_image_spec("list"))).await.unwrap();
    let told = [None, Some(wire::ImageFilter { image: Some(wire_image_spec("list")) })];
    let asked: Vec<_> = fake.asked::<wire::ListImagesRequest>().into_iter().map(|request| request.filter).collect();
    assert_eq!(asked, told);
}
