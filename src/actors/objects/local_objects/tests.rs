//! `LocalObjects` and `ObjectCache` with a played folder, under paused time.

use std::sync::Mutex;

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::actors::kit::trace::lock;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::objects::object_cache::CachedLocalObjects;
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::messages::root::Child;
use crate::platform::cluster::objects::Objects;
use crate::platform::pods::local_objects::{FolderError, ObjectFileError};
use crate::platform::pods::manifests::Changes;

/// The content of a file as the folder gives it.
type Content = Result<(SecretBytes, Readers), ObjectFileError>;

/// A folder of files that nobody reports changes of: the periodic look finds them.
#[derive(Default)]
struct Played(Mutex<BTreeMap<PathBuf, Content>>);

#[async_trait]
impl LocalObjectFolder for Played {
    async fn scan(&self) -> Result<Vec<ObjectFile>, FolderError> {
        let files = lock(&self.0);
        Ok(files.iter().map(|(path, content)| ObjectFile { path: path.clone(), content: content.clone() }).collect())
    }

    async fn watch(&self) -> Result<Changes, FolderError> {
        Ok(Box::pin(futures_util::stream::pending()))
    }
}

struct Setup {
    folder: Arc<Played>,
    played: PlayedAgent,
    cells: Vec<ractor::ActorCell>,
}

impl Setup {
    fn new() -> Self {
        let folder = Arc::new(Played::default());
        let played = played_agent(ObjectServer::default().api(), |_, adapters| {
            adapters.cluster.api = None;
            adapters.sources.objects = Some(folder.clone());
        });
        let cells = [Child::ObjectCache, Child::LocalObjects].map(|child| start_alone(child, &played.agent));
        let setup = Self { folder, played, cells: cells.into() };
        let pod = json!({
            "metadata": { "name": "p", "namespace": "default", "uid": "p" },
            "spec": { "containers": [], "volumes": [{ "name": "s", "secret": { "secretName": "s" } }] },
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        setup.tell(ObjectCacheMsg::PodChanged(Arc::new(pod)));
        setup
    }

    fn tell(&self, message: ObjectCacheMsg) {
        self.played.agent.directory.object_cache.tell(Cause::outside("test"), message).expect("has room");
    }

    fn write(&self, file: &str, text: &str, readers: Readers) {
        lock(&self.folder.0).insert(file.into(), Ok((SecretBytes(text.as_bytes().into()), readers)));
    }

    fn secret(&self, file: &str, text: &str) {
        let document = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{say: {text}}}\n");
        self.write(file, &document, Readers::Owner);
    }

    async fn text(&self) -> Result<String, String> {
        let objects = CachedLocalObjects(self.played.agent.directory.object_cache.clone());
        let object = objects.secret("default", "s").await.map_err(|error| error.to_string())?;
        let value = object.data.as_ref().and_then(|data| data.get("say")).expect("the key");
        Ok(String::from_utf8_lossy(&value.0).into_owned())
    }
}

/// PAIN-38.
#[tokio::test(start_paused = true)]
async fn objects_come_change_and_go_with_their_files() {
    let setup = Setup::new();
    seconds(1.0).await;
    assert_eq!(setup.text().await, Err("secret \"s\" not found".to_owned()));
    for text in ["one", "two"] {
        setup.secret("a", text);
        seconds(21.0).await;
        assert_eq!(setup.text().await.as_deref(), Ok(text));
    }
    lock(&setup.folder.0).clear();
    seconds(21.0).await;
    assert_eq!(setup.text().await, Err("secret \"s\" not found".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_bad_file_spoils_no_other_and_keeps_what_it_gave() {
    let setup = Setup::new();
    setup.secret("a", "one");
    setup.write("b", "kind: [\n", Readers::Owner);
    lock(&setup.folder.0).insert("c".into(), Err(ObjectFileError::Writable(0o666)));
    seconds(21.0).await;
    assert_eq!(setup.text().await.as_deref(), Ok("one"));
    setup.write("a", "half: [\n", Readers::Owner);
    seconds(21.0).await;
    assert_eq!(setup.text().await.as_deref(), Ok("one"), "somebody may be writing it");
    setup.secret("a", "two");
    seconds(21.0).await;
    assert_eq!(setup.text().await.as_deref(), Ok("two"));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_others_may_read_is_refused() {
    let setup = Setup::new();
    let document = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {say: one}\n";
    setup.write("a", document, Readers::Others);
    seconds(21.0).await;
    assert_eq!(setup.text().await, Err("secret \"s\" not found".to_owned()));
    setup.write("a", document, Readers::Owner);
    seconds(21.0).await;
    assert_eq!(setup.text().await.as_deref(), Ok("one"), "its mode alone was changed");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_begins_anew_hears_all_objects_again() {
    let mut setup = Setup::new();
    setup.secret("a", "one");
    seconds(21.0).await;
    assert_eq!(setup.text().await.as_deref(), Ok("one"));
    let cell = setup.cells.remove(0);
    cell.stop(None);
    let _ = cell.wait(None).await;
    setup.cells.push(start_alone(Child::ObjectCache, &setup.played.agent));
    let to = &setup.played.agent.directory.local_objects;
    to.tell(Cause::outside("test"), LocalObjectsMsg::Repeat).expect("has room");
    let pod = json!({
        "metadata": { "name": "p", "namespace": "default", "uid": "p" },
        "spec": { "containers": [], "imagePullSecrets": [{ "name": "s" }] },
    });
    setup.tell(ObjectCacheMsg::PodChanged(Arc::new(serde_json::from_value(pod).expect("a pod"))));
    seconds(1.0).await;
    assert_eq!(setup.text().await.as_deref(), Ok("one"));
}
