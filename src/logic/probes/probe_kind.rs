//! The kinds of probes.

use k8s_openapi::api::core::v1::{Container, Probe};

/// The purpose of a probe.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::Display,
    strum::IntoStaticStr,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum ProbeKind {
    /// Whether the container has come up; until it has, no other probe runs.
    Startup,
    /// Whether the container can serve.
    Readiness,
    /// Whether the container has to be restarted.
    Liveness,
}

impl ProbeKind {
    /// The container's probe of this kind.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }

    /// The result of a new container before its first probe; a startup probe's is not known.
    pub(super) fn initial(self) -> Option<bool> {
        match self {
            Self::Startup => None,
            Self::Readiness => Some(false),
            Self::Liveness => Some(true),
        }
    }
}
