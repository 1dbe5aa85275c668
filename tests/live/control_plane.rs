//! Control planes that tests have one after the other: to start one costs more than most tests do with it.
//!
//! A test that is over gives its own back as it got it: whatever etcd holds that a new control plane has not is taken out,
//! and what it has is put back. The programs see that as any other change. Keeps those that nobody has; a test that failed
//! gives none back, and one that ends its API server has one of its own. With this process they end (`scripts/cluster.sh plane`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{NODE_NAME, PATIENCE, http_post};
use crate::node::machine::{cluster_script, fresh_directory, read_env, script};

/// The beginning of all keys, and the first key behind them.
const ALL: [&str; 2] = ["/registry/", "/registry0"];
const PODS: &str = "/registry/pods/";
/// Those of the control plane itself, which writes them all the time.
const LEASES: &str = "/registry/leases/kube-system/";
/// Operations in one transaction; etcd takes 128.
const OPERATIONS: usize = 100;
/// Without a change for so long, a new control plane has made all that it makes by itself.
const QUIET: Duration = Duration::from_secs(1);

static IDLE: Mutex<Vec<Plane>> = Mutex::new(Vec::new());

/// Values by key, in base64 as etcd's gateway has them.
type Content = BTreeMap<String, String>;

struct Plane {
    dir: PathBuf,
    /// etcd's address.
    etcd: String,
    /// The content of etcd when nobody had used it.
    base: Content,
}

/// A control plane in the use of one test.
pub struct Lent(Option<Plane>);

impl Lent {
    /// Has a control plane serve the node of this directory.
    pub fn to(node: &Path) -> Self {
        let idle = IDLE.lock().unwrap().pop();
        let plane = idle.unwrap_or_else(Plane::start);
        let lent = cluster_script("lend", &[plane.dir.to_str().unwrap(), node.to_str().unwrap(), NODE_NAME], "");
        lent.unwrap_or_else(|problem| panic!("{problem}"));
        Self(Some(plane))
    }
}

/// After the node is gone, so that nobody writes any more.
impl Drop for Lent {
    fn drop(&mut self) {
        let Some(plane) = self.0.take() else { return };
        let is_clean = !std::thread::panicking() && plane.clean().is_some();
        if is_clean {
            IDLE.lock().unwrap().push(plane);
        } else {
            let _ = script("stop", &plane.dir, &[]);
            let _ = fs::remove_dir_all(&plane.dir);
        }
    }
}

impl Plane {
    fn start() -> Self {
        let dir = fresh_directory();
        let started = cluster_script("plane", &[dir.to_str().unwrap()], "");
        started.unwrap_or_else(|problem| panic!("{problem}"));
        let first = read_env(&dir)["HEALTHZ_PORT"].parse::<u16>().unwrap();
        let mut plane = Self { dir, etcd: format!("127.0.0.1:{}", first + 13), base: Content::new() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            std::thread::sleep(QUIET);
            let content = plane.content().expect("etcd answers");
            if content == plane.base {
                return plane;
            }
            assert!(Instant::now() < deadline, "the control plane makes objects without end");
            plane.base = content;
        }
    }

    fn ask(&self, path: &str, question: &Value) -> Option<Value> {
        let (status, answer) = http_post(&self.etcd, path, &question.to_string())?;
        if status == 200 { serde_json::from_str(&answer).ok() } else { None }
    }

    /// All that etcd holds, but for the control plane's own leases.
    fn content(&self) -> Option<Content> {
        let [first, end] = ALL.map(encoded);
        let answer = self.ask("/v3/kv/range", &json!({ "key": first, "range_end": end }))?;
        let pair = |pair: &Value| {
            let key = STANDARD.decode(pair["key"].as_str()?).ok()?;
            Some((String::from_utf8(key).ok()?, pair["value"].as_str()?.to_owned()))
        };
        let pairs: Option<Content> = answer["kvs"].as_array()?.iter().map(pair).collect();
        Some(pairs?.into_iter().filter(|(key, _)| !key.starts_with(LEASES)).collect())
    }

    /// Makes it as it was. `None` where that cannot be done.
    fn clean(&self) -> Option<()> {
        for _ in 0..20 {
            let mut changes = self.changes()?;
            if changes.is_empty() {
                File::create(self.dir.join("cluster/audit.log")).ok()?;
                return Some(());
            }
            // Controllers make a pod anew while there is what it is made for.
            changes.sort_by_key(|(key, _)| key.starts_with(PODS));
            for some in changes.chunks(OPERATIONS) {
                let operations: Vec<&Value> = some.iter().map(|(_, operation)| operation).collect();
                self.ask("/v3/kv/txn", &json!({ "success": operations }))?;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        None
    }

    /// The operations that make it as it was, by key.
    fn changes(&self) -> Option<Vec<(String, Value)>> {
        let now = self.content()?;
        let surplus = now.keys().filter(|key| !self.base.contains_key(*key));
        let lost = self.base.iter().filter(|(key, value)| now.get(*key) != Some(value));
        let remove = surplus.map(|key| (key.clone(), json!({ "requestDeleteRange": { "key": encoded(key) } })));
        let put = |(key, value): (&String, &String)| {
            (key.clone(), json!({ "requestPut": { "key": encoded(key), "value": value } }))
        };
        Some(remove.chain(lost.map(put)).collect())
    }
}

fn encoded(key: &str) -> String {
    STANDARD.encode(key)
}
