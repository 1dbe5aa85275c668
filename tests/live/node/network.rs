//! A pod's view of the network, and the callers that reach it.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Node, http_get};
use crate::pods::{forever, pod, shell, then_forever, web, with};

/// CRI-06, POD-29: a port of the host leads to the pod.
#[test]
fn a_host_port_leads_to_the_pod() {
    let Some(node) = Node::running() else { return };
    let port: u16 = node.named("HOST_PORT").parse().unwrap();
    let server = with(web("server"), json!({ "ports": [{ "containerPort": 80, "hostPort": port }] }));
    node.apply(&pod("web", &[server]));
    node.wait_running("web", "server");
    let address = format!("{}:{port}", node.named("NODE_IP"));
    let answer = node.eventually("the web server answers on the host's port", || http_get(&address, "/"));
    assert_eq!(answer, (200, "hello from podwright\n".to_owned()));
    let shown = node.wait_listed("web", "with addresses", |pod| pod["status"]["podIP"].is_string());
    assert_eq!(shown["status"]["hostIP"], node.named("NODE_IP"));
    assert_eq!(shown["status"]["podIP"], node.sandboxes("web")[0].ips[0].as_str());
    node.delete("web");
    node.wait_gone("web");
    assert_eq!(http_get(&address, "/"), None, "the port is free again");
}

/// CRI-06, CRI-11, POD-27: names, addresses and resolver of a pod on the pods' network.
#[test]
fn a_pod_has_a_hostname_and_hosts_and_a_resolver_of_its_own() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.example" }));
    node.start_agent();
    let aliases = json!([{ "ip": "192.0.2.7", "hostnames": ["db", "db.example"] }]);
    node.apply(&with(pod("web", &[forever("main")]), json!({ "spec": { "hostAliases": aliases } })));
    let own = json!({ "nameservers": ["192.0.2.53"], "searches": ["example.com"], "options": [{ "name": "ndots", "value": "2" }] });
    node.apply(&with(
        pod("own", &[forever("main")]),
        json!({ "spec": { "hostname": "named", "dnsPolicy": "None", "dnsConfig": own } }),
    ));
    let (web, own) = (node.wait_running("web", "main"), node.wait_running("own", "main"));
    let ip = node.sandboxes("web")[0].ips[0].clone();
    assert_eq!(node.run_in(&web, "hostname"), "web-node1\n");
    let hosts = node.run_in(&web, "cat /etc/hosts");
    assert!(hosts.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{hosts}");
    assert!(hosts.contains(&format!("\n{ip}\tweb-node1\n")), "{hosts}");
    assert!(hosts.ends_with("\n# Entries added by HostAliases.\n192.0.2.7\tdb\tdb.example\n"), "{hosts}");
    let resolver = node.run_in(&web, "cat /etc/resolv.conf");
    let lines: Vec<_> = resolver.lines().collect();
    let search = lines.iter().find(|line| line.starts_with("search ")).unwrap();
    assert!(search.starts_with("search default.svc.cluster.example svc.cluster.example cluster.example"), "{resolver}");
    assert!(lines.contains(&"nameserver 10.96.0.10") && lines.contains(&"options ndots:5"), "{resolver}");

    assert_eq!(node.run_in(&own, "hostname"), "named\n");
    let resolver = node.run_in(&own, "cat /etc/resolv.conf");
    let mut lines: Vec<_> = resolver.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["nameserver 192.0.2.53", "options ndots:2", "search example.com"]);
}

/// CRI-06, POD-27, POD-29: a pod on the host's network has the host's name, addresses and ports.
#[test]
fn a_pod_on_the_hosts_network_is_the_host() {
    let Some(node) = Node::running() else { return };
    let port = node.free_port(1);
    let script = then_forever(&format!("httpd -p 127.0.0.1:{port} -h /"));
    node.apply(&with(
        pod("host", &[with(shell("main", &script), json!({ "ports": [{ "containerPort": port }] }))]),
        json!({ "spec": { "hostNetwork": true } }),
    ));
    let main = node.wait_running("host", "main");
    let answer = node.eventually("it listens on the host", || http_get(&format!("127.0.0.1:{port}"), "/etc/hosts"));
    assert_eq!(answer.0, 200);
    assert!(answer.1.starts_with("# Kubernetes-managed hosts file (host network).\n"), "{}", answer.1);
    let hostname = nix::unistd::gethostname().unwrap().into_string().unwrap();
    assert_eq!(node.run_in(&main, "hostname"), format!("{hostname}\n"));
    let shown = node.wait_listed("host", "with its address", |pod| pod["status"]["podIP"].is_string());
    assert_eq!(shown["status"]["podIP"], node.named("NODE_IP"));
    assert!(node.sandboxes("host")[0].ips.is_empty());
}

/// POD-29, CRI-06, CRI-11: a pod with an address of each family is told, told to itself, and found by both.
#[test]
fn a_pod_has_an_address_of_each_family() {
    let Some(mut node) = Node::new() else { return };
    // The runtime sees by itself that its pods' network is another.
    let place = node.dir.join("cni/10-podwright.conflist");
    let mut network: Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    // Of the environment's own, and written without a zero that could be left out.
    let sixth = format!("fd00:1{:0>3}::", node.named("CNI_BRIDGE").trim_start_matches("pwbr"));
    let ranges = network["plugins"][0]["ipam"]["ranges"].as_array_mut().unwrap();
    ranges.push(json!([{ "subnet": format!("{sixth}/64") }]));
    fs::write(&place, network.to_string()).unwrap();
    node.start_agent();
    let addresses = json!([{ "name": "IPS", "valueFrom": { "fieldRef": { "fieldPath": "status.podIPs" } } }]);
    let script = "mkdir -p /srv && echo $IPS > /srv/ips && exec httpd -f -p '[::]:80' -h /srv";
    node.apply(&pod("web", &[with(shell("main", script), json!({ "env": addresses }))]));
    let main = node.wait_running("web", "main");
    let shown = node.wait_listed("web", "with two addresses", |pod| pod["status"]["podIPs"][1]["ip"].is_string());
    let status = &shown["status"];
    let ip = |index: usize| status["podIPs"][index]["ip"].as_str().unwrap().to_owned();
    assert_eq!((status["podIP"].as_str(), status["podIPs"].as_array().map(Vec::len)), (Some(&*ip(0)), Some(2)));
    assert!(ip(1).starts_with(&sixth), "{status}");
    let told = format!("{},{}\n", ip(0), ip(1));
    for address in [format!("{}:80", ip(0)), format!("[{}]:80", ip(1))] {
        let answer = node.eventually("it answers", || http_get(&address, "/ips"));
        assert_eq!(answer, (200, told.clone()), "{address}");
    }
    let hosts = node.run_in(&main, "cat /etc/hosts");
    for ip in [ip(0), ip(1)] {
        assert!(hosts.contains(&format!("\n{ip}\tweb-node1\n")), "{hosts}");
    }
}
