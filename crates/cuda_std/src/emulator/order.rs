//! In which order clusters and threads run.

use core::cell::Cell;

/// Draws the order of the threads of one cluster; ascending without a seed.
pub(super) struct Order(Option<Cell<u64>>);

impl Order {
    /// The order in cluster `cluster`.
    pub(super) fn new(seed: Option<u64>, cluster: u32) -> Self {
        Self(seed.map(|seed| Cell::new(mix(seed ^ mix(cluster.into())))))
    }

    /// One of `0..count`; 0 without a seed.
    pub(super) fn pick(&self, count: u32) -> u32 {
        let Some(state) = &self.0 else { return 0 };
        state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        (mix(state.get()) % u64::from(count)) as u32
    }

    /// One of the bits of `set`, which is not empty; the lowest without a seed.
    #[inline]
    pub(super) fn pick_bit(&self, set: u32) -> u32 {
        if self.0.is_none() {
            return set.trailing_zeros();
        }
        let mut rest = set;
        for _ in 0..self.pick(set.count_ones()) {
            rest &= rest - 1;
        }
        rest.trailing_zeros()
    }

    /// `0..count`, at most 32 of them, each once; ascending without a seed.
    pub(super) fn shuffled(&self, count: usize) -> impl Iterator<Item = usize> {
        let mut rest = u32::MAX >> (u32::BITS as usize - count);
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| self.pick_bit(rest))?;
            rest &= !(1 << bit);
            Some(bit as usize)
        })
    }

    /// Whether a warp should make way for another though it could go on; never without a seed.
    #[inline]
    pub(super) fn interrupts(&self) -> bool {
        self.0.is_some() && self.pick(4) == 0
    }
}

/// A permutation of the clusters of a grid: multiply and add, modulo their number.
pub(super) struct Permutation {
    count: u64,
    factor: u64,
    summand: u64,
}

impl Permutation {
    /// Of `0..count`; the identity without a seed.
    pub(super) fn new(seed: Option<u64>, count: u32) -> Self {
        let count = u64::from(count);
        let (factor, summand) = match seed {
            None => (1, 0),
            Some(seed) => {
                // A factor prime to the count permutes. The search ends: the count plus 1 is one.
                let mut factor = mix(seed) % count;
                while gcd(factor, count) != 1 {
                    factor += 1;
                }
                (factor % count, mix(!seed) % count)
            }
        };
        Self {
            count,
            factor,
            summand,
        }
    }

    pub(super) fn at(&self, index: u32) -> u32 {
        ((u64::from(index) * self.factor + self.summand) % self.count) as u32
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Splitmix64's output function.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_hit_every_cluster_once() {
        for count in [1, 2, 3, 12, 30, 97, 1000] {
            for seed in 0..50 {
                let permutation = Permutation::new(Some(seed), count);
                let mut hit: Vec<u32> = (0..count).map(|index| permutation.at(index)).collect();
                hit.sort_unstable();
                assert!(hit.into_iter().eq(0..count), "count {count}, seed {seed}");
            }
        }
    }

    #[test]
    fn without_a_seed_the_order_ascends() {
        let permutation = Permutation::new(None, 10);
        assert!((0..10).all(|index| permutation.at(index) == index));
        let order = Order::new(None, 3);
        assert_eq!(
            (order.pick(7), order.pick_bit(0b1100), order.interrupts()),
            (0, 2, false)
        );
    }

    #[test]
    fn what_is_shuffled_is_there_once() {
        for count in [1, 2, 31, 32] {
            assert!(Order::new(None, 0).shuffled(count).eq(0..count));
            let shuffled = |seed| -> Vec<usize> {
                let order = Order::new(Some(seed), 0);
                order.shuffled(count).collect()
            };
            for seed in 0..20 {
                let mut sorted = shuffled(seed);
                sorted.sort_unstable();
                assert!(
                    sorted.into_iter().eq(0..count),
                    "count {count}, seed {seed}"
                );
            }
            assert!(count < 3 || shuffled(1) != shuffled(2));
        }
    }

    #[test]
    fn with_a_seed_every_bit_is_picked() {
        let order = Order::new(Some(1), 0);
        let picked = (0..1000).fold(0u32, |picked, _| picked | 1 << order.pick_bit(0x8000_00f1));
        assert_eq!(picked, 0x8000_00f1);
    }
}
