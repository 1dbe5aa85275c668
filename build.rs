//! Turns `proto/` into Rust in `OUT_DIR`; nothing generated is committed. Needs no `protoc`: the compiler is a crate.
//! Tells the program which commit it is built from.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where imports are resolved.
const PROTO: &str = "proto";

/// The Container Runtime Interface.
const CRI: &str = "proto/runtime/v1/api.proto";

/// What the agent serves. Several have the same package, so the code of each has a folder of its own, of this name.
const SERVED: [(&str, &str); 2] = [
    ("podresources_v1", "proto/podresources/v1/api.proto"),
    ("podresources_v1alpha1", "proto/podresources/v1alpha1/api.proto"),
];

/// Messages with secrets in them. `src/cri/wire.rs` gives them a `Debug` that keeps quiet.
const CRI_SECRET: [&str; 2] = [".runtime.v1.AuthConfig", ".runtime.v1.KeyValue"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rustc-env=PODWRIGHT_COMMIT={}", commit().unwrap_or_else(|| "unknown".to_owned()));
    generator().skip_debug(CRI_SECRET).compile_fds(protox::compile([CRI], [PROTO])?)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for (folder, file) in SERVED {
        let folder = out.join(folder);
        std::fs::create_dir_all(&folder)?;
        generator().out_dir(folder).compile_fds(protox::compile([file], [PROTO])?)?;
    }
    Ok(())
}

fn generator() -> tonic_prost_build::Builder {
    tonic_prost_build::configure().build_transport(false).generate_default_stubs(true).btree_map(".") // sorted: the same message is always the same bytes
}

/// The commit: `PODWRIGHT_COMMIT` where it is given, as by a packager who builds without git; else what git says of the
/// package's own repository. A debug build is not worth the question: each commit would have all of it built again.
fn commit() -> Option<String> {
    println!("cargo:rerun-if-env-changed=PODWRIGHT_COMMIT");
    if let Some(given) = std::env::var("PODWRIGHT_COMMIT").ok().filter(|given| is_plain(given)) {
        return Some(given);
    }
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return None;
    }
    let package = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    // Sources that lie in somebody else's repository are not of its commit.
    let top = git(&package, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&package).canonicalize().ok()? {
        return None;
    }
    let head = git(&package, &["rev-parse", "--git-path", "HEAD"])?;
    let branch = git(&package, &["symbolic-ref", "--quiet", "HEAD"]);
    let branch = branch.and_then(|name| git(&package, &["rev-parse", "--git-path", &name]));
    let packed = git(&package, &["rev-parse", "--git-path", "packed-refs"]);
    for file in [Some(head), branch, packed].into_iter().flatten() {
        let file = Path::new(&package).join(file);
        if file.exists() {
            println!("cargo:rerun-if-changed={}", file.display());
        }
    }
    git(&package, &["rev-parse", "--short=12", "HEAD"]).filter(|commit| is_plain(commit))
}

/// What git says, without its newline; `None` without git, outside of a repository, and where it refuses.
fn git(package: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(package).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Fit for a label, a log line and one line of output.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
