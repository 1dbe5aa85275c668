//! Events with a real API server, where two kubeconfigs name one: `KUBECONFIG` of somebody who may read and delete Events,
//! `KUBELET_KUBECONFIG` of a node. The node's own user writes, with the rights that it has.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;

use super::Played;
use super::server::PlayedServer;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::messages::event_recorder::EventSubject;
use crate::platform::cluster::kube_api::credentials::Credentials;
use crate::platform::cluster::kube_api::kubeconfig::Kubeconfig;
use crate::platform::cluster::kube_api::transport::{Rate, Settings, Transport, user_agent};
use crate::platform::cluster::kube_api::{ApiServer, Place, Selector};
use crate::platform::host::clock::{Clock, SystemClock};
use crate::platform::network::tls::Offer;

fn server_of(variable: &str, clock: &Arc<SystemClock>) -> ApiServer {
    let path = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} names no kubeconfig"));
    let kubeconfig = Kubeconfig::load(Path::new(&path)).expect("a kubeconfig");
    let settings = Settings::from_environment(kubeconfig.server.clone(), user_agent("v1.36.0"));
    let clock: Arc<dyn Clock> = Arc::<SystemClock>::clone(clock);
    let identity = Arc::new(Credentials::new(kubeconfig, Offer::from_environment(), clock));
    Transport::new(settings, identity).server(None, Rate::from_settings(50, 100))
}

/// Events of one object, once there are so many with so many counts in all.
async fn events(api: &ApiServer, namespace: &str, name: &str, objects: usize, counts: i32) -> Vec<Event> {
    let mut found = vec![];
    for _ in 0..100 {
        let selector = Selector::fields(format!("involvedObject.name={name}"));
        found = api.list::<Event>(&Place::namespace(namespace), &selector, None).await.expect("a list").items;
        let sum: i32 = found.iter().filter_map(|event| event.count).sum();
        if (found.len(), sum) == (objects, counts) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("waited for {objects} with {counts} counts: {found:#?}");
}

#[tokio::test]
#[ignore = "needs an API server, named by KUBECONFIG and KUBELET_KUBECONFIG"]
async fn a_real_api_server_takes_events_as_they_are_sent() {
    let clock = Arc::new(SystemClock::start());
    let reader = server_of("KUBECONFIG", &clock);
    let node = std::env::var("NODE_NAME").unwrap_or_else(|_| "node1".to_owned());
    let api = server_of("KUBELET_KUBECONFIG", &clock);
    let played = Played::over(api, Arc::<SystemClock>::clone(&clock), PlayedServer::default(), |_| {});
    played.start_recorder();
    let pod = format!("web-{:x}", clock.now().0);
    let (uid, full_name) = (PodUid::from(format!("uid-{pod}")), FullName::new(&pod, "default"));
    let subject = EventSubject { field_path: "spec.containers{web}".to_owned(), ..EventSubject::pod(&uid, &full_name) };

    // One that the server refuses, for there is no such namespace, holds up nobody.
    let nowhere = EventSubject::pod(&uid, &FullName::new(&pod, "no-such-namespace"));
    played.tell(nowhere.normal(EventReason::Pulled, "there"));
    for _ in 0..3 {
        played.tell(subject.warning(EventReason::BackOff, "Back-off restarting failed container"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let found = events(&reader, "default", &pod, 1, 3).await;
    assert_eq!(found[0].involved_object.uid.as_deref(), Some(uid.as_str()));
    assert_eq!(found[0].involved_object.field_path.as_deref(), Some("spec.containers{web}"));
    assert_eq!(found[0].reporting_component.as_deref(), Some("kubelet"));
    assert_eq!(found[0].type_.as_deref(), Some("Warning"));

    // Deleted meanwhile: made anew, with its count.
    let name = found[0].metadata.name.clone().expect("a name");
    reader.delete::<Event>(&Place::namespace("default"), &name, None, None).await.expect("deleted");
    played.tell(subject.warning(EventReason::BackOff, "Back-off restarting failed container"));
    let found = events(&reader, "default", &pod, 1, 4).await;
    assert_eq!(found[0].metadata.name.as_deref(), Some(&*name));

    // Many that differ in their message alone; and one whose message is longer than the newer API would have it.
    for number in 0..12 {
        played.tell(subject.normal(EventReason::Pulled, format!("image number {number}")));
    }
    played.tell(subject.normal(EventReason::Killing, "x".repeat(5000)));
    let found = events(&reader, "default", &pod, 1 + 9 + 1 + 1, 4 + 12 + 1).await;
    let combined = found.iter().find(|event| event.count == Some(3)).expect("three were combined");
    assert_eq!(combined.message.as_deref(), Some("(combined from similar events): image number 11"));
    assert!(found.iter().any(|event| event.message.as_ref().is_some_and(|text| text.len() == 5000)));

    // Spam: after 25 of a type about one object, the rest is left out.
    let spam = EventSubject::pod(&PodUid::from("spam"), &FullName::new(&format!("spam-{pod}"), "default"));
    for _ in 0..40 {
        played.tell(spam.warning(EventReason::Unhealthy, "Readiness probe failed"));
    }
    let found = events(&reader, "default", &format!("spam-{pod}"), 1, 25).await;
    assert_eq!(found[0].source.as_ref().and_then(|source| source.component.as_deref()), Some("kubelet"));

    // Of a node there is no namespace.
    played.tell(EventSubject::node(&node).normal(EventReason::Starting, "Starting kubelet."));
    let found = events(&reader, "default", &node, 1, 1).await;
    assert_eq!(found[0].involved_object.namespace, None);
    reader
        .delete::<Event>(&Place::namespace("default"), found[0].metadata.name.as_deref().expect("a name"), None, None)
        .await
        .expect("deleted");
}
