//! Requests that an actor holds back until it can see to them.
//!
//! Owned by the actor. Bounded: whatever keeps the actor may last, and who asks asks again.

/// The bound: as many as a mailbox of these actors takes.
const HELD_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Held<T> {
    requests: Vec<T>,
    most: usize,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { requests: vec![], most: HELD_MAX }
    }
}

impl<T> Held<T> {
    /// Holds the request back. Where there is no room, those that nobody waits for any more make some.
    ///
    /// # Errors
    /// The request, when there is no room for it.
    pub fn push(&mut self, request: T, is_left: impl Fn(&T) -> bool) -> Result<(), T> {
        if self.requests.len() >= self.most {
            self.requests.retain(|held| !is_left(held));
        }
        if self.requests.len() >= self.most {
            return Err(request);
        }
        self.requests.push(request);
        Ok(())
    }

    /// Forgets those that a newer one takes the place of.
    pub fn forget(&mut self, is_old: impl Fn(&T) -> bool) {
        self.requests.retain(|held| !is_old(held));
    }

    /// All that were held back, in their order.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_has_a_bound() {
        let mut held = Held { requests: vec![], most: 3 };
        for request in 0..3 {
            assert_eq!(held.push(request, |_| false), Ok(()));
        }
        assert_eq!(held.push(3, |_| false), Err(3), "there is no room");
        assert_eq!(held.push(4, |held| *held == 1), Ok(()), "nobody waits for one of them");
        held.forget(|held| *held == 0);
        assert_eq!(held.take(), [2, 4]);
        assert_eq!(held.push(5, |_| false), Ok(()));
    }
}
