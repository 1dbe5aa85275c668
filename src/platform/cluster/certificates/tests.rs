//! Keys, files and requests, with certificates made here.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::ByteString;
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use super::request::bootstrap_request_name;
use super::{CLIENT_SIGNER, CLIENT_USAGES, FileStore, PrivateKey, Request, RequestError, request_certificate};
use crate::logic::model::time::Moment;
use crate::logic::node::certificate_plan::Names;
use crate::platform::cluster::key_pair::{Pair, validity_in};
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::cluster::live_certificate::LiveCertificate;

/// 2030-01-01T00:00:00Z.
pub const NEW_YEAR: Moment = Moment(1_893_456_000_000_000_000);

/// An authority that signs requests.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("signed"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names and this key; it holds from 2020 to 2031.
    pub fn sign(&self, names: &Names, key: &PrivateKey) -> String {
        self.sign_until(names, key, 2031)
    }

    /// The same, with a second common name behind the first.
    pub fn sign_with_second_name(&self, names: &Names, second: &str, key: &PrivateKey) -> String {
        let mut parameters = PrivateKey::parameters(names).expect("they fit");
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2031, 1, 1);
        let common_name = rcgen::DnType::CustomDnType(vec![2, 5, 4, 3]);
        parameters.distinguished_name.push(common_name, second);
        let key = KeyPair::from_pem(&key.pem()).expect("a key");
        parameters.signed_by(&key, &self.0).expect("signed").pem()
    }

    /// The same as [`Authority::sign`], until the beginning of another year.
    pub fn sign_until(&self, names: &Names, key: &PrivateKey, year: i32) -> String {
        let mut parameters = PrivateKey::parameters(names).expect("they fit");
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::from_pem(&key.pem()).expect("a key");
        parameters.signed_by(&key, &self.0).expect("signed").pem()
    }
}

fn signed(names: &Names) -> (String, String) {
    let key = PrivateKey::generate().expect("a key");
    (Authority::new().sign(names, &key), key.pem())
}

#[test]
fn a_pair_tells_whom_it_is_for_and_how_long() {
    let names =
        Names::of_server("n", [("Hostname", "n"), ("InternalIP", "10.0.0.7"), ("InternalIP", "fd00::7")], false);
    let names = names.expect("addresses");
    let (chain, key) = signed(&names);
    let pair = Pair::parse(chain.as_bytes(), key.as_bytes()).expect("a pair");
    assert_eq!(*pair.names(), names);
    assert_eq!(pair.validity().not_before.to_timestamp().to_string(), "2020-01-01T00:00:00Z");
    assert_eq!(pair.validity().not_after.to_timestamp().to_string(), "2031-01-01T00:00:00Z");
    assert!(!pair.has_expired(NEW_YEAR) && pair.has_expired(NEW_YEAR.plus(Duration::from_secs(366 * 86_400))));
    assert_eq!(validity_in(chain.as_bytes()), Ok(vec![pair.validity()]));
    let text = format!("{pair:?}");
    assert!(text.contains("system:node:n") && !text.contains("PRIVATE"), "{text}");
}

#[test]
fn what_is_no_pair_is_refused_without_being_shown() {
    let (chain, key) = signed(&Names::of_client("n"));
    let (_, other) = signed(&Names::of_client("n"));
    for (chain, key, text) in [
        ("", key.as_str(), "tls: failed to find any PEM data in certificate input"),
        (chain.as_str(), "", "tls: failed to find any PEM data in key input"),
        (chain.as_str(), other.as_str(), "tls: private key does not match public key"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key.as_str(), "x509: malformed certificate"),
        (
            chain.as_str(),
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "tls: failed to parse private key",
        ),
    ] {
        assert_eq!(
            Pair::parse(chain.as_bytes(), key.as_bytes()).err().map(|error| error.to_string()).as_deref(),
            Some(text)
        );
    }
}

#[test]
fn a_key_is_used_again_until_it_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pki/kubelet-client.key.tmp");
    let key = PrivateKey::load_or_generate(&path).expect("made");
    assert_eq!(std::fs::metadata(&path).expect("kept").permissions().mode() & 0o777, 0o600);
    assert_eq!(PrivateKey::load_or_generate(&path).expect("read").public(), key.public());
    std::fs::write(&path, "-----BEGIN PRIV").expect("written");
    assert_ne!(PrivateKey::load_or_generate(&path).expect("made anew").public(), key.public());
    assert_eq!(format!("{key:?}"), "PrivateKey");
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_stored_certificate_is_the_one_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("pki");
    let store = FileStore::open("kubelet-client", &folder, None).expect("opened");
    assert!(store.current().expect("looked").is_none());
    for (seconds, name) in
        [(0, "kubelet-client-2030-01-01-00-00-00.pem"), (61, "kubelet-client-2030-01-01-00-01-01.pem")]
    {
        let (chain, key) = signed(&Names::of_client("n"));
        let pair = store.update(chain.as_bytes(), key.as_bytes(), NEW_YEAR.plus(Duration::from_secs(seconds)));
        let read = FileStore::open("kubelet-client", &folder, None).expect("opened").current().expect("read");
        assert!(read.expect("there").same_chain(&pair.expect("stored")));
        assert_eq!(std::fs::read_link(store.current_path()).expect("a link"), folder.join(name));
        assert_eq!(std::fs::metadata(folder.join(name)).expect("there").permissions().mode() & 0o777, 0o600);
    }
    assert!(names_in(&folder).iter().eq([
        "kubelet-client-2030-01-01-00-00-00.pem",
        "kubelet-client-2030-01-01-00-01-01.pem",
        "kubelet-client-current.pem",
    ]));
}

#[test]
fn an_exchange_cut_off_between_its_steps_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FileStore::open("kubelet-client", folder.path(), None).expect("opened");
    let (chain, key) = signed(&Names::of_client("n"));
    store.update(chain.as_bytes(), key.as_bytes(), NEW_YEAR).expect("stored");
    std::fs::rename(store.current_path(), folder.path().join("kubelet-client-updated.pem")).expect("renamed");
    let store = FileStore::open("kubelet-client", folder.path(), None).expect("opened");
    assert!(store.current().expect("read").is_some());
}

#[test]
fn somebodys_file_in_the_links_place_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (chain, key) = signed(&Names::of_client("n"));
    let store = FileStore::open("kubelet-client", folder.path(), None).expect("opened");
    std::fs::write(store.current_path(), "mine").expect("written");
    let text = store.update(chain.as_bytes(), key.as_bytes(), NEW_YEAR).expect_err("refused").to_string();
    assert!(text.starts_with("expected ") && text.ends_with(" to be a symlink but it is a file"), "{text}");
    assert_eq!(std::fs::read_to_string(store.current_path()).expect("there"), "mine");
}

#[test]
fn what_does_not_belong_together_is_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FileStore::open("kubelet-client", folder.path(), None).expect("opened");
    let ((chain, _), (_, key)) = (signed(&Names::of_client("n")), signed(&Names::of_client("n")));
    assert!(store.update(chain.as_bytes(), key.as_bytes(), NEW_YEAR).is_err());
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn older_pairs_count_as_long_as_nothing_was_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (old, old_key) = signed(&Names::of_client("old"));
    std::fs::write(at("kubelet-client.crt"), old).expect("written");
    std::fs::write(at("kubelet-client.key"), old_key).expect("written");
    let name = |store: &FileStore| store.current().expect("read").expect("there").names().common_name.clone();
    let store = FileStore::open("kubelet-client", folder.path(), None).expect("opened");
    assert_eq!(name(&store), "system:node:old");
    let (given, given_key) = signed(&Names::of_client("given"));
    std::fs::write(at("a.crt"), given).expect("written");
    std::fs::write(at("a.key"), given_key).expect("written");
    let store = FileStore::open("kubelet-client", folder.path(), Some((at("a.crt"), at("a.key")))).expect("opened");
    assert_eq!(name(&store), "system:node:given");
    let (new, new_key) = signed(&Names::of_client("new"));
    store.update(new.as_bytes(), new_key.as_bytes(), NEW_YEAR).expect("stored");
    assert_eq!(name(&store), "system:node:new");
}

#[test]
fn an_exchange_is_one_only_if_the_certificate_is_another() {
    let (chain, key) = signed(&Names::of_client("n"));
    let pair = || Pair::parse(chain.as_bytes(), key.as_bytes()).expect("a pair");
    let live = LiveCertificate::new(None);
    assert!(live.set(pair()) && !live.set(pair()));
    assert_eq!(live.generation(), 1);
}

/// A cluster that answers the creation with `created`, a read with `found`, and tells `events` of a watch.
fn cluster(created: (u16, Value), found: Value, events: Vec<Value>) -> (ApiServer, Arc<Mutex<Vec<Value>>>) {
    let posted = Arc::new(Mutex::new(vec![]));
    let log = Arc::clone(&posted);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (created, found, events, log) = (created.clone(), found.clone(), events.clone(), Arc::clone(&log));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let watch = head.uri.query().is_some_and(|query| query.contains("watch=true"));
            let (code, lines) = match head.method {
                Method::POST => {
                    log.lock().expect("log").push(serde_json::from_slice(&body).expect("JSON"));
                    (created.0, vec![created.1])
                }
                _ if watch => (200, events),
                _ => (200, vec![found]),
            };
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            Ok::<_, Infallible>(Response::builder().status(code).body(Full::new(Bytes::from(text))).expect("an answer"))
        }
    });
    let client = kube::Client::new(service, "default");
    (ApiServer::new(client.clone(), client.clone(), client), posted)
}

fn object(uid: &str, csr: &str, conditions: &Value, certificate: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1", "uid": uid, "resourceVersion": "1"},
        "spec": {"request": ByteString(csr.as_bytes().to_vec()), "signerName": CLIENT_SIGNER},
        "status": {"conditions": conditions, "certificate": ByteString(certificate.as_bytes().to_vec())},
    })
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn end_of_list() -> Value {
    json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1",
        "annotations": {"k8s.io/initial-events-end": "true"}}}})
}

async fn ask(api: &ApiServer, name: Option<&str>, csr: &str) -> Result<Vec<u8>, RequestError> {
    let timeout = Duration::from_secs(900);
    let request = Request { name, signer: CLIENT_SIGNER, usages: &CLIENT_USAGES, csr, timeout, now: NEW_YEAR };
    request_certificate(api, &request, || 0.5).await
}

fn approved() -> Value {
    json!([{"type": "Approved", "status": "True"}])
}

/// NODE-50, NODE-52.
#[tokio::test(start_paused = true)]
async fn a_certificate_is_awaited_until_it_is_approved_and_signed() {
    let open = object("u", "x", &json!([]), "");
    let events = vec![
        event("ADDED", &open),
        end_of_list(),
        event("MODIFIED", &object("u", "x", &approved(), "")),
        event("MODIFIED", &object("u", "x", &approved(), "PEM")),
    ];
    let (api, posted) = cluster((201, open.clone()), open, events);
    assert_eq!(ask(&api, None, "CSR").await, Ok(b"PEM".to_vec()));
    let posted = posted.lock().expect("log");
    assert_eq!(posted[0]["metadata"], json!({"generateName": "csr-"}));
    assert_eq!(
        posted[0]["spec"],
        json!({"request": "Q1NS", "signerName": CLIENT_SIGNER, "usages": ["digital signature", "client auth"]})
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_to_nothing_says_why() {
    let open = object("u", "x", &json!([]), "");
    let denied = json!([{"type": "Denied", "status": "True", "reason": "R", "message": "M"}]);
    for (event, text) in [
        (
            event("MODIFIED", &object("u", "x", &denied, "")),
            "cannot watch on the certificate signing request: certificate signing request is denied, reason: R, message: M",
        ),
        (event("DELETED", &open), "cannot watch on the certificate signing request: csr \"csr-1\" was deleted"),
        (
            event("MODIFIED", &object("v", "x", &json!([]), "")),
            "cannot watch on the certificate signing request: csr \"csr-1\" changed UIDs",
        ),
    ] {
        let (api, _) = cluster((201, open.clone()), open.clone(), vec![end_of_list(), event]);
        assert_eq!(ask(&api, None, "CSR").await.expect_err("none").to_string(), text);
    }
    let (api, _) = cluster((201, open.clone()), open.clone(), vec![end_of_list()]);
    assert_eq!(ask(&api, None, "CSR").await, Err(RequestError::TimedOut));
}

/// NODE-49.
#[tokio::test(start_paused = true)]
async fn a_request_made_before_is_used_again_if_it_is_ours() {
    let (authority, key) = (Authority::new(), PrivateKey::generate().expect("a key"));
    let names = Names::of_client("n");
    let csr = key.signing_request(&names).expect("a request");
    let certificate = authority.sign(&names, &key);
    let taken = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409,
        "reason": "AlreadyExists", "message": "there already"});
    let found = object("u", &csr, &approved(), &certificate);
    let again = key.signing_request(&names).expect("a request");
    let events = vec![event("ADDED", &found), end_of_list()];
    let (api, _) = cluster((409, taken.clone()), found.clone(), events.clone());
    assert_eq!(ask(&api, Some("csr-1"), &again).await, Ok(certificate.into_bytes()));
    let other = PrivateKey::generate().expect("a key");
    for wanted in [other.signing_request(&names), key.signing_request(&Names::of_client("m"))] {
        let refused = ask(&api, Some("csr-1"), &wanted.expect("a request")).await;
        assert!(matches!(refused, Err(RequestError::Incompatible(_))), "{refused:?}");
    }
    let (api, _) = cluster((409, taken), found, events);
    let refused = ask(&api, None, &again).await.expect_err("a new name is never taken");
    assert_eq!(refused.to_string(), "cannot create certificate signing request: there already");
}

/// NODE-49: the expected name was made by another tool from the same text.
#[test]
fn a_bootstrap_request_is_named_by_a_digest_of_its_content() {
    let name = bootstrap_request_name(b"key", &Names::of_client("n"), &CLIENT_USAGES);
    assert_eq!(name, "node-csr-litVUSUtPM4znXCAy-mNiVlLUDyk-MwyFQaIhfgqZnQ");
}
