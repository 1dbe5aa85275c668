//! Which connection is closed when a listener is full and all of its users are trusted. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The place of the connection to close: the oldest without a request of the user who has most such connections. One user
/// with many rights or few cannot keep the others out so. `idle` has the user of each connection without a request, in the
/// order of their beginning.
pub fn to_close(idle: &[Option<Arc<str>>]) -> Option<usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for user in idle.iter().flatten() {
        *counts.entry(user).or_default() += 1;
    }
    let most = counts.values().max()?;
    idle.iter().position(|user| user.as_ref().is_some_and(|user| counts.get(&**user) == Some(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(users: &[&str]) -> Option<usize> {
        let idle: Vec<_> = users.iter().map(|user| (!user.is_empty()).then(|| Arc::from(*user))).collect();
        to_close(&idle)
    }

    #[test]
    fn the_user_with_most_idle_connections_loses_the_oldest() {
        assert_eq!(closed(&["a", "b", "b", "a", "b"]), Some(1));
        assert_eq!(closed(&["", "a", "b"]), Some(1), "the oldest of equals");
        assert_eq!(closed(&["", ""]), None, "each has a request");
        assert_eq!(closed(&[]), None);
    }
}
