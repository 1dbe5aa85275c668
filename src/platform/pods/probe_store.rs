//! Where what is known of probes outlives the agent: in memory at once, in a file soon after.
//!
//! Owned by the agent; `Prober` writes, workers read at their birth. A file that is lost costs what upstream always
//! loses, so it need not survive the machine: its containers do not either.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::logic::model::ids::PodUid;
use crate::logic::model::runtime_pod::ProbeResults;
use crate::logic::probes::probe_kind::ProbeKind;
use crate::logic::probes::probe_memory::{PodMemory, ProbeMemory, Remembered};
use crate::platform::files::FileError;
use crate::platform::files::whole_file::{read_whole, write_for_this_boot};
use crate::platform::host::blocking;

/// The file's name below the agent's root directory.
pub const FILE_NAME: &str = "probe_results.json";
/// The most bytes that are read of it: some 60,000 probes.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Where bytes are kept.
#[async_trait]
pub trait KeptBytes: Send + Sync {
    /// Puts these in the place of what is there, in one step.
    ///
    /// # Errors
    /// Says why they cannot be kept; what was there is as it was.
    async fn keep(&self, bytes: Vec<u8>) -> Result<(), FileError>;
}

#[derive(Default)]
struct Kept {
    memory: ProbeMemory,
    /// Counts news.
    version: u64,
    /// The version that is in the file.
    saved: u64,
}

/// See the module.
#[derive(Default)]
pub struct ProbeStore {
    kept: Mutex<Kept>,
    file: Option<Arc<dyn KeptBytes>>,
}

impl ProbeStore {
    /// A store that begins with `bytes` and is kept in `file`; the default one is kept nowhere.
    pub fn new(bytes: &[u8], file: Arc<dyn KeptBytes>) -> Self {
        let kept = Kept { memory: ProbeMemory::parse(bytes), ..Kept::default() };
        Self { kept: Mutex::new(kept), file: Some(file) }
    }

    /// The store below the agent's root directory. A file that cannot be read gives a warning, and is as none.
    pub fn open(root_dir: &Path) -> Self {
        let path = root_dir.join(FILE_NAME);
        let bytes = read_whole(&path, BYTES_MAX).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "results of probes cannot be read");
            None
        });
        let bytes = bytes.unwrap_or_default();
        Self::new(&bytes, Arc::new(KeptFile { path }))
    }

    /// The store as an agent begins with it: with `anew`, nothing is known of readiness and startup (gate
    /// `ChangeContainerStatusOnKubeletRestart`).
    pub fn beginning(self, anew: bool) -> Self {
        if anew {
            self.change(ProbeMemory::forget_states);
        }
        self
    }

    /// The memory of the pod's probes.
    pub fn of(&self, uid: &PodUid) -> PodMemory {
        self.lock().memory.of(uid)
    }

    /// The pod's results.
    pub fn results(&self, uid: &PodUid) -> ProbeResults {
        self.lock().memory.results(uid)
    }

    /// Takes note of a machine.
    pub fn note(&self, uid: &PodUid, container: &str, kind: ProbeKind, now: Remembered) {
        self.change(|memory| memory.note(uid, container, kind, now));
    }

    /// Forgets the pod.
    pub fn forget(&self, uid: &PodUid) {
        self.change(|memory| memory.forget(uid));
    }

    /// Forgets all others.
    pub fn keep_only(&self, known: &BTreeSet<PodUid>) {
        self.change(|memory| memory.keep_only(known));
    }

    /// Whether there is news that is not in the file.
    pub fn is_to_be_saved(&self) -> bool {
        let kept = self.lock();
        self.file.is_some() && kept.version != kept.saved
    }

    /// Writes what is known by now.
    ///
    /// # Errors
    /// Says why it cannot be written; it is still to be saved then.
    pub async fn save(&self) -> Result<(), FileError> {
        let Some(file) = &self.file else { return Ok(()) };
        let (bytes, version) = {
            let kept = self.lock();
            (kept.memory.to_bytes(), kept.version)
        };
        file.keep(bytes).await?;
        self.lock().saved = version;
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut ProbeMemory) -> bool) {
        let mut kept = self.lock();
        kept.version += u64::from(change(&mut kept.memory));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct KeptFile {
    path: PathBuf,
}

#[async_trait]
impl KeptBytes for KeptFile {
    async fn keep(&self, bytes: Vec<u8>) -> Result<(), FileError> {
        let path = self.path.clone();
        // Nothing is forced to the disk.
        let work = move || {
            write_for_this_boot(&path, &bytes, 0o600)
                .map_err(|error| FileError::new("write results of probes to", &path, error))
        };
        blocking::run(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::logic::model::ids::ContainerId;
    use crate::logic::model::time::Moment;

    fn ready() -> Remembered {
        let container = ContainerId::from("id");
        Remembered { container, result: Some(true), last: Some(true), run: 1, at: Moment::EPOCH }
    }

    /// PAIN-16.
    #[tokio::test]
    async fn what_was_saved_is_there_for_the_next_agent() {
        let folder = tempfile::tempdir().expect("a folder");
        let uid = PodUid::from("uid");
        let store = ProbeStore::open(folder.path());
        assert!(!store.is_to_be_saved());
        store.note(&uid, "web", ProbeKind::Readiness, ready());
        assert!(store.is_to_be_saved());
        store.save().await.expect("written");
        assert!(!store.is_to_be_saved());
        store.note(&uid, "web", ProbeKind::Readiness, ready());
        assert!(!store.is_to_be_saved(), "nothing new");
        let next = ProbeStore::open(folder.path());
        assert_eq!(next.of(&uid), store.of(&uid));
        assert_eq!(next.results(&uid).readiness.len(), 1);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "nothing is left beside it");
    }

    #[tokio::test]
    async fn what_cannot_be_written_stays_to_be_saved() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = ProbeStore::open(&folder.path().join("missing"));
        store.note(&PodUid::from("uid"), "web", ProbeKind::Readiness, ready());
        assert!(store.save().await.is_err());
        assert!(store.is_to_be_saved());
        assert!(!ProbeStore::default().is_to_be_saved());
    }

    #[tokio::test]
    async fn a_pipe_or_a_link_in_the_place_of_the_file_holds_up_no_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join(FILE_NAME), folder.path().join("other"));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert_eq!(ProbeStore::open(folder.path()).of(&PodUid::from("uid")), PodMemory::new());
        fs::write(&other, "kept").expect("written");
        std::os::unix::fs::symlink(&other, path.with_extension("json.tmp")).expect("linked");
        let store = ProbeStore::open(folder.path());
        store.note(&PodUid::from("uid"), "web", ProbeKind::Readiness, ready());
        store.save().await.expect("written");
        assert_eq!(fs::read_to_string(&other).expect("there"), "kept");
    }

    #[test]
    fn a_file_that_is_none_is_as_if_there_were_none() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(FILE_NAME)).expect("made");
        assert_eq!(ProbeStore::open(folder.path()).of(&PodUid::from("uid")), PodMemory::new());
    }
}
