//! Faults of earlier kubelets, at the client of the API server: each test is named after its subject.

use super::*;
use crate::testing::kept_log::KeptLog;

/// A client of this server with these fields of a kubeconfig's user, as the agent makes it.
fn client(address: SocketAddr, offer: Offer, user: &serde_json::Value) -> Transport {
    let cluster = json!({ "server": format!("https://{address}"), "certificate-authority": certificate() });
    let text = json!({
        "clusters": [{ "name": "c", "cluster": cluster }],
        "users": [{ "name": "u", "user": user }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text.to_string()).expect("written");
    let kubeconfig = Kubeconfig::load(file.path()).expect("usable");
    let settings = Settings::from_environment(kubeconfig.server.clone(), "kubelet/v1".to_owned());
    let settings = Settings { offer, proxy: None, ..settings };
    Transport::new(settings, Arc::new(Credentials::new(kubeconfig, offer, Arc::new(SystemClock::start()))))
}

/// CVE-2019-11250, CVE-2020-8565, SEC-40: the client's own `Authorization` is in no line of any level, of the agent or of a
/// library: answered, refused, redirected and cut off, in HTTP/2 and in HTTP/1.1.
#[tokio::test]
async fn cve_2019_11250_cve_2020_8565_the_clients_own_authorization_is_in_no_line_of_the_log() {
    let (log, _logged) = KeptLog::begin();
    let token = json!({ "token": "token-of-the-node" });
    let password = json!({ "username": "node", "password": "password-of-the-node" });
    let shown = ["Bearer token-of-the-node", "Basic bm9kZTpwYXNzd29yZC1vZi10aGUtbm9kZQ=="];
    for (protocols, offer) in [(["h2"], Offer::Http2), (["http/1.1"], Offer::Http1)] {
        for (user, shown) in [&token, &password].into_iter().zip(shown) {
            let (server, address, _tasks) = Server::start(&protocols).await;
            let (_other, elsewhere, _others) = Server::start(&protocols).await;
            let transport = client(address, offer, user);
            let api = transport.server(None, None);
            read(&api).await;
            let refused = api.get::<Node>(&Place::Cluster, "stranger").await.expect_err("refused");
            tracing::error!(error = %refused, debug = ?refused, "as an actor logs it");
            let from = WatchFrom::Version("1");
            let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, Duration::from_secs(300)).await;
            let mut watch = watch.expect("opened");
            transport.reset();
            let ended = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.expect("ends");
            tracing::error!(debug = ?ended, "as an actor logs it");
            *server.leads_to.lock().expect("a place") = Some(elsewhere);
            let led = api.get::<Node>(&Place::Cluster, "n").await.expect_err("a redirect is no answer");
            tracing::error!(error = %led, debug = ?led, "as an actor logs it");
            let asked = server.asked.lock().expect("log").clone();
            assert!(asked.len() >= 4 && asked.iter().all(|line| line.contains(shown)), "{asked:?}");
        }
    }
    let said = log.text();
    assert!(said.contains("TRACE") && said.contains("h2::") && said.contains("as an actor logs it"), "{said}");
    for secret in ["token-of-the-node", "password-of-the-node", "bm9kZTpwYXNzd29yZC1vZi10aGUtbm9kZQ"] {
        let line = said.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}
