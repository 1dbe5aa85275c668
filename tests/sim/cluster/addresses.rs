//! News to pods of their host's addresses and of the node's resolver, which both change while the agent runs.

use std::sync::PoisonError;
use std::time::Duration;

use podwright::actors::kit::trace::Cause;
use podwright::logic::model::ids::PodUid;
use podwright::messages::event_recorder::EventRecorderMsg;
use podwright::sim::{Options, SimPod, World, run, simulate};
use serde_json::{Value, json};

use crate::pods::resize::{in_a_cluster, seconds};

/// The work of a cloud provider, which sets addresses from outside.
fn set_addresses(world: &World, addresses: &[(&str, &str)]) {
    let addresses: Vec<Value> =
        addresses.iter().map(|(kind, address)| json!({ "type": kind, "address": address })).collect();
    let before = world.api().get("nodes", "", "node-1").expect("there is a Node");
    let mut node = (*before).clone();
    node["status"]["addresses"] = addresses.into();
    world.api().admin("PUT", "/api/v1/nodes/node-1/status", node).expect("written");
}

/// The host's addresses, then the pod's, as the API has them.
fn published(world: &World, pod: &str) -> [Vec<String>; 2] {
    let pod = world.api_pod(pod).expect("it is there");
    ["hostIPs", "podIPs"].map(|field| {
        let list = pod["status"][field].as_array().into_iter().flatten();
        list.map(|one| one["ip"].as_str().unwrap_or_default().to_owned()).collect()
    })
}

/// The Events of a pod, or of the node by its name.
async fn events(world: &World, uid: &PodUid) -> Vec<(String, String)> {
    let agent = world.agent().expect("it runs");
    let question = |reply| EventRecorderMsg::OfPod(uid.clone(), reply);
    let recorder = &agent.agent.directory.event_recorder;
    let events = recorder.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered");
    events.iter().map(|counted| (counted.event.reason.to_string(), counted.event.message.clone())).collect()
}

/// NODE-20, NODE-40, POD-29: until the provider says which addresses the node has, pods have none to show; then they have
/// those, and the next ones as they come.
#[test]
fn the_nodes_newest_addresses_are_those_of_pods_hosts() {
    let settings = |settings: &mut podwright::actors::settings::Settings| {
        settings.node.status.addresses.external_cloud_provider = true;
        settings.node.status.addresses.node_ips = vec![];
    };
    let run = run(1, Options { settings, ..in_a_cluster() }, |world| async move {
        let asks = json!([{ "name": "HOST", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } } }]);
        world.create(&SimPod::of("web", "run")).expect("made");
        world.create(&SimPod::of("asks", "run").field_of("main", "env", asks)).expect("made");
        let on_host = world.create(&SimPod::of("host", "run").own_field("hostNetwork", json!(true))).expect("made");
        world.start_agent();
        world.sleep(seconds(10)).await;
        assert_eq!(published(&world, "host"), [vec![], Vec::<String>::new()]);
        let waiting =
            world.api_pod("asks").expect("there")["status"]["containerStatuses"][0]["state"]["waiting"].clone();
        assert_eq!(waiting["reason"], "CreateContainerConfigError", "{waiting}");
        let unknown = "host IP unknown; known addresses: [{Hostname node-1}]";
        assert_eq!(waiting["message"], unknown);
        assert!(!world.running().contains("asks/main#0"));

        set_addresses(&world, &[("ExternalIP", "192.0.2.1"), ("InternalIP", "10.0.0.7"), ("Hostname", "node-1")]);
        world.settle().await;
        assert!(world.running().contains("asks/main#0"), "{:?}", world.running());
        for pod in ["web", "host"] {
            assert_eq!(published(&world, pod)[0], ["10.0.0.7"], "{pod}");
        }
        assert_eq!(published(&world, "host")[1], ["10.0.0.7"]);

        // One more of the other family, then another one altogether.
        set_addresses(&world, &[("InternalIP", "10.0.0.7"), ("InternalIP", "fd00::7")]);
        world.sleep(seconds(3)).await;
        assert_eq!(published(&world, "host"), [["10.0.0.7", "fd00::7"], ["10.0.0.7", "fd00::7"]]);
        set_addresses(&world, &[("InternalIP", "fd00::8"), ("InternalIP", "10.0.0.8")]);
        world.sleep(seconds(3)).await;
        assert_eq!(published(&world, "host"), [["fd00::8", "10.0.0.8"], ["fd00::8", "10.0.0.8"]]);
        let web = published(&world, "web");
        assert_eq!((&*web[0], web[1].len()), (&["fd00::8".to_owned(), "10.0.0.8".to_owned()][..], 1), "its own stays");
        let told = events(&world, &on_host).await;
        assert_eq!(told.iter().filter(|(reason, _)| reason == "HostIPsIPFamilyMismatch").count(), 1, "{told:?}");

        // A worker that is started again has them from its beginning.
        world.kill_agent();
        world.settle().await;
        assert_eq!(published(&world, "host")[0], ["fd00::8", "10.0.0.8"]);
        world.finish_cluster().await;
    });
    assert!(run.violations.is_empty(), "{:?}", run.violations);
}

/// CRI-06: what the file says when a sandbox is made counts; one that is not there keeps that pod from starting, and says so.
#[test]
fn the_nodes_resolver_is_read_for_each_sandbox() {
    simulate(1, |world| async move {
        let write = |text: Option<&str>| {
            let mut disk = world.node().disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.resolv_conf.0 = text.map(str::to_owned);
        };
        let servers = |name: &str| -> Vec<String> {
            let containers = world.node().containers.lock().unwrap_or_else(PoisonError::into_inner);
            let found = containers.sandboxes.values().find(|sandbox| sandbox.metadata.name.starts_with(name));
            found.map(|sandbox| sandbox.name_servers.clone()).unwrap_or_default()
        };
        world.put(&SimPod::of("first", "exit 1 after 30s below 1"));
        world.start_agent();
        world.sleep(seconds(5)).await;
        assert_eq!(servers("first"), ["10.0.0.53"]);

        write(None);
        let second = world.put(&SimPod::of("second", "run"));
        world.sleep(seconds(5)).await;
        assert_eq!(servers("second"), Vec::<String>::new());
        let told = events(&world, &second).await;
        let expected = "Failed to create pod sandbox: open /etc/resolv.conf: No such file or directory (os error 2)";
        assert!(told.contains(&("FailedCreatePodSandBox".to_owned(), expected.to_owned())), "{told:?}");
        // A pod whose sandbox is there needs it no more.
        world.sleep(seconds(60)).await;
        assert!(world.running().contains("first-node-1/main#1"), "{:?}", world.running());

        write(Some("nameserver 10.0.0.54\n"));
        world.settle().await;
        assert_eq!(servers("second"), ["10.0.0.54"]);
        world.finish().await;
    });
}

/// CRI-06.
#[test]
fn that_there_is_no_cluster_dns_is_told_of_the_pod_and_of_the_node() {
    simulate(1, |world| async move {
        let uid = world.put(&SimPod::of("web", "run"));
        world.start_agent();
        world.settle().await;
        let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                    Falling back to \"Default\" policy.";
        let of_pod = events(&world, &uid).await;
        let expected = format!("pod: \"web-node-1_default({uid})\". {text}");
        assert!(of_pod.contains(&("MissingClusterDNS".to_owned(), expected)), "{of_pod:?}");
        let of_node = events(&world, &PodUid::from("node-1")).await;
        assert!(of_node.contains(&("MissingClusterDNS".to_owned(), text.to_owned())), "{of_node:?}");
        world.finish().await;
    });
}
