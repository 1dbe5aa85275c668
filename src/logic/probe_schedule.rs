//! (in construction)

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum ProbeKind {
    /// Whether traffic may come.
    Readiness,
    /// Whether it is to be killed.
    Liveness,
    /// Whether it has started.
    Startup,
}
