//! The serving certificate: asked for, given in files, or made here (NODE-52, NODE-53). Reads files and wires.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Invocation;
use crate::logic::certificate_plan::Purpose;
use crate::platform::certificates::{
    Certificates, FileStore, KeptCertificate, LiveCertificate, ServingFiles, ensure_serving_files,
};
use crate::platform::clock::Clock;

/// All certificates of the agent, of which the client's is known.
///
/// # Errors
/// When there is none and none can be made, in upstream's words.
pub(super) fn certificates(
    invocation: &Invocation,
    node_name: &str,
    client: Option<Arc<KeptCertificate>>,
    clock: Arc<dyn Clock>,
) -> Result<Certificates, String> {
    let (config, folder) = (&invocation.config, Path::new(&invocation.flags.cert_dir));
    let given = (PathBuf::from(&config.tls_cert_file), PathBuf::from(&config.tls_private_key_file));
    let is_given = !config.tls_cert_file.is_empty() || !config.tls_private_key_file.is_empty();
    if config.server_tls_bootstrap {
        let given = Some(given).filter(|_| is_given);
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            format!("failed to initialize server certificate {what}: {error}")
        };
        let store =
            FileStore::open(Purpose::Serving.prefix(), folder, given).map_err(|error| wrong("store", &error))?;
        let current = store.current().map_err(|error| wrong("manager", &error))?;
        let current = current.filter(|pair| clock.now() <= pair.validity().not_after);
        let shown = Arc::new(LiveCertificate::new(current));
        let kept = KeptCertificate::new(Purpose::Serving, store, Arc::clone(&shown), clock);
        return Ok(Certificates { client, serving: Some(Arc::new(kept)), shown, ..Certificates::default() });
    }
    let reload = invocation.gates.enabled("ReloadKubeletServerCertificateFile");
    let files = match is_given {
        true => ServingFiles { chain: given.0, key: given.1, reload },
        false => {
            let files = ServingFiles { chain: folder.join("kubelet.crt"), key: folder.join("kubelet.key"), reload };
            ensure_serving_files(&files.chain, &files.key, node_name, clock.now())?;
            files
        }
    };
    let pair = files.read().map_err(|error| {
        format!("unable to set up dynamic certificate manager for kubelet server cert files: {error}")
    })?;
    let shown = Arc::new(LiveCertificate::new(Some(pair)));
    Ok(Certificates { client, files: Some(files), shown, ..Certificates::default() })
}
