//! The version this agent speaks for, in one place. Keeps nothing.

/// The Kubernetes release whose kubelet this is a replacement of.
pub const KUBERNETES_VERSION: &str = "v1.36.0";

/// The minor release before it: the only one whose hidden metrics may be shown again.
pub const PREVIOUS_MINOR: &str = "1.35";

/// What `--version` prints, with its newline.
pub fn short(version: &str) -> String {
    format!("Kubernetes {version}\n")
}

/// What `--version=raw` prints: Go's `%#v` of upstream's version struct.
pub fn raw() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "version.Info{{Major:\"1\", Minor:\"36\", EmulationMajor:\"\", EmulationMinor:\"\", MinCompatibilityMajor:\"\", \
         MinCompatibilityMinor:\"\", GitVersion:\"{KUBERNETES_VERSION}\", GitCommit:\"\", GitTreeState:\"\", \
         BuildDate:\"1970-01-01T00:00:00Z\", GoVersion:\"\", Compiler:\"rustc\", Platform:\"linux/{architecture}\"}}\n"
    )
}
