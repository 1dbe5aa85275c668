//! Programs that give credentials of registries: reads their configuration, checks that they are there.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::logic::images::credential_plugins::{Provider, parse_config, validate};
use crate::platform::network::tls::sha256_hex;

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

/// The hash of the configuration, as the metric tells it: over the length and the bytes of each file, in order of names. None
/// where [`load`] reads nothing.
pub(super) fn hash(config: &str, folder: &str) -> Option<String> {
    if config.is_empty() || folder.is_empty() {
        return None;
    }
    let mut hashed = vec![];
    for path in files(Path::new(config)).ok()? {
        let text = text_of(&path).ok()?;
        hashed.extend(u64::try_from(text.len()).ok()?.to_be_bytes());
        hashed.extend(text.as_bytes());
    }
    Some(format!("sha256:{}", sha256_hex(&hashed)))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// OBS-06: upstream's kubelet 1.36.0 told this hash of this file.
    #[test]
    fn the_hash_is_upstreams() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("providers.yaml");
        let provider = "- {name: prov, matchImages: [\"localhost\"], defaultCacheDuration: 1m, apiVersion: \
                        credentialprovider.kubelet.k8s.io/v1}";
        let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:";
        std::fs::write(&path, format!("{head}\n{provider}\n")).expect("written");
        let expected = "sha256:142be9a73d310f49cebc5938141581c9a1863a27d29995b97d29336f1d248c34";
        assert_eq!(hash(path.to_str().expect("text"), "/bin").as_deref(), Some(expected));
    }

    #[test]
    fn the_hash_of_a_configuration_is_over_the_lengths_and_bytes_of_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("text").to_owned();
        std::fs::write(folder.path().join("b.yaml"), "two").expect("written");
        std::fs::write(folder.path().join("a.json"), "one").expect("written");
        std::fs::write(folder.path().join("notes.txt"), "no configuration").expect("written");
        let all = b"\0\0\0\0\0\0\0\x03one\0\0\0\0\0\0\0\x03two";
        assert_eq!(hash(&path, "/bin"), Some(format!("sha256:{}", sha256_hex(all))));
        let first = folder.path().join("a.json").display().to_string();
        assert_eq!(hash(&first, "/bin"), Some(format!("sha256:{}", sha256_hex(&all[..11]))));
        assert_eq!((hash("", "/bin"), hash(&path, "")), (None, None));
    }
}
