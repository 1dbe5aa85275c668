//! Questions about tokens that may be open at a time: so many of all callers, and fewer of one address. Pure.
//!
//! Anyone can show a token that nobody knows, and each costs a call to the API server. The bound of an address keeps places
//! free for callers elsewhere.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// See the module.
#[derive(Debug)]
pub struct ReviewPlaces {
    places: usize,
    of_address: usize,
    /// Open questions by the caller's address.
    open: BTreeMap<Option<IpAddr>, usize>,
}

impl ReviewPlaces {
    /// `places` for all, `of_address` for one address.
    pub fn new(places: usize, of_address: usize) -> Self {
        Self { places, of_address, open: BTreeMap::new() }
    }

    /// Takes a place for this address, if there is one.
    #[must_use]
    pub fn enter(&mut self, address: Option<IpAddr>) -> bool {
        let of_address = self.open.get(&address).copied().unwrap_or_default();
        if of_address >= self.of_address || self.open.values().sum::<usize>() >= self.places {
            return false;
        }
        self.open.insert(address, of_address + 1);
        true
    }

    /// Gives a place of this address back.
    pub fn leave(&mut self, address: Option<IpAddr>) {
        if let Some(open) = self.open.get_mut(&address) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.open.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_for_others() {
        let (one, two, three) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()), None);
        let mut places = ReviewPlaces::new(4, 2);
        let entered = [one, one, one, two, two, two, three].map(|address| places.enter(address));
        assert_eq!(entered, [true, true, false, true, true, false, false]);
        places.leave(one);
        assert_eq!([three, one].map(|address| places.enter(address)), [true, false]);
        for address in [one, two, two, three, three] {
            places.leave(address);
        }
        assert!(places.open.is_empty());
    }
}
