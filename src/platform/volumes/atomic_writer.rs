//! Writes the files of a volume all at once (VOL-17): a reader sees the old set or the new one, never a mix.
//!
//! `..data` is a link to a directory named after the time; visible names are links through it. An update makes a new
//! directory, points a new `..data` at it and renames that over the old one. Only names that were written here are ever
//! removed, and none through a link (SEC-05). Keeps nothing.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, Uid};
use rustix::io::Errno;

use super::layout::{make_level, open_through};
use super::ownership;
use super::progress::Progress;
use crate::logic::model::time::Moment;
use crate::logic::volumes::content::payload::{Payload, PayloadFile};
use crate::logic::volumes::order::Ownership;
use crate::platform::files::safe_path::{Directory, Mounts};

/// The link to the newest directory.
const DATA: &str = "..data";
/// The link that is renamed over it.
const DATA_NEW: &str = "..data_tmp";
/// Entries of an old version that are looked at; more were never written here.
const ENTRIES_MAX: usize = 100_000;
/// Directories within each other in an old version; paths of a payload have at most 2048 parts.
const DEPTH_MAX: usize = 2100;
/// How many names are tried for a new directory.
const NAMES_MAX: u64 = 1000;

/// Writes a checked payload into an open volume; says whether anything changed.
pub(super) fn write(
    volume: &Directory,
    payload: &Payload,
    ownership: Ownership,
    now: Moment,
    progress: &Progress,
) -> io::Result<bool> {
    let old = current(volume)?;
    let stale = match &old {
        Some((_, directory)) => stale_names(directory, payload)?,
        None => Stale::default(),
    };
    let is_same = match &old {
        Some((_, directory)) => !stale.any && holds(directory, payload)?,
        None => false,
    };
    if is_same {
        make_links(volume, payload)?;
        return Ok(false);
    }
    let name = new_directory(volume, now)?;
    let published = fill(volume, &name, payload)
        .and_then(|()| ownership::apply(volume, ownership, progress).map(drop))
        .and_then(|()| publish(volume, &name));
    if let Err(error) = published {
        let _ = volume.remove_tree(&name); // The first error tells more.
        return Err(error);
    }
    make_links(volume, payload)?;
    for name in &stale.visible {
        if volume.kind(name)? == Some(FileType::Symlink) {
            volume.remove_file(name)?;
        }
    }
    remove_others(volume, &name)?;
    Ok(true)
}

/// Whether the volume has been written once; taken for so where nobody can tell.
pub(super) fn has_files(volume: &Directory) -> bool {
    !matches!(current(volume), Ok(None))
}

/// The directory that `..data` points to; `None` when there is no such link, or it points elsewhere.
fn current(volume: &Directory) -> io::Result<Option<(String, Directory)>> {
    let target = match rustix::fs::readlinkat(volume, DATA, Vec::new()) {
        Ok(target) => target,
        Err(Errno::NOENT) => return Ok(None),
        // Not a link: not what is written here. Renaming over it will say so.
        Err(Errno::INVAL) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let Ok(target) = target.into_string() else { return Ok(None) };
    if !is_version(&target) {
        return Ok(None);
    }
    match volume.directory(&[&target], Mounts::Refuse) {
        Ok(directory) => Ok(Some((target, directory))),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a name is one of those that versions have here and upstream: `..2026_01_31_10_20_30.1234567`.
fn is_version(name: &str) -> bool {
    name.strip_prefix("..").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        && !name.contains('/')
}

/// The parts that the old version has and the new one has not.
#[derive(Default)]
struct Stale {
    /// Anything at all.
    any: bool,
    /// Names at the top.
    visible: BTreeSet<String>,
}

fn stale_names(old: &Directory, payload: &Payload) -> io::Result<Stale> {
    let mut stale = Stale::default();
    let mut seen = 0;
    let wanted = |path: &str| {
        let below = format!("{path}/");
        payload.files.contains_key(path)
            || payload.files.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below))
    };
    let mut open: Vec<(String, usize)> = vec![(String::new(), 0)];
    while let Some((prefix, depth)) = open.pop() {
        let segments: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
        let below = if segments.is_empty() { None } else { Some(old.directory(&segments, Mounts::Refuse)?) };
        for (name, kind) in below.as_ref().unwrap_or(old).names()? {
            seen += 1;
            if seen > ENTRIES_MAX || depth > DEPTH_MAX {
                return Err(io::Error::other("the old version holds more than was ever written there"));
            }
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            if !wanted(&path) {
                stale.any = true;
                if depth == 0 {
                    stale.visible.insert(name.clone());
                }
            } else if kind == FileType::Directory {
                open.push((path, depth + 1));
            }
        }
    }
    Ok(stale)
}

/// Whether the version holds every file of the payload. As upstream, contents count; modes do not.
fn holds(version: &Directory, payload: &Payload) -> io::Result<bool> {
    for (path, file) in &payload.files {
        let segments: Vec<&str> = path.split('/').collect();
        let opened = match version.read_regular(&segments, Mounts::Refuse) {
            Ok(opened) => opened,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => None,
            Err(error) => return Err(error),
        };
        let Some(opened) = opened else { return Ok(false) };
        let mut there = Vec::new();
        opened.take(file.content.len() as u64 + 1).read_to_end(&mut there)?;
        if there != *file.content {
            return Ok(false);
        }
    }
    Ok(true)
}

fn new_directory(volume: &Directory, now: Moment) -> io::Result<String> {
    let zoned = now.to_timestamp().to_zoned(jiff::tz::TimeZone::UTC);
    let base = zoned.strftime("..%Y_%m_%d_%H_%M_%S").to_string();
    let fraction = now.0.rem_euclid(1_000_000_000).unsigned_abs();
    for more in 0..NAMES_MAX {
        let name = format!("{base}.{}", fraction + more);
        if make_level(volume, &name, 0o755)? {
            return Ok(name);
        }
    }
    Err(Errno::EXIST.into())
}

fn fill(volume: &Directory, name: &str, payload: &Payload) -> io::Result<()> {
    let version = open_through(volume, name)?;
    for (path, file) in &payload.files {
        let (parents, base) = path.rsplit_once('/').unwrap_or(("", path));
        let mut here = None;
        for parent in parents.split('/').filter(|part| !part.is_empty()) {
            let from = here.as_ref().unwrap_or(&version);
            make_level(from, parent, 0o755)?;
            here = Some(open_through(from, parent)?);
        }
        write_file(here.as_ref().unwrap_or(&version), base, file)?;
    }
    Ok(())
}

fn write_file(directory: &Directory, name: &str, file: &PayloadFile) -> io::Result<()> {
    // Nobody else reads it before its owner is set.
    let mut written = directory.make_file(name, 0o600)?;
    written.write_all(&file.content)?;
    if let Some(owner) = file.owner {
        rustix::fs::fchown(written.as_fd(), Some(Uid::from_raw(owner)), None)?;
    }
    Ok(rustix::fs::fchmod(written.as_fd(), Mode::from_raw_mode(file.mode & 0o777))?)
}

fn publish(volume: &Directory, name: &str) -> io::Result<()> {
    volume.remove_file(DATA_NEW)?; // Of a writer that was killed.
    rustix::fs::symlinkat(name, volume, DATA_NEW)?;
    let renamed = rustix::fs::renameat(volume, DATA_NEW, volume, DATA);
    if renamed.is_err() {
        let _ = volume.remove_file(DATA_NEW);
    }
    Ok(renamed?)
}

/// Visible names: links into `..data`. A name that is no link, such as the place of a nested mount, stays.
fn make_links(volume: &Directory, payload: &Payload) -> io::Result<()> {
    let tops: BTreeSet<&str> = payload.files.keys().filter_map(|path| path.split('/').next()).collect();
    for top in tops {
        match volume.link(top, &Path::new(DATA).join(top)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
    }
    Ok(())
}

/// Removes versions that are not the newest: the one before, and any that a killed writer left.
fn remove_others(volume: &Directory, newest: &str) -> io::Result<()> {
    for (name, kind) in volume.names()? {
        if is_version(&name) && name != newest && kind == FileType::Directory {
            volume.remove_tree(&name)?;
        }
    }
    Ok(())
}

/// Makes directories that other volumes are mounted on (VOL-35).
pub(super) fn make_mount_points(volume: &Directory, paths: &[String]) -> io::Result<()> {
    for path in paths {
        let mut here = None;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let from = here.as_ref().unwrap_or(volume);
            make_level(from, part, 0o755)?;
            here = Some(match from.kind(part)? {
                // A file of the volume has the name: the runtime will say whether it can mount there.
                Some(FileType::Symlink) => break,
                _ => open_through(from, part)?,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
