//! The serving certificate of a node that was given none: signed by an authority of its own that nobody keeps. Owned by the
//! start; keeps two files.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use super::PrivateKey;
use super::error::PairFileError;
use crate::logic::model::time::Moment;
use crate::platform::files::directories::make_certificate_folder;
use crate::platform::files::small_file::read;
use crate::platform::files::whole_file::write_whole;

/// How long it holds, as upstream's does.
const LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// It holds from an hour before it was made, for clients whose clocks are late.
const EARLIER: Duration = Duration::from_secs(3600);

/// Makes sure that there is a certificate for `host` (a name or an address) in `chain` and its key in `key`: those that
/// are there are used again, also a key alone, as a start that was killed leaves it.
///
/// # Errors
/// When a certificate is there without its key, or a file cannot be written; the text names it.
pub fn ensure_serving_files(chain: &Path, key: &Path, host: &str, now: Moment) -> Result<(), PairFileError> {
    let missing_pair = |path: &Path| PairFileError::Alone(path.display().to_string());
    let own_key = match (File::open(chain).is_ok(), File::open(key).is_ok()) {
        (true, true) => return Ok(()),
        (true, false) => return Err(missing_pair(key)),
        (false, true) => {
            let pem = read(key).map_err(|error| PairFileError::open(key, &error))?;
            PrivateKey::parse(&pem).map_err(|_| missing_pair(chain))?
        }
        (false, false) => {
            let made = PrivateKey::generate()?;
            write(key, made.pem().as_bytes(), 0o600)?;
            made
        }
    };
    let pem = sign(&own_key, host, now).map_err(|error| PairFileError::Sign(error.to_string()))?;
    write(chain, pem.as_bytes(), 0o644)
}

/// The certificate and that of its authority, whose key is forgotten.
fn sign(key: &PrivateKey, host: &str, now: Moment) -> Result<String, rcgen::Error> {
    let seconds = now.since(Moment::EPOCH);
    let from = date_time_ymd(1970, 1, 1) + seconds.saturating_sub(EARLIER);
    let named = |name: String| {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        (parameters.not_before, parameters.not_after) = (from, from + LIFE);
        parameters
    };
    let mut authority = named(format!("{host}-ca@{}", seconds.as_secs()));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut leaf = named(format!("{host}@{}", seconds.as_secs()));
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.subject_alt_names = vec![match host.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(host.try_into()?),
    }];
    Ok(format!("{}{}", leaf.signed_by(key.pair(), &authority)?.pem(), authority.pem()))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), PairFileError> {
    let write = || {
        path.parent().map_or(Ok(()), make_certificate_folder)?;
        write_whole(path, bytes, mode)
    };
    write().map_err(|error: std::io::Error| PairFileError::open(path, &error))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::tests::NEW_YEAR;
    use super::*;
    use crate::platform::cluster::key_pair::Pair;

    fn load(chain: &Path, key: &Path) -> Pair {
        Pair::parse(&fs::read(chain).expect("there"), &fs::read(key).expect("there")).expect("a pair")
    }

    /// NODE-53, CFG-40, SRV-12.
    #[test]
    fn a_node_that_was_given_no_serving_certificate_makes_one_and_keeps_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (chain, key) = (folder.path().join("pki/kubelet.crt"), folder.path().join("pki/kubelet.key"));
        ensure_serving_files(&chain, &key, "node-1", NEW_YEAR).expect("made");
        let made = load(&chain, &key);
        assert!(made.names().dns_names.iter().eq(["node-1"]));
        assert_eq!(made.names().common_name, "node-1@1893456000");
        assert_eq!(made.validity().not_before.to_timestamp().to_string(), "2029-12-31T23:00:00Z");
        assert_eq!(made.validity().not_after.to_timestamp().to_string(), "2030-12-31T23:00:00Z");
        assert_eq!(fs::read_to_string(&chain).expect("there").matches("BEGIN CERTIFICATE").count(), 2);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o077;
        assert_eq!(mode(&key), 0);
        ensure_serving_files(&chain, &key, "node-1", NEW_YEAR).expect("there");
        assert!(load(&chain, &key).same_chain(&made), "used again");
    }

    #[test]
    fn an_address_is_one_in_the_certificate_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let (chain, key) = (folder.path().join("c"), folder.path().join("k"));
        ensure_serving_files(&chain, &key, "10.0.0.7", NEW_YEAR).expect("made");
        let ips: Vec<_> = load(&chain, &key).names().ip_addresses.iter().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.0.0.7"]);
    }

    #[test]
    fn a_start_that_was_killed_between_the_files_is_gone_on_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let (chain, key) = (folder.path().join("c"), folder.path().join("k"));
        ensure_serving_files(&chain, &key, "n", NEW_YEAR).expect("made");
        let before = fs::read(&key).expect("there");
        fs::remove_file(&chain).expect("gone");
        ensure_serving_files(&chain, &key, "n", NEW_YEAR).expect("made");
        load(&chain, &key);
        assert_eq!(fs::read(&key).expect("there"), before);
        fs::remove_file(&key).expect("gone");
        let text = ensure_serving_files(&chain, &key, "n", NEW_YEAR).expect_err("no key").to_string();
        assert_eq!(text, format!("error reading {}, certificate and key must be supplied as a pair", key.display()));
    }
}
