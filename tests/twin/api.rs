//! The API server as an administrator sees it: plain HTTP through `kubectl proxy`, and watches that note every object.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The address of the proxy.
#[derive(Debug, Clone)]
pub struct Api(String);

/// The content type of a strategic merge patch.
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json";

/// An object at one moment: the kind of the watch's event, and the object.
pub type Seen = (String, Value);

impl Api {
    /// The API server behind this address.
    pub fn new(address: &str) -> Self {
        Self(address.to_owned())
    }

    fn open(&self, method: &str, path: &str, form: &str, body: &str) -> std::io::Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(&self.0)?;
        let length = body.len();
        // Answers to HTTP/1.0 are not chunked.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: {form}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes())?;
        Ok(BufReader::new(stream))
    }

    /// One request; the status and the answer's text. Status 0 says that nobody answered.
    fn ask(&self, method: &str, path: &str, form: &str, body: &str) -> (u16, String) {
        let answer = self.open(method, path, form, body).and_then(|mut stream| {
            let status = read_head(&mut stream)?;
            let mut bytes = vec![];
            stream.read_to_end(&mut bytes)?;
            Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
        });
        answer.unwrap_or_else(|error| (0, error.to_string()))
    }

    fn object(&self, method: &str, path: &str, form: &str, body: &str) -> Result<Value, String> {
        let (status, text) = self.ask(method, path, form, body);
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path}: {status} {text}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{method} {path}: {error}"))
    }

    /// The object at a path.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        self.object("GET", path, JSON, "")
    }

    /// The text at a path, such as a log, with its status.
    pub fn text(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, JSON, "")
    }

    /// Makes an object in the collection of a path.
    pub fn post(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.object("POST", path, JSON, &object.to_string())
    }

    /// Whether the API server would take a pod on this node.
    pub fn is_valid_pod(&self, pod: &Value, node: &str) -> bool {
        let mut pod = crate::scenario::with_node(pod, node);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["spec"]["nodeName"] = node.into();
        self.post("/api/v1/namespaces/default/pods?dryRun=All", &pod).is_ok()
    }

    /// Changes the object of a path by a strategic merge patch.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value, String> {
        self.object("PATCH", path, STRATEGIC, &patch.to_string())
    }

    /// Deletes the object of a path.
    pub fn delete(&self, path: &str, grace: Option<u64>) -> Result<Value, String> {
        let body = grace.map_or(String::new(), |grace| serde_json::json!({ "gracePeriodSeconds": grace }).to_string());
        self.object("DELETE", path, JSON, &body)
    }

    /// Notes every pod of a namespace at every change until the watch is over. It has begun when this returns.
    pub fn watch_pods(&self, namespace: &str) -> Watch {
        let watch = Watch::default();
        let (begun, beginning) = std::sync::mpsc::channel();
        let (api, seen, namespace) = (self.clone(), watch.clone(), namespace.to_owned());
        std::thread::spawn(move || {
            let mut version = "0".to_owned();
            while !seen.is_over() {
                let path = format!("/api/v1/namespaces/{namespace}/pods?watch=1&resourceVersion={version}");
                let Ok(mut stream) = api.open("GET", &path, JSON, "") else {
                    std::thread::sleep(Duration::from_millis(200));
                    continue;
                };
                // A read that ends in time lets the thread see that the watch is over.
                let _ = stream.get_ref().set_read_timeout(Some(Duration::from_secs(600)));
                let _ = read_head(&mut stream);
                let _ = begun.send(());
                for line in stream.lines().map_while(Result::ok) {
                    let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
                    if let Some(newest) = event["object"]["metadata"]["resourceVersion"].as_str() {
                        newest.clone_into(&mut version);
                    }
                    let kind = event["type"].as_str().unwrap_or_default().to_owned();
                    if kind == "ERROR" {
                        // A server that was away does not know what was before it came back.
                        if let Ok(list) = api.get(&format!("/api/v1/namespaces/{namespace}/pods")) {
                            list["metadata"]["resourceVersion"].as_str().unwrap_or("0").clone_into(&mut version);
                            seen.catch_up(&list);
                        }
                        break;
                    }
                    seen.note((kind, event["object"].clone()));
                    if seen.is_over() {
                        return;
                    }
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let _ = beginning.recv();
        watch
    }
}

/// The status of an answer; its headers are read over.
fn read_head(stream: &mut BufReader<TcpStream>) -> std::io::Result<u16> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    while line.trim_end() != "" {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            break;
        }
    }
    Ok(status)
}

/// All that a watch has seen.
#[derive(Clone, Default)]
pub struct Watch {
    seen: Arc<Mutex<Vec<Seen>>>,
    gone: Arc<Mutex<BTreeMap<String, Instant>>>,
    is_over: Arc<Mutex<bool>>,
}

impl Watch {
    /// The objects so far, in the order of their changes.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no holder panics").clone()
    }

    /// The newest state of a pod that is not gone.
    pub fn newest(&self, pod: &str) -> Option<Value> {
        let seen = self.seen.lock().expect("no holder panics");
        let (kind, object) = seen.iter().rev().find(|(_, object)| object["metadata"]["name"] == pod)?;
        (kind != "DELETED").then(|| object.clone())
    }

    /// When a pod went.
    pub fn gone_at(&self, pod: &str) -> Option<Instant> {
        self.gone.lock().expect("no holder panics").get(pod).copied()
    }

    /// Notes what a list shows that was not seen, and what it lacks.
    fn catch_up(&self, list: &Value) {
        let listed: Vec<Value> = list["items"].as_array().cloned().unwrap_or_default();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let known: BTreeSet<String> = self.seen().iter().map(|(_, object)| name(object)).collect();
        for gone in known.iter().filter(|known| listed.iter().all(|one| name(one) != **known)) {
            if let Some(last) = self.newest(gone) {
                self.note(("DELETED".to_owned(), last));
            }
        }
        for object in listed {
            self.note(("MODIFIED".to_owned(), object));
        }
    }

    /// The thread ends with the next event.
    pub fn end(&self) {
        *self.is_over.lock().expect("no holder panics") = true;
    }

    fn is_over(&self) -> bool {
        *self.is_over.lock().expect("no holder panics")
    }

    fn note(&self, seen: Seen) {
        if let Some(pod) = seen.1["metadata"]["name"].as_str().filter(|_| seen.0 == "DELETED") {
            self.gone.lock().expect("no holder panics").insert(pod.to_owned(), Instant::now());
        }
        self.seen.lock().expect("no holder panics").push(seen);
    }
}
