//! `ObjectCache` and `ApiObjects` with a played API server, under paused time.

use serde_json::{Value, json};

use super::*;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::objects::object_cache::ChangeDetection;
use crate::logic::volumes::content::token::TokenKey;
use crate::messages::root::Child;
use crate::platform::cluster::objects::Objects;

const CONFIG_MAP: &str = "/api/v1/namespaces/ns/configmaps/cm";
const SECRET: &str = "/api/v1/namespaces/ns/secrets/s";

struct Setup {
    played: PlayedAgent,
    server: ObjectServer,
    cell: ractor::ActorCell,
}

impl Setup {
    fn new(detection: ChangeDetection) -> Self {
        let server = ObjectServer::default();
        let played = played_agent(server.api(), |settings, _| settings.change_detection = detection);
        let cell = start_alone(Child::ObjectCache, &played.agent);
        Self { played, server, cell }
    }

    fn objects(&self) -> &dyn Objects {
        &*self.played.agent.adapters.cluster.objects
    }

    fn tell(&self, message: ObjectCacheMsg) {
        self.played.agent.directory.object_cache.tell(Cause::outside("test"), message).expect("has room");
    }

    /// A pod whose volumes are of these ConfigMaps and Secrets.
    fn pod_comes(&self, uid: &str, config_maps: &[&str], secrets: &[&str]) {
        let config_maps = config_maps.iter().map(|name| json!({ "name": name, "configMap": { "name": name } }));
        let secrets = secrets.iter().map(|name| json!({ "name": name, "secret": { "secretName": name } }));
        let volumes: Vec<Value> = config_maps.chain(secrets).collect();
        let pod = json!({
            "metadata": { "name": uid, "namespace": "ns", "uid": uid },
            "spec": { "containers": [], "volumes": volumes },
        });
        self.tell(ObjectCacheMsg::PodChanged(Arc::new(serde_json::from_value(pod).expect("a pod"))));
    }

    fn pod_goes(&self, uid: &str) {
        self.tell(ObjectCacheMsg::PodGone(PodUid::from(uid)));
    }

    /// The text in the ConfigMap, or why it cannot be had.
    async fn text(&self) -> Result<String, ObjectError> {
        let object = self.objects().config_map("ns", "cm").await?;
        Ok(object.data.as_ref().and_then(|data| data.get("say")).cloned().unwrap_or_default())
    }

    fn say(&self, text: &str) {
        self.server.put(CONFIG_MAP, json!({ "data": { "say": text } }));
    }

    /// Ends the actor and starts its next incarnation, as Root does.
    async fn restart(&mut self) {
        self.cell.stop(None);
        let _ = self.cell.wait(None).await;
        self.cell = start_alone(Child::ObjectCache, &self.played.agent);
    }
}

/// VOL-50.
#[tokio::test(start_paused = true)]
async fn an_edit_of_a_config_map_is_seen_through_the_watch() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.say("one");
    setup.pod_comes("pod", &["cm"], &[]);
    seconds(1.0).await;
    assert!(setup.server.calls("/configmaps").is_empty(), "nobody asked for it yet");
    assert_eq!(setup.text().await, Ok("one".into()));
    assert_eq!(setup.server.watched("configmaps"), ["cm"]);
    let calls = setup.server.calls("/configmaps").len();
    setup.say("two");
    seconds(1.0).await;
    assert_eq!(setup.text().await, Ok("two".into()));
    assert_eq!(setup.server.calls("/configmaps").len(), calls, "what is watched is not asked for again");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_is_seen_as_soon_as_it_does_and_when_it_is_gone() {
    let setup = Setup::new(ChangeDetection::Watch);
    let missing = || Err(ObjectError::NotFound("configmap \"cm\" not found".into()));
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, missing());
    setup.say("here");
    seconds(1.0).await;
    assert_eq!(setup.text().await, Ok("here".into()));
    setup.server.remove(CONFIG_MAP);
    seconds(1.0).await;
    assert_eq!(setup.text().await, missing());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_and_too_old_is_taken_up_again() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.say("one");
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("one".into()));
    setup.server.cut_watches(2); // The services' watch, too.
    setup.say("two"); // While nobody listens.
    seconds(60.0).await;
    assert_eq!(setup.text().await, Ok("two".into()));
    assert_eq!(setup.server.watched("configmaps"), ["cm"]);
    setup.say("three");
    seconds(1.0).await;
    assert_eq!(setup.text().await, Ok("three".into()));
}

#[tokio::test(start_paused = true)]
async fn without_references_there_is_no_watch() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.say("one");
    setup.server.put(SECRET, json!({ "data": { "k": "dg==" } }));
    setup.pod_comes("a", &["cm"], &["s"]);
    setup.pod_comes("b", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("one".into()));
    assert!(setup.objects().secret("ns", "s").await.is_ok());
    assert_eq!(
        (setup.server.watched("configmaps"), setup.server.watched("secrets")),
        (vec!["cm".into()], vec!["s".into()])
    );
    setup.pod_goes("a");
    seconds(1.0).await;
    assert_eq!((setup.server.watched("configmaps").len(), setup.server.watched("secrets").len()), (1, 0));
    setup.pod_goes("b");
    seconds(1.0).await;
    assert!(setup.server.watched("configmaps").is_empty());
    let unknown = "object \"ns\"/\"cm\" not registered";
    assert_eq!(setup.text().await, Err(ObjectError::Unavailable(unknown.into())));
}

/// VOL-23.
#[tokio::test(start_paused = true)]
async fn an_immutable_object_stays_without_a_watch() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.server.put(CONFIG_MAP, json!({ "immutable": true, "data": { "say": "stone" } }));
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("stone".into()));
    seconds(1.0).await;
    assert!(setup.server.watched("configmaps").is_empty());
    assert_eq!(setup.text().await, Ok("stone".into()));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_read_is_told_so_in_time_and_may_later() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.say("one");
    setup.server.refuse("configmaps", Some((403, "Forbidden")));
    setup.pod_comes("pod", &["cm"], &[]);
    let text = "object \"ns\"/\"cm\": failed to sync configmap cache: timed out waiting for the condition: \
                refused: Forbidden";
    assert_eq!(setup.text().await, Err(ObjectError::Forbidden(text.into())));
    setup.server.refuse("configmaps", None);
    seconds(120.0).await;
    assert_eq!(setup.text().await, Ok("one".into()));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_asks_about_is_ended_and_begun_again() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.say("one");
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("one".into()));
    seconds(400.0).await;
    assert!(setup.server.watched("configmaps").is_empty());
    setup.say("two");
    assert_eq!(setup.text().await, Ok("two".into()));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_everything_is_had_again() {
    let mut setup = Setup::new(ChangeDetection::Watch);
    setup.say("one");
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("one".into()));
    setup.restart().await;
    seconds(1.0).await;
    assert!(setup.server.watched("configmaps").is_empty(), "watches end with their actor");
    assert!(setup.text().await.is_err_and(|error| error.is_transient()), "no pod is known yet");
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("one".into()));
    assert_eq!(
        (setup.server.watched("configmaps"), setup.server.watched("services")),
        (vec!["cm".into()], vec!["*".into()])
    );
}

/// VOL-50.
#[tokio::test(start_paused = true)]
async fn a_cached_object_is_read_again_when_it_is_old() {
    let setup = Setup::new(ChangeDetection::Cache);
    setup.say("one");
    setup.pod_comes("pod", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("one".into()));
    setup.say("two");
    seconds(30.0).await;
    assert_eq!(setup.text().await, Ok("one".into()));
    setup.pod_comes("new", &["cm"], &[]);
    assert_eq!(setup.text().await, Ok("two".into()));
    setup.say("three");
    seconds(61.0).await;
    assert_eq!(setup.text().await, Ok("three".into()));
    setup.server.refuse("configmaps", Some((500, "InternalError")));
    seconds(61.0).await;
    assert_eq!(setup.text().await, Ok("three".into()), "what is known stands");
    assert!(setup.server.watched("configmaps").is_empty());
}

/// VOL-50.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_kept_each_read_is_live() {
    let setup = Setup::new(ChangeDetection::Get);
    for text in ["one", "two"] {
        setup.say(text);
        assert_eq!(setup.text().await, Ok(text.into()));
    }
    assert_eq!(setup.server.calls("/configmaps").len(), 2);
    setup.server.remove(CONFIG_MAP);
    assert_eq!(setup.text().await, Err(ObjectError::NotFound("refused: NotFound".into())));
}

/// VOL-50.
#[test]
fn the_node_says_for_how_long_what_was_read_is_fresh() {
    let node = |value: &str| {
        let metadata = json!({ "name": "n", "annotations": { "node.alpha.kubernetes.io/ttl": value } });
        serde_json::from_value::<Node>(json!({ "metadata": metadata })).expect("a node")
    };
    assert_eq!(ttl_of(&node("15")), Some(Duration::from_secs(15)));
    assert_eq!(ttl_of(&node("0")), Some(Duration::ZERO));
    assert_eq!((ttl_of(&node("soon")), ttl_of(&Node::default())), (None, None));
}

#[tokio::test(start_paused = true)]
async fn services_of_the_own_namespace_and_the_api_servers_are_seen() {
    let setup = Setup::new(ChangeDetection::Watch);
    let path = |namespace: &str, name: &str| format!("/api/v1/namespaces/{namespace}/services/{name}");
    let at = |ip: &str| json!({ "spec": { "clusterIP": ip, "ports": [{ "port": 443 }] } });
    setup.server.put(&path("default", "kubernetes"), at("10.0.0.1"));
    setup.server.put(&path("ns", "web"), at("10.0.0.2"));
    setup.server.put(&path("ns2", "far"), at("10.0.0.3"));
    let hosts = |links: bool| {
        let objects = Arc::clone(&setup.played.agent.adapters.cluster.objects);
        async move {
            let found = objects.service_variables("ns", links, true).await.expect("read");
            let hosts = found.iter().filter(|(name, _)| name.ends_with("_SERVICE_HOST"));
            hosts.map(|(name, ip)| format!("{name}={ip}")).collect::<Vec<_>>()
        }
    };
    assert_eq!(hosts(true).await, ["KUBERNETES_SERVICE_HOST=10.0.0.1", "WEB_SERVICE_HOST=10.0.0.2"]);
    assert_eq!(hosts(false).await, ["KUBERNETES_SERVICE_HOST=10.0.0.1"]);
    setup.server.put(&path("ns", "web"), at("10.0.0.9"));
    setup.server.put(&path("ns", "db"), at("10.0.0.4"));
    seconds(1.0).await;
    let expected = ["DB_SERVICE_HOST=10.0.0.4", "KUBERNETES_SERVICE_HOST=10.0.0.1", "WEB_SERVICE_HOST=10.0.0.9"];
    assert_eq!(hosts(true).await, expected);
    setup.server.remove(&path("ns", "db"));
    seconds(1.0).await;
    assert_eq!(hosts(true).await, [expected[1], expected[2]]);
}

/// There may be thousands, and no variable tells of one.
#[tokio::test(start_paused = true)]
async fn services_without_an_address_are_not_asked_for() {
    let setup = Setup::new(ChangeDetection::Watch);
    for (name, ip) in [("web", "10.0.0.2"), ("headless", "None")] {
        let object = json!({ "spec": { "clusterIP": ip, "ports": [{ "port": 443 }] } });
        setup.server.put(&format!("/api/v1/namespaces/ns/services/{name}"), object);
    }
    seconds(1.0).await;
    assert_eq!(setup.server.shown("services"), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn services_that_were_never_read_are_waited_for_by_the_patient() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.server.refuse("services", Some((503, "ServiceUnavailable")));
    assert!(setup.objects().service_variables("ns", true, false).await.is_none());
    assert!(setup.objects().service_variables("ns", true, true).await.is_none());
    setup.server.refuse("services", None);
    seconds(120.0).await;
    assert!(setup.objects().service_variables("ns", true, false).await.is_some_and(|variables| variables.is_empty()));
}

/// The token of a pod as its volume asks for it.
fn token_key() -> TokenKey {
    TokenKey {
        namespace: "ns".into(),
        service_account: "robot".into(),
        service_account_uid: String::new(),
        audience: String::new(),
        expiration_seconds: 3600,
        pod_name: "web".into(),
        pod_uid: PodUid::from("uid-1"),
    }
}

/// VOL-27, SEC-52.
#[tokio::test(start_paused = true)]
async fn a_token_is_asked_for_as_the_pod_needs_it() {
    let setup = Setup::new(ChangeDetection::Watch);
    let key = TokenKey { audience: "vault".into(), ..token_key() };
    let token = setup.objects().token(&key).await.expect("a token");
    assert_eq!(&*token.text, "a-token");
    // The server's word counts: it made it for ten minutes.
    assert_eq!(token.life.lifetime, Duration::from_secs(600));
    assert_eq!(token.life.expires.to_timestamp().to_string(), "2026-01-01T00:10:00Z");
    assert_eq!(setup.server.calls("/token"), ["POST /api/v1/namespaces/ns/serviceaccounts/robot/token"]);
    let spec = setup.server.sent("/token")["spec"].clone();
    let bound = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-1" });
    assert_eq!(spec, json!({ "audiences": ["vault"], "expirationSeconds": 3600, "boundObjectRef": bound }));
    assert_eq!(setup.server.sent("/token")["metadata"].get("uid"), None);
    setup.objects().token(&token_key()).await.expect("a token");
    assert!(setup.server.sent("/token")["spec"].get("audiences").is_none_or(|list| list == &json!([])));
}

/// VOL-07.
#[tokio::test(start_paused = true)]
async fn claims_and_volumes_are_read_as_they_are_now() {
    let setup = Setup::new(ChangeDetection::Watch);
    let claim = "/api/v1/namespaces/ns/persistentvolumeclaims/data";
    for volume in ["pv-1", "pv-2"] {
        setup.server.put(claim, json!({ "spec": { "volumeName": volume } }));
        let found = setup.objects().claim("ns", "data").await.expect("there");
        assert_eq!(found.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()), Some(volume));
    }
    setup.server.put("/api/v1/persistentvolumes/pv-2", json!({}));
    assert!(setup.objects().volume("pv-2").await.is_ok());
    assert!(matches!(setup.objects().volume("pv-1").await, Err(ObjectError::NotFound(_))));
}

/// SEC-50: the Node authorizer may hear of a pod later than the node does; what it never grants stays forbidden.
#[tokio::test(start_paused = true)]
async fn what_is_granted_a_moment_later_is_waited_for() {
    let setup = Setup::new(ChangeDetection::Watch);
    setup.server.put("/api/v1/namespaces/ns/persistentvolumeclaims/data", json!({}));
    let (objects, kind) = (setup.objects(), "persistentvolumeclaims");
    setup.server.refuse(kind, Some((403, "Forbidden")));
    let grant = async {
        tokio::time::sleep(Duration::from_millis(120)).await;
        setup.server.refuse(kind, None);
    };
    let (found, ()) = tokio::join!(objects.claim("ns", "data"), grant);
    assert!(found.is_ok(), "{found:?}");
    setup.server.refuse(kind, Some((403, "Forbidden")));
    assert!(matches!(objects.claim("ns", "data").await, Err(ObjectError::Forbidden(_))));
}

/// VOL-27: who makes tokens may hear of a pod later than the node does, too.
#[tokio::test(start_paused = true)]
async fn a_token_of_a_pod_that_is_not_known_yet_is_waited_for() {
    let setup = Setup::new(ChangeDetection::Watch);
    let key = token_key();
    setup.server.refuse("/token", Some((404, "NotFound")));
    let objects = setup.objects();
    let heard = async {
        tokio::time::sleep(Duration::from_millis(120)).await;
        setup.server.refuse("/token", None);
    };
    let (token, ()) = tokio::join!(objects.token(&key), heard);
    assert!(token.is_ok(), "{token:?}");
    setup.server.refuse("/token", Some((404, "NotFound")));
    assert!(matches!(objects.token(&key).await, Err(ObjectError::NotFound(_))));
}
