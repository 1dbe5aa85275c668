//! Turns `proto/` into Rust in `OUT_DIR`; nothing generated is committed. Needs no `protoc`: the compiler is a crate.
//! Tells the program which commit it is built from.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use protox::prost_reflect::{DescriptorPool, Kind, MessageDescriptor};

/// Where imports are resolved.
const PROTO: &str = "proto";

/// The Container Runtime Interface.
const CRI: &str = "proto/runtime/v1/api.proto";

/// The protocols that the agent serves. Several have the same package, so the code of each has a folder of this name.
const SERVED: [(&str, &str); 3] = [
    ("podresources_v1", "proto/podresources/v1/api.proto"),
    ("podresources_v1alpha1", "proto/podresources/v1alpha1/api.proto"),
    ("pods_v1alpha1", "proto/pods/v1alpha1/api.proto"),
];

/// The protocols of plugins, which the agent calls: the folder of the code, the file, and its messages with secrets in them.
/// `src/platform/plugins/wire.rs` gives those a `Debug` that keeps quiet.
const CALLED: [(&str, &str, &[&str]); 6] = [
    ("pluginregistration_v1", "proto/pluginregistration/v1/api.proto", &[]),
    ("deviceplugin_v1beta1", "proto/deviceplugin/v1beta1/api.proto", &[]),
    (
        "csi_v1",
        "proto/csi/v1/csi.proto",
        &[".csi.v1.NodeStageVolumeRequest", ".csi.v1.NodePublishVolumeRequest", ".csi.v1.NodeExpandVolumeRequest"],
    ),
    ("dra_v1", "proto/dra/v1/api.proto", &[]),
    ("dra_v1beta1", "proto/dra/v1beta1/api.proto", &[]),
    ("dra_health_v1alpha1", "proto/dra-health/v1alpha1/api.proto", &[]),
];

/// Messages with secrets in them. `src/cri/wire.rs` gives them a `Debug` that keeps quiet.
const CRI_SECRET: [&str; 2] = [".runtime.v1.AuthConfig", ".runtime.v1.KeyValue"];

/// The Pods API sends a pod as bytes of this message. Of it a table is made, and no types.
const POD: (&str, &str) = ("k8s.io.api.core.v1.Pod", "proto/k8s.io/core_v1.proto");

/// Fields that JSON has no name for: what they hold is beside the other fields of their message there.
const BESIDE: [&str; 4] = ["handler", "volumeSource", "ephemeralContainerCommon", "localObjectReference"];

/// Messages that JSON has as something else than an object of their fields, and the kind that says so.
const OTHER_FORMS: [(&str, &str); 4] = [
    ("k8s.io.apimachinery.pkg.api.resource.Quantity", "Quantity"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", "Raw"),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Time", "Time"),
    ("k8s.io.apimachinery.pkg.util.intstr.IntOrString", "IntOrString"),
];

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
    for (folder, file, secret) in CALLED {
        let folder = out.join(folder);
        std::fs::create_dir_all(&folder)?;
        generator().skip_debug(secret).out_dir(folder).compile_fds(protox::compile([file], [PROTO])?)?;
    }
    std::fs::write(out.join("pod_fields.rs"), pod_fields()?)?;
    Ok(())
}

fn generator() -> tonic_prost_build::Builder {
    tonic_prost_build::configure().build_transport(false).generate_default_stubs(true).btree_map(".") // sorted: the same message is always the same bytes
}

/// The fields of a pod and of all that is in it, as the code of a table; the rest of that code is in the file that takes
/// it in.
fn pod_fields() -> Result<String, Box<dyn Error>> {
    let (pod, file) = POD;
    let pool = DescriptorPool::from_file_descriptor_set(protox::compile([file], [PROTO])?)?;
    let is_table = |message: &MessageDescriptor| !message.is_map_entry() && other_form(message).is_none();
    let messages: Vec<MessageDescriptor> = pool.all_messages().filter(is_table).collect();
    let place = |wanted: &str| {
        messages.iter().position(|message| message.full_name() == wanted).ok_or_else(|| format!("no message {wanted}"))
    };
    let mut code = format!("const POD: usize = {};\nstatic MESSAGES: &[&[Field]] = &[\n", place(pod)?);
    for message in &messages {
        code.push_str("    &[\n");
        for field in message.fields() {
            let (name, number) = (field.name(), field.number());
            let (shape, kind) = match field.kind() {
                Kind::Message(entry) if field.is_map() => ("Map", entry.map_entry_value_field().kind()),
                kind if field.is_list() => ("Many", kind),
                kind if BESIDE.contains(&name) => ("Beside", kind),
                kind => ("One", kind),
            };
            let kind = match kind {
                Kind::Bool => "Bool".to_owned(),
                Kind::Int32 | Kind::Int64 => "Integer".to_owned(),
                Kind::String => "Text".to_owned(),
                Kind::Message(inner) => match other_form(&inner) {
                    Some(form) => form.to_owned(),
                    None => format!("Message({})", place(inner.full_name())?),
                },
                other => return Err(format!("{name} of {}: no form for {other:?}", message.full_name()).into()),
            };
            let (shape, kind) = (format!("Shape::{shape}"), format!("Kind::{kind}"));
            code.push_str(&format!(
                "        Field {{ name: {name:?}, number: {number}, shape: {shape}, kind: {kind} }},\n"
            ));
        }
        code.push_str("    ],\n");
    }
    code.push_str("];\n");
    Ok(code)
}

fn other_form(message: &MessageDescriptor) -> Option<&'static str> {
    OTHER_FORMS.iter().find(|(name, _)| *name == message.full_name()).map(|(_, form)| *form)
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

/// The output of git, without its newline; `None` without git, outside of a repository, and where it refuses.
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
