//! A cluster that is asked for certificates: keeps the requests, signs them when it is to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::ByteString;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PublicKeyData, SanType};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension};

use crate::actors::played_api::{Answer, not_found, refused, serve, streamed, whole};
use crate::logic::model::time::Moment;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::host::clock::Clock;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// The fate of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Signed at once, for so many seconds.
    Sign(u64),
    /// Left open.
    Wait,
    /// Denied.
    Deny,
    /// Refused with this code, before there is one.
    Refuse(u16),
}

/// See the module.
#[derive(Clone)]
pub struct Cluster {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

struct State {
    authority: Authority,
    policy: Policy,
    /// By name, in the API's form.
    requests: BTreeMap<String, Value>,
    /// The asker of each request, in order.
    asked: Vec<(&'static str, String)>,
    watchers: Vec<(String, UnboundedSender<Value>)>,
}

impl Cluster {
    pub fn new(clock: Arc<dyn Clock>, policy: Policy) -> Self {
        let state =
            State { authority: Authority::new(), policy, requests: BTreeMap::new(), asked: vec![], watchers: vec![] };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// As somebody reaches it.
    pub fn as_seen_by(&self, who: &'static str) -> ApiServer {
        let cluster = self.clone();
        serve(move |verb, path, body| cluster.answer(who, verb, path, body))
    }

    /// Sets the fate of requests from now on, of those that are open, too.
    pub fn set(&self, policy: Policy) {
        let mut state = self.state();
        state.policy = policy;
        let names: Vec<String> = state.requests.keys().cloned().collect();
        names.iter().for_each(|name| state.decide(name, self.clock.now()));
    }

    /// The askers, in order.
    pub fn askers(&self) -> Vec<&'static str> {
        self.state().asked.iter().map(|(who, _)| *who).collect()
    }

    /// The names of the requests that were made, in order; of one that was asked for again, again.
    pub fn names(&self) -> Vec<String> {
        self.state().asked.iter().map(|(_, name)| name.clone()).collect()
    }

    /// The specification of the last request.
    pub fn last(&self) -> Value {
        let state = self.state();
        state.asked.last().map(|(_, name)| state.requests[name]["spec"].clone()).unwrap_or_default()
    }

    /// The addresses and host names in the last request.
    pub fn last_names(&self) -> Vec<String> {
        let request = serde_json::from_value::<ByteString>(self.last()["request"].clone()).expect("a request");
        let der = CertificateSigningRequestDer::from_pem_slice(&request.0).expect("PEM");
        let (_, request) = X509CertificationRequest::from_der(&der).expect("a request");
        alternatives(&request).iter().map(text).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn answer(&self, who: &'static str, verb: &str, path: &str, mut body: Value) -> Answer {
        let mut state = self.state();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if !path.starts_with(REQUESTS) {
            return not_found();
        }
        if verb == "POST" {
            if let Policy::Refuse(code) = state.policy {
                return refused(code, "Unknown");
            }
            let given = body["metadata"]["name"].as_str().map(str::to_owned);
            let name = given.unwrap_or_else(|| format!("csr-{}", state.asked.len()));
            state.asked.push((who, name.clone()));
            if state.requests.contains_key(&name) {
                return refused(409, "AlreadyExists");
            }
            body["metadata"] = json!({ "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1" });
            state.requests.insert(name.clone(), body.clone());
            state.decide(&name, self.clock.now());
            return whole(201, &body);
        }
        if let Some(request) = path.strip_prefix(&format!("{REQUESTS}/")).and_then(|name| state.requests.get(name)) {
            return whole(200, request);
        }
        let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let name = query["fieldSelector"].strip_prefix("metadata.name=").expect("one is asked for").to_owned();
        let (sender, receiver) = unbounded_channel();
        let metadata = json!({ "resourceVersion": "1", "annotations": { "k8s.io/initial-events-end": "true" } });
        let found = state.requests.get(&name).map(|request| json!({ "type": "ADDED", "object": request }));
        for event in found.into_iter().chain([json!({ "type": "BOOKMARK", "object": { "metadata": metadata } })]) {
            sender.send(event).expect("it is open");
        }
        state.watchers.push((name, sender));
        streamed(receiver)
    }
}

impl State {
    /// Decides the fate of an open request.
    fn decide(&mut self, name: &str, now: Moment) {
        let request = self.requests.get_mut(name).expect("there");
        if !request["status"].is_null() {
            return;
        }
        request["status"] = match self.policy {
            Policy::Sign(seconds) => {
                let csr = serde_json::from_value::<ByteString>(request["spec"]["request"].clone()).expect("a request");
                let certificate = self.authority.sign(&csr.0, now, Duration::from_secs(seconds));
                json!({ "conditions": [{ "type": "Approved", "status": "True" }],
                    "certificate": ByteString(certificate.into_bytes()) })
            }
            Policy::Deny => json!({ "conditions": [{ "type": "Denied", "status": "True", "reason": "No" }] }),
            Policy::Wait | Policy::Refuse(_) => return,
        };
        let event = json!({ "type": "MODIFIED", "object": request });
        self.watchers.retain(|(watched, sender)| watched != name || sender.send(event.clone()).is_ok());
    }
}

/// Signs what it is given.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("signed"))
    }

    fn sign(&self, csr: &[u8], now: Moment, life: Duration) -> String {
        let der = CertificateSigningRequestDer::from_pem_slice(csr).expect("PEM");
        let (_, request) = X509CertificationRequest::from_der(&der).expect("a request");
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        let subject = &request.certification_request_info.subject;
        for organization in subject.iter_organization() {
            parameters.distinguished_name.push(DnType::OrganizationName, organization.as_str().expect("text"));
        }
        for name in subject.iter_common_name() {
            parameters.distinguished_name.push(DnType::CommonName, name.as_str().expect("text"));
        }
        parameters.subject_alt_names = alternatives(&request);
        parameters.not_before = rcgen::date_time_ymd(1970, 1, 1) + now.since(Moment::EPOCH);
        parameters.not_after = parameters.not_before + life;
        let key = PublicKey(request.certification_request_info.subject_pki.subject_public_key.data.to_vec());
        parameters.signed_by(&key, &self.0).expect("signed").pem()
    }
}

struct PublicKey(Vec<u8>);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }
    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

fn alternatives(request: &X509CertificationRequest<'_>) -> Vec<SanType> {
    let mut found = vec![];
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
        for name in &names.general_names {
            match name {
                GeneralName::DNSName(name) => found.push(SanType::DnsName((*name).try_into().expect("a name"))),
                GeneralName::IPAddress(bytes) => {
                    let bytes: [u8; 4] = (*bytes).try_into().expect("four bytes");
                    found.push(SanType::IpAddress(IpAddr::from(bytes)));
                }
                other => panic!("{other:?} was not to be asked for"),
            }
        }
    }
    found
}

fn text(name: &SanType) -> String {
    match name {
        SanType::DnsName(name) => name.as_str().to_owned(),
        SanType::IpAddress(address) => address.to_string(),
        other => panic!("{other:?} was not to be asked for"),
    }
}
