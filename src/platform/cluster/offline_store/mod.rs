//! Objects that pods need of the API server, kept on the disk for a boot without it (PAIN-10). Off unless
//! `--offline-store` says so.
//!
//! The trait of the store, and the form on a disk: sealed records below the agent's root directory. [`RememberedObjects`]
//! puts it behind whoever asks for objects. The API server's word always counts first.

mod objects;
mod sealed;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use crate::logic::model::ids::PodUid;
use crate::logic::pods::offline_pods::Needed;
use crate::platform::files::whole_file::{read_whole, write_whole};
use crate::platform::host::blocking;
pub use objects::RememberedObjects;
use sealed::{KEY_BYTES, Seal};

/// The largest record, in bytes.
const RECORD_MAX: u64 = 16 << 20;
/// The most records; beyond it those go that nobody asked for longest.
const RECORDS_MAX: usize = 4096;
/// The record of the node's pods, without which the others are of no use: it never goes.
pub const PODS_RECORD: &str = "pods";
/// The store's folder below the root directory.
const FOLDER: &str = "offline";
/// The file of the key in the store's folder, where nobody gives one.
const KEY_FILE: &str = "key";
/// The name of the credential that the service manager may give the key in (`LoadCredentialEncrypted=`).
const CREDENTIAL: &str = "podwright-offline-key";
/// How names of Secrets' records begin.
const SECRET: &str = "secret/";
/// How names of tokens' records begin; then come namespace, service account and the pod's UID.
const TOKEN: &str = "token/";
/// How files of Secrets are marked.
const SECRET_MARK: &str = ".s";
/// How files of tokens are marked, before the digest of the pod's UID.
const TOKEN_MARK: &str = ".t-";
/// How records' files end.
const RECORD_SUFFIX: &str = ".sealed";

/// Makes the content of a record, off the actors' thread where that may take long.
pub type Content = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// A store of named records.
#[async_trait]
pub trait OfflineStore: Send + Sync {
    /// Keeps a record, in the place of one of the same name.
    ///
    /// # Errors
    /// When it cannot be written, or is larger than 16 MiB.
    async fn keep(&self, name: &str, content: Content) -> io::Result<()>;
    /// Marks a record as one that is still asked for, and says whether it is there.
    ///
    /// # Errors
    /// When it cannot be marked.
    async fn renew(&self, name: &str) -> io::Result<bool>;
    /// The record of this name; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is not what was kept.
    async fn recall(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Removes a record; one that is not there is no error.
    ///
    /// # Errors
    /// When it cannot be removed.
    async fn forget(&self, name: &str) -> io::Result<()>;
    /// Removes Secrets and tokens that none of these need; says how many.
    ///
    /// # Errors
    /// When one cannot be removed; all others are.
    async fn keep_needed(&self, needed: &Needed) -> io::Result<usize>;
    /// Grows whenever records went by [`Self::keep_needed`].
    fn generation(&self) -> u64;
}

/// The record of a Secret.
fn secret_record(namespace: &str, name: &str) -> String {
    format!("{SECRET}{namespace}/{name}")
}

/// Whether the record of this name stays while pods need these.
pub fn is_needed(record: &str, needed: &Needed) -> bool {
    let part = |prefix: &str| record.strip_prefix(prefix).map(|rest| rest.split('/').collect::<Vec<_>>());
    match (part(SECRET).as_deref(), part(TOKEN).as_deref()) {
        (Some([namespace, name]), _) => needed.secrets.contains(&((*namespace).to_owned(), (*name).to_owned())),
        (_, Some([_, _, uid, ..])) => needed.pods.contains(&PodUid::from(*uid)),
        _ => true,
    }
}

/// Of a record that goes with the pods that need it, how its file is marked: a Secret as such, a token with its pod.
fn mark(name: &str) -> String {
    let pod = name.strip_prefix(TOKEN).and_then(|rest| rest.split('/').nth(2));
    match pod {
        Some(uid) => format!("{TOKEN_MARK}{}", sealed::name_digest(uid)),
        None if name.starts_with(SECRET) => SECRET_MARK.to_owned(),
        None => String::new(),
    }
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("offline store: {}: {source}", path.display())]
pub struct OpenError {
    /// The folder, or the key's file.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

/// Records as files, encrypted, each under the digest of its name.
#[derive(Clone)]
pub struct DiskStore {
    folder: PathBuf,
    seal: Arc<Seal>,
    generation: Arc<AtomicU64>,
}

impl DiskStore {
    /// Opens the store below `root_dir`, and makes its folder. The key is the credential of the service manager where there
    /// is one in `credentials` (`$CREDENTIALS_DIRECTORY`). Else it is a file beside the records, made at the first time:
    /// that one keeps records from who gets hold of them alone, not from who reads the whole disk.
    ///
    /// # Errors
    /// When the folder or the key cannot be made or read; the text names it.
    pub fn open(root_dir: &Path, credentials: Option<OsString>) -> Result<Self, OpenError> {
        let folder = root_dir.join(FOLDER);
        let named = |path: &Path, source: io::Error| OpenError { path: path.to_owned(), source };
        fs::create_dir_all(&folder).map_err(|error| named(&folder, error))?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(|error| named(&folder, error))?;
        let given = credentials.map(|folder| Path::new(&folder).join(CREDENTIAL)).filter(|path| path.exists());
        let seal = match given {
            Some(path) => Seal::from_secret(&fs::read(&path).map_err(|error| named(&path, error))?),
            None => {
                let path = folder.join(KEY_FILE);
                Seal::from_secret(&own_key(&path).map_err(|error| named(&path, error))?)
            }
        };
        Ok(Self { folder, seal: Arc::new(seal), generation: Arc::default() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}{}{RECORD_SUFFIX}", sealed::name_digest(name), mark(name)))
    }

    fn write(&self, name: &str, content: Vec<u8>) -> io::Result<()> {
        if content.len() as u64 > RECORD_MAX {
            return Err(io::Error::other(format!("{} bytes are more than a record may have", content.len())));
        }
        let sealed = self.seal.close(name, content)?;
        write_whole(&self.path(name), &sealed, 0o600)?;
        self.thin_out(RECORDS_MAX)
    }

    fn touch(&self, name: &str) -> io::Result<bool> {
        let (keep, now) = (timespec(UTIME_OMIT), timespec(UTIME_NOW));
        let times = Timestamps { last_access: keep, last_modification: now };
        match rustix::fs::utimensat(CWD, self.path(name), &times, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(bytes) = read_whole(&self.path(name), 2 * RECORD_MAX + 1)? else { return Ok(None) };
        if bytes.len() as u64 > 2 * RECORD_MAX {
            return Err(io::Error::other("more bytes than a record has"));
        }
        self.seal.open(name, bytes).map(Some)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn remove_unneeded(&self, needed: &Needed) -> io::Result<usize> {
        let secrets = needed.secrets.iter().map(|(namespace, name)| self.path(&secret_record(namespace, name)));
        let secrets: BTreeSet<PathBuf> = secrets.collect();
        let pods: BTreeSet<String> = needed.pods.iter().map(|uid| sealed::name_digest(uid.as_str())).collect();
        let (mut removed, mut outcome) = (0, Ok(()));
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let file = entry.file_name();
            let Some(name) = file.to_str().and_then(|name| name.strip_suffix(RECORD_SUFFIX)) else { continue };
            let goes = match name.split_once(TOKEN_MARK) {
                Some((_, pod)) => !pods.contains(pod),
                None => name.ends_with(SECRET_MARK) && !secrets.contains(&entry.path()),
            };
            if goes {
                match fs::remove_file(entry.path()) {
                    Ok(()) => removed += 1,
                    Err(error) => outcome = Err(error),
                }
            }
        }
        if removed > 0 {
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        outcome.map(|()| removed)
    }

    fn thin_out(&self, most: usize) -> io::Result<()> {
        let pods = self.path(PODS_RECORD);
        let is_record = |path: &PathBuf| path.to_string_lossy().ends_with(RECORD_SUFFIX) && *path != pods;
        let paths = fs::read_dir(&self.folder)?.flatten().map(|entry| entry.path());
        let mut records: Vec<PathBuf> = paths.filter(is_record).collect();
        let Some(surplus) = records.len().checked_sub(most).filter(|surplus| *surplus > 0) else { return Ok(()) };
        let used = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified());
        records.sort_by_cached_key(|path| used(path).unwrap_or(SystemTime::UNIX_EPOCH));
        records.iter().take(surplus).try_for_each(fs::remove_file)
    }
}

#[async_trait]
impl OfflineStore for DiskStore {
    async fn keep(&self, name: &str, content: Content) -> io::Result<()> {
        let (store, name) = (self.clone(), name.to_owned());
        blocking::run(move || store.write(&name, content())).await
    }

    async fn renew(&self, name: &str) -> io::Result<bool> {
        let (store, name) = (self.clone(), name.to_owned());
        blocking::run(move || store.touch(&name)).await
    }

    async fn recall(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let (store, name) = (self.clone(), name.to_owned());
        blocking::run(move || store.read(&name)).await
    }

    async fn forget(&self, name: &str) -> io::Result<()> {
        let (store, name) = (self.clone(), name.to_owned());
        blocking::run(move || store.remove(&name)).await
    }

    async fn keep_needed(&self, needed: &Needed) -> io::Result<usize> {
        let (store, needed) = (self.clone(), needed.clone());
        blocking::run(move || store.remove_unneeded(&needed)).await
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

fn timespec(special: i64) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: special }
}

/// The key of the store's own file, made where there is none.
fn own_key(path: &Path) -> io::Result<Vec<u8>> {
    match read_whole(path, KEY_BYTES as u64 + 1)? {
        Some(key) if key.len() == KEY_BYTES => return Ok(key),
        Some(_) => return Err(io::Error::other("this is no key; remove it, and what was kept is kept anew")),
        None => {}
    }
    let key = sealed::random_key()?;
    write_whole(path, &key, 0o600)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> DiskStore {
        DiskStore::open(folder, None).expect("a store")
    }

    /// SEC-40: what is kept of Secrets and tokens is in no file as it is, nor in a file's name.
    #[test]
    fn sec_40_what_was_kept_is_there_after_a_restart_and_is_not_to_be_read_in_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path()).write("secret/ns/db", b"hunter2".to_vec()).expect("kept");
        let store = open(folder.path());
        assert_eq!(store.read("secret/ns/db").expect("read").as_deref(), Some(&b"hunter2"[..]));
        assert_eq!(store.read("secret/ns/other").expect("read"), None);
        for file in fs::read_dir(folder.path().join(FOLDER)).expect("a folder").flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            assert!(!name.contains("secret"), "{name}");
            assert_eq!(file.metadata().expect("there").permissions().mode() & 0o077, 0, "{name}");
            let bytes = fs::read(file.path()).expect("read");
            assert!(!bytes.windows(7).any(|window| window == b"hunter2"), "{name}");
        }
        store.remove("secret/ns/db").expect("removed");
        store.remove("secret/ns/db").expect("nothing there");
        assert_eq!(store.read("secret/ns/db").expect("read"), None);
    }

    #[test]
    fn secrets_and_tokens_go_that_no_pod_needs_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let names = [
            PODS_RECORD,
            "secret/ns/kept",
            "secret/ns/gone",
            "secret/other/kept",
            "configmap/ns/gone",
            "token/ns/robot/1/3600/",
            "token/ns/robot uid/2/3600/vault/audience",
        ];
        for name in names {
            store.write(name, b"x".to_vec()).expect("kept");
        }
        let secrets = [("ns".to_owned(), "kept".to_owned())].into();
        let needed = Needed { secrets, pods: [PodUid::from("1")].into() };
        // A restart changes nothing: what goes is read from the disk.
        let store = open(folder.path());
        assert_eq!((store.remove_unneeded(&needed).expect("removed"), store.generation()), (3, 1));
        assert_eq!((store.remove_unneeded(&needed).expect("nothing"), store.generation()), (0, 1));
        let left: Vec<&str> = names.into_iter().filter(|name| store.read(name).expect("read").is_some()).collect();
        assert_eq!(left, [PODS_RECORD, "secret/ns/kept", "configmap/ns/gone", "token/ns/robot/1/3600/"]);
    }

    #[test]
    fn a_record_that_was_changed_or_moved_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        store.write("a", b"one".to_vec()).expect("kept");
        store.write("b", b"two".to_vec()).expect("kept");
        fs::copy(store.path("a"), store.path("b")).expect("copied");
        assert!(store.read("b").is_err(), "another record's content");
        let mut bytes = fs::read(store.path("a")).expect("read");
        *bytes.last_mut().expect("not empty") ^= 1;
        fs::write(store.path("a"), bytes).expect("written");
        assert!(store.read("a").is_err(), "a changed bit");
        fs::write(store.path("a"), b"").expect("written");
        assert!(store.read("a").is_err(), "cut off");
    }

    #[test]
    fn what_nobody_asks_for_goes_first_and_the_pods_never() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        for name in [PODS_RECORD, "asked for", "not asked for", "new"] {
            store.write(name, b"x".to_vec()).expect("kept");
        }
        for name in [PODS_RECORD, "asked for", "not asked for"] {
            fs::File::open(store.path(name)).and_then(|file| file.set_modified(long_ago)).expect("aged");
        }
        assert!(store.touch("asked for").expect("marked"));
        store.thin_out(2).expect("thinned out");
        let left = |name: &str| store.read(name).expect("read").is_some();
        assert_eq!([PODS_RECORD, "asked for", "not asked for", "new"].map(left), [true, true, false, true]);
        assert!(!store.touch("not asked for").expect("nothing to mark"));
    }

    #[test]
    fn a_credential_of_the_service_manager_is_the_key() {
        let (folder, credentials) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        fs::write(credentials.path().join(CREDENTIAL), "sealed to this machine").expect("written");
        let given = || Some(credentials.path().as_os_str().to_owned());
        DiskStore::open(folder.path(), given()).expect("a store").write("a", b"one".to_vec()).expect("kept");
        assert!(!folder.path().join(FOLDER).join(KEY_FILE).exists());
        let again = DiskStore::open(folder.path(), given()).expect("a store");
        assert_eq!(again.read("a").expect("read").as_deref(), Some(&b"one"[..]));
        assert!(open(folder.path()).read("a").is_err(), "another key");
    }

    #[test]
    fn a_record_that_is_too_large_is_refused_and_a_key_that_is_none_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path());
        let size = usize::try_from(RECORD_MAX).expect("small") + 1;
        assert!(store.write("a", vec![0; size]).is_err());
        fs::write(folder.path().join(FOLDER).join(KEY_FILE), "short").expect("written");
        let error = DiskStore::open(folder.path(), None).err().expect("no store");
        assert!(error.to_string().contains("offline/key"), "{error}");
    }
}
