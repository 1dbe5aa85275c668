//! `FileSource` over a played folder, under paused time.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;
use crate::actors::kit::tests::{fill, listen, make_room};
use crate::actors::node::tests::{played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::messages::root::Child;
use crate::platform::pods::manifests::{Changes, ScanError};

const FILE: &str = "/static/web.yaml";
const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: web}]}}";

/// A folder with one file, whose changes the test makes up.
struct PlayedFolder(std::sync::Mutex<Option<UnboundedReceiver<FolderChange>>>);

impl PlayedFolder {
    fn new() -> (Arc<Self>, UnboundedSender<FolderChange>) {
        let (sender, changes) = unbounded_channel();
        (Arc::new(Self(std::sync::Mutex::new(Some(changes)))), sender)
    }
}

#[async_trait::async_trait]
impl ManifestFolder for PlayedFolder {
    async fn scan(&self) -> Result<Folder, ScanError> {
        let file = ManifestFile { path: FILE.into(), content: Ok(POD.as_bytes().into()) };
        Ok(Folder { files: vec![file], ..Folder::default() })
    }

    async fn watch(&self) -> Result<Changes, ScanError> {
        let changes = self.0.lock().expect("not poisoned").take().expect("watched once");
        Ok(Box::pin(futures_util::stream::unfold(changes, |mut changes| async move {
            let change = changes.recv().await?;
            Some((change, changes))
        })))
    }
}

/// POD-09: a file that was removed and is there again gives its pod a new life, also when the mailbox had no room for that.
#[tokio::test(start_paused = true)]
async fn a_removal_that_a_full_mailbox_refused_is_not_lost() {
    let (folder, changes) = PlayedFolder::new();
    let agent = played_agent(ObjectServer::default().api(), |_, adapters| adapters.sources.folder = Some(folder)).agent;
    let heard = listen(&agent.directory.pod_manager);
    start_alone(Child::FileSource, &agent);
    seconds(1.0).await;
    let first = heard.take_of("SourceSet");
    assert!(matches!(first.as_slice(), [one] if one.ends_with("lives: {} }")), "{first:?}");
    fill(&agent.directory.file_source);
    let removed = BTreeSet::from([PathBuf::from(FILE)]);
    changes.send(FolderChange { is_whole: true, removed }).expect("watched");
    seconds(5.0).await;
    make_room(&agent.directory.file_source);
    seconds(1.0).await;
    let again = heard.take_of("SourceSet");
    assert!(matches!(again.as_slice(), [one] if !one.ends_with("lives: {} }")), "{again:?}");
}
