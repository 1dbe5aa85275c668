//! With which credentials the agent starts, by the files that are there (NODE-49, NODE-50).

use std::fs;
use std::time::Duration;

use super::*;
use crate::config::{self, Startup};
use crate::logic::node::certificate_plan::Names;
use crate::platform::cluster::certificates::PrivateKey;
use crate::platform::cluster::certificates::tests::{Authority, NEW_YEAR};
use crate::platform::host::clock::SystemClock;

/// A node's files.
struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Writes a kubeconfig whose user is this, in YAML.
    fn kubeconfig(&self, name: &str, user: &str) {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}}}], \
             users: [{{name: u, user: {user}}}]}}"
        );
        fs::write(self.path(name), text).expect("written");
    }

    /// A certificate that ends with this year begun, in one file with its key.
    fn pair(&self, name: &str, year: i32) -> String {
        let key = PrivateKey::generate().expect("a key");
        let chain = Authority::new().sign_until(&Names::of_client("n"), &key, year);
        fs::write(self.path(name), chain + &key.pem()).expect("written");
        self.path(name)
    }

    fn connect(&self, flags: &[&str]) -> Result<Option<Connected>, String> {
        let mut line = vec![format!("--cert-dir={}", self.path("pki")), format!("--kubeconfig={}", self.path("k"))];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let Startup::Run(invocation) = config::load(&line, config::Host { cgroup_v1: false }).expect("it is right")
        else {
            panic!("it is to run");
        };
        connect(&invocation, Arc::new(SystemClock::start()), Arc::new(crate::platform::observer::Unobserved))
    }

    fn client(&self, flags: &[&str]) -> Option<Arc<KeptCertificate>> {
        self.connect(flags).expect("credentials").expect("a server").client
    }

    fn bootstrap(&self) -> String {
        self.kubeconfig("b", "{token: abcdef.0123456789abcdef}");
        format!("--bootstrap-kubeconfig={}", self.path("b"))
    }
}

const ROTATE: &str = "--rotate-certificates";

#[tokio::test]
async fn a_token_alone_is_used_as_it_is() {
    let node = Node::new();
    node.kubeconfig("k", "{token: t}");
    assert!(node.client(&[]).is_none());
    let kept = node.client(&[ROTATE]).expect("a certificate is to take its place");
    assert!(kept.current().is_none() && kept.is_exchanged());
}

#[tokio::test]
async fn a_missing_kubeconfig_is_an_error_without_a_bootstrap_file() {
    let node = Node::new();
    let missing = |text: &str| format!("{text}: stat {}: no such file or directory", node.path("k"));
    assert_eq!(node.connect(&[]).map(drop), Err(missing("invalid kubeconfig")));
    assert_eq!(node.connect(&[ROTATE]).map(drop), Err(missing("unable to load kubeconfig")));
    let flag = format!("--bootstrap-kubeconfig={}", node.path("b"));
    let error = node.connect(&[&flag]).map(drop).expect_err("that is missing, too");
    assert_eq!(
        error,
        format!("unable to load bootstrap kubeconfig: stat {}: no such file or directory", node.path("b"))
    );
}

#[tokio::test]
async fn a_bootstrap_without_rotation_writes_nothing_before_there_is_a_certificate() {
    let node = Node::new();
    let kept = node.client(&[&node.bootstrap()]).expect("it is asked for");
    assert!(!kept.is_exchanged() && kept.current().is_none());
    assert!(!Path::new(&node.path("k")).exists());
}

#[tokio::test]
async fn a_bootstrap_with_rotation_writes_the_kubeconfig_at_once() {
    let node = Node::new();
    let kept = node.client(&[ROTATE, &node.bootstrap()]).expect("it is asked for");
    assert!(kept.is_exchanged() && kept.current().is_none());
    let written = fs::read_to_string(node.path("k")).expect("written");
    let current = node.path("pki/kubelet-client-current.pem");
    assert_eq!(written.matches(&current).count(), 2, "{written}");
    assert!(node.client(&[ROTATE, &node.bootstrap()]).is_some_and(|kept| kept.current().is_none()), "again");
}

/// NODE-50.
#[tokio::test]
async fn what_was_stored_before_is_found_again() {
    let node = Node::new();
    let pem = fs::read(node.pair("x", 2200)).expect("there");
    let store = FileStore::open("kubelet-client", Path::new(&node.path("pki")), None).expect("opened");
    let stored = store.update(&pem, &pem, NEW_YEAR).expect("stored");
    let kept = node.client(&[ROTATE, &node.bootstrap()]).expect("it is exchanged");
    assert!(kept.current().expect("there").same_chain(&stored) && !kept.is_provisional());
}

#[tokio::test]
async fn certificates_that_are_of_no_use_are_asked_for_anew() {
    for (name, year) in [("ended", 2021), ("good", 2200)] {
        let node = Node::new();
        let pair = node.pair("x", year);
        node.kubeconfig("k", &format!("{{client-certificate: {pair}, client-key: {pair}}}"));
        let kept = node.client(&[&node.bootstrap()]);
        assert_eq!(kept.is_some(), name == "ended", "{name}");
    }
    for broken in ["{", "clusters: 7", ""] {
        let node = Node::new();
        fs::write(node.path("k"), broken).expect("written");
        assert!(node.client(&[&node.bootstrap()]).is_some(), "{broken:?}");
    }
    let node = Node::new();
    fs::create_dir_all(node.path("pki")).expect("made");
    fs::write(node.path("half"), "-----BEGIN").expect("written");
    std::os::unix::fs::symlink(node.path("half"), node.path("pki/kubelet-client-current.pem")).expect("made");
    let kept = node.client(&[ROTATE, &node.bootstrap()]).expect("it is asked for");
    assert!(kept.current().is_none());
}

#[tokio::test]
async fn a_certificate_within_the_kubeconfig_is_stored_and_replaced_at_once() {
    let node = Node::new();
    let pem = fs::read(node.pair("x", 2200)).expect("there");
    let data = serde_json::to_value(k8s_openapi::ByteString(pem)).expect("bytes have a text");
    node.kubeconfig("k", &format!("{{client-certificate-data: {data}, client-key-data: {data}}}"));
    assert!(node.client(&[]).is_none());
    let kept = node.client(&[ROTATE]).expect("it is exchanged");
    assert!(kept.current().is_some() && kept.is_provisional());
    assert!(kept.current().expect("there").validity().not_after > NEW_YEAR.plus(Duration::from_secs(1)));
    let again = node.client(&[ROTATE]).expect("it is exchanged");
    assert!(!again.is_provisional(), "it is the stored one now");
}

#[tokio::test]
async fn files_elsewhere_are_the_first_certificate() {
    let node = Node::new();
    let pair = node.pair("x", 2200);
    node.kubeconfig("k", &format!("{{client-certificate: {pair}, client-key: {pair}}}"));
    let kept = node.client(&[ROTATE]).expect("it is exchanged");
    assert!(kept.current().is_some() && !kept.is_provisional());
}

/// CFG-34, SRV-57.
#[tokio::test]
async fn without_a_kubeconfig_the_agent_stands_alone() {
    let node = Node::new();
    let flag = node.bootstrap();
    assert!(node.connect(&["--kubeconfig=", &flag]).expect("no error").is_none());
}
