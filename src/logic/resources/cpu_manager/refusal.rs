//! Why a pod gets no CPUs: upstream's reasons and messages of admission.

use std::fmt;

use super::take::NotEnough;
use crate::logic::model::admission_reason::AdmissionReason;

/// A pod that is refused for its CPUs. `Display` is the message of the pod's status, without `Pod was rejected: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `full-pcpus-only`: the request is not a number of whole cores.
    SplitsCore {
        /// CPUs that were asked for.
        requested: usize,
        /// Threads of a core.
        cpus_per_core: usize,
    },
    /// `full-pcpus-only`: not as many whole cores are free.
    FewCores {
        /// CPUs of free cores.
        available: usize,
        /// CPUs that were asked for.
        requested: usize,
        /// Threads of a core.
        cpus_per_core: usize,
    },
    /// Containers of a pod with resources of its own would share no CPU.
    EmptyPool(EmptyPool),
    /// Fewer CPUs are free.
    NotEnough(NotEnough),
}

/// Which containers of a pod would share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmptyPool {
    /// An init container.
    #[error("pod rejected, pod has shared init containers but no cpus available for them")]
    Init,
    /// Others.
    #[error(
        "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
    )]
    App,
}

impl Refusal {
    /// The reason of the pod's status.
    pub fn reason(&self) -> AdmissionReason {
        match self {
            Self::SplitsCore { .. } | Self::FewCores { .. } => AdmissionReason::SmtAlignmentError,
            Self::EmptyPool(_) => AdmissionReason::EmptyPodSharedPoolError,
            Self::NotEnough(_) => AdmissionReason::UnexpectedAdmissionError,
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SplitsCore { requested, cpus_per_core } => write!(
                f,
                "SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {cpus_per_core}"
            ),
            Self::FewCores { available, requested, cpus_per_core } => write!(
                f,
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, requested \
                 CPUs = {requested}, CPUs per core = {cpus_per_core}"
            ),
            Self::EmptyPool(pool) => pool.fmt(f),
            Self::NotEnough(few) => write!(f, "Allocate failed due to {few}, which is unexpected"),
        }
    }
}
