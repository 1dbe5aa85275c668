//! `CertificateManager` with a played cluster, under paused time; its files are real.

mod cluster;

use std::path::PathBuf;
use std::sync::Arc;

use self::cluster::{Cluster, Policy};
use super::{PlayedAgent, paused_clock, played_agent_with, seconds};
use crate::actors::kit::trace::{Cause, Faults};
use crate::actors::wiring;
use crate::actors::wiring::start_alone;
use crate::logic::node::certificate_plan::Purpose;
use crate::messages::node::certificate_manager::CertificateManagerMsg;
use crate::messages::root::Child;
use crate::platform::cluster::certificates::{
    Certificates, FileStore, KeptCertificate, Once, ServingFiles, ensure_serving_files,
};
use crate::platform::cluster::key_pair::Pair;
use crate::platform::cluster::kube_api::kubeconfig::{Authority, Bearer, ClientCertificate, Kubeconfig};
use crate::platform::cluster::kube_api::transport::Endpoint;
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::host::clock::Clock;

const HOUR: f64 = 3600.0;
const DAY: Policy = Policy::Sign(24 * 3600);

/// The agent's certificates in a folder, and who signs them.
struct Played {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    certificates: Arc<Certificates>,
    folder: tempfile::TempDir,
    agent: PlayedAgent,
}

/// Which certificate a test is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The client's, exchanged.
    Client,
    /// The client's first, by bootstrap.
    First,
    /// The server's.
    Serving,
    /// The server's, in files.
    Files,
}

impl Played {
    fn new(kind: Kind, policy: Policy) -> Self {
        Self::with(kind, policy, None)
    }

    fn with(kind: Kind, policy: Policy, faults: Option<Arc<dyn Faults>>) -> Self {
        let clock = paused_clock();
        let cluster = Cluster::new(Arc::clone(&clock), policy);
        let folder = tempfile::tempdir().expect("a folder");
        let certificates = Arc::new(certificates(kind, &cluster, &clock, folder.path().join("pki")));
        let given = Arc::clone(&certificates);
        let agent =
            played_agent_with(cluster.as_seen_by("agent"), Arc::clone(&clock), faults, move |settings, adapters| {
                settings.node_name = "node-1".to_owned();
                adapters.cluster.certificates = given;
            });
        Self { cluster, clock, certificates, folder, agent }
    }

    /// Starts the actor alone.
    fn start(&self) -> ractor::ActorCell {
        let agent = &self.agent.agent;
        start_alone(Child::CertificateManager, agent)
    }

    fn client(&self) -> &Arc<KeptCertificate> {
        self.certificates.client.as_ref().expect("it has one")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn stored(&self, purpose: Purpose) -> Option<Pair> {
        let store = FileStore::open(purpose.prefix(), &self.file("pki"), None).expect("opened");
        store.current().expect("read")
    }

    /// The node has these addresses.
    fn addresses(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| ("InternalIP".to_owned(), (*address).to_owned()));
        let host = ("Hostname".to_owned(), "node-1".to_owned());
        let told = CertificateManagerMsg::AddressesChanged(addresses.chain([host]).collect());
        let manager = &self.agent.agent.directory.certificate_manager;
        manager.tell(Cause::outside("test"), told).expect("it has room");
    }
}

fn bootstrap() -> Kubeconfig {
    Kubeconfig {
        server: Endpoint::parse("https://10.0.0.1:6443", true).expect("an address"),
        tls_server_name: None,
        authority: Authority::System,
        certificate: ClientCertificate::Absent,
        bearer: Bearer::Token("abcdef.0123456789abcdef".to_owned()),
        exec: None,
        proxy: None,
        impersonation: http::HeaderMap::new(),
    }
}

fn certificates(kind: Kind, cluster: &Cluster, clock: &Arc<dyn Clock>, folder: PathBuf) -> Certificates {
    let live = || Arc::new(LiveCertificate::new(None));
    let store = |purpose: Purpose| FileStore::open(purpose.prefix(), &folder, None).expect("opened");
    let client = || {
        KeptCertificate::new(Purpose::Client, store(Purpose::Client), live(), Arc::clone(clock))
            .first_from(cluster.as_seen_by("bootstrap"))
    };
    match kind {
        Kind::Client => Certificates { client: Some(Arc::new(client())), ..Certificates::default() },
        Kind::First => {
            let once = Once {
                key: folder.join("kubelet-client.key.tmp"),
                kubeconfig: folder.join("../kubelet.conf"),
                bootstrap: bootstrap(),
            };
            Certificates { client: Some(Arc::new(client().once(once))), ..Certificates::default() }
        }
        Kind::Serving => {
            let shown = live();
            let clock = Arc::clone(clock);
            let kept = KeptCertificate::new(Purpose::Serving, store(Purpose::Serving), Arc::clone(&shown), clock);
            Certificates { serving: Some(Arc::new(kept)), shown, ..Certificates::default() }
        }
        Kind::Files => {
            let files = ServingFiles { chain: folder.join("a.crt"), key: folder.join("a.key"), reload: true };
            ensure_serving_files(&files.chain, &files.key, "node-1", clock.now()).expect("made");
            let shown = Arc::new(LiveCertificate::new(Some(files.read().expect("there"))));
            Certificates { files: Some(files), shown, ..Certificates::default() }
        }
    }
}

/// NODE-50, NODE-51, SRV-14.
#[tokio::test(start_paused = true)]
async fn the_first_certificate_comes_by_bootstrap_and_the_next_by_the_first() {
    let played = Played::new(Kind::Client, DAY);
    played.start();
    seconds(1.0).await;
    let spec = played.cluster.last();
    assert_eq!(spec["signerName"], "kubernetes.io/kube-apiserver-client-kubelet");
    assert_eq!(spec["usages"], serde_json::json!(["digital signature", "client auth"]));
    assert_eq!(spec["expirationSeconds"], serde_json::Value::Null);
    let first = played.client().current().expect("it was signed");
    assert_eq!(first.names().common_name, "system:node:node-1");
    assert!(first.names().organizations.iter().eq(["system:nodes"]));
    assert!(played.stored(Purpose::Client).expect("stored").same_chain(&first));
    assert_eq!(played.client().live().generation(), 1);
    seconds(19.0 * HOUR).await;
    assert_eq!(played.cluster.askers(), ["bootstrap"], "it holds");
    seconds(0.25 * HOUR).await;
    assert_eq!(played.cluster.askers(), ["bootstrap", "agent"]);
    let second = played.client().current().expect("it was signed");
    assert!(!second.same_chain(&first));
    assert!(played.stored(Purpose::Client).expect("stored").same_chain(&second));
    assert_eq!(played.client().live().generation(), 2, "connections are closed");
}

/// NODE-51.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_ended_unnoticed_is_replaced_by_bootstrap() {
    let played = Played::new(Kind::Client, Policy::Sign(100));
    played.start();
    seconds(1.0).await;
    played.cluster.set(Policy::Refuse(503));
    seconds(200.0).await;
    assert!(played.client().current().is_none(), "it has ended");
    played.cluster.set(DAY);
    seconds(40.0).await;
    assert!(played.client().current().is_some());
    assert_eq!(played.cluster.askers().last(), Some(&"bootstrap"));
}

/// NODE-50.
#[tokio::test(start_paused = true)]
async fn a_certificate_is_waited_for_without_an_end() {
    let played = Played::new(Kind::Client, Policy::Wait);
    let manager = played.start();
    seconds(2.0 * HOUR).await;
    assert!((7..=9).contains(&played.cluster.names().len()), "a new one each quarter of an hour");
    played.cluster.set(DAY);
    seconds(1.0).await;
    assert!(played.client().current().is_some());
    assert_eq!(manager.get_status(), ractor::ActorStatus::Running);
}

/// NODE-49: a restart finds the request that it made before.
#[tokio::test(start_paused = true)]
async fn a_bootstrap_asks_for_the_same_certificate_until_it_is_there() {
    let played = Played::new(Kind::First, Policy::Wait);
    let manager = played.start();
    seconds(10.0).await;
    assert!(played.file("pki/kubelet-client.key.tmp").exists());
    manager.kill();
    seconds(1.0).await;
    played.start();
    seconds(10.0).await;
    assert!(!played.file("kubelet.conf").exists());
    played.cluster.set(DAY);
    seconds(10.0).await;
    let names = played.cluster.names();
    assert!(names.len() == 2 && names[0] == names[1] && names[0].starts_with("node-csr-"), "{names:?}");
    let kubeconfig = Kubeconfig::load(&played.file("kubelet.conf")).expect("written");
    assert_eq!(kubeconfig.server, bootstrap().server);
    let (chain, key) = kubeconfig.certificate_pem().expect("read").expect("there");
    assert!(Pair::parse(&chain, &key).expect("a pair").same_chain(&played.client().current().expect("shown")));
    assert!(!played.file("pki/kubelet-client.key.tmp").exists());
    seconds(48.0 * HOUR).await;
    assert_eq!(played.cluster.names().len(), 2, "it is not exchanged");
}

#[tokio::test(start_paused = true)]
async fn a_denied_bootstrap_is_asked_for_again_and_again() {
    let played = Played::new(Kind::First, Policy::Deny);
    let manager = played.start();
    seconds(600.0).await;
    assert!(played.cluster.names().len() > 10);
    assert!(played.client().failures() > 10);
    assert_eq!(manager.get_status(), ractor::ActorStatus::Running);
}

/// NODE-52, NODE-53, SRV-13.
#[tokio::test(start_paused = true)]
async fn a_serving_certificate_is_for_the_addresses_of_the_node() {
    let played = Played::new(Kind::Serving, Policy::Wait);
    played.start();
    played.addresses(&[]);
    seconds(60.0).await;
    assert!(played.cluster.names().is_empty(), "a name alone does not do");
    played.addresses(&["10.0.0.7"]);
    seconds(1.0).await;
    assert_eq!(played.cluster.last_names(), ["node-1", "10.0.0.7"]);
    assert_eq!(played.cluster.last()["signerName"], "kubernetes.io/kubelet-serving");
    assert_eq!(played.cluster.last()["usages"], serde_json::json!(["digital signature", "server auth"]));
    played.addresses(&["10.0.0.8"]);
    seconds(1.0).await;
    assert_eq!(played.cluster.last_names(), ["node-1", "10.0.0.8"]);
    assert!(played.certificates.shown.current().is_none());
    played.cluster.set(DAY);
    seconds(1.0).await;
    let shown = played.certificates.shown.current().expect("it was signed");
    assert!(shown.names().ip_addresses.iter().map(ToString::to_string).eq(["10.0.0.8"]));
    played.addresses(&["10.0.0.8", "10.0.0.9"]);
    seconds(1.0).await;
    let shown = played.certificates.shown.current().expect("it was signed");
    assert_eq!(shown.names().ip_addresses.len(), 2);
    assert_eq!(played.cluster.names().len(), 3);
    played.addresses(&["10.0.0.8"]);
    seconds(1.0).await;
    assert_eq!(played.cluster.names().len(), 3, "it serves for fewer, too");
    assert!(played.stored(Purpose::Serving).expect("stored").same_chain(&shown));
}

/// NODE-55, SRV-11.
#[tokio::test(start_paused = true)]
async fn files_that_are_exchanged_are_shown() {
    let played = Played::new(Kind::Files, Policy::Wait);
    played.start();
    let before = played.certificates.shown.current().expect("there");
    seconds(1.0).await;
    let files = played.certificates.files.clone().expect("there");
    tempfile::NamedTempFile::new_in(played.folder.path()).expect("made").persist(&files.chain).expect("moved");
    seconds(11.0).await;
    assert!(played.certificates.shown.current().expect("kept").same_chain(&before), "half written");
    let other = played.file("other.crt");
    ensure_serving_files(&other, &files.key, "node-1", played.clock.now()).expect("made");
    tempfile::TempPath::try_from_path(other).expect("a path").persist(&files.chain).expect("moved");
    seconds(11.0).await;
    assert!(!played.certificates.shown.current().expect("there").same_chain(&before));
    assert!(played.certificates.shown.current().expect("there").same_chain(&files.read().expect("there")));
}

/// NODE-54: whether the agent is still there, after so many seconds under this policy.
async fn lives_on(policy: Policy, after: f64) -> bool {
    let played = Played::new(Kind::Client, policy);
    let (_root, cell) = wiring::start(Arc::clone(&played.agent.agent));
    seconds(after).await;
    let lives = cell.get_status() == ractor::ActorStatus::Running;
    cell.stop(None);
    lives
}

/// NODE-54.
#[tokio::test(start_paused = true)]
async fn an_agent_whose_credentials_are_refused_for_long_ends() {
    assert!(lives_on(Policy::Refuse(401), 295.0).await);
    assert!(!lives_on(Policy::Refuse(401), 330.0).await);
    assert!(lives_on(Policy::Refuse(503), 2000.0).await, "it may be the server's fault");
    assert!(lives_on(Policy::Wait, 2000.0).await, "somebody may still approve it");
    assert!(lives_on(DAY, 2000.0).await);
}

/// NODE-54: one that has ended is as good as none, and gets the same five minutes, also from a server that answers.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_ended_is_waited_for_as_long_as_one_that_never_came() {
    let played = Played::new(Kind::Client, Policy::Sign(100));
    let (_root, cell) = wiring::start(Arc::clone(&played.agent.agent));
    seconds(1.0).await;
    played.cluster.set(Policy::Refuse(401));
    seconds(384.0).await;
    assert!(played.client().current().is_none(), "it has ended");
    assert_eq!(cell.get_status(), ractor::ActorStatus::Running);
    seconds(55.0).await;
    assert_ne!(cell.get_status(), ractor::ActorStatus::Running);
    cell.stop(None);
}

/// The actor fails once, before or after its message of this number.
struct FailsOnce {
    index: u64,
    after: bool,
}

impl Faults for FailsOnce {
    fn strikes_before(&self, kind: &'static str, _: &str, index: u64) -> bool {
        kind == "CertificateManager" && index == self.index && !self.after
    }
    fn strikes_after(&self, kind: &'static str, _: &str, index: u64) -> bool {
        kind == "CertificateManager" && index == self.index && self.after
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_message_costs_a_request_at_most() {
    for kind in [Kind::Client, Kind::First] {
        for index in 0..6 {
            for after in [false, true] {
                let played = Played::with(kind, Policy::Sign(1000), Some(Arc::new(FailsOnce { index, after })));
                let (_root, cell) = wiring::start(Arc::clone(&played.agent.agent));
                seconds(600.0).await;
                let first = played.client().current().expect("there is one");
                let names = played.cluster.names();
                assert!(names.len() <= 2, "{index} (after: {after}): {names:?}");
                assert!(played.stored(Purpose::Client).expect("stored").same_chain(&first));
                seconds(390.0).await;
                let exchanged = !played.client().current().expect("it holds").same_chain(&first);
                assert_eq!(exchanged, kind == Kind::Client, "{index} (after: {after})");
                cell.stop(None);
            }
        }
    }
}

/// NODE-51, OBS-10: the life of a certificate reaches the metrics that watch over it.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_certificate_is_told() {
    let played = Played::new(Kind::Serving, Policy::Refuse(500));
    played.start();
    played.addresses(&["10.0.0.7"]);
    seconds(1.0).await;
    let serving = Arc::clone(played.certificates.serving.as_ref().expect("it has one"));
    assert_eq!((serving.failures(), serving.held()), (1, None));
    played.cluster.set(DAY);
    seconds(2.0).await;
    assert!(serving.held().is_some() && serving.lives().count() == 0);
    seconds(20.0 * HOUR).await;
    let lives = serving.lives();
    // Eight tenths of a day, by no chance.
    assert!(lives.count() == 1 && (69_120..69_131).contains(&lives.sum().as_secs()), "{lives:?}");
}
