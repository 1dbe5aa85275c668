//! A node of the simulated API server, over HTTP: what every machine can show that has no etcd and no kube-apiserver.
//!
//! The server lives in the test's process, on a thread of its own; the agent is the executable that ships, and knows of
//! it by its kubeconfig alone. The test asks and changes the server's objects behind the network's back.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use podwright::cri::{ContainerState, ContainerStatus};
use podwright::platform::host::clock::{Clock, SystemClock};
use podwright::sim::api_server::{ApiServer, Deed, Who, http};
use serde_json::{Value, json};

use crate::harness::{NODE_NAME, Node, PATIENCE, condition, container_status, http_get, send_signal};
use crate::pods::user_namespaces::{has_user_namespaces, mapping_in, mapping_on_disk, needs_user_namespaces};
use crate::pods::{forever, pod, shell, with};
use crate::serving::spans::Collector;

/// Which objects: their resource and their namespace, which is empty where there is none.
type Place = (&'static str, &'static str);

const NODES: Place = ("nodes", "");
const LEASES: Place = ("leases", "kube-node-lease");
const PODS: Place = ("pods", "default");

/// A node, and the API server that it belongs to.
struct Served {
    node: Node,
    api: Arc<ApiServer>,
    address: SocketAddr,
    /// Runs whoever answers at the address; none while the server is away.
    door: Option<tokio::runtime::Runtime>,
}

impl Deref for Served {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.node
    }
}

impl DerefMut for Served {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // As statistics name what is at no path of the server's.
            let unknown: Vec<_> = self.api.asked().into_keys().filter(|title| title.ends_with('?')).collect();
            assert!(unknown.is_empty(), "the agent asked for what the server does not have: {unknown:?}");
            let log = self.log();
            let forbidden = log.lines().find(|line| line.contains(" is forbidden"));
            assert_eq!(forbidden, None, "the agent asked for what a node has no right to");
        }
    }
}

impl Served {
    /// A server, and a runtime with no agent yet. `None`, after one line on standard error, where this machine cannot have
    /// one.
    fn new() -> Option<Self> {
        let mut node = Node::new()?;
        let clock = SystemClock::start();
        let api = ApiServer::new(move || clock.now());
        // Not a port that a connection may be given as its own: while the server is away it stays nobody's. The first of
        // the environment's ports is another test's, whose thread listens for as long as this process lives.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, node.free_port(4)));
        let kubeconfig = node.dir.join("kubelet.conf");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "x", "user": "x" } }],
            "clusters": [{ "name": "x", "cluster": { "server": format!("http://{address}") } }],
            "users": [{ "name": "x", "user": {} }],
        });
        fs::write(&kubeconfig, text.to_string()).unwrap();
        let flags = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--node-ip", node.named("NODE_IP")];
        let mut flags = flags.map(str::to_owned).to_vec();
        node.flags.append(&mut flags);
        let mut served = Self { node, api, address, door: None };
        served.open();
        Some(served)
    }

    /// The same with an agent whose node is Ready.
    fn joined() -> Option<Self> {
        let mut served = Self::new()?;
        served.start_agent();
        served.wait_ready();
        Some(served)
    }

    fn wait_ready(&self) -> Arc<Value> {
        self.wait(NODES, NODE_NAME, "Ready", |node| condition(node, "Ready") == "True")
    }

    /// The server comes, or comes back with what it knew.
    fn open(&mut self) {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = tokio.block_on(tokio::net::TcpListener::bind(self.address)).unwrap();
        tokio.spawn(http::serve(Arc::clone(&self.api), listener, NODE_NAME.to_owned()));
        self.door = Some(tokio);
    }

    /// The server goes: nobody listens, and all connections break.
    fn close(&mut self) {
        drop(self.door.take().expect("the server is there"));
        assert!(TcpStream::connect(self.address).is_err(), "somebody answers still");
    }

    // ------------------------------------------------------------ objects

    /// The request of an administrator.
    fn admin(&self, method: &str, path: &str, body: Value) -> Value {
        self.api.admin(method, path, body).unwrap_or_else(|why| panic!("{method} {path}: {why:?}"))
    }

    /// Makes a pod on this node.
    fn create_pod(&self, pod: Value) {
        let placed = with(pod, json!({ "spec": { "nodeName": NODE_NAME } }));
        self.admin("POST", "/api/v1/namespaces/default/pods", placed);
    }

    fn find(&self, (plural, namespace): Place, name: &str) -> Option<Arc<Value>> {
        self.api.get(plural, namespace, name)
    }

    /// Waits until the server has an object of which `wanted` holds.
    fn wait(&self, at: Place, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Arc<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.find(at, name);
            if let Some(object) = found.as_ref().filter(|object| wanted(object)) {
                return Arc::clone(object);
            }
            let (object, asked) = (found.as_deref().unwrap_or(&Value::Null), self.api.asked());
            assert!(
                Instant::now() < deadline,
                "{at:?} {name} is not {what}: {object:#}\nthe agent asked for {asked:?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn wait_pod_ready(&self, name: &str) -> Arc<Value> {
        self.wait(PODS, name, "Ready", |pod| condition(pod, "Ready") == "True")
    }

    fn wait_no_pod(&self, name: &str) {
        self.eventually_none(&format!("no pod {name}"), || self.find(PODS, name).into_iter().collect());
    }

    /// Waits for an Event of this reason about a pod.
    fn wait_event(&self, pod: &Value, reason: &str) -> Arc<Value> {
        self.eventually(&format!("an Event {reason}"), || {
            let of_pod = |event: &&Arc<Value>| event["involvedObject"]["uid"] == pod["metadata"]["uid"];
            let all = self.api.all("events");
            all.iter().filter(of_pod).find(|event| event["reason"] == reason).cloned()
        })
    }

    /// The container of this pod that runs now.
    fn running(&self, pod: &str) -> Option<ContainerStatus> {
        self.containers_of(pod).into_iter().find(|one| one.state == ContainerState::Running)
    }
}

/// Whether the pod's status has the container's ID.
fn has_id_of(pod: &Value, container: &ContainerStatus) -> bool {
    container_status(pod, "main")["containerID"] == format!("containerd://{}", container.id)
}

/// NODE-01, NODE-20, NODE-34.
#[test]
fn a_node_registers_and_renews_its_lease() {
    let Some(mut served) = Served::new() else { return };
    served.configure(json!({ "nodeLeaseDurationSeconds": 8 }));
    served.start_agent();
    let node = served.wait_ready();
    let conditions = node["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|one| one["type"] == "Ready" && one["reason"] == "KubeletReady"), "{conditions:?}");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], NODE_NAME);
    let internal = json!({ "type": "InternalIP", "address": served.named("NODE_IP") });
    assert_eq!(node["status"]["addresses"], json!([internal, { "type": "Hostname", "address": NODE_NAME }]));
    assert_eq!(node["status"]["capacity"]["pods"], "110");
    let first = served.wait(LEASES, NODE_NAME, "there", |lease| lease["spec"]["renewTime"].is_string());
    assert_eq!(
        (&first["spec"]["holderIdentity"], &first["spec"]["leaseDurationSeconds"]),
        (&json!(NODE_NAME), &json!(8))
    );
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    let later = |lease: &Value| lease["spec"]["renewTime"].as_str() > first["spec"]["renewTime"].as_str();
    served.wait(LEASES, NODE_NAME, "renewed", later);
}

/// The state of a pod at the moment at which the agent took it from the API server.
struct Farewell {
    /// Its container's process.
    lived: bool,
    last: Value,
}

/// POD-03, POD-34, POD-36, POD-37: its object goes after its container and its last status, and Events tell of both ends.
#[test]
fn a_pod_comes_runs_and_goes() {
    let Some(served) = Served::joined() else { return };
    // Between the signal and its end there is time to be wrong in.
    served.create_pod(pod(
        "web",
        &[shell("main", "trap 'sleep 2; exit 3' TERM; while :; do sleep 1000 & wait $!; done")],
    ));
    let shown = served.wait_pod_ready("web");
    let running = served.running("web").expect("it is Ready");
    assert!(has_id_of(&shown, &running), "{shown:#}");
    let status = &shown["status"];
    assert_eq!((&status["phase"], &status["hostIP"]), (&json!("Running"), &json!(served.named("NODE_IP"))));
    assert_eq!(status["podIP"], served.run_in(&running, "hostname -i").trim());
    assert_eq!(served.wait_event(&shown, "Started")["source"]["host"], NODE_NAME);

    let (farewell, process) = (Arc::new(Mutex::new(None)), format!("/proc/{}", served.pid_of(running.id.as_str())));
    assert!(Path::new(&process).exists());
    let seen = Arc::clone(&farewell);
    served.api.set_witness(move |deed: &Deed<'_>| {
        if let (Who::Node(_), "pods", Some(last), None) = (deed.who, deed.key.plural, deed.before, deed.after) {
            let lived = Path::new(&process).exists();
            *seen.lock().unwrap() = Some(Farewell { lived, last: last.clone() });
        }
    });
    let path = "/api/v1/namespaces/default/pods/web";
    let ending = served.admin("DELETE", path, json!({ "gracePeriodSeconds": 60 }));
    assert!(ending["metadata"]["deletionTimestamp"].is_string(), "{ending:#}");
    served.wait_event(&shown, "Killing");
    served.wait_no_pod("web");
    served.wait_gone("web");
    let Farewell { lived, last } = farewell.lock().unwrap().take().expect("the agent took it away");
    assert!(!lived, "gone from the API server while its process lived");
    assert_eq!(container_status(&last, "main")["state"]["terminated"]["exitCode"], 3, "{last:#}");
}

/// POD-06, SEC-51.
#[test]
fn a_static_pod_has_its_mirror() {
    let Some(served) = Served::joined() else { return };
    served.apply(&pod("static", &[forever("main")]));
    let name = format!("static-{NODE_NAME}");
    let mirror = served.wait_pod_ready(&name);
    assert_eq!(mirror["status"]["phase"], "Running");
    assert!(has_id_of(&mirror, &served.wait_running("static", "main")), "{mirror:#}");
    let annotations = &mirror["metadata"]["annotations"];
    assert!(annotations["kubernetes.io/config.mirror"].is_string(), "{annotations}");
    assert_eq!(annotations["kubernetes.io/config.mirror"], annotations["kubernetes.io/config.hash"]);
    let node = served.find(NODES, NODE_NAME).expect("it is there");
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    served.delete("static");
    served.wait_no_pod(&name);
    served.wait_gone("static");
}

/// NODE-56, NODE-57, POD-34, PAIN-08: while nobody answers, containers are started again and static pods come; on its
/// return the server learns of all of it.
#[test]
fn the_api_server_goes_and_comes_back() {
    let Some(mut served) = Served::joined() else { return };
    served.create_pod(pod("web", &[forever("main")]));
    let before = served.wait_pod_ready("web");
    let first = served.running("web").expect("it is Ready");
    served.close();
    send_signal(served.pid_of(first.id.as_str()), "KILL");
    let second = served.eventually("it runs again", || served.running("web").filter(|one| one.id != first.id));
    served.apply(&pod("static", &[forever("main")]));
    served.wait_running("static", "main");
    let known = served.find(PODS, "web").expect("nobody deleted it");
    assert!(has_id_of(&known, &first), "who told it so? {known:#}");
    served.open();
    let after = served.wait(PODS, "web", "told of its new container", |pod| {
        has_id_of(pod, &second) && condition(pod, "Ready") == "True"
    });
    let counts = [&before, &after].map(|pod| container_status(pod, "main")["restartCount"].clone());
    assert_eq!(counts, [json!(0), json!(1)]);
    served.wait_pod_ready(&format!("static-{NODE_NAME}"));
    assert!(has_id_of(&after, &served.running("web").expect("it runs")), "the return of the server harmed it");
}

/// VOL-14, VOL-17, VOL-23, VOL-50, CRI-13: a file follows its object; a variable is what it was at the start.
#[test]
fn a_config_map_reaches_its_file() {
    let Some(mut served) = Served::new() else { return };
    // Nothing but a change that is heard of leads to new files within the test's patience.
    served.configure(json!({ "syncFrequency": "1h" }));
    served.start_agent();
    served.wait_ready();
    let settings = |colour: &str| json!({ "metadata": { "name": "settings" }, "data": { "colour": colour } });
    let path = "/api/v1/namespaces/default/configmaps";
    served.admin("POST", path, settings("red"));
    let container = with(
        forever("main"),
        json!({
            "env": [{ "name": "COLOUR", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "colour" } } }],
            "volumeMounts": [{ "name": "files", "mountPath": "/settings" }],
        }),
    );
    let volumes = json!({ "spec": { "volumes": [{ "name": "files", "configMap": { "name": "settings" } }] } });
    served.create_pod(with(pod("reader", &[container]), volumes));
    let shown = served.wait_pod_ready("reader");
    let uid = shown["metadata"]["uid"].as_str().unwrap();
    let volume = served.dir.join("kubelet/pods").join(uid).join("volumes/kubernetes.io~configmap/files");
    let on_host = || fs::read_to_string(volume.join("colour")).unwrap();
    assert_eq!(on_host(), "red");
    assert_eq!(fs::read_link(volume.join("colour")).unwrap(), Path::new("..data/colour"));
    let main = served.running("reader").expect("it is Ready");
    assert_eq!(served.run_in(&main, "echo $COLOUR $(cat /settings/colour)"), "red red\n");

    served.admin("PUT", &format!("{path}/settings"), settings("blue"));
    served.eventually("the new colour", || (on_host() == "blue").then_some(()));
    assert_eq!(served.run_in(&main, "echo $COLOUR $(cat /settings/colour)"), "red blue\n");
    assert_eq!(served.running("reader").expect("it runs on").id, main.id);
}

/// VOL-15, VOL-29: `--root-dir` may be a link. Another pod may use a local volume already, whose files keep their group for
/// that. The agent reads that off the mount table, which knows paths without links.
#[test]
fn a_local_volume_in_use_keeps_its_group_below_a_root_directory_that_is_a_link() {
    let Some(mut served) = Served::new() else { return };
    served.link_root_directory();
    served.start_agent();
    served.wait_ready();
    let disk = served.dir.join("disk");
    fs::create_dir(&disk).unwrap();
    let on_this_node = json!([{ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME] },
    ] }]);
    let claim = served.admin(
        "POST",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        json!({
            "metadata": { "name": "disk" }, "status": { "phase": "Bound", "capacity": { "storage": "1Gi" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "volumeName": "disk" },
        }),
    );
    let uid = &claim["metadata"]["uid"];
    served.admin(
        "POST",
        "/api/v1/persistentvolumes",
        json!({ "metadata": { "name": "disk" }, "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "local": { "path": disk },
            "claimRef": { "namespace": "default", "name": "disk", "uid": uid },
            "nodeAffinity": { "required": { "nodeSelectorTerms": on_this_node } },
        } }),
    );
    let container = with(forever("main"), json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }));
    for (name, group) in [("first", 4711), ("second", 4712)] {
        let volumes = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "disk" } }]);
        let spec = json!({ "volumes": volumes, "securityContext": { "fsGroup": group } });
        served.create_pod(with(pod(name, std::slice::from_ref(&container)), json!({ "spec": spec })));
        let shown = served.wait_pod_ready(name);
        let main = served.running(name).expect("it is Ready");
        assert_eq!(served.run_in(&main, "stat -c %g /v"), "4711\n", "{name}");
        if name == "second" {
            let told = served.wait_event(&shown, "AlreadyMountedVolume");
            let expected =
                "The requested fsGroup is 4712, but the volume disk has GID 4711. The volume may not be shareable.";
            assert_eq!(told["message"], expected);
        }
    }
    for name in ["first", "second"] {
        served.admin("DELETE", &format!("/api/v1/namespaces/default/pods/{name}"), json!({ "gracePeriodSeconds": 1 }));
        served.wait_no_pod(name);
    }
}

/// SEC-26, CRI-36, VOL-25: ConfigMaps, Secrets and tokens have the owners and modes that the pod says, by its own IDs.
#[test]
fn files_of_objects_belong_to_a_pod_of_its_own_users() {
    let Some(served) = Served::joined() else { return };
    if !has_user_namespaces(&served) {
        return needs_user_namespaces();
    }
    for (plural, data) in [("secrets", json!({ "key": "aGlkZGVu" })), ("configmaps", json!({ "key": "shown" }))] {
        let object = json!({ "metadata": { "name": "files", "namespace": "default" }, "data": data });
        served.admin("POST", &format!("/api/v1/namespaces/default/{plural}"), object);
    }
    let account = json!({ "metadata": { "name": "default", "namespace": "default" } });
    served.admin("POST", "/api/v1/namespaces/default/serviceaccounts", account);
    let token = json!([{ "serviceAccountToken": { "path": "token", "expirationSeconds": 600 } }]);
    let volumes = json!([
        { "name": "secret", "secret": { "secretName": "files", "defaultMode": 0o400 } },
        { "name": "map", "configMap": { "name": "files" } },
        { "name": "token", "projected": { "sources": token } },
        { "name": "disk", "emptyDir": {} },
    ]);
    let mounts =
        ["secret", "map", "token", "disk"].map(|name| json!({ "name": name, "mountPath": format!("/{name}") }));
    let seen =
        "stat -c '%u %g %a' /secret/..data/key /map/..data/key /token/..data/token /disk; cat /secret/key /map/key";
    for (name, context) in [("root", json!({})), ("user", json!({ "runAsUser": 1000, "fsGroup": 3000 }))] {
        let main = with(forever("main"), json!({ "volumeMounts": mounts }));
        let [hosts, own] = [true, false].map(|host_users| {
            let name = format!("{name}-{host_users}");
            let spec = json!({ "hostUsers": host_users, "volumes": volumes, "securityContext": context });
            served.create_pod(with(pod(&name, std::slice::from_ref(&main)), json!({ "spec": spec })));
            let shown = served.wait_pod_ready(&name);
            let main = served.running(&name).expect("it is Ready");
            if !host_users {
                let uid = shown["metadata"]["uid"].as_str().expect("an UID");
                assert_eq!(mapping_in(&served, &main), mapping_on_disk(&served, uid));
            }
            let wrote = served.run_in(&main, "test -s /token/token && echo read > /disk/file && cat /disk/file");
            assert_eq!(wrote, "read\n");
            let seen = served.run_in(&main, seen);
            let path = format!("/api/v1/namespaces/default/pods/{name}");
            served.admin("DELETE", &path, json!({ "gracePeriodSeconds": 1 }));
            served.wait_no_pod(&name);
            seen
        });
        assert_eq!(own, hosts, "{name}: as in the host's user namespace");
        assert!(own.ends_with("hiddenshown"), "{own}");
    }
}

/// OBS-35, SEC-40: what a Secret holds reaches its container and nobody else: it is in no log line, however much is logged,
/// and in no metric, span, explanation, Event or object of the API but the Secret.
#[test]
fn nothing_of_a_secret_is_told() {
    let Some(mut served) = Served::new() else { return };
    let (collector, _runtime) = Collector::beside(&mut served.node);
    served.configure(json!({ "logging": { "verbosity": 10 } }));
    served.start_agent();
    served.wait_ready();
    let data = json!({ "token": "bWFya2VkLXNlY3JldC00NzEx" });
    let secret = json!({ "metadata": { "name": "password", "namespace": "default" }, "data": data });
    served.admin("POST", "/api/v1/namespaces/default/secrets", secret);
    let key = json!({ "secretKeyRef": { "name": "password", "key": "token" } });
    let mounts = json!([{ "name": "files", "mountPath": "/files" }]);
    let main = json!({ "env": [{ "name": "TOKEN", "valueFrom": key }], "volumeMounts": mounts });
    let volumes = json!([{ "name": "files", "secret": { "secretName": "password" } }]);
    served.create_pod(with(pod("web", &[with(forever("main"), main)]), json!({ "spec": { "volumes": volumes } })));
    served.wait_pod_ready("web");
    let running = served.running("web").expect("it is Ready");
    let has = served.run_in(&running, "echo $TOKEN; cat /files/token");
    assert_eq!(has.trim(), "marked-secret-4711\nmarked-secret-4711", "the container has it");
    let address = format!("127.0.0.1:{}", served.named("READ_ONLY_PORT"));
    let metrics = served.eventually("metrics", || http_get(&address, "/metrics").filter(|(status, _)| *status == 200));
    let pods = served.eventually("pods", || http_get(&address, "/pods").filter(|(status, _)| *status == 200));
    let explained = served.eventually("the agent explains", || crate::node::agent::explain(&served, "default/web"));
    served
        .eventually("a span of the start", || collector.spans().iter().any(|one| one.name == "syncPod").then_some(()));
    let objects = ["events", "pods", "nodes"].map(|plural| format!("{:?}", served.api.all(plural)));
    let spans = format!("{:?}", collector.spans());
    let log = served.log();
    assert!(log.len() > 10_000, "much is logged");
    let told = [
        ("log", log),
        ("metrics", metrics.1),
        ("pods", pods.1),
        ("spans", spans),
        ("explanation", explained.to_string()),
    ];
    for (what, text) in told.into_iter().chain(objects.map(|text| ("API", text))) {
        for marked in ["marked-secret", "bWFya2VkLXNlY3JldC"] {
            let place = text.find(marked).map(|place| text[..place].chars().rev().take(200).collect::<String>());
            assert_eq!(place, None, "in the {what}");
        }
    }
}

/// SEC-40: `podwright debug-bundle` of a node whose pod holds secrets in every place has none of them in it.
#[test]
fn nothing_of_a_secret_is_bundled() {
    let Some(served) = Served::joined() else { return };
    let secret =
        json!({ "metadata": { "name": "password", "namespace": "default" }, "data": { "token": "Y2FuYXJ5LTQ3MTE=" } });
    served.admin("POST", "/api/v1/namespaces/default/secrets", secret);
    served.admin("POST", "/api/v1/namespaces/default/serviceaccounts", json!({ "metadata": { "name": "default" } }));
    let key = json!({ "secretKeyRef": { "name": "password", "key": "token" } });
    let says = json!({ "exec": { "command": ["/bin/sh", "-c", "cat /files/token; exit 1"] }, "periodSeconds": 1 });
    let main = json!({
        "env": [{ "name": "TOKEN", "valueFrom": key }, { "name": "LITERAL", "value": "canary-literal" }],
        "volumeMounts": [{ "name": "files", "mountPath": "/files" }, { "name": "account", "mountPath": "/account" }],
        "readinessProbe": says,
    });
    let dies = shell("dies", "echo -n canary-last-words > /dev/termination-log; exit 5");
    let projected = json!({ "sources": [{ "serviceAccountToken": { "path": "token" } }] });
    let patch = json!({
        "metadata": { "annotations": { "example.com/note": "canary-annotation" } },
        "spec": { "volumes": [{ "name": "files", "secret": { "secretName": "password" } }, { "name": "account", "projected": projected }] },
    });
    served.create_pod(with(pod("web", &[with(forever("main"), main), dies]), patch));
    served.wait(PODS, "web", "told of its last words", |pod| pod.to_string().contains("canary-last-words"));
    let running = served.eventually("it runs", || {
        served.containers_of("web").into_iter().find(|one| one.state == ContainerState::Running)
    });
    let has = served.run_in(&running, "echo $TOKEN $LITERAL; cat /files/token");
    assert_eq!(has.trim(), "canary-4711 canary-literal\ncanary-4711", "the container has it");
    let token = served.run_in(&running, "cat /account/token");
    assert!(token.trim().len() >= 8, "it has a token: {token:?}");
    served.wait_for_words(&["probe failed"]);

    let file = served.dir.join("bundle.tar.gz");
    let output = std::process::Command::new(crate::harness::AGENT)
        .args(["debug-bundle", "--socket"])
        .args([&served.socket(), &file])
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let mut archive = vec![];
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(fs::File::open(&file).unwrap()), &mut archive)
        .unwrap();
    let text = String::from_utf8_lossy(&archive);
    for secret in ["canary", "Y2FuYXJ5", token.trim()] {
        let place = text.find(secret).map(|place| text[..place].chars().rev().take(300).collect::<String>());
        assert_eq!(place, None, "{secret} is in it");
    }
    for part in ["pods.json", "explain/000-web.json", "trace.html", "metrics.txt", "runtime.txt", "configz.json"] {
        assert!(listed.lines().any(|line| line.starts_with(part) && !line.contains(" - ")), "{part}: {listed}");
    }
    for kept in ["secretKeyRef", "LITERAL", "example.com/note", "containerd"] {
        assert!(text.contains(kept), "{kept} is of use, and no secret");
    }
}
