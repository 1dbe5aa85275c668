//! Reading configuration files: the only I/O of this module, done once, before anything runs.
//!
//! It keeps nothing. Every read has a limit, and errors read as Go's, for operators search for those.

use super::decode;
use super::gates::FeatureGates;
use super::types::Config;
use serde_json::Value;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The longest configuration file that is read, in bytes: a thousand times a long one.
const FILE_SIZE_MAX: u64 = 16 << 20;

/// Loads the file of `--config`: its configuration, paths made absolute, and warnings.
pub fn load_main(name: &str, gates: &FeatureGates) -> Result<(Config, Vec<String>), String> {
    let load = || -> Result<(Config, Vec<String>), String> {
        let path = absolute(name)?;
        let bytes = read_main(&path)?;
        let mut file = decode::main_file(&bytes, gates)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        resolve_paths(&mut file.config, folder);
        Ok((file.config, file.warnings))
    };
    load().map_err(|error| format!("failed to load Kubelet config file {name}, error {error}"))
}

/// The bytes of a main file.
pub(super) fn read_main(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let bytes =
        read(path).map_err(|error| format!("failed to read kubelet config file \"{shown}\", error: {error}"))?;
    not_empty(path, bytes)
}

fn not_empty(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Err(format!("kubelet config file \"{}\" was empty", path.display()));
    }
    Ok(bytes)
}

/// The fields that hold paths, relative ones to the main file's folder.
pub(super) fn resolve_paths(config: &mut Config, folder: &Path) {
    for path in [
        &mut config.static_pod_path,
        &mut config.authentication.x509.client_ca_file,
        &mut config.tls_cert_file,
        &mut config.tls_private_key_file,
        &mut config.resolv_conf,
        &mut config.volume_plugin_dir,
        &mut config.pod_logs_dir,
    ] {
        if !path.is_empty() && !path.starts_with('/') {
            *path = clean(&folder.join(&*path).to_string_lossy());
        }
    }
}

/// Merges every drop-in below `directory` into `base`. Also returns the files passed over because of their names.
pub fn merge_directory(base: &Config, directory: &str, gates: &FeatureGates) -> Result<(Config, Vec<String>), String> {
    let walking = |error: String| format!("failed to walk through kubelet dropin directory \"{directory}\": {error}");
    let (drop_ins, skipped) = drop_ins(directory)?;
    let mut patches = Vec::new();
    for path in drop_ins {
        patches.push(load_drop_in(&path.to_string_lossy()).map_err(walking)?);
    }
    let merged = decode::merge(base, &patches, gates)?;
    Ok((merged, skipped.iter().map(|path| path.display().to_string()).collect()))
}

/// The drop-ins below `directory` in their order, and the files passed over because of their names.
pub(super) fn drop_ins(directory: &str) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
    let walking = |error: String| format!("failed to walk through kubelet dropin directory \"{directory}\": {error}");
    let root = Path::new(directory);
    std::fs::symlink_metadata(root).map_err(|error| walking(format!("lstat {directory}: {}", go_text(&error))))?;
    let mut found = Vec::new();
    walk(root, 0, &mut found).map_err(walking)?;
    Ok(found.into_iter().partition(|path| path.to_string_lossy().ends_with(".conf")))
}

/// The bytes of a drop-in.
pub(super) fn read_drop_in(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let bytes = read(path)
        .map_err(|error| format!("failed to read drop-in kubelet config file \"{shown}\", error: {error}"))?;
    not_empty(path, bytes)
}

fn load_drop_in(name: &str) -> Result<Value, String> {
    let load = || decode::drop_in(&read_drop_in(&absolute(name)?)?);
    load().map_err(|error| {
        // Upstream leaves the inner sentence out when only kind or version are not its own.
        if error.starts_with("unknown apiVersion/kind: ") {
            return format!("failed to load kubelet dropin file, path: {name}, {error}");
        }
        format!(
            "failed to load kubelet dropin file, path: {name}, error: \
             failed to load drop-in kubelet config file {name}, error {error}"
        )
    })
}

/// Directories below the drop-in directory that are followed: more is a loop of mounts or a mistake.
const DEPTH_MAX: usize = 32;

/// All files below `directory` in the order of names, folders where their names put them.
fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: &io::Error| format!("open {}: {}", directory.display(), go_text(error));
    if depth > DEPTH_MAX {
        return Err(format!("open {}: too many levels of directories", directory.display()));
    }
    let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|error| failed(&error))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link to a folder is not followed, as upstream does not.
        if entry.file_type().map_err(|error| failed(&error))?.is_dir() {
            walk(&path, depth + 1, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: &io::Error| format!("open {}: {}", path.display(), go_text(error));
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    file.take(FILE_SIZE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("read {}: {}", path.display(), go_text(&error)))?;
    if bytes.len() as u64 > FILE_SIZE_MAX {
        return Err(format!("read {}: larger than {FILE_SIZE_MAX} bytes", path.display()));
    }
    Ok(bytes)
}

pub(super) fn absolute(name: &str) -> Result<PathBuf, String> {
    let path = std::path::absolute(name).map_err(|error| go_text(&error))?;
    Ok(PathBuf::from(clean(&path.to_string_lossy())))
}

/// A path in its shortest form, by its text alone, as Go's `filepath.Clean`.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            other => parts.push(other),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".into(),
        (false, false) => parts.join("/"),
    }
}

/// The operating system's error as Go words it: lower case, no number.
fn go_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => nix::errno::Errno::from_raw(code).desc().to_lowercase(),
        None => error.to_string(),
    }
}
