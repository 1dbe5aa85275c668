//! Chance on a real node: spreads retries so that a node's pods, and a cluster's nodes, do not act in step.

use std::sync::atomic::{AtomicU64, Ordering};

/// Chance, in 0..1, from one seed where there is one.
pub trait Chance: Send + Sync {
    /// The next value.
    fn next(&self) -> f64;
}

/// A small generator, seeded from the kernel. Good for spreading, not for secrets.
pub struct SystemChance {
    state: AtomicU64,
}

impl SystemChance {
    /// Seeded from the kernel's randomness; from the address space's layout where that fails.
    pub fn from_kernel() -> Self {
        let mut seed = [0u8; 8];
        let filled = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
        let here = std::ptr::from_ref(&seed) as u64;
        let state = if filled == Ok(seed.len()) { u64::from_le_bytes(seed) } else { here };
        Self { state: AtomicU64::new(state) }
    }
}

/// A number that nobody outside foresees, as far as the kernel has one.
pub fn unforeseen() -> u16 {
    let mut bytes = [0u8; 2];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    if filled != Ok(bytes.len()) {
        tracing::debug!("the kernel has no random numbers yet");
    }
    u16::from_le_bytes(bytes)
}

impl Chance for SystemChance {
    /// splitmix64, its upper 53 bits as a fraction.
    fn next(&self) -> f64 {
        let mut mixed = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let fraction = (mixed ^ (mixed >> 31)) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let chance = fraction as f64 / (1u64 << 53) as f64;
        chance
    }
}
