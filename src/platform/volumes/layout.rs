//! Where volumes are below the root directory, opened segment by segment. Keeps paths alone, those of the machine too.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::logic::model::ids::PodUid;
pub(super) use crate::logic::volumes::csi::names::DEVICES;
use crate::logic::volumes::order::{VolumePlace, plugin};
use crate::platform::files::safe_path::{Directory, Mounts, segment};
use crate::platform::volumes::programs::machine::Machine;

/// Mode of the agent's own directories.
pub(super) const PRIVATE: u32 = 0o750;

/// Beside a volume whose set-up began and has not ended; empty.
pub(super) const UNFINISHED: &str = "unfinished";

/// The folder of all pods.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
    pods: PathBuf,
    machine: Arc<Machine>,
}

impl Layout {
    pub(super) fn new(root_dir: &Path) -> Self {
        Self::on(root_dir, Machine::default())
    }

    /// The same, on another machine than this one.
    pub(super) fn on(root_dir: &Path, machine: Machine) -> Self {
        Self { root: root_dir.to_owned(), pods: root_dir.join("pods"), machine: Arc::new(machine) }
    }

    /// Storage networks, as the machine shows them.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The root directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// `pods/<uid>/<below…>`, each level made when it is missing.
    pub(super) fn make(&self, uid: &PodUid, below: &[&str]) -> io::Result<Directory> {
        let mut here = Directory::open(&self.pods)?.make_directory(uid.as_str(), PRIVATE)?;
        for name in below {
            here = here.make_directory(name, PRIVATE)?;
        }
        Ok(here)
    }

    /// The same, if it is there.
    pub(super) fn find(&self, uid: &PodUid, below: &[&str]) -> io::Result<Option<Directory>> {
        let names: Vec<&str> = std::iter::once(uid.as_str()).chain(below.iter().copied()).collect();
        match Directory::open(&self.pods).and_then(|pods| pods.directory(&names, Mounts::Refuse)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// The directory that volumes, or devices, of one plugin are in.
    pub(super) fn make_parent(&self, place: &VolumePlace) -> io::Result<Directory> {
        self.make(&place.uid, &[folder(place), &place.plugin])
    }

    /// The same, if it is there.
    pub(super) fn find_parent(&self, place: &VolumePlace) -> io::Result<Option<Directory>> {
        self.find(&place.uid, &[folder(place), &place.plugin])
    }

    /// The volume's path; of a device the link to it.
    pub(super) fn path(&self, place: &VolumePlace) -> PathBuf {
        self.pods.join(place.uid.as_str()).join(folder(place)).join(&place.plugin).join(&place.name)
    }

    /// `plugins/<below…>`: what is there once for the node. Each level is made when it is missing.
    pub(super) fn make_shared(&self, below: &[&str]) -> io::Result<Directory> {
        let mut here = Directory::open(&self.root)?.make_directory("plugins", PRIVATE)?;
        for name in below {
            here = here.make_directory(name, PRIVATE)?;
        }
        Ok(here)
    }

    /// The same, if it is there.
    pub(super) fn find_shared(&self, below: &[&str]) -> io::Result<Option<Directory>> {
        let names: Vec<&str> = std::iter::once("plugins").chain(below.iter().copied()).collect();
        match Directory::open(&self.root).and_then(|root| root.directory(&names, Mounts::Refuse)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// The path of `plugins/<below…>`.
    pub(super) fn shared_path(&self, below: &[&str]) -> PathBuf {
        below.iter().fold(self.root.join("plugins"), |path, name| path.join(name))
    }

    /// The UIDs of pods that have a folder.
    pub(super) fn pods(&self) -> io::Result<Vec<String>> {
        let names = Directory::open(&self.pods)?.names()?;
        Ok(names.into_iter().filter(|(_, kind)| *kind == FileType::Directory).map(|(uid, _)| uid).collect())
    }

    /// Other pods that have the same volume, as the disk tells: it remembers what a restart of the agent forgets.
    pub(super) fn other_pods(&self, place: &VolumePlace) -> io::Result<Vec<PodUid>> {
        let mut others = Vec::new();
        for (uid, kind) in Directory::open(&self.pods)?.names()? {
            let uid = PodUid::from(uid.as_str());
            let other = VolumePlace { uid: uid.clone(), ..place.clone() };
            let is_other = kind == FileType::Directory && uid != place.uid;
            let parent = if is_other { self.find_parent(&other)? } else { None };
            if parent.is_some_and(|parent| parent.kind(&place.name).is_ok_and(|kind| kind.is_some())) {
                others.push(uid);
            }
        }
        Ok(others)
    }

    /// The volume that is mounted at a path, if that is a volume's own.
    pub(super) fn place_of(&self, path: &Path) -> Option<VolumePlace> {
        let below = path.strip_prefix(&self.pods).ok()?;
        let parts: Vec<&str> = below.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
        let [uid, "volumes", plugin, name] = parts[..] else { return None };
        let (plugin, name) = (plugin.to_owned(), name.to_owned());
        Some(VolumePlace { uid: PodUid::from(uid), plugin, name, is_device: false })
    }

    /// Whether a set-up of the volume began that has not come to its end.
    pub(super) fn is_unfinished(&self, place: &VolumePlace) -> io::Result<bool> {
        let found = self.find(&place.uid, &["plugins", &place.plugin, &place.name])?;
        Ok(found.map(|noted| noted.kind(UNFINISHED)).transpose()?.flatten().is_some())
    }

    /// Notes that a set-up of the volume begins; [`Self::set_finished`] takes the note away.
    pub(super) fn set_unfinished(&self, place: &VolumePlace) -> io::Result<()> {
        let noted = self.make(&place.uid, &["plugins", &place.plugin, &place.name])?;
        match noted.make_file(UNFINISHED, 0o640) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Notes that what began has come to its end, or is undone.
    pub(super) fn set_finished(&self, place: &VolumePlace) -> io::Result<()> {
        match self.find(&place.uid, &["plugins", &place.plugin])? {
            Some(noted) => noted.remove_tree(&place.name),
            None => Ok(()),
        }
    }

    /// The path of `pods/<uid>`.
    pub(super) fn pod_path(&self, uid: &PodUid) -> PathBuf {
        self.pods.join(uid.as_str())
    }

    /// The name of the volume's marker directory below `plugins/kubernetes.io~empty-dir`. That of files is upstream's alone.
    fn marker_name(place: &VolumePlace) -> Option<String> {
        match place.plugin.as_str() {
            plugin::EMPTY_DIR => Some(place.name.clone()),
            _ if place.is_written() => Some(format!("wrapped_{}", place.name)),
            _ => None,
        }
    }

    /// Whether the volume was made whole once (upstream's `ready` file).
    pub(super) fn is_ready(&self, place: &VolumePlace) -> io::Result<bool> {
        let Some(name) = Self::marker_name(place) else { return Ok(false) };
        let found = self.find(&place.uid, &["plugins", plugin::EMPTY_DIR, &name])?;
        let kind = found.map(|marker| marker.kind("ready")).transpose()?.flatten();
        Ok(kind == Some(FileType::RegularFile))
    }

    /// Notes that the volume was made whole.
    pub(super) fn set_ready(&self, place: &VolumePlace) -> io::Result<()> {
        let Some(name) = Self::marker_name(place) else { return Ok(()) };
        let marker = self.make(&place.uid, &["plugins", plugin::EMPTY_DIR, &name])?;
        match marker.make_file("ready", 0o640) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map(drop),
        }
    }

    /// Forgets that the volume was made.
    pub(super) fn clear_ready(&self, place: &VolumePlace) -> io::Result<()> {
        let Some(name) = Self::marker_name(place) else { return Ok(()) };
        match self.find(&place.uid, &["plugins", plugin::EMPTY_DIR])? {
            Some(markers) => {
                if let Ok(marker) = markers.directory(&[&name], Mounts::Refuse) {
                    marker.remove_file("ready")?;
                }
                markers.remove_tree(&name)
            }
            None => Ok(()),
        }
    }
}

/// The folder of a pod that its volumes, or its devices, are in.
fn folder(place: &VolumePlace) -> &'static str {
    if place.is_device { DEVICES } else { "volumes" }
}

/// Opens a directory directly below for reading, through what may be mounted on it; a link is refused.
pub(super) fn open_through(parent: &Directory, name: &str) -> io::Result<Directory> {
    parent.directory(&[name], Mounts::Cross)
}

/// Makes a directory directly below, unless there is one, and gives it the mode, whatever the umask. Says whether it was
/// missing.
pub(super) fn make_level(parent: &Directory, name: &str, mode: u32) -> io::Result<bool> {
    match rustix::fs::mkdirat(parent, segment(name)?, Mode::from_raw_mode(mode)) {
        Ok(()) => {
            let made = open_through(parent, name)?;
            rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
            Ok(true)
        }
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens whatever has this name, without opening what it is: for mounts, and for `/proc/self/fd`. Links are refused.
pub(super) fn handle(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let opened =
        rustix::fs::openat(parent, segment(name)?, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP.into());
    }
    Ok(opened)
}

/// Opens whatever a path leads to, links followed, without opening what it is. A directory that is mounted on demand is
/// mounted by that.
pub(super) fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(directory_first(|flags| rustix::fs::open(path, flags, Mode::empty()))?)
}

/// Asks for a directory, and if there is none for whatever there is: the kernel mounts what is mounted on demand only for
/// who needs the directory itself, not for who takes a handle.
fn directory_first(open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match open(flags | OFlags::DIRECTORY) {
        Err(Errno::NOTDIR) => open(flags),
        other => other,
    }
}

/// Opens a path below a directory without ever leaving that directory: links are followed only while they stay inside,
/// magic ones never.
pub(super) fn resolve_beneath(base: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RETRIES {
        match directory_first(|flags| rustix::fs::openat2(&base, path, flags, Mode::empty(), resolve)) {
            // Something was renamed meanwhile, and the kernel cannot tell whether the path stayed inside.
            Err(Errno::AGAIN) => {}
            // Before Linux 5.6, or behind a filter of system calls that does not know it; or there is an absolute link, which
            // the kernel follows nowhere, not even back inside.
            Err(Errno::NOSYS | Errno::PERM | Errno::XDEV) => return walk_beneath(&base, path),
            other => return Ok(other?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// The same, one segment at a time. `..` goes back to what was opened on the way, never to what the kernel says is above:
/// whatever is renamed meanwhile, no step leads out. An absolute link is followed where it leads below the directory by the
/// directory's own path.
fn walk_beneath(base: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let outside = || io::Error::from(Errno::XDEV);
    let segments = |path: &str| path.split('/').rev().map(str::to_owned).collect::<Vec<_>>();
    let own = || rustix::io::fcntl_dupfd_cloexec(&base, 0);
    let (mut above, mut here, mut rest, mut links) = (vec![], own()?, segments(path), 0);
    while let Some(name) = rest.pop() {
        match &*name {
            "" | "." => continue,
            ".." => {
                here = above.pop().ok_or_else(outside)?;
                continue;
            }
            _ => {}
        }
        let open = |flags| rustix::fs::openat(&here, &*name, flags | OFlags::NOFOLLOW, Mode::empty());
        let next = directory_first(open)?;
        if FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) != FileType::Symlink {
            above.push(std::mem::replace(&mut here, next));
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = Path::new(target.to_str().map_err(|_| Errno::ILSEQ)?);
        let below = if target.is_absolute() {
            let folder = std::fs::read_link(by_descriptor(&base))?;
            (above, here) = (vec![], own()?);
            target.strip_prefix(folder).map_err(|_| outside())?
        } else {
            target
        };
        rest.extend(segments(below.to_str().ok_or(Errno::ILSEQ)?));
    }
    Ok(here)
}

/// How many links a path may lead over, as with the kernel.
const LINKS_MAX: usize = 40;

/// How often a look-up is tried that renames disturb.
const RETRIES: usize = 64;

/// The path by which the kernel knows an open file of this process.
pub(super) fn by_descriptor(descriptor: &impl AsFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

/// Removes an empty directory directly below; says whether there was one.
pub(super) fn remove_empty(parent: &Directory, name: &str) -> io::Result<bool> {
    match rustix::fs::unlinkat(parent, segment(name)?, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::mount::{MntFlags, MsFlags, mount, umount2};

    use super::*;
    use crate::platform::files::mount_table;
    use crate::platform::volumes::testing::{Root, may_mount};

    /// VOL-32: also where the kernel does not resolve such paths itself.
    #[test]
    fn links_are_followed_while_they_stay_inside() {
        let folder = tempfile::tempdir().expect("made");
        let root = folder.path().canonicalize().expect("there");
        std::fs::create_dir_all(root.join("a/b")).expect("made");
        std::fs::create_dir_all(root.join("ab")).expect("made");
        std::fs::write(root.join("a/b/file"), "inside").expect("written");
        std::fs::write(root.join("secret"), "").expect("written");
        let link = |name: &str, target: &Path| symlink(target, root.join("a").join(name)).expect("linked");
        link("link", Path::new("b"));
        link("twice", Path::new("./link/../b"));
        link("absolute", &root.join("a/b"));
        link("again", &root.join("a/absolute/file"));
        link("loop", Path::new("loop"));
        link("up", Path::new("../secret"));
        link("around", Path::new("b/../../a/b"));
        link("elsewhere", Path::new("/etc"));
        link("neighbour", &root.join("ab"));
        link("absolute-up", &root.join("a/../secret"));
        let base = Directory::open(&root.join("a")).expect("opened");
        let file = rustix::fs::stat(root.join("a/b/file")).expect("there").st_ino;
        let ways: [fn(&Directory, &str) -> io::Result<OwnedFd>; 2] =
            [|base, path| walk_beneath(base, path), |base, path| resolve_beneath(base, path)];
        for (number, open) in ways.into_iter().enumerate() {
            for path in ["b/file", "./b//file", "link/file", "twice/file", "absolute/file", "again", "b/../link/file"] {
                let found = open(&base, path).unwrap_or_else(|error| panic!("{number} {path}: {error}"));
                assert_eq!(rustix::fs::fstat(&found).expect("open").st_ino, file, "{number} {path}");
            }
            for path in [
                "..",
                "b/../..",
                "b/file/below",
                "missing",
                "loop",
                "up",
                "around",
                "elsewhere",
                "neighbour",
                "absolute-up",
            ] {
                assert!(open(&base, path).is_err(), "{number} {path}");
            }
        }
    }

    /// VOL-32: the kernel's own folder of traces is mounted on demand.
    #[test]
    fn what_is_mounted_on_demand_is_mounted_by_whoever_opens_it() {
        let root = Root::new();
        let point = root.folder.path().join("debug");
        std::fs::create_dir(&point).expect("made");
        if !may_mount() {
            return;
        }
        if mount(Some("debugfs"), &point, Some("debugfs"), MsFlags::empty(), None::<&str>).is_err() {
            return crate::testing::skips::needs("debugfs in the kernel");
        }
        let on_demand = point.join("tracing");
        let is_mounted = || mount_table::read().expect("told").iter().any(|mount| mount.point == on_demand);
        let base = Directory::open(&point).expect("opened");
        if !base.kind("tracing").is_ok_and(|kind| kind.is_some()) {
            return crate::testing::skips::needs("tracing in the kernel's debugfs");
        }
        type Open<'a> = &'a dyn Fn() -> io::Result<OwnedFd>;
        let ways: [Open<'_>; 3] =
            [&|| open_path(&on_demand), &|| resolve_beneath(&base, "tracing"), &|| walk_beneath(&base, "tracing")];
        for open in ways {
            assert!(!is_mounted());
            drop(open().expect("opened"));
            assert!(is_mounted());
            umount2(&on_demand, MntFlags::MNT_DETACH).expect("unmounted");
        }
    }
}
