//! Whether a user may: always, or by what the API server says, kept for a while (SRV-19, SRV-20).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::actors::kit::trace::lock;
use crate::logic::serving::server_access::{self, User};
use crate::logic::serving::timed_cache::TimedCache;
use crate::platform::cluster::access_review::{AccessReviews, ReviewError, Right};
use crate::platform::host::clock::Clock;

/// Answers that are kept.
const ANSWERS_MAX: usize = 8192;
/// Bytes of a question whose answer is kept; a user of many groups is asked about each time.
const QUESTION_BYTES_MAX: usize = 10_000;

/// See the module.
pub enum Authorization {
    /// `AlwaysAllow`.
    AlwaysAllow,
    /// `Webhook`.
    Webhook(Reviews),
}

/// The API server's answers.
pub struct Reviews {
    reviews: Arc<dyn AccessReviews>,
    node: String,
    keep_allowed: Duration,
    keep_refused: Duration,
    known: Mutex<TimedCache<(User, Right), bool>>,
    clock: Arc<dyn Clock>,
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Allowed,
    /// It may not; the text of the answer.
    Forbidden(String),
    /// Nobody could say; the text of the answer, and why.
    Unknown(String, ReviewError),
}

impl Authorization {
    /// Asks `reviews` about rights on the node; keeps "yes" and "no" for as long as each is given.
    pub fn webhook(
        reviews: Arc<dyn AccessReviews>,
        node: &str,
        keep_allowed: Duration,
        keep_refused: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let known = Mutex::new(TimedCache::new(ANSWERS_MAX));
        Self::Webhook(Reviews { reviews, node: node.to_owned(), keep_allowed, keep_refused, known, clock })
    }

    /// Whether the user may; subresources are tried in order, and the first "yes" counts.
    pub(super) async fn judge(&self, user: &User, method: &str, path: &str) -> Verdict {
        let Self::Webhook(reviews) = self else { return Verdict::Allowed };
        let (verb, subresources) = (server_access::verb(method), server_access::subresources(path));
        for subresource in subresources {
            let right = Right { verb, node: reviews.node.clone(), subresource };
            match reviews.may(user, right).await {
                Ok(true) => return Verdict::Allowed,
                Ok(false) => {}
                Err(why) => {
                    let told = server_access::authorization_error(&user.name, verb, subresource);
                    return Verdict::Unknown(told, why);
                }
            }
        }
        Verdict::Forbidden(server_access::forbidden(&user.name, verb, subresources))
    }
}

impl Reviews {
    async fn may(&self, user: &User, right: Right) -> Result<bool, ReviewError> {
        let question = (user.clone(), right);
        if let Some(known) = lock(&self.known).get(&question, self.clock.uptime()) {
            return Ok(known);
        }
        let allowed = self.reviews.may(user, &question.1).await?;
        if size(user) <= QUESTION_BYTES_MAX {
            let keep = if allowed { self.keep_allowed } else { self.keep_refused };
            lock(&self.known).insert(question, allowed, self.clock.uptime() + keep);
        }
        Ok(allowed)
    }
}

fn size(user: &User) -> usize {
    let extra = user.extra.iter().map(|(key, values)| key.len() + values.iter().map(String::len).sum::<usize>());
    user.name.len() + user.uid.len() + user.groups.iter().map(String::len).sum::<usize>() + extra.sum::<usize>()
}
