//! Records of pulls as files: `pulling/sha256-<hex>` and `pulled/sha256-<hex>`, by the hash of what they are about.
//!
//! Owned by the adapter; keeps how many pulls of each image are under way. A file is written whole under another name
//! and then renamed, so one that a crash cut off is never read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::logic::images::image_records::{Evidence, PullIntent, PulledRecord, RecordedAccess, merged, to_prune};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;
use crate::platform::files::whole_file::{ASIDE, read_whole, write_for_this_boot};
use crate::platform::network::tls::sha256_hex;

const PREFIX: &str = "sha256-";
const TEMPORARY: &str = ".tmp";
/// The most that is read of one record. Each holds a hundred Secrets or so.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

pub(super) struct Records {
    pulling: PathBuf,
    pulled: PathBuf,
    /// How many pulls of an image are under way. Held while a file is changed, too.
    under_way: Mutex<BTreeMap<String, usize>>,
}

impl Records {
    pub(super) fn new(folder: &Path) -> Self {
        Self { pulling: folder.join("pulling"), pulled: folder.join("pulled"), under_way: Mutex::default() }
    }

    pub(super) fn evidence(&self, image: &str, image_ref: &str) -> Evidence {
        let under_way = self.lock();
        let record = read(&path_of(&self.pulled, image_ref));
        let intent = match under_way.contains_key(image) {
            true => Ok(true),
            false => read(&path_of(&self.pulling, image)).map(|found| found.is_some()),
        };
        match (record, intent) {
            (Ok(None), Ok(intent)) => Evidence { intent, ..Evidence::default() },
            (Ok(Some(bytes)), Ok(intent)) => match PulledRecord::parse(&bytes) {
                Some(record) => Evidence {
                    record: Some(record).filter(|one| one.image_ref == image_ref),
                    intent,
                    ..Evidence::default()
                },
                None => Evidence { unreadable: true, ..Evidence::default() },
            },
            _ => Evidence { unreadable: true, ..Evidence::default() },
        }
    }

    pub(super) fn begin(&self, image: &str) -> Result<(), FileError> {
        let mut under_way = self.lock();
        let path = path_of(&self.pulling, image);
        let written = write(&self.pulling, &path, &PullIntent::new(image).to_text());
        written.map_err(|error| FileError::new("failed to record image pull intent:", &path, error))?;
        *under_way.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    pub(super) fn end(&self, image: &str) -> Result<(), FileError> {
        let mut under_way = self.lock();
        match under_way.get_mut(image) {
            Some(others @ 2..) => *others -= 1,
            _ => {
                let path = path_of(&self.pulling, image);
                remove(&path).map_err(|error| FileError::new("remove image pull intent", &path, error))?;
                under_way.remove(image);
            }
        }
        Ok(())
    }

    pub(super) fn pulled(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<&RecordedAccess>,
        now: Moment,
    ) -> Result<(), FileError> {
        let _one_at_a_time = self.lock();
        let path = path_of(&self.pulled, image_ref);
        // One that cannot be read is made anew: it allows nobody more than this pull does.
        let known = read(&path).ok().flatten().and_then(|bytes| PulledRecord::parse(&bytes));
        let known = known.filter(|record| record.image_ref == image_ref);
        let Some(record) = merged(known, image, image_ref, access, now) else { return Ok(()) };
        let written = write(&self.pulled, &path, &record.to_text());
        written.map_err(|error| FileError::new("failed to write image pulled record", &path, error))
    }

    pub(super) fn interrupted(&self) -> Vec<PullIntent> {
        self.lock().clear();
        for folder in [&self.pulling, &self.pulled] {
            for path in files(folder).filter(|path| path.to_string_lossy().ends_with(TEMPORARY)) {
                let _ = remove(&path); // It is no record, and in nobody's way.
            }
        }
        records(&self.pulling).filter_map(|bytes| PullIntent::parse(&bytes)).collect()
    }

    pub(super) fn prune(&self, images: &BTreeSet<String>, began: Moment) -> usize {
        let _one_at_a_time = self.lock();
        let known: Vec<PulledRecord> = records(&self.pulled).filter_map(|bytes| PulledRecord::parse(&bytes)).collect();
        let gone = to_prune(&known, images, began).into_iter();
        gone.filter(|image_ref| remove(&path_of(&self.pulled, image_ref)).is_ok()).count()
    }

    pub(super) fn count(&self) -> (usize, usize) {
        let of = |folder: &Path| files(folder).filter(|path| !path.to_string_lossy().ends_with(TEMPORARY)).count();
        (of(&self.pulling), of(&self.pulled))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn path_of(folder: &Path, about: &str) -> PathBuf {
    folder.join(format!("{PREFIX}{}", sha256_hex(about.as_bytes())))
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)))
        .filter(|path| !path.to_string_lossy().ends_with(ASIDE))
}

fn records(folder: &Path) -> impl Iterator<Item = Vec<u8>> + use<> {
    let whole = files(folder).filter(|path| !path.to_string_lossy().ends_with(TEMPORARY));
    whole.filter_map(|path| read(&path).ok().flatten())
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read_whole(path, RECORD_BYTES_MAX)
}

fn write(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    write_for_this_boot(path, text.as_bytes(), 0o600)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
