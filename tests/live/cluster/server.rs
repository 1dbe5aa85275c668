//! kubectl's requests to the node through the API server: who may, and what comes back.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{AGENT, NODE_NAME};
use crate::pods::{forever, pod};

impl Cluster {
    /// A path of the node's server, asked for through the API server.
    fn proxied(&self, path: &str) -> Result<String, String> {
        self.try_kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE_NAME}/proxy{path}")])
    }

    /// Asks the node's port itself, with curl's arguments; the status and the body.
    pub fn curl(&self, arguments: &[&str], path: &str) -> (u16, String) {
        let url = format!("https://{}:{}{path}", self.env["NODE_IP"], self.env["PORT"]);
        let ca = self.pki("ca.crt");
        let output = Command::new("curl")
            .args(["-sS", "-m", "30", "--cacert", &ca, "-w", "\n%{http_code}"])
            .args(arguments)
            .arg(url)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("curl said {output:?}"));
        (status.parse().unwrap(), body.to_owned())
    }

    fn pki(&self, name: &str) -> String {
        self.dir.join("cluster/pki").join(name).to_str().unwrap().to_owned()
    }
}

/// CFG-48, SRV-27.
/// SRV-16 to SRV-20: the API server's own client may do everything; a service account what it is given and no more; who
/// proves nothing, nothing.
#[test]
fn the_port_knows_its_callers() {
    let Some(cluster) = Cluster::joined() else { return };
    let listed: Value = serde_json::from_str(&cluster.proxied("/pods").expect("the API server may")).expect("JSON");
    assert_eq!(listed["kind"], "PodList");
    assert!(cluster.proxied("/healthz").expect("the API server may").starts_with("ok"));

    assert_eq!(cluster.curl(&[], "/pods"), (401, "Unauthorized".to_owned()));
    assert_eq!(cluster.curl(&["-H", "Authorization: Bearer nonsense"], "/metrics"), (401, "Unauthorized".to_owned()));
    assert_eq!(cluster.curl(&[], "/nope").0, 404);

    cluster.kubectl(&["create", "serviceaccount", "prometheus"]);
    cluster.kubectl(&["create", "clusterrole", "scraper", "--verb=get", "--resource=nodes/metrics"]);
    cluster.kubectl(&[
        "create",
        "clusterrolebinding",
        "scraper",
        "--clusterrole=scraper",
        "--serviceaccount=default:prometheus",
    ]);
    let token = format!("Authorization: Bearer {}", cluster.kubectl(&["create", "token", "prometheus"]).trim());
    cluster.eventually("the account may read metrics", || {
        (cluster.curl(&["-H", &token], "/metrics").0 == 200).then_some(())
    });
    let (status, body) = cluster.curl(&["-H", &token], "/pods");
    let user = "system:serviceaccount:default:prometheus";
    let told = format!("Forbidden (user={user}, verb=get, resource=nodes, subresource(s)=[pods proxy])\n");
    assert_eq!((status, body), (403, told));

    // The administrator's certificate, shown to the node itself.
    let (certificate, key) = (cluster.pki("admin.crt"), cluster.pki("admin.key"));
    let (status, body) = cluster.curl(&["--cert", &certificate, "--key", &key], "/configz");
    assert_eq!(status, 200, "{body}");
    let shown: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(shown["kubeletconfig"]["kind"], "KubeletConfiguration");
}

/// SRV-55, SRV-23: the port that the Node announces is the one that answers.
#[test]
fn the_node_announces_its_port() {
    let Some(cluster) = Cluster::joined() else { return };
    let node = cluster.find("node", NODE_NAME).expect("registered");
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().expect("announced");
    assert_eq!(port.to_string(), cluster.env["PORT"]);
    cluster.create_pod(pod("web", &[forever("main")]));
    cluster.wait_pod_ready("web");
    // It is of the last look at the runtime; the status is of what the agent did itself, and may be first.
    let running = cluster.eventually("the pod is among those that run", || {
        let running: Value = serde_json::from_str(&cluster.proxied("/runningpods/").expect("allowed")).expect("JSON");
        let is_there = |pods: &Vec<Value>| pods.iter().any(|pod| pod["metadata"]["name"] == "web");
        running["items"].as_array().is_some_and(is_there).then_some(running)
    });
    assert_eq!(json!("v1"), running["apiVersion"]);
}

/// PAIN-37: the executable as kubectl's plugin, with a kubeconfig's rights and no others. At the node's own port the shipped
/// role opens the pages that look, and nothing else.
#[test]
fn kubectl_podwright_looks_through_the_api_server() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.create_pod(pod("web", &[forever("main")]));
    cluster.wait_pod_ready("web");
    let bin = cluster.dir.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(AGENT, bin.join("kubectl-podwright")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let plugin = |arguments: &[&str]| {
        let mut command = cluster.command(&[]);
        let kubectl = command.get_program().to_owned();
        command = Command::new(kubectl);
        command.arg("podwright").args(arguments).args(["--node", NODE_NAME]);
        command.env("PATH", &path).env("KUBECONFIG", cluster.pki("admin.conf")).stdin(Stdio::null());
        command.output().unwrap()
    };
    let json = |arguments: &[&str]| -> Value {
        let output = plugin(&[arguments, &["-o", "json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"))
    };
    let rows = json(&["ps"]);
    assert!(rows.as_array().unwrap().iter().any(|row| row["name"] == "web" && row["phase"] == "Running"), "{rows}");
    assert_eq!(json(&["explain", "default/web"])[0]["pod"]["name"], "web");
    assert!(json(&["actors"]).to_string().contains("Pleg"));
    assert!(json(&["trace", "--pod", "default/web"]).to_string().contains("PodWorker"));
    assert!(json(&["events", "--pod", "default/web"]).to_string().contains("Started"));
    assert!(!json(&["images"])["images"].as_array().unwrap().is_empty());
    assert_eq!(json(&["top"])[0]["node"], NODE_NAME);
    assert!(json(&["plugins"]).is_array());
    let refused = plugin(&["restart", "default/web"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let unknown = plugin(&["explain", "default/nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&unknown.stderr), "no pod default/nobody on this node\n");

    let roles = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/rbac/view.yaml");
    cluster.kubectl(&["apply", "-f", roles.to_str().unwrap()]);
    cluster.kubectl(&["create", "serviceaccount", "viewer"]);
    let role = ["--clusterrole=podwright-view", "--serviceaccount=default:viewer"];
    cluster.kubectl(&[&["create", "clusterrolebinding", "viewer"][..], &role].concat());
    let token = format!("Authorization: Bearer {}", cluster.kubectl(&["create", "token", "viewer"]).trim());
    cluster.eventually("the account may look", || (cluster.curl(&["-H", &token], "/ps").0 == 200).then_some(()));
    let status = |path: &str| cluster.curl(&["-H", &token], path).0;
    for path in ["/explain/default/web", "/events", "/images", "/debug/actors", "/debug/plugins", "/stats/summary"] {
        assert_eq!(status(path), 200, "{path}");
    }
    for path in
        ["/pods", "/configz", "/metrics", "/containerLogs/default/web/main", "/exec/default/web/main?command=id"]
    {
        assert_eq!(status(path), 403, "{path}");
    }
    assert_eq!(status("/restart/default/web"), 404);
}
