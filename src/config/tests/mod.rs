//! Tests of the configuration as a whole; those of single parts are beside them.

mod command_line;
mod defaults;
mod documents;
mod managers;
pub(super) mod properties;
mod starting;
mod validation;

use super::{Config, Host, Invocation, Startup, StartupError, load};
use std::path::PathBuf;

/// The arguments as a program gets them.
pub(super) fn args(line: &[&str]) -> Vec<String> {
    line.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Starts with these arguments on a host with unified cgroups.
pub(super) fn start(line: &[&str]) -> Result<Startup, StartupError> {
    load(&args(line), Host { cgroup_v1: false })
}

fn run(line: &[&str]) -> Invocation {
    match start(line) {
        Ok(Startup::Run(invocation)) => *invocation,
        other => panic!("{line:?} should run: {other:?}"),
    }
}

fn failure(line: &[&str]) -> String {
    start(line).map(|_| ()).expect_err("it must not start").message
}

/// A folder with configuration files, gone with the value.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().expect("the folder exists").join(name)
    }

    /// Writes a file and returns its path as text.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("folders can be made");
        std::fs::write(&path, text).expect("files can be written");
        path.to_string_lossy().into_owned()
    }

    /// Writes a configuration file of these fields.
    pub fn config(&self, name: &str, fields: &str) -> String {
        self.write(name, &document(fields))
    }
}

fn document(fields: &str) -> String {
    format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}")
}

/// Decodes a document, which must be right, without flags.
fn decoded(fields: &str) -> Config {
    super::decode::main_file(document(fields).as_bytes(), &super::FeatureGates::default()).expect("it is valid").config
}
