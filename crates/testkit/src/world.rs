//! The clock and the chance of a simulation: virtual time, and numbers that follow from a seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// 2026-01-01 00:00:00 UTC, when every simulation begins.
const BEGIN_SECONDS: i64 = 1_767_225_600;

/// One simulated world. Time goes on only while nobody has anything to do.
pub struct World {
    began: Instant,
    /// How far the wall clock was set beside the time that passed, in microseconds.
    offset: AtomicI64,
    numbers: Mutex<u64>,
}

impl World {
    /// Must be called inside a runtime whose time is paused.
    pub fn new(seed: u64) -> World {
        World { began: Instant::now(), offset: AtomicI64::new(0), numbers: Mutex::new(seed) }
    }

    /// Sets the wall clock forward or back.
    pub fn jump(&self, seconds: i64) {
        self.offset.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    fn microseconds(&self) -> i64 {
        let passed = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        BEGIN_SECONDS * 1_000_000 + passed + self.offset.load(Ordering::Relaxed)
    }

    /// The next number of the seed.
    pub fn draw(&self) -> u64 {
        World::mix(&mut self.numbers.lock().expect("nobody panics while drawing"))
    }

    /// The next number of a sequence (splitmix64).
    pub fn mix(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl store::Environment for World {
    fn now(&self) -> store::Timestamp {
        store::Timestamp(self.microseconds())
    }

    fn random(&self) -> u64 {
        self.draw()
    }
}

impl reconcile::Environment for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.microseconds()).expect("a simulation must be set up")
    }

    fn random(&self) -> u64 {
        self.draw()
    }
}
