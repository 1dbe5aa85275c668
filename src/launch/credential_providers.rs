//! Programs that give credentials of registries: reads their configuration, checks that they are there.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::logic::images::credential_plugins::{Provider, parse_config, validate};

/// The most bytes of one file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads a file, or all of a folder whose names end like configuration, in order of their names. None without both flags.
///
/// # Errors
/// In upstream's words, where it has some.
pub(super) fn load(config: &str, folder: &str, tokens: bool) -> Result<Vec<Provider>, String> {
    if config.is_empty() || folder.is_empty() {
        return Ok(vec![]);
    }
    read(Path::new(config), Path::new(folder), tokens)
        .map_err(|error| format!("failed to register CRI auth plugins: {error}"))
}

fn read(config: &Path, folder: &Path, tokens: bool) -> Result<Vec<Provider>, String> {
    match fs::metadata(folder) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("plugin binary directory {} did not exist", folder.display()));
        }
        Err(error) => return Err(format!("error inspecting binary directory {}: {error}", folder.display())),
    }
    let mut providers: Vec<Provider> = vec![];
    for path in files(config)? {
        let text = text_of(&path).map_err(|error| format!("unable to read file {:?}: {error}", path.display()))?;
        let found =
            parse_config(&text).map_err(|error| format!("error decoding config {:?}: {error}", path.display()))?;
        for provider in found {
            if providers.iter().any(|known| known.name == provider.name) {
                return Err(format!("duplicate provider name {:?} found in configuration file(s)", provider.name));
            }
            providers.push(provider);
        }
    }
    validate(&providers, tokens).map_err(|error| format!("failed to validate credential provider config: {error}"))?;
    for provider in &providers {
        let path = folder.join(&provider.name);
        let executable =
            fs::metadata(&path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        if !executable {
            return Err(format!("plugin binary executable {} did not exist", path.display()));
        }
    }
    Ok(providers)
}

fn files(config: &Path) -> Result<Vec<PathBuf>, String> {
    let found =
        fs::metadata(config).map_err(|error| format!("unable to access path {:?}: {error}", config.display()))?;
    if !found.is_dir() {
        return Ok(vec![config.to_owned()]);
    }
    let entries =
        fs::read_dir(config).map_err(|error| format!("unable to read directory {:?}: {error}", config.display()))?;
    let is_config = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("json" | "yaml" | "yml")) && !path.is_dir()
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_config).collect();
    files.sort();
    if files.is_empty() {
        return Err(format!("no configuration files found in directory {:?}", config.display()));
    }
    Ok(files)
}

fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
