//! Watches as chains of operations: each link ends with what was heard, and with the rest of the chain.
//!
//! An operation's end is never refused, so nothing heard is lost, and no more is heard than is worked off.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::objects::failure;
use crate::logic::objects::object_cache::{Heard, Object};
use crate::logic::objects::object_references::{ObjectKey, ObjectKind};
use crate::messages::object_cache::{ServicesHeard, Watch};
use crate::platform::cluster::kube_api::reflector::{Followed, follow};
use crate::platform::cluster::kube_api::{ApiObject, ApiServer, Place, Selector};
use crate::platform::host::chance::Chance;

/// A reflector that is polled only while somebody waits for what it hears.
struct Chain<T> {
    work: Pin<Box<dyn Future<Output = Infallible> + Send>>,
    heard: UnboundedReceiver<T>,
}

impl<T> Chain<T> {
    async fn next(&mut self) -> T {
        poll_fn(|context| {
            if let Poll::Ready(Some(heard)) = self.heard.poll_recv(context) {
                return Poll::Ready(heard);
            }
            match self.work.as_mut().poll(context) {
                Poll::Ready(never) => match never {},
                Poll::Pending => {}
            }
            match self.heard.poll_recv(context) {
                Poll::Ready(Some(heard)) => Poll::Ready(heard),
                // The reflector holds the other end for as long as it lives.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

fn link<T: Send + 'static>(mut chain: Chain<T>) -> Watch<T> {
    Watch(Box::pin(async move {
        let heard = chain.next().await;
        (heard, link(chain))
    }))
}

/// Watches one object.
pub(super) fn of_object(api: ApiServer, chance: Arc<dyn Chance>, key: &ObjectKey) -> Watch<Heard> {
    let (at, selector) = (Place::namespace(&key.namespace), Selector::name(&key.name));
    match key.kind {
        ObjectKind::ConfigMap => {
            chain(api, chance, at, selector, |told| one(told, |object: ConfigMap| Object::ConfigMap(Arc::new(object))))
        }
        ObjectKind::Secret => {
            chain(api, chance, at, selector, |told| one(told, |object: Secret| Object::Secret(Arc::new(object))))
        }
    }
}

/// Watches the cluster's services that have an address: variables tell of no others. As upstream.
pub(super) fn of_services(api: ApiServer, chance: Arc<dyn Chance>) -> Watch<ServicesHeard> {
    let with_address = Selector::fields("spec.clusterIP!=None");
    chain(api, chance, Place::Cluster, with_address, |told: Followed<Service>| match told {
        Followed::Reset(services) => ServicesHeard::All(services.into_iter().map(essence).collect()),
        Followed::Applied(service) => ServicesHeard::Changed(Box::new(essence(service))),
        Followed::Deleted(Service { metadata: ObjectMeta { namespace, name, .. }, .. }) => {
            ServicesHeard::Gone(namespace.unwrap_or_default(), name.unwrap_or_default())
        }
        Followed::Trouble(error) => ServicesHeard::Trouble(failure(&error)),
    })
}

fn chain<K: ApiObject, T: Send + 'static>(
    api: ApiServer,
    chance: Arc<dyn Chance>,
    at: Place,
    selector: Selector,
    take: impl Fn(Followed<K>) -> T + Send + 'static,
) -> Watch<T> {
    let (teller, heard) = unbounded_channel();
    let work = async move {
        let tell = move |told| drop(teller.send(take(told))); // A receiver that left does not poll, either.
        follow::<K>(&api, &at, &selector, move || chance.next(), tell).await
    };
    link(Chain { work: Box::pin(work), heard })
}

/// A selection of one object has one at most.
fn one<K>(told: Followed<K>, object: impl Fn(K) -> Object) -> Heard {
    match told {
        Followed::Reset(objects) => Heard::Is(objects.into_iter().next().map(object)),
        Followed::Applied(changed) => Heard::Is(Some(object(changed))),
        Followed::Deleted(_) => Heard::Is(None),
        Followed::Trouble(error) => Heard::Trouble(failure(&error)),
    }
}

/// The parts of a service of which variables are made. There may be thousands of services, and the rest of them is
/// never looked at.
fn essence(service: Service) -> Service {
    let ObjectMeta { name, namespace, .. } = service.metadata;
    let spec = service.spec.map(|spec| ServiceSpec {
        cluster_ip: spec.cluster_ip,
        ports: spec.ports,
        ..ServiceSpec::default()
    });
    Service { metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() }, spec, status: None }
}
