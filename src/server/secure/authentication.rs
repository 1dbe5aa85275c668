//! The caller's identity: by client certificate, by bearer token, or nobody (SRV-16 to SRV-18). The first that says who
//! it is counts.
//!
//! As upstream's union of authenticators: a bad certificate beside a good token is no harm, and neither a bad certificate
//! nor a bad token ever becomes anonymous.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::actors::kit::trace::lock;
use crate::logic::serving::review_places::ReviewPlaces;
use crate::logic::serving::server_access::User;
use crate::logic::serving::timed_cache::TimedCache;
use crate::platform::cluster::access_review::{AccessReviews, NoRandomness, ReviewError, TokenNames};
use crate::platform::cluster::certificates::ClientAuthorities;
use crate::platform::host::clock::Clock;
use crate::server::listening::connections::Peer;

/// Tokens of users whose answers are kept, and as many of nobody's.
const TOKENS_MAX: usize = 4096;
/// Tokens that are being asked about: of all callers, and of one address.
const REVIEWS_MAX: usize = 64;
const REVIEWS_OF_ADDRESS_MAX: usize = 16;
/// Bytes of a token; longer ones are nobody's.
const TOKEN_BYTES_MAX: usize = 32 * 1024;
/// The sub-protocol of WebSockets that carries a token, for clients that cannot set headers.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// See the module.
pub struct Authentication {
    authorities: Option<Arc<ClientAuthorities>>,
    tokens: Option<Tokens>,
    anonymous: bool,
    clock: Arc<dyn Clock>,
}

/// The API server's answers about tokens, kept for a while.
pub struct Tokens {
    reviews: Arc<dyn AccessReviews>,
    names: TokenNames,
    keep: Duration,
    users: Mutex<TimedCache<String, User>>,
    /// Apart from the users' tokens: strangers make these, and must push out no others.
    nobodys: Mutex<TimedCache<String, ()>>,
    /// Tokens that are being asked about: the second who asks waits for the first one's answer.
    asked: Asked,
    places: Mutex<ReviewPlaces>,
}

/// A mutex for each token, by its name.
type Asked = Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>;

/// The finding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The user.
    User(User),
    /// The request had nothing that could be judged.
    Nothing,
}

impl Authentication {
    /// By these means; those that are `None` are not judged.
    pub fn new(
        authorities: Option<Arc<ClientAuthorities>>,
        tokens: Option<Tokens>,
        anonymous: bool,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { authorities, tokens, anonymous, clock }
    }

    /// Finds the user, and takes what proved it out of the headers: nothing behind this has a use for it.
    ///
    /// # Errors
    /// The credential is no good; why, for the log alone.
    pub(super) async fn user(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<User, String> {
        let mut found = self.by_certificate(peer);
        let mut problems = vec![];
        if !matches!(found, Ok(Found::User(_))) {
            problems.extend(found.err());
            found = self.by_token(peer, headers).await;
        }
        forget(headers);
        match found {
            Ok(Found::User(user)) => return Ok(user.authenticated()),
            Ok(Found::Nothing) => {}
            Err(problem) => problems.push(problem),
        }
        match (problems.is_empty(), self.anonymous) {
            (true, true) => Ok(User::anonymous()),
            (true, false) => Err("no credentials".to_owned()),
            (false, _) => Err(problems.join(", ")),
        }
    }

    fn by_certificate(&self, peer: &Peer) -> Result<Found, String> {
        let Some(authorities) = self.authorities.as_ref().filter(|_| !peer.certificates.is_empty()) else {
            return Ok(Found::Nothing);
        };
        let user = authorities.identify(&peer.certificates, self.clock.now()).map_err(|error| error.to_string())?;
        Ok(user.map_or(Found::Nothing, Found::User))
    }

    async fn by_token(&self, peer: &Peer, headers: &HeaderMap) -> Result<Found, String> {
        let Some(tokens) = &self.tokens else { return Ok(Found::Nothing) };
        let Some(token) = bearer(headers).map(Ok).or_else(|| from_protocols(headers)).transpose()? else {
            return Ok(Found::Nothing);
        };
        if token.len() > TOKEN_BYTES_MAX {
            return Err("invalid bearer token".to_owned());
        }
        let user = tokens.user_of(&token, peer.address, &*self.clock).await.map_err(|error| error.to_string())?;
        user.map(Found::User).ok_or_else(|| "invalid bearer token".to_owned())
    }
}

impl Tokens {
    /// Asks `reviews`, and keeps each answer, good or bad, for `keep` (`authentication.webhook.cacheTTL`).
    ///
    /// # Errors
    /// When there is no randomness to name tokens with.
    pub fn new(reviews: Arc<dyn AccessReviews>, keep: Duration) -> Result<Self, NoRandomness> {
        Ok(Self {
            reviews,
            names: TokenNames::new()?,
            keep,
            users: Mutex::new(TimedCache::new(TOKENS_MAX)),
            nobodys: Mutex::new(TimedCache::new(TOKENS_MAX)),
            asked: Mutex::new(BTreeMap::new()),
            places: Mutex::new(ReviewPlaces::new(REVIEWS_MAX, REVIEWS_OF_ADDRESS_MAX)),
        })
    }

    /// How many tokens are being asked about.
    #[cfg(test)]
    pub(super) fn being_asked(&self) -> usize {
        lock(&self.asked).len()
    }

    pub(super) async fn user_of(
        &self,
        token: &str,
        from: Option<SocketAddr>,
        clock: &dyn Clock,
    ) -> Result<Option<User>, ReviewError> {
        let name = self.names.of(token);
        if let Some(known) = self.known(&name, clock) {
            return Ok(known);
        }
        let turn = Turn::of(&self.asked, &name);
        let _held = turn.lock().await;
        if let Some(known) = self.known(&name, clock) {
            return Ok(known);
        }
        let _place = Place::of(&self.places, from.map(|address| address.ip())).ok_or(ReviewError::Crowded)?;
        // A question that nobody could answer is asked again by the next.
        let user = self.reviews.user_of(token).await?;
        let until = clock.uptime() + self.keep;
        match &user {
            Some(user) => lock(&self.users).insert(name.clone(), user.clone(), until),
            None => lock(&self.nobodys).insert(name.clone(), (), until),
        }
        Ok(user)
    }

    /// The answer that still holds about the token of this name.
    fn known(&self, name: &String, clock: &dyn Clock) -> Option<Option<User>> {
        if let Some(user) = lock(&self.users).get(name, clock.uptime()) {
            return Some(Some(user));
        }
        lock(&self.nobodys).get(name, clock.uptime()).map(|()| None)
    }
}

/// One open question's place, given back on drop.
struct Place<'a> {
    places: &'a Mutex<ReviewPlaces>,
    address: Option<IpAddr>,
}

impl<'a> Place<'a> {
    fn of(places: &'a Mutex<ReviewPlaces>, address: Option<IpAddr>) -> Option<Self> {
        let is_free = lock(places).enter(address);
        is_free.then(|| Self { places, address })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(self.places).leave(self.address);
    }
}

/// One client's place among those that wait for the answer about one token. A client may leave at any await, so the place
/// is given up on drop; the last one to leave takes the token's entry along.
struct Turn<'a> {
    asked: &'a Asked,
    name: &'a str,
    /// Taken only on drop.
    mutex: Option<Arc<tokio::sync::Mutex<()>>>,
}

impl<'a> Turn<'a> {
    fn of(asked: &'a Asked, name: &'a str) -> Self {
        let mutex = Arc::clone(lock(asked).entry(name.to_owned()).or_default());
        Self { asked, name, mutex: Some(mutex) }
    }

    async fn lock(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match &self.mutex {
            Some(mutex) => Some(mutex.lock().await),
            None => None,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Under the lock, so that of two that leave at once the second sees the first one gone.
        let mut asked = lock(self.asked);
        self.mutex = None;
        if asked.get(self.name).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
            asked.remove(self.name);
        }
    }
}

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim_start().split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The token among the sub-protocols of a WebSocket.
fn from_protocols(headers: &HeaderMap) -> Option<Result<String, String>> {
    let is_websocket =
        headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let mut tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL));
    let encoded = tokens.next().filter(|_| is_websocket)?;
    if tokens.next().is_some() {
        return Some(Err("multiple base64.bearer.authorization tokens specified".to_owned()));
    }
    if protocols(headers).all(|protocol| protocol.is_empty() || protocol.starts_with(TOKEN_PROTOCOL)) {
        return Some(Err("missing additional subprotocol".to_owned()));
    }
    let token = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Some(token.ok_or_else(|| "invalid base64.bearer.authorization token encoding".to_owned()))
}

/// Takes what may prove who somebody is out of a request.
fn forget(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    headers.remove(header::COOKIE);
    if protocols(headers).any(|protocol| protocol.starts_with(TOKEN_PROTOCOL)) {
        let kept: Vec<&str> = protocols(headers).filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
        let kept = HeaderValue::from_str(&kept.join(", "));
        headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
        if let Ok(kept) = kept
            && !kept.is_empty()
        {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, kept);
        }
    }
}
