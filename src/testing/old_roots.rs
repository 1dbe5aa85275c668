//! Root directories that other node agents left behind: the fixtures of `tests/fixtures/old-roots`.
//!
//! `scripts/old-roots.sh` makes them. The first line of a fixture says who made it; each further line is a folder, a file
//! or a link. Paths begin with `kubelet` (the root directory) or `device-plugins` (the directory of device plugins).

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde::Deserialize;

/// The folder of the fixtures.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/old-roots");

/// The agent that made a fixture, and its machine.
#[derive(Clone, Debug, Deserialize)]
pub struct Maker {
    /// `upstream` or `podwright`.
    pub made_by: String,
    /// The output of `--version`.
    pub version: String,
    /// CPUs of the machine, numbered from 0.
    pub cpus: u32,
}

#[derive(Clone, Debug, Deserialize)]
struct Entry {
    path: String,
    /// Octal; a link has none.
    mode: Option<String>,
    /// The content of a file.
    text: Option<String>,
    /// The target of a link.
    link: Option<String>,
}

/// One fixture.
#[derive(Clone, Debug)]
pub struct OldRoot {
    /// The file's name without its ending.
    pub name: String,
    pub maker: Maker,
    entries: Vec<Entry>,
}

impl OldRoot {
    /// The fixtures of this maker, by name; at least one.
    pub fn made_by(maker: &str) -> Vec<Self> {
        let mut files: Vec<_> = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let fixtures = files.iter().map(|path| Self::read(path));
        let found: Vec<_> = fixtures.filter(|fixture| fixture.maker.made_by == maker).collect();
        assert!(!found.is_empty(), "no fixture of {maker} in {FOLDER}");
        found
    }

    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let (maker, entries) = text.split_once('\n').expect("a first line about the maker");
        Self {
            name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            maker: serde_json::from_str(maker).unwrap(),
            entries: entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        }
    }

    /// The content of a file; `None` when the agent left no such file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.path == path)?.text.as_deref()
    }

    /// The paths and contents of the files directly in a folder.
    pub fn files_in(&self, folder: &str) -> Vec<(&str, &str)> {
        let direct = |entry: &&Entry| Path::new(&entry.path).parent() == Some(Path::new(folder));
        let entries = self.entries.iter().filter(direct);
        entries.filter_map(|entry| Some((entry.path.as_str(), entry.text.as_deref()?))).collect()
    }

    /// The UIDs of the pods that have a folder.
    pub fn pods(&self) -> BTreeSet<&str> {
        let below = self.entries.iter().filter_map(|entry| entry.path.strip_prefix("kubelet/pods/"));
        below.filter(|path| !path.contains('/')).collect()
    }

    /// Makes the folders, files and links below a directory.
    pub fn lay_out(&self, dir: &Path) {
        for entry in &self.entries {
            let path = dir.join(&entry.path);
            fs::create_dir_all(path.parent().expect("below the directory")).unwrap();
            match (&entry.link, &entry.text) {
                (Some(target), _) => symlink(target, &path).unwrap(),
                (None, Some(text)) => fs::write(&path, text).unwrap(),
                (None, None) => fs::create_dir_all(&path).unwrap(),
            }
            if let Some(mode) = &entry.mode {
                let mode = u32::from_str_radix(mode, 8).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}
