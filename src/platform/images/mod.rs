//! The node's own work with images: records of pulls, credentials in files and from programs, free space.

mod linux;
mod plugins;
mod records;

use std::collections::BTreeSet;

use async_trait::async_trait;

pub use linux::LinuxImageHost;

use crate::logic::images::credential_plugins::Provider;
use crate::logic::images::credential_tokens::AccountToken;
use crate::logic::images::image_credentials::Keyring;
use crate::logic::images::image_garbage::DiskUse;
use crate::logic::images::image_records::{Evidence, PullIntent, RecordedAccess};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;

/// Why a program gave no credentials; `Display` has upstream's beginning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error execing credential provider plugin {provider} for image {repository}: {problem}")]
pub struct ProviderError {
    /// The program's name.
    pub provider: String,
    /// For what.
    pub repository: String,
    /// The problem.
    pub problem: ProviderProblem,
}

/// A problem of a program that gives credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderProblem {
    /// It could not be started, or its end not be waited for.
    #[error("{0}")]
    Run(String),
    /// Its answer could not be read.
    #[error("read its answer: {0}")]
    Read(String),
    /// Its answer is too large.
    #[error("its answer is larger than {0} bytes")]
    TooLarge(u64),
    /// It failed.
    #[error("{ended}: {complaint}")]
    Failed {
        /// How it ended.
        ended: String,
        /// Its complaint about that.
        complaint: String,
    },
    /// It did not end in time.
    #[error("context deadline exceeded")]
    TooSlow,
}

/// Files, programs and file systems of the node, as far as images need them. Texts of errors name the file, and never
/// hold a credential.
#[async_trait]
pub trait ImageHost: Send + Sync {
    /// Use of the file system that has this path.
    async fn disk_use(&self, path: &str) -> Result<DiskUse, FileError>;
    /// The node's own credentials, read from files where upstream looks for them; none where there are none.
    async fn node_credentials(&self) -> Keyring;
    /// Runs a program that gives credentials, with a token where it is to have one, and gives what it printed.
    async fn ask_provider(
        &self,
        provider: &Provider,
        repository: &str,
        token: Option<&AccountToken>,
    ) -> Result<Vec<u8>, ProviderError>;
    /// SHA-256 of a text, lower hex.
    fn hash(&self, text: &str) -> String;

    /// The records of an image: its pulls as `image_ref`, and whether one of `image` is under way.
    async fn evidence(&self, image: &str, image_ref: &str) -> Evidence;
    /// Records that a pull of `image` begins. It counts until as many have ended as began.
    async fn begin_pull(&self, image: &str) -> Result<(), FileError>;
    /// Records that a pull of `image` ended.
    async fn end_pull(&self, image: &str) -> Result<(), FileError>;
    /// Records that `image` was pulled as `image_ref`, and who may use it; `None` for circumstances that nobody knows.
    async fn record_pulled(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<&RecordedAccess>,
        now: Moment,
    ) -> Result<(), FileError>;
    /// Begins anew: no pull is under way. Gives the pulls that were when the agent ended.
    async fn interrupted_pulls(&self) -> Vec<PullIntent>;
    /// How many pulls under way, and how many images, are recorded.
    async fn count_records(&self) -> (usize, usize) {
        (0, 0)
    }
    /// Removes what was recorded before `began` of images other than these; how many records.
    async fn prune_records(&self, images: &BTreeSet<String>, began: Moment) -> usize;
}
