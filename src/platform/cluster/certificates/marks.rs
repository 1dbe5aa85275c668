//! Whether files may have changed since they were read: a look costs a call of the kernel for each. Owned by whoever reads
//! them again and again; keeps how they were found.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// See the module.
#[derive(Default)]
pub struct Marks(Mutex<Known>);

#[derive(Default)]
struct Known {
    files: Vec<Mark>,
    /// They were read more than once like this: what was written within one tick of the file system's clock shows by then.
    settled: bool,
}

/// Device, inode, size, and when it was written or changed otherwise. A link counts as what it leads to.
#[derive(PartialEq)]
struct Mark(u64, u64, u64, (i64, i64), (i64, i64));

impl Marks {
    /// Reads files and says whether they held something else, as `read` does; not at all where nothing happened to them
    /// since they were read twice, and well.
    ///
    /// # Errors
    /// Those of `read`; it is tried again each time until it goes well.
    pub fn read_if_touched<E>(&self, paths: &[&Path], read: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        // Before they are read, so that what comes meanwhile is seen the next time.
        let files: Vec<Mark> = paths.iter().filter_map(|path| mark(path)).collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = files.len() == paths.len() && known.files == files;
        if same && known.settled {
            return Ok(false);
        }
        let outcome = read();
        *known = Known { files, settled: same && outcome.is_ok() };
        outcome
    }
}

fn mark(path: &Path) -> Option<Mark> {
    let found = std::fs::metadata(path).ok()?;
    let (written, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
    Some(Mark(found.dev(), found.ino(), found.size(), written, changed))
}

#[cfg(test)]
mod cases {
    use super::Marks;

    #[test]
    fn a_file_that_nobody_touched_is_read_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        let marks = Marks::default();
        // The result, and whether the file was read.
        let look = |good: bool| {
            let mut was_read = false;
            let outcome = marks.read_if_touched(&[&path], || {
                was_read = true;
                if good { Ok(true) } else { Err("no good") }
            });
            (outcome.is_ok_and(|changed| changed), was_read)
        };
        for _ in 0..3 {
            assert_eq!(look(false), (false, true), "it is not there");
        }
        std::fs::write(&path, "one").expect("written");
        for _ in 0..3 {
            assert_eq!(look(false), (false, true), "it is no good");
        }
        assert_eq!([look(true), look(true), look(true)], [(true, true), (false, false), (false, false)]);
        std::fs::write(&path, "more").expect("written");
        assert_eq!([look(true), look(true), look(true)], [(true, true), (true, true), (false, false)]);
    }
}
