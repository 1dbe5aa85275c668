//! The version this agent speaks for, in one place. Keeps nothing.

/// The Kubernetes release whose kubelet this is a replacement of.
pub const KUBERNETES_VERSION: &str = "v1.36.0";

/// The minor release before it: the only one whose hidden metrics may come back.
pub const PREVIOUS_MINOR: &str = "1.35";

/// The program's own version.
pub const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the program was built from; `unknown` where the build could not tell.
pub const OWN_COMMIT: &str = env!("PODWRIGHT_COMMIT");

/// The text of `--version`, with its newline: one line, because installers such as kubeadm take no other.
pub fn short(version: &str) -> String {
    format!("Kubernetes {version}\n")
}

/// The program's own version, for people: `podwright 0.1.0 (commit 0123456789ab)`.
pub fn own() -> String {
    format!("podwright {OWN_VERSION} (commit {OWN_COMMIT})")
}

/// The text of `--version=raw`: Go's `%#v` of upstream's version struct.
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
