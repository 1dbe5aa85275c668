//! Static pods: from the bytes of a manifest to a checked pod, or the reasons why not (POD-01, POD-02, POD-05, SEC-17,
//! SEC-18).
//!
//! Owned by the file and HTTP pod sources, which read the bytes and act on the answer. Pure, and keeps nothing. The
//! order is upstream's: decode, apply the API's defaults, give the pod its identity, validate as the API server would,
//! refuse references to API objects; then, and this is ours, refuse what upstream would act on and this agent does not. A
//! pod never runs without something that it asked for.
//!
//! May import `formats`, `model`, `resources`, `plugins` and `images`.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::manifest::gates::ManifestGates;
use crate::logic::manifest::references::References;

pub mod decode;
pub mod defaults;
pub mod gates;
pub mod identity;
pub mod references;
pub mod restart_gates;
pub mod supported;
mod tree;
pub mod validation;

pub use decode::{Decoded, MANIFEST_SIZE_MAX, decode_pod, decode_pods};
pub use identity::Source;
pub use supported::Refusal;
pub use validation::FieldError;

/// The annotation that makes a pod a mirror: the stand-in of a static pod in the API server.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// A static pod that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The pod, with defaults and identity.
    pub pod: Pod,
    /// Ignored parts of the manifest, each a sentence for the log.
    pub warnings: Vec<String>,
}

impl Checked {
    /// The same, if it uses nothing that these gates have off.
    ///
    /// # Errors
    /// The API server's refusal of it.
    pub fn within(self, gates: ManifestGates) -> Result<Self, ManifestError> {
        let refused = gates.refusals(&self.pod);
        if refused.is_empty() { Ok(self) } else { Err(ManifestError::Invalid(refused)) }
    }
}

/// Why a manifest gives no pod. Texts equal upstream's where upstream has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// More bytes than are read.
    #[error("the manifest is larger than {limit} bytes")]
    TooLarge {
        /// The largest size, in bytes.
        limit: usize,
    },
    /// Binary data.
    #[error("the manifest is not text: {why}, line {line}")]
    NotText {
        /// The mark by which it was recognized.
        why: &'static str,
        /// Where, from one.
        line: usize,
    },
    /// Not a YAML or JSON document, perhaps because it is half written, or it expands beyond all bounds.
    #[error("the manifest cannot be parsed{}: {message}", Line(*.line))]
    Syntax {
        /// Where, from one, when the parser knows.
        line: Option<usize>,
        /// The parser's error.
        message: String,
    },
    /// Nothing but comments.
    #[error("the manifest is empty")]
    Empty,
    /// A list or a scalar.
    #[error("the manifest is not an object")]
    NotAnObject,
    /// `kind` or `apiVersion` is not given.
    #[error("Object '{field}' is missing in the manifest")]
    KindMissing {
        /// Which of the two.
        field: &'static str,
    },
    /// Another API version than v1.
    #[error("no kind {kind:?} is registered for version {version:?}")]
    Version {
        /// The kind as given.
        kind: String,
        /// The version as given.
        version: String,
    },
    /// A v1 object that is no pod; in a file also a list of pods.
    #[error("invalid pod: the manifest is a {kind:?}, not a \"Pod\"")]
    Kind {
        /// The kind as given.
        kind: String,
    },
    /// A value of the wrong type.
    #[error("Pod in version \"v1\" cannot be handled as a Pod: {path}: {message}")]
    Field {
        /// The field's path.
        path: String,
        /// The fault in it.
        message: String,
    },
    /// `metadata.name` is not given.
    #[error("invalid pod: name is needed for the pod")]
    NameNeeded,
    /// The API server would refuse to create this pod.
    #[error("invalid pod: {}", List(.0))]
    Invalid(Vec<FieldError>),
    /// The pod needs an object of the API, which a static pod cannot have.
    #[error("static pods may not reference {0}")]
    Reference(&'static str),
    /// The pod asks for something that this agent does not do.
    #[error("unsupported pod: {}", List(.0))]
    Unsupported(Vec<Refusal>),
}

struct Line(Option<usize>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

/// Several reasons as Go prints a list: `[a, b]`.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

/// Makes a pod of a manifest that holds one pod: all checks, in upstream's order.
///
/// # Errors
/// The first kind of check that fails, with all that this kind found.
pub fn check_static(text: &[u8], source: &Source, node_name: &str) -> Result<Checked, ManifestError> {
    check_static_with(text, source, node_name, References::Refused)
}

/// As [`check_static`], of a node that may have objects of its own.
///
/// # Errors
/// As [`check_static`].
pub fn check_static_with(
    text: &[u8],
    source: &Source,
    node_name: &str,
    references: References,
) -> Result<Checked, ManifestError> {
    check(decode_pod(text, MANIFEST_SIZE_MAX)?, source, node_name, references)
}

/// Makes pods of an answer that holds a pod or a list of pods. One wrong pod refuses the whole answer, as upstream.
///
/// # Errors
/// As [`check_static`], for the first pod that fails.
pub fn check_static_list(text: &[u8], source: &Source, node_name: &str) -> Result<Vec<Checked>, ManifestError> {
    check_static_list_with(text, source, node_name, References::Refused)
}

/// As [`check_static_list`], of a node that may have objects of its own.
///
/// # Errors
/// As [`check_static_list`].
pub fn check_static_list_with(
    text: &[u8],
    source: &Source,
    node_name: &str,
    references: References,
) -> Result<Vec<Checked>, ManifestError> {
    let pods = decode_pods(text, MANIFEST_SIZE_MAX)?;
    pods.into_iter().map(|decoded| check(decoded, source, node_name, references)).collect()
}

/// The namespace and name of the pod that a refused manifest would be on this node, where so much of it can be read.
pub fn claimed_name(text: &[u8], source: &Source, node_name: &str) -> Option<(String, String)> {
    let mut pod = decode_pod(text, MANIFEST_SIZE_MAX).ok()?.pod;
    pod.metadata.name.as_deref().filter(|name| !name.is_empty())?;
    identity::static_identity(&mut pod, source, node_name);
    Some((pod.metadata.namespace.filter(|namespace| !namespace.is_empty())?, pod.metadata.name?))
}

fn check(decoded: Decoded, source: &Source, node_name: &str, references: References) -> Result<Checked, ManifestError> {
    let Decoded { mut pod, mut warnings } = decoded;
    // Upstream would take the pod for a mirror of itself and silently never run it.
    if pod.metadata.annotations.as_mut().is_some_and(|annotations| annotations.remove(MIRROR_ANNOTATION).is_some()) {
        warnings.push(format!("the annotation {MIRROR_ANNOTATION} of a copied mirror pod is dropped"));
    }
    defaults::apply_defaults(&mut pod);
    if pod.metadata.name.as_deref().unwrap_or_default().is_empty() {
        return Err(ManifestError::NameNeeded);
    }
    identity::static_identity(&mut pod, source, node_name);
    let errors = validation::validate(&pod);
    if !errors.is_empty() {
        return Err(ManifestError::Invalid(errors));
    }
    if let Some(resource) = references::refused_references(&pod, references) {
        return Err(ManifestError::Reference(resource));
    }
    let refused = supported::unsupported_fields(&pod);
    if refused.is_empty() { Ok(Checked { pod, warnings }) } else { Err(ManifestError::Unsupported(refused)) }
}

#[cfg(test)]
mod tests;
