//! The API server's answers about users: the user of a token, and the rights of a user (SRV-17, SRV-19). An adapter;
//! its callers keep the answers.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};

use super::kube_api::{ApiError, ApiObject, ApiServer, Lane, Observed, Place};
use crate::logic::serving::server_access::User;
use crate::platform::network::tls;
use crate::platform::observer::Review;

/// The longest that one question may take, its retries included; as upstream's webhooks.
const DEADLINE: Duration = Duration::from_secs(30);
/// Waits between tries: as upstream, five tries, each wait one and a half times the one before.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// How many tries there are.
const TRIES: u32 = 5;

/// A right on the node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Right {
    /// The API's verb.
    pub verb: &'static str,
    /// The node's name.
    pub node: String,
    /// The subresource of `nodes`.
    pub subresource: &'static str,
}

/// Why nobody could say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The API server could not be asked, or refused to be.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// There was no answer to this in time.
    #[error("{0} timed out")]
    TooSlow(&'static str),
    /// The API server's own words.
    #[error("{0}")]
    Refused(String),
    /// Too many others are being asked about.
    #[error("too many tokens are being asked about")]
    Crowded,
    /// It said yes and no.
    #[error("webhook subject access review returned both allow and deny response")]
    Contradiction,
}

/// See the module.
#[async_trait]
pub trait AccessReviews: Send + Sync {
    /// The user of this token; `None` when it is nobody's.
    ///
    /// # Errors
    /// When nobody could say.
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError>;

    /// Whether the user has the right.
    ///
    /// # Errors
    /// When nobody could say.
    async fn may(&self, user: &User, right: &Right) -> Result<bool, ReviewError>;
}

/// Asks the API server. Questions about tokens hold up no other call.
pub struct ApiReviews {
    rights: ApiServer,
    tokens: ApiServer,
}

impl ApiReviews {
    /// On its own deadline.
    pub fn new(api: &ApiServer) -> Self {
        let rights = api.within(DEADLINE);
        Self { tokens: rights.on(Lane::TokenReviews), rights }
    }

    async fn create<K: ApiObject + Clone>(&self, kind: Review, review: K) -> Result<K, ReviewError> {
        let api = match kind {
            Review::Identity => &self.tokens,
            Review::Right => &self.rights,
        };
        let began = api.observer().map(Observed::uptime);
        let answer = Self::try_create(api, review).await;
        if let Some((observed, began)) = api.observer().zip(began) {
            let code = answer.as_ref().map_or_else(ApiError::code, |_| Some(201));
            observed.reviewed(kind, code, began);
        }
        Ok(answer?)
    }

    async fn try_create<K: ApiObject + Clone>(api: &ApiServer, review: K) -> Result<K, ApiError> {
        let mut wait = RETRY_FIRST;
        for _ in 1..TRIES {
            match api.create(&Place::Cluster, &review).await {
                Err(error) if is_worth_retrying(&error) => tokio::time::sleep(wait).await,
                answer => return answer,
            }
            wait = wait * 3 / 2;
        }
        api.create(&Place::Cluster, &review).await
    }
}

fn is_worth_retrying(error: &ApiError) -> bool {
    error.is_too_many() || error.code().is_some_and(|code| matches!(code, 500 | 504))
}

#[async_trait]
impl AccessReviews for ApiReviews {
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let asked = self.create(Review::Identity, TokenReview { spec, ..TokenReview::default() });
        let answer =
            tokio::time::timeout(DEADLINE, asked).await.map_err(|_| ReviewError::TooSlow("token review"))??;
        let status = answer.status.unwrap_or_default();
        match (status.authenticated, status.error.filter(|error| !error.is_empty())) {
            (Some(true), _) => Ok(Some(user(status.user.unwrap_or_default()))),
            (_, Some(error)) => Err(ReviewError::Refused(error)),
            (_, None) => Ok(None),
        }
    }

    async fn may(&self, user: &User, right: &Right) -> Result<bool, ReviewError> {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let attributes = ResourceAttributes {
            verb: text(right.verb),
            version: text("v1"),
            resource: text("nodes"),
            subresource: text(right.subresource),
            name: text(&right.node),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: text(&user.name),
            uid: text(&user.uid),
            groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
            extra: Some(user.extra.clone().into_iter().collect()).filter(|_| !user.extra.is_empty()),
            resource_attributes: Some(attributes),
            non_resource_attributes: None,
        };
        let asked = self.create(Review::Right, SubjectAccessReview { spec, ..SubjectAccessReview::default() });
        let answer = tokio::time::timeout(DEADLINE, asked)
            .await
            .map_err(|_| ReviewError::TooSlow("subject access review"))??;
        let status = answer.status.unwrap_or_default();
        match (status.allowed, status.denied.unwrap_or_default()) {
            (true, true) => Err(ReviewError::Contradiction),
            (allowed, _) => Ok(allowed),
        }
    }
}

fn user(info: UserInfo) -> User {
    User {
        name: info.username.unwrap_or_default(),
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default().into_iter().collect(),
    }
}

/// The library has no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no randomness")]
pub struct NoRandomness;

/// Names tokens without telling them: the same token has the same name for as long as this is there, and no longer.
pub struct TokenNames {
    secret: [u8; 32],
}

impl TokenNames {
    /// With a secret of its own.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new() -> Result<Self, NoRandomness> {
        let mut secret = [0; 32];
        tls::provider().secure_random.fill(&mut secret).map_err(|_| NoRandomness)?;
        Ok(Self { secret })
    }

    /// The name of a token.
    pub fn of(&self, token: &str) -> String {
        // The secret stands behind the token as well as before it, so no name tells of another.
        tls::sha256_hex(&[&self.secret, token.as_bytes(), &self.secret].concat())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::body::Bytes;
    use kube::client::Body;

    use super::*;

    /// A lane of a server that knows nobody; it notes its name for each call.
    fn lane(name: &'static str, log: &Arc<Mutex<Vec<String>>>) -> kube::Client {
        let log = Arc::clone(log);
        let service = tower::service_fn(move |request: Request<Body>| {
            let kind = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            log.lock().expect("not poisoned").push(format!("{name} {kind}"));
            let body = match kind.as_str() {
                "tokenreviews" => r#"{"kind":"TokenReview","metadata":{},"spec":{},"status":{}}"#,
                _ => r#"{"kind":"SubjectAccessReview","metadata":{},"spec":{},"status":{"allowed":false}}"#,
            };
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body)))))
        });
        kube::Client::new(service, "default")
    }

    /// Strangers cause questions about tokens; those hold up neither the agent's own calls nor questions about rights.
    #[tokio::test]
    async fn questions_about_tokens_have_a_lane_of_their_own() {
        let log = Arc::default();
        let other = || lane("other", &log);
        let api = ApiServer::new(lane("general", &log), other(), other()).with_token_reviews(lane("tokens", &log));
        let reviews = ApiReviews::new(&api);
        assert_eq!(reviews.user_of("secret").await, Ok(None));
        let right = Right { verb: "get", node: "n".to_owned(), subresource: "metrics" };
        assert_eq!(reviews.may(&User::default(), &right).await, Ok(false));
        assert_eq!(*log.lock().expect("not poisoned"), ["tokens tokenreviews", "general subjectaccessreviews"]);
    }

    #[test]
    fn a_token_has_one_name_and_another_in_another_life() {
        let (names, others) = (TokenNames::new().expect("random"), TokenNames::new().expect("random"));
        assert_eq!(names.of("secret"), names.of("secret"));
        assert_ne!(names.of("secret"), names.of("secret2"));
        assert_ne!(names.of("secret"), others.of("secret"));
    }
}
