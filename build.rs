//! Turns `proto/` into Rust in `OUT_DIR`; nothing generated is committed. Needs no `protoc`: the compiler is a crate.

use std::error::Error;

/// The Container Runtime Interface: the folder to resolve imports from, and the file.
const CRI: (&str, &str) = ("proto", "proto/runtime/v1/api.proto");

/// Messages with secrets in them. `src/cri/wire.rs` gives them a `Debug` that keeps quiet.
const CRI_SECRET: [&str; 2] = [".runtime.v1.AuthConfig", ".runtime.v1.KeyValue"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    let (include, file) = CRI;
    tonic_prost_build::configure()
        .build_transport(false)
        .generate_default_stubs(true)
        .btree_map(".") // sorted: the same message is always the same bytes
        .skip_debug(CRI_SECRET)
        .compile_fds(protox::compile([file], [include])?)?;
    Ok(())
}
