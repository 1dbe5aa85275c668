//! What somebody unknown may cost the authenticated port.

use std::pin::Pin;
use std::task::Poll;

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
