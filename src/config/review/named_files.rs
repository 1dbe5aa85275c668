//! The files and folders that a configuration names: whether they are there, and who else may read or write them.
//!
//! Looks at their metadata alone, and keeps nothing. Whether the agent starts is not decided here: some files may come
//! later, and others are read by parts of the agent that have words of their own.

use std::os::unix::fs::MetadataExt;

use super::origins::Origins;
use super::{Place, Report};
use crate::config::Config;
use crate::config::flags::Flags;

/// Bits of a mode: others than the owner may write.
const WRITABLE: u32 = 0o022;
/// Bits of a mode: others than the owner may read or write.
const OPEN: u32 = 0o077;

/// Warns of what is missing, and of what too many may read or write.
pub(super) fn look(given: &Flags, config: &Config, origins: &Origins, report: &mut Report) {
    let flag = |name: &str, path: &str, open: u32, report: &mut Report| {
        look_at(path, open, vec![Place::flag(name)], report);
    };
    if !given.config.is_empty() {
        flag("config", &given.config, WRITABLE, report);
    }
    // Without a kubeconfig the agent makes one by the other file.
    let has_kubeconfig = std::fs::symlink_metadata(&given.kubeconfig).is_ok();
    if has_kubeconfig || given.bootstrap_kubeconfig.is_empty() {
        flag("kubeconfig", &given.kubeconfig, OPEN, report);
    } else {
        flag("bootstrap-kubeconfig", &given.bootstrap_kubeconfig, OPEN, report);
    }
    flag("image-credential-provider-config", &given.image_credential_provider_config, WRITABLE, report);
    flag("image-credential-provider-bin-dir", &given.image_credential_provider_bin_dir, WRITABLE, report);
    flag("local-objects", &given.local_objects, WRITABLE, report);
    let fields = [
        ("/staticPodPath", &config.static_pod_path, WRITABLE),
        ("/authentication/x509/clientCAFile", &config.authentication.x509.client_ca_file, WRITABLE),
        ("/tlsCertFile", &config.tls_cert_file, WRITABLE),
        ("/tlsPrivateKeyFile", &config.tls_private_key_file, OPEN),
        ("/resolvConf", &config.resolv_conf, WRITABLE),
    ];
    for (pointer, path, open) in fields {
        look_at(path, open, origins.place(pointer).into_iter().collect(), report);
    }
}

fn look_at(path: &str, open: u32, places: Vec<Place>, report: &mut Report) {
    if path.is_empty() {
        return;
    }
    match std::fs::metadata(path) {
        Err(error) => report.warn(places, format!("{path}: {error}")),
        Ok(found) if found.mode() & open != 0 => {
            let mode = found.mode() & 0o7777;
            let may = if open == OPEN {
                "others than its owner may read or write it"
            } else {
                "others than its owner may write it"
            };
            report.warn(places, format!("{path}: mode {mode:04o}: {may}"));
        }
        Ok(_) => {}
    }
}
