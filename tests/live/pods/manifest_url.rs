//! Static pods from a URL: they come with the list, change with it, stay while it cannot be had, and go with it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{AGENT, Node, http_get};
use crate::pods::lifecycle::{cgroups_of, places_of};
use crate::pods::restarts::another;
use crate::pods::{forever, pod, shell, then_forever};

/// Longest request that is read.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// A web server with one answer, until the test ends.
struct Manifests {
    port: u16,
    said: Arc<Mutex<Served>>,
}

/// The server's answer, and its last request.
struct Served {
    status: &'static str,
    body: String,
    requests: u32,
    last: String,
    /// How long an answer takes.
    late: Duration,
}

impl Manifests {
    fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let said = Served { status: "200 OK", body: list(&[]), requests: 0, last: String::new(), late: Duration::ZERO };
        let said = Arc::new(Mutex::new(said));
        let theirs = Arc::clone(&said);
        // Ends with the test's process; a request that fails is the agent's to repeat.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &theirs);
            }
        });
        Self { port, said }
    }

    /// Answers like this from now on; returns once the agent has heard it and acted on it.
    fn say(&self, node: &Node, status: &'static str, body: String) {
        let before = {
            let mut said = self.said.lock().unwrap();
            (said.status, said.body) = (status, body);
            said.requests
        };
        // The third request from here began after the answer to the second was taken.
        node.eventually("the agent asks again", || (self.said.lock().unwrap().requests >= before + 3).then_some(()));
    }

    fn last_request(&self) -> String {
        self.said.lock().unwrap().last.clone()
    }
}

fn answer(mut stream: TcpStream, said: &Mutex<Served>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let late = said.lock().unwrap().late;
    std::thread::sleep(late);
    let mut said = said.lock().unwrap();
    said.requests += 1;
    said.last = String::from_utf8_lossy(&request).into_owned();
    let (status, body) = (said.status, &said.body);
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn list(pods: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "PodList", "items": pods }).to_string()
}

/// POD-02: from the first answer to an empty one.
#[test]
fn pods_of_a_url_come_change_stay_and_go_with_its_list() {
    let Some(mut node) = Node::new() else { return };
    let manifests = Manifests::serve();
    let url = format!("http://127.0.0.1:{}/pods?of=node1", manifests.port);
    node.configure(json!({
        "staticPodURL": url,
        "staticPodURLHeader": { "X-Token": ["not-to-be-logged"] },
        "httpCheckFrequency": "1s",
    }));
    let saying = |word: &str| pod("remote", &[shell("main", &then_forever(&format!("echo {word}")))]);
    manifests.said.lock().unwrap().body = list(&[saying("one"), pod("second", &[forever("main")])]);
    node.start_agent();

    let first = node.wait_running("remote", "main");
    let second = node.wait_running("second", "main");
    let request = manifests.last_request();
    assert!(request.starts_with("GET /pods?of=node1 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("\r\nx-token: not-to-be-logged\r\n"), "{request}");
    assert_eq!(node.sandboxes("remote")[0].annotations["kubernetes.io/config.source"], "http");
    node.apply(&pod("local", &[forever("main")]));
    let local = node.wait_running("local", "main");

    // Neither a server in trouble nor nonsense says that there should be no pods.
    let (first_uid, unharmed) = (first.labels["io.kubernetes.pod.uid"].clone(), |node: &Node| {
        assert_eq!(node.running_now("remote", "main").map(|one| one.id), Some(first.id.clone()));
        assert_eq!(node.running_now("second", "main").map(|one| one.id), Some(second.id.clone()));
    });
    manifests.say(&node, "500 Internal Server Error", list(&[]));
    node.see_a_round();
    unharmed(&node);
    manifests.say(&node, "200 OK", "{ \"kind\": \"PodList\", ".to_owned());
    node.see_a_round();
    unharmed(&node);

    manifests.say(&node, "200 OK", list(&[saying("two"), pod("second", &[forever("main")])]));
    let changed = another(&node, "remote", &first);
    assert_ne!(changed.labels["io.kubernetes.pod.uid"], first_uid, "a new pod");
    node.eventually("the new words", || (node.output(&changed) == "two\n").then_some(()));
    assert_eq!(node.running_now("second", "main").map(|one| one.id), Some(second.id.clone()), "its neighbour stays");

    manifests.say(&node, "200 OK", list(&[]));
    for (name, container) in [("remote", &changed), ("second", &second)] {
        node.wait_gone(name);
        let uid = &container.labels["io.kubernetes.pod.uid"];
        node.eventually_none("nothing of the pod", || [cgroups_of(&node, uid), places_of(&node, uid)].concat());
    }

    // A pod by itself is a list of one, and no body at all is an empty list.
    manifests.say(&node, "200 OK", pod("alone", &[forever("main")]).to_string());
    node.wait_running("alone", "main");
    manifests.say(&node, "200 OK", String::new());
    node.wait_gone("alone");
    assert!(!node.log().contains("not-to-be-logged"), "headers carry credentials");
    assert_eq!(node.running_now("local", "main").map(|one| one.id), Some(local.id), "the folder's pods stay");
    assert!(node.agent_lives());
}

/// PAIN-16: whoever asks a just started agent, before its sources were heard, is answered as a moment later: pods and their logs
/// are there all the time.
#[test]
fn requests_wait_for_an_agent_that_has_just_started() {
    let Some(mut node) = Node::new() else { return };
    let manifests = Manifests::serve();
    let url = format!("http://127.0.0.1:{}/pods", manifests.port);
    node.configure(json!({ "staticPodURL": url, "httpCheckFrequency": "1s" }));
    manifests.said.lock().unwrap().body = list(&[pod("remote", &[shell("main", &then_forever("echo hello"))])]);
    node.start_agent();
    let container = node.wait_running("remote", "main");
    node.eventually("it has spoken", || (node.output(&container) == "hello\n").then_some(()));

    manifests.said.lock().unwrap().late = Duration::from_secs(4);
    node.kill_agent();
    node.start_agent();
    let read_only = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    let (status, body) = node.eventually("the agent listens", || http_get(&read_only, "/pods"));
    assert!(status == 200 && body.contains("remote-node1"), "the first answer: {status} {body}");

    node.kill_agent();
    node.start_agent();
    let said = node.eventually("the agent listens", || {
        let logs = ["logs", "default/remote", "--socket"];
        let output = Command::new(AGENT).args(logs).arg(node.socket()).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (!error.contains("cannot reach the agent"))
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned() + &error)
    });
    assert_eq!(said, "hello\n", "the first answer");
    assert_eq!(node.running_now("remote", "main").map(|one| one.id), Some(container.id), "and nothing was restarted");
}
