//! Seeded random numbers: the same forever, on every machine, with every version of every crate.

/// A generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.bits() % count.max(1) as u64).unwrap_or(0)
    }

    /// One of `from..=to`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let choices = u64::try_from(to.saturating_sub(from)).unwrap_or(0) + 1;
        from + i64::try_from(self.bits() % choices).unwrap_or(0)
    }

    /// True in this many of ten thousand cases.
    pub fn chance(&mut self, of_ten_thousand: u32) -> bool {
        self.bits() % 10_000 < u64::from(of_ten_thousand)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
