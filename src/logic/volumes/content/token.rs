//! Tokens of service accounts in files (VOL-27): whom they are for, when they are asked for anew, who may read them.

use std::time::Duration;

use super::payload::permission_bits;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;

/// A token is asked for anew when it is older than this, however long it lives.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most that a check may come early, in whole seconds, so that tokens made together do not end together.
const JITTER_SECONDS_MAX: f64 = 10.0;
/// How long a token is to live when the pod does not say.
pub const EXPIRATION_SECONDS: i64 = 3600;

/// The key that tells tokens apart: the account that one is for and the object that it is bound to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenKey {
    /// The service account's namespace.
    pub namespace: String,
    /// The service account's name.
    pub service_account: String,
    /// The UID that it must have, so that an account which was made anew under the name gets nothing; empty where any may.
    pub service_account_uid: String,
    /// Its audience; empty for the API server's default.
    pub audience: String,
    /// How long it is to live, in seconds.
    pub expiration_seconds: i64,
    /// The pod's name.
    pub pod_name: String,
    /// The pod that it is bound to.
    pub pod_uid: PodUid,
}

/// When a token was made and how long it is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLife {
    /// When it ends.
    pub expires: Moment,
    /// How long it was made for; the server may have changed what was asked for.
    pub lifetime: Duration,
}

impl TokenLife {
    fn issued(&self) -> Moment {
        Moment(self.expires.0.saturating_sub(i64::try_from(self.lifetime.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// Whether it is not good any more.
    pub fn has_expired(&self, now: Moment) -> bool {
        now >= self.expires
    }

    /// Whether it is time for another one: after 24 h or 80 % of its life, less a jitter of 0 to 9 whole seconds.
    /// `chance` is in 0..1.
    pub fn is_due(&self, now: Moment, chance: f64) -> bool {
        let jitter = Duration::from_secs_f64((chance.clamp(0.0, 0.999) * JITTER_SECONDS_MAX).floor());
        let age = self.lifetime.mul_f64(0.8).min(AGE_MAX).saturating_sub(jitter);
        now > self.issued().plus(age)
    }
}

/// Mode and owner of a file that only the pod is to read: 0600 when all containers run as one user, who owns it, or
/// when there is an `fsGroup`, which turns it into 0640.
pub fn private_file(default_mode: i32, fs_user: Option<u32>, fs_group: Option<u32>) -> (u32, Option<u32>) {
    let narrow = fs_user.is_some() || fs_group.is_some();
    (if narrow { 0o600 } else { permission_bits(default_mode) }, fs_user)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::EPOCH.plus(Duration::from_secs(seconds))
    }

    fn life(lifetime: u64) -> TokenLife {
        TokenLife { expires: at(1_000_000 + lifetime), lifetime: Duration::from_secs(lifetime) }
    }

    /// VOL-27.
    #[test]
    fn a_token_is_renewed_after_four_fifths_of_its_life_or_a_day() {
        let day = 24 * 3600;
        for (lifetime, due_after) in [(3600, 2880), (600, 480), (day, day * 4 / 5), (10 * day, day)] {
            let token = life(lifetime);
            assert!(!token.is_due(at(1_000_000 + due_after), 0.0), "{lifetime}: too early");
            assert!(token.is_due(at(1_000_000 + due_after + 1), 0.0), "{lifetime}: too late");
            assert!(token.is_due(at(1_000_000 + due_after - 8), 0.95), "{lifetime}: the jitter makes it earlier");
        }
    }

    #[test]
    fn the_narrow_mode_is_for_those_who_can_still_read_it() {
        assert_eq!(private_file(0o644, None, None), (0o644, None));
        assert_eq!(private_file(0o644, Some(1000), None), (0o600, Some(1000)));
        assert_eq!(private_file(0o644, None, Some(7)), (0o600, None));
    }

    proptest! {
        #[test]
        fn a_token_is_renewed_before_it_ends(lifetime in 600_u64..10_000_000, chance in 0.0..1.0) {
            let token = life(lifetime);
            prop_assert!(token.is_due(token.expires, chance));
            prop_assert!(token.has_expired(token.expires));
            prop_assert!(!token.is_due(token.issued(), chance));
        }
    }
}
