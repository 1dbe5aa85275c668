//! Kernel parameters as files below `/proc/sys`.
//!
//! Used by the launch once, before the tree starts. Keeps the root below which it reads and writes. The files are the
//! kernel's memory: the calls do not wait.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// The most that is read of a parameter.
const BYTES_MAX: u64 = 4096;

/// A parameter that could not be read or set.
#[derive(Debug, thiserror::Error)]
#[error("{action} {path}: {problem}", path = path.display())]
pub struct TunableError {
    /// `read` or `write`.
    pub action: &'static str,
    /// Its file.
    pub path: PathBuf,
    /// The kernel's answer, or why the text is no number.
    pub problem: io::Error,
}

impl TunableError {
    /// Whether this process may not change the parameter at all.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.problem.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    }
}

/// The parameters below a root: `/`, or a folder of a test.
#[derive(Clone, Debug)]
pub struct KernelTunables {
    root: PathBuf,
}

impl KernelTunables {
    /// The parameters of the kernel whose `proc` is below `root`.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// A parameter's value; its name is its path below `/proc/sys`.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no number.
    pub fn read(&self, name: &str) -> Result<i64, TunableError> {
        let path = self.path(name);
        let read = || -> io::Result<i64> {
            let mut text = String::new();
            File::open(&path)?.take(BYTES_MAX).read_to_string(&mut text)?;
            text.trim().parse().map_err(|_| io::Error::other(format!("{:?} is not a number", text.trim())))
        };
        read().map_err(|problem| TunableError { action: "read", path: path.clone(), problem })
    }

    /// Sets a parameter. The file must be there.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn write(&self, name: &str, value: i64) -> Result<(), TunableError> {
        let path = self.path(name);
        let write =
            || OpenOptions::new().write(true).truncate(true).open(&path)?.write_all(value.to_string().as_bytes());
        write().map_err(|problem| TunableError { action: "write", path: path.clone(), problem })
    }

    /// The text of `/proc/self/uid_map`; empty on a kernel without user namespaces.
    pub fn uid_map(&self) -> String {
        let mut text = String::new();
        // A text cut short maps more than the first namespace does: it is one of its own in any case.
        let _ =
            File::open(self.root.join("proc/self/uid_map")).map(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        text
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join("proc/sys").join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RES-18.
    #[test]
    fn parameters_are_read_and_set_below_the_root() {
        let folder = tempfile::tempdir().expect("a directory");
        let keys = folder.path().join("proc/sys/kernel/keys");
        std::fs::create_dir_all(&keys).expect("made");
        std::fs::write(keys.join("root_maxkeys"), "200\n").expect("written");
        std::fs::write(keys.join("words"), "many\n").expect("written");
        let tunables = KernelTunables::at(folder.path().to_owned());

        assert_eq!(tunables.read("kernel/keys/root_maxkeys").expect("a number"), 200);
        tunables.write("kernel/keys/root_maxkeys", -7).expect("set");
        assert_eq!(tunables.read("kernel/keys/root_maxkeys").expect("a number"), -7);

        let text = tunables.read("kernel/keys/words").expect_err("no number").to_string();
        assert!(text.starts_with("read ") && text.ends_with("words: \"many\" is not a number"), "{text}");
        let missing = tunables.write("kernel/none", 1).expect_err("missing");
        assert!(!missing.is_forbidden() && missing.to_string().starts_with("write "), "{missing}");
        assert!(!folder.path().join("proc/sys/kernel/none").exists(), "nothing is made up");
        assert_eq!(tunables.uid_map(), "");
    }
}
