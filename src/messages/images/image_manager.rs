//! To `ImageManager`.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::cri::{CriResult, Image, PodSandboxConfig};
use crate::logic::images::credential_plugins::Answer;
use crate::logic::images::credential_tokens::KnownToken;
use crate::logic::images::image_credentials::{Credential, Keyring};
use crate::logic::images::image_garbage::ImageGcPolicy;
use crate::logic::images::image_policy::{ImageFailure, ImageInUse, PullPolicy};
use crate::logic::images::image_records::{Evidence, RecordedAccount};
use crate::logic::images::pull_progress::PullStep;
use crate::logic::images::pull_queue::PullLimits;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::time::Moment;
use crate::logic::volumes::content::token::TokenKey;
use crate::messages::{Lost, describe};

/// A container's need of an image.
#[derive(Clone, Debug)]
pub struct ImageRequest {
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// Such as `spec.containers{web}`, for Events.
    pub field_path: String,
    /// As the spec says it.
    pub image: String,
    /// When to pull.
    pub policy: PullPolicy,
    /// The runtime's handler that it is for; empty where all have the same images.
    pub runtime_handler: String,
    /// Handed to the runtime with the pull.
    pub sandbox_config: Arc<PodSandboxConfig>,
    /// Those of the pod's pull secrets that are for this image, to be tried in this order, before the node's; or which of
    /// the secrets cannot be read.
    pub credentials: Result<Vec<Credential>, String>,
    /// As whom the pod runs; empty for nobody.
    pub service_account: String,
}

/// The key of a look for credentials: the repository, and the pod where a program is given a token of its own.
pub type GatherKey = (String, Option<PodUid>);

/// The answer of a program, new or earlier.
#[derive(Clone, Debug)]
pub struct Given {
    /// The answer.
    pub answer: Answer,
    /// The service account that it is for, and what it is kept under.
    pub account: Option<(RecordedAccount, String)>,
    /// Whether it was asked for just now.
    pub is_new: bool,
}

/// Credentials that are not the pod's own, for one repository.
#[derive(Default)]
pub struct Gathered {
    /// Of the node's files.
    pub node: Keyring,
    /// The answers of programs, by their place in the configuration, or why there is no answer; `None` of a program
    /// that is not for this pod.
    pub answers: Vec<(usize, Result<Option<Given>, String>)>,
    /// Tokens that were used.
    pub tokens: Vec<(TokenKey, KnownToken)>,
}

impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "credentials of {} programs", self.answers.len())
    }
}

/// The result of an attempt to have an image: the runtime's finding and, after a pull, its answer.
#[derive(Debug)]
pub enum ImageStep {
    /// `ImageStatus` answered, with what is recorded of an image that is there.
    LookedUp(CriResult<Option<Box<FoundImage>>>),
    /// The image was pulled; or what each try was refused with.
    Pulled(Result<Box<PulledImage>, String>),
}

/// An image that is there.
#[derive(Debug)]
pub struct FoundImage {
    /// The runtime's facts of it.
    pub image: Image,
    /// The records of it.
    pub evidence: Evidence,
    /// The answers of programs that were asked for the pod's service account.
    pub asked: Gathered,
}

/// The result of a pull.
#[derive(Debug)]
pub struct PulledImage {
    /// `PullImage`'s answer.
    pub reference: String,
    /// `ImageStatus`'s after it: size and user.
    pub shown: CriResult<Option<Image>>,
}

/// How far an image is on its way to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullProgress {
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// The container's name; `None` for a volume's.
    pub container: Option<String>,
    /// How far.
    pub step: PullStep,
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ImageManagerMsg {
    /// From a `PodWorker`'s operation: have this image; tells when it is there, or why not.
    Ensure(Arc<ImageRequest>, RpcReplyPort<Result<ImageInUse, ImageFailure>>),
    /// From a `PodWorker`: someone on this machine ends the back-off of these images, as the pod writes them (PAIN-34).
    Forgive(PodUid, Vec<String>),
    /// From itself: what an earlier agent was pulling when it ended has been recorded.
    Recovered(Result<(), Lost>),
    /// From itself: a step of request `number` ended.
    StepEnded {
        /// Which request.
        number: u64,
        /// Its result.
        step: Result<ImageStep, Lost>,
    },
    /// From itself: credentials for this repository were looked for.
    Gathered(GatherKey, Result<Gathered, Lost>),
    /// From itself: records were written or pruned.
    RecordsWritten(Result<(), Lost>),
    /// From `ImageGc`: some images were removed; IDs and names of those that were left when the look began.
    ImagesLeft(Arc<BTreeSet<String>>, Moment),
    /// From Root: the configuration was read again: how pulls are limited, and which images go.
    LimitsChanged(PullLimits, ImageGcPolicy),
    /// From the server: how far images are that containers wait for.
    Progress(RpcReplyPort<Vec<PullProgress>>),
}

describe!(ImageManagerMsg, message => match message {
    ImageManagerMsg::Ensure(request, _) => Some(&request.uid),
    ImageManagerMsg::Forgive(uid, _) => Some(uid),
    _ => None,
});
