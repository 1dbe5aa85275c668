//! The actor over a disk that fails, is slow, or goes on where an earlier agent ended.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::*;
use crate::actors::kit::address::AskError;
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::resources::user_namespaces::mapping_file::parse;
use crate::messages::root::Child;
use crate::platform::files::FileError;
use crate::platform::pods::user_namespace_files::Files;

/// The files of pods, in memory.
struct PlayedFiles {
    files: Mutex<BTreeMap<PodUid, Vec<u8>>>,
    /// The attempts that fail, after they took effect.
    failing: Mutex<BTreeSet<&'static str>>,
    /// The writes that may end.
    gate: Semaphore,
}

impl Default for PlayedFiles {
    fn default() -> Self {
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Self { files: Mutex::default(), failing: Mutex::default(), gate }
    }
}

impl PlayedFiles {
    fn fail(&self, attempts: &[&'static str]) {
        *lock(&self.failing) = attempts.iter().copied().collect();
    }

    fn outcome(&self, attempt: &'static str) -> Result<(), FileError> {
        let failed = FileError { attempt, path: "userns".to_owned(), problem: "no space".to_owned() };
        if lock(&self.failing).contains(attempt) { Err(failed) } else { Ok(()) }
    }

    fn range(&self, uid: &str) -> Option<IdRange> {
        lock(&self.files).get(&PodUid::from(uid)).map(|bytes| parse(bytes).expect("a range"))
    }
}

#[async_trait]
impl UserNamespaceFiles for PlayedFiles {
    async fn read_all(&self) -> Result<Files, FileError> {
        self.outcome("read")?;
        Ok(lock(&self.files).iter().map(|(uid, bytes)| (uid.clone(), Ok(bytes.clone()))).collect())
    }

    async fn write(&self, uid: &PodUid, content: Vec<u8>) -> Result<(), FileError> {
        self.gate.acquire().await.expect("open").forget();
        lock(&self.files).insert(uid.clone(), content);
        self.outcome("write")
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        lock(&self.files).remove(uid);
        self.outcome("remove")
    }
}

struct Setup {
    played: PlayedAgent,
    files: Arc<PlayedFiles>,
}

impl Setup {
    fn new(files: PlayedFiles) -> Self {
        let files = Arc::new(files);
        let own = Arc::clone(&files);
        let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
            let ids = IdRange { first: 65_536, length: 2 * 65_536 };
            settings.pods.user_ids = IdSpace::new(ids, 65_536, 1).expect("suits");
            adapters.pods.user_namespaces = own;
        });
        start_alone(Child::UserNamespaces, &played.agent);
        Self { played, files }
    }

    async fn assign(&self, uid: &str) -> Result<IdRange, String> {
        let ask = |reply| UserNamespacesMsg::Assign(PodUid::from(uid), reply);
        let address = &self.played.agent.directory.user_namespaces;
        let answer = address.ask(Cause::outside("test"), Duration::from_secs(10), ask).await;
        answer.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    async fn release(&self, uid: &str) -> Result<(), AskError> {
        let ask = |reply| UserNamespacesMsg::Release(PodUid::from(uid), reply);
        let address = &self.played.agent.directory.user_namespaces;
        address.ask(Cause::outside("test"), Duration::from_secs(10), ask).await
    }

    async fn known(&self, uids: &[&str]) {
        let known = UserNamespacesMsg::Known(Arc::new(uids.iter().map(|uid| PodUid::from(*uid)).collect()));
        self.played.agent.directory.user_namespaces.tell(Cause::outside("test"), known).expect("has room");
        seconds(0.1).await;
    }
}

fn range(slot: u32) -> IdRange {
    IdRange { first: (slot + 1) * 65_536, length: 65_536 }
}

/// RES-63.
#[tokio::test(start_paused = true)]
async fn res_63_a_pod_has_its_range_on_the_disk_before_anybody_hears_of_it() {
    let setup = Setup::new(PlayedFiles { gate: Semaphore::new(0), ..PlayedFiles::default() });
    assert!(setup.assign("a").await.is_err(), "the disk is slow");
    assert_eq!(setup.files.range("a"), None);
    setup.files.gate.add_permits(10);
    let given = setup.assign("a").await.expect("given");
    assert_eq!(setup.files.range("a"), Some(given));
    assert_eq!(setup.assign("a").await, Ok(given));
    let other = setup.assign("b").await.expect("given");
    assert_ne!(given, other);
    let full = "create user namespace: could not find an empty slot to allocate a user namespace";
    assert_eq!(setup.assign("c").await, Err(full.to_owned()));
    setup.release("a").await.expect("answered");
    assert_eq!(setup.files.range("a"), None);
    assert_eq!(setup.assign("c").await, Ok(given), "the only free one");
    setup.release("nobody").await.expect("answered");
}

/// RES-63: the files are the memory, also of an agent that was killed.
#[tokio::test(start_paused = true)]
async fn res_63_ranges_of_an_earlier_run_are_known_before_one_is_given() {
    let files = PlayedFiles::default();
    lock(&files.files).insert(PodUid::from("old"), print(range(1)));
    files.fail(&["read"]);
    let setup = Setup::new(files);
    assert!(setup.assign("new").await.is_err(), "nothing is given on half knowledge");
    assert_eq!(setup.files.range("new"), None);
    setup.files.fail(&[]);
    assert_eq!(setup.assign("new").await, Ok(range(0)));
    assert_eq!(setup.assign("old").await, Ok(range(1)));
    setup.known(&["new"]).await;
    assert_eq!(setup.files.range("old"), None, "nobody knows that pod");
    assert_eq!(setup.assign("next").await, Ok(range(1)));
}

/// A range is not free while its file may be there.
#[tokio::test(start_paused = true)]
async fn what_fails_on_the_disk_is_tried_again_with_the_same_range() {
    let setup = Setup::new(PlayedFiles::default());
    setup.files.fail(&["write"]);
    let told = setup.assign("a").await.expect_err("it cannot be kept");
    assert_eq!(told, "create user namespace: write userns: no space");
    let written = setup.files.range("a").expect("it was written all the same");
    setup.files.fail(&[]);
    assert_eq!(setup.assign("a").await, Ok(written));
    setup.assign("b").await.expect("given");
    setup.files.fail(&["remove"]);
    setup.release("a").await.expect("nobody is held up");
    assert!(setup.assign("c").await.is_err(), "it may be there still");
    setup.files.fail(&[]);
    setup.known(&["b", "c"]).await;
    assert_eq!(setup.assign("c").await, Ok(written));
}

/// A pod that ends while its file is being written leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_write_before_it() {
    let setup = Setup::new(PlayedFiles { gate: Semaphore::new(0), ..PlayedFiles::default() });
    let both = async { tokio::join!(setup.assign("a"), setup.release("a")) };
    let open = async {
        seconds(1.0).await;
        setup.files.gate.add_permits(10);
    };
    let ((given, released), ()) = tokio::join!(both, open);
    assert!(given.is_ok() && released.is_ok());
    assert_eq!(setup.files.range("a"), None);
}
