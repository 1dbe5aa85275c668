//! Twins: the same pods on a node with Podwright and on a node with the upstream kubelet, and what an outsider sees of them.
//!
//! Each scenario of `scenarios/` is played on both nodes at the same time. Compared are the calls to the runtime, the
//! statuses, the Events, the files, and the outputs of exec and logs. A difference is either listed in `differences.toml` or a
//! fault. Runs under `TWIN=1` alone (`make twin`): root, containerd, `KUBEBUILDER_ASSETS` and `PODWRIGHT` are needed. The
//! tests of the parts run always.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "two real nodes live in real time, and a test is no actor")]

use podwright::testing::skips::{needs, skip};

mod api;
mod compare;
mod decode;
mod differences;
mod generate;
mod nodes;
mod normalise;
mod observe;
mod patches;
mod proxy;
mod run;
mod scenario;
mod settings;
mod steps;

use run::Against;

/// The upstream kubelet and Podwright do the same, but for the differences that are listed.
#[test]
fn twins() {
    if std::env::var_os("TWIN").is_none() {
        needs("TWIN");
        return;
    }
    let complaints = run::run(Against::Upstream).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(complaints.is_empty(), "{} differences that are not listed, see above", complaints.len());
}

/// Podwright does what the upstream kubelet did when it was recorded, but for the differences that are listed.
#[test]
fn twins_of_records() {
    if !nix::unistd::geteuid().is_root() {
        skip("only root can start containers");
        return;
    }
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        needs("KUBEBUILDER_ASSETS");
        return;
    }
    let complaints = run::run(Against::Recorded).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(complaints.is_empty(), "{} differences that are not listed, see above", complaints.len());
}
