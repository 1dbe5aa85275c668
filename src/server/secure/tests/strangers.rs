//! The cost of unknown callers at the authenticated port, and the user that a certificate names.

use std::pin::Pin;
use std::task::Poll;

use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::*;

/// Moves a future on once; whether it waits for more.
async fn waits<F: Future>(mut future: Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// SRV-18: a client that leaves while its token is reviewed leaves nothing behind, and the next client asks in its place.
#[tokio::test]
async fn a_client_that_leaves_during_the_review_of_its_token_leaves_nothing() {
    let port = Port::new();
    let tokens = Tokens::new(port.reviews.clone(), Duration::from_secs(120)).expect("randomness");
    let ask = |token: &'static str| Box::pin(tokens.user_of(token, &*port.clock));
    let (mut first, mut second, mut third) = (ask("token-of-admin"), ask("token-of-admin"), ask("token-of-reader"));
    assert!(waits(first.as_mut()).await && waits(second.as_mut()).await && waits(third.as_mut()).await);
    assert_eq!(tokens.being_asked(), 2);
    drop((first, third));
    assert_eq!(tokens.being_asked(), 1, "one client is left");
    assert_eq!(second.await, Ok(Some(named("admin"))));
    assert_eq!(tokens.being_asked(), 0);
    assert_eq!(port.reviews.tokens.load(Ordering::SeqCst), 3);
}

/// Keeps the names of spans.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<&'static str>>>);

impl<S: tracing::Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
        lock(&self.0).push(attributes.metadata().name());
    }
}

/// OBS-28, OBS-30: a caller begins a span only behind the door, whatever trace its headers name.
#[tokio::test]
async fn a_caller_without_rights_begins_no_span() {
    let spans = Spans::default();
    let _kept = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
    let port = Port::new();
    let router = port.guarded();
    let strange = Proof { peer: peer(&port.certificates.strange), ..Proof::default() };
    for (proof, path, begun) in [
        (Proof::default(), "/pods", 0),
        (Proof::bearer("token-of-nobody"), "/exec/a/b/c", 0),
        (strange, "/metrics", 0),
        (Proof::bearer("token-of-reader"), "/pods", 0),
        (Proof::bearer("token-of-reader"), "/nope", 0),
        (Proof::bearer("token-of-reader"), "/metrics", 1),
    ] {
        let mut proof = proof.clone();
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
        proof.headers.push(("traceparent", trace));
        send(&router, "GET", path, &proof).await;
        let seen = std::mem::take(&mut *lock(&spans.0));
        assert_eq!(seen.iter().filter(|name| **name == "request").count(), begun, "{path}: {seen:?}");
    }
}

/// SRV-17: of several common names the last one counts, as in Go's parser, for rights are given to that name.
#[test]
fn the_last_of_several_common_names_is_the_user() {
    let (authority, key) = (Authority::new(), PrivateKey::generate().expect("a key"));
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("ca.crt"), &authority.pem());
    let authorities = ClientAuthorities::open(&folder.path().join("ca.crt"), true, true).expect("authorities");
    let names = Names { common_name: "admin".into(), ..Names::default() };
    for (second, user) in [("jane", Some("jane")), ("", None)] {
        let chain = authority.sign_with_second_name(&names, second, &key);
        let pair = Pair::parse(chain.as_bytes(), key.pem().as_bytes()).expect("a pair");
        let found = authorities.identify(&pair.certified().cert, Clock::now(&*clock())).expect("signed by ours");
        assert_eq!(found.map(|user| user.name).as_deref(), user);
    }
}
