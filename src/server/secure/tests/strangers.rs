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
    let ask = |token: &'static str| Box::pin(tokens.user_of(token, None, &*port.clock));
    let (mut first, mut second, mut third) = (ask("token-of-admin"), ask("token-of-admin"), ask("token-of-reader"));
    assert!(waits(first.as_mut()).await && waits(second.as_mut()).await && waits(third.as_mut()).await);
    assert_eq!(tokens.being_asked(), 2);
    drop((first, third));
    assert_eq!(tokens.being_asked(), 1, "one client is left");
    assert_eq!(second.await, Ok(Some(named("admin"))));
    assert_eq!(tokens.being_asked(), 0);
    assert_eq!(port.reviews.tokens.load(Ordering::SeqCst), 3);
}

/// SEC-28, SRV-17: tokens that nobody knows push out no token that somebody has.
#[tokio::test]
async fn a_flood_of_wrong_tokens_leaves_the_answers_about_right_ones() {
    let port = Port::new();
    let router = port.guarded();
    let admin = Proof::bearer("token-of-admin");
    assert_eq!(send(&router, "GET", "/pods", &admin).await.0, StatusCode::OK);
    for number in 0..5000 {
        assert_eq!(send(&router, "GET", "/pods", &Proof::bearer(&format!("wrong-{number}"))).await.0.as_u16(), 401);
    }
    assert_eq!(send(&router, "GET", "/pods", &admin).await.0, StatusCode::OK);
    assert_eq!(port.reviews.tokens.load(Ordering::SeqCst), 5001, "the first answer still counts");
}

/// SEC-28, SRV-16: a certificate that says who it is needs no answer about a token beside it.
#[tokio::test]
async fn a_good_certificate_waits_for_no_token() {
    let port = Port::new();
    port.reviews.is_silent.store(true, Ordering::SeqCst);
    let both = Proof { peer: peer(&port.certificates.pair()), ..Proof::bearer("wrong") };
    let answer = tokio::time::timeout(Duration::from_secs(60), send(&port.guarded(), "GET", "/pods", &both)).await;
    assert_eq!(answer.expect("at once").0, StatusCode::OK);
    assert_eq!(port.reviews.tokens.load(Ordering::SeqCst), 0);
}

/// SEC-28: questions about tokens of one address are bounded, and leave places to others.
#[tokio::test]
async fn an_address_has_a_bounded_number_of_tokens_asked_about() {
    let port = Port::new();
    port.reviews.is_silent.store(true, Ordering::SeqCst);
    let tokens = Tokens::new(port.reviews.clone(), Duration::from_secs(120)).expect("randomness");
    let ask = |host: u8, number: u32| {
        let (tokens, clock) = (&tokens, &*port.clock);
        let from = Some(([10, 0, 0, host], 5000).into());
        Box::pin(async move { tokens.user_of(&format!("wrong-{host}-{number}"), from, clock).await })
    };
    let mut crowd: Vec<_> = (0..16).map(|number| ask(1, number)).collect();
    for asker in &mut crowd {
        assert!(waits(asker.as_mut()).await);
    }
    assert_eq!(ask(1, 16).await, Err(ReviewError::Crowded));
    assert!(waits(ask(2, 0).as_mut()).await, "an asker elsewhere has a place");
    drop(crowd.pop());
    assert!(waits(ask(1, 17).as_mut()).await, "an asker that left gave its place back");
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
