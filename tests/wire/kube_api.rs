//! The way to the API server against a real one, where one is named: `PODWRIGHT_TEST_KUBECONFIG` is the kubeconfig of an
//! administrator, whose server's controller manager signs certificates. Without it there is nothing to test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::ObjectMeta;
use podwright::logic::node::certificate_plan::Names;
use podwright::platform::cluster::certificates::{
    CLIENT_SIGNER, CLIENT_USAGES, PrivateKey, Request, request_certificate,
};
use podwright::platform::cluster::key_pair::Pair;
use podwright::platform::cluster::kube_api::credentials::Credentials;
use podwright::platform::cluster::kube_api::kubeconfig::Kubeconfig;
use podwright::platform::cluster::kube_api::reflector::{Followed, follow};
use podwright::platform::cluster::kube_api::transport::{Settings, Transport, user_agent};
use podwright::platform::cluster::kube_api::{ApiServer, Lane, PatchKind, Place, Selector, WatchFrom};
use podwright::platform::cluster::live_certificate::LiveCertificate;
use podwright::platform::host::clock::{Clock, SystemClock};
use podwright::platform::network::tls::Offer;
use podwright::testing::skips::needs;
use serde_json::json;

/// The administrator's connection, if a server is named.
fn administrator(offer: Offer) -> Option<(Kubeconfig, Transport)> {
    let Some(path) = std::env::var_os("PODWRIGHT_TEST_KUBECONFIG") else {
        needs("PODWRIGHT_TEST_KUBECONFIG");
        return None;
    };
    let kubeconfig = Kubeconfig::load(path.as_ref()).expect("usable");
    let credentials = Credentials::new(kubeconfig.clone(), offer, Arc::new(SystemClock::start()));
    Some((kubeconfig.clone(), transport(&kubeconfig, offer, credentials)))
}

fn transport(kubeconfig: &Kubeconfig, offer: Offer, credentials: Credentials) -> Transport {
    let settings = Settings::from_environment(kubeconfig.server.clone(), user_agent("v1.36.0"));
    Transport::new(Settings { offer, ..settings }, Arc::new(credentials))
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// A name that no other run uses.
fn fresh(prefix: &str) -> String {
    format!("{prefix}-{}", SystemClock::start().now().0)
}

#[tokio::test]
async fn a_real_server_takes_every_call() {
    for offer in [Offer::Http2, Offer::Http1] {
        let Some((_, transport)) = administrator(offer) else { return };
        let api = transport.server(None, None);
        api.healthz().await.expect("up");
        let name = fresh("node");
        let (at, heartbeat) = (Place::Cluster, api.on(Lane::Heartbeat));
        let missing = api.get::<Node>(&at, &name).await.expect_err("not there yet");
        assert!(missing.is_not_found() && missing.to_string() == format!("nodes {name:?} not found"), "{missing}");
        let node = Node { metadata: named(&name), ..Node::default() };
        let made = api.create(&at, &node).await.expect("created");
        assert!(made.metadata.managed_fields.is_none());
        assert!(api.create(&at, &node).await.expect_err("there already").is_already_exists());
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let patched: Node =
            heartbeat.patch(&at, &name, Some("status"), PatchKind::Strategic, &status).await.expect("patched");
        assert_eq!(patched.status.expect("a status").conditions.expect("conditions")[0].type_, "Ready");
        let stale = api.replace(&at, &made, None).await.expect_err("changed since");
        assert!(stale.is_conflict(), "{stale}");
        let listed = api.list::<Node>(&at, &Selector::name(&name), Some("0")).await.expect("listed");
        assert!(listed.items.len() == 1 && !listed.resource_version.is_empty());
        let leases = Place::namespace("kube-node-lease");
        let lease = Lease { metadata: named(&name), ..Lease::default() };
        heartbeat.create(&leases, &lease).await.expect("created");
        heartbeat.delete::<Lease>(&leases, &name, None, None).await.expect("deleted");
        let other = api.delete::<Node>(&at, &name, None, Some("not-this-one")).await.expect_err("another UID");
        assert!(other.is_conflict(), "{other}");
        let uid = made.metadata.uid.expect("a UID");
        api.delete::<Node>(&at, &name, Some(0), Some(&uid)).await.expect("deleted");
        let old = WatchFrom::Version("1");
        let watch = api.watch::<Node>(&at, &Selector::all(), old, Duration::from_secs(5)).await;
        let gone = match watch {
            Ok(mut watch) => watch.next().await.is_none_or(|event| event.err().is_none_or(|error| error.is_gone())),
            Err(error) => error.is_gone(),
        };
        assert!(gone, "an old version is gone or still kept, nothing else");
    }
}

#[tokio::test]
async fn a_real_server_is_followed_over_more_watches_than_a_connection_takes() {
    let Some((_, transport)) = administrator(Offer::Http2) else { return };
    let api = transport.server(None, None);
    let place = Place::namespace("default");
    let names: Vec<String> = (0..150).map(|number| format!("{}-{number}", fresh("map"))).collect();
    let told = Arc::new(Mutex::new(vec![]));
    let watches = names.iter().map(|name| {
        let (api, place, told) = (api.clone(), place.clone(), Arc::clone(&told));
        async move {
            let selector = Selector::name(name);
            let tell = |followed: Followed<ConfigMap>| {
                let what = match followed {
                    Followed::Reset(objects) => format!("reset {}", objects.len()),
                    Followed::Applied(_) => "applied".to_owned(),
                    Followed::Deleted(_) => "deleted".to_owned(),
                    Followed::Trouble(error) => format!("trouble {error}"),
                };
                told.lock().expect("log").push(what);
            };
            follow(&api, &place, &selector, || 0.5, tell).await
        }
    });
    let changes = async {
        let count = |what: &str| told.lock().expect("log").iter().filter(|told| *told == what).count();
        let reach = async |what: &str| {
            while count(what) < names.len() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        reach("reset 0").await;
        assert!(transport.connections() >= 2);
        for name in &names {
            api.create(&place, &ConfigMap { metadata: named(name), ..ConfigMap::default() }).await.expect("created");
        }
        reach("applied").await;
        transport.reset();
        for name in &names {
            api.delete::<ConfigMap>(&place, name, None, None).await.expect("deleted");
        }
        reach("deleted").await;
    };
    let limit = Duration::from_secs(120);
    let done = async {
        tokio::select! {
            _ = futures_util::future::join_all(watches) => unreachable!("following never ends"),
            () = changes => {}
        }
    };
    let late = tokio::time::timeout(limit, done).await;
    assert!(late.is_ok(), "{:?}", told.lock().expect("log"));
}

/// NODE-50, NODE-52, NODE-54.
#[tokio::test]
async fn a_real_cluster_signs_a_nodes_certificate_and_takes_it() {
    let Some((kubeconfig, transport)) = administrator(Offer::Http2) else { return };
    let api = transport.server(None, None);
    let node = fresh("node");
    let (key, names) = (PrivateKey::generate().expect("a key"), Names::of_client(&node));
    let csr = key.signing_request(&names).expect("a request");
    let name = fresh("node-csr");
    let clock = Arc::new(SystemClock::start());
    let request = Request {
        name: Some(&name),
        signer: CLIENT_SIGNER,
        usages: &CLIENT_USAGES,
        csr: &csr,
        timeout: Duration::from_secs(60),
        now: clock.now(),
    };
    let approve = approve(&api, &name);
    let (issued, ()) = tokio::join!(request_certificate(&api, &request, || 0.5), approve);
    let issued = issued.expect("issued");
    // A second run finds the first one's request, and its certificate.
    assert_eq!(request_certificate(&api, &request, || 0.5).await.as_ref(), Ok(&issued));
    let pair = Pair::parse(&issued, key.pem().as_bytes()).expect("a pair");
    assert!(pair.names().satisfy(&names) && !pair.has_expired(clock.now()));

    let live = Arc::new(LiveCertificate::default());
    let credentials = Credentials::rotating(&kubeconfig, Arc::clone(&live), Offer::Http2, clock);
    let own = self::transport(&kubeconfig, Offer::Http2, credentials).server(None, None);
    let nobody = own.get::<Node>(&Place::Cluster, &node).await.expect_err("nobody may not");
    assert!(nobody.is_forbidden() || nobody.is_unauthorized(), "{nobody}");
    live.set(pair);
    let made = own.create(&Place::Cluster, &Node { metadata: named(&node), ..Node::default() }).await.expect("its own");
    assert_eq!(made.metadata.name.as_deref(), Some(node.as_str()));
    let foreign = Node { metadata: named("somebody-else"), ..Node::default() };
    assert!(own.create(&Place::Cluster, &foreign).await.expect_err("not its own").is_forbidden());
    api.delete::<Node>(&Place::Cluster, &node, None, None).await.expect("deleted");
    api.delete::<CertificateSigningRequest>(&Place::Cluster, &name, None, None).await.expect("deleted");
}

async fn approve(api: &ApiServer, name: &str) {
    loop {
        match api.get::<CertificateSigningRequest>(&Place::Cluster, name).await {
            Ok(mut found) => {
                let condition = CertificateSigningRequestCondition {
                    type_: "Approved".to_owned(),
                    status: "True".to_owned(),
                    reason: Some("Test".to_owned()),
                    ..CertificateSigningRequestCondition::default()
                };
                found.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
                if api.replace(&Place::Cluster, &found, Some("approval")).await.is_ok() {
                    return;
                }
            }
            Err(error) => assert!(error.is_not_found(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
