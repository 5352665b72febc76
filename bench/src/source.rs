//! Inputs: one random sequence, over and over.

use crate::number::Number;

/// A sequence of random numbers that fills a tensor of any size.
///
/// Its length is a prime, so that rows of any length that is not a multiple of it start at different
/// places of the sequence, until there are as many rows as the prime: rows are rotations of one
/// another and no two are equal.
pub struct Source<T> {
    period: Vec<T>,
}

/// The largest prime below 2^24, for the GPU.
const LONG: usize = 16_777_213;

/// The largest prime below 2^16, for the emulator.
const SHORT: usize = 65_521;

impl<T: Number> Source<T> {
    /// A sequence that no small tensor repeats.
    pub fn new(quick: bool) -> Self {
        let mut random = Random(0x5eed);
        let length = if quick { SHORT } else { LONG };
        Self {
            period: (0..length)
                .map(|_| T::round(random.sum_of_uniforms()))
                .collect(),
        }
    }

    /// The sequence, once.
    pub fn period(&self) -> &[T] {
        &self.period
    }

    /// The elements of a row of a packed tensor.
    pub fn row(&self, row: usize, cols: usize) -> impl Iterator<Item = T> + Clone {
        let (before, after) = self.period.split_at(row * cols % self.period.len());
        after.iter().chain(before).copied().cycle().take(cols)
    }
}

/// Steele, Lea and Flood's SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// 64 even bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The sum of four numbers that are even between -2 and 2: bell-shaped, within (-8, 8).
    pub fn sum_of_uniforms(&mut self) -> f32 {
        let halves = |bits: u64| (bits >> 32) + (bits & 0xffff_ffff);
        let sum = halves(self.bits()) + halves(self.bits());
        ((sum + 2) as f64 * (4.0 / 4_294_967_296.0) - 8.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_one_another_and_wrap() {
        let source = Source::<f32>::new(true);
        let length = source.period().len();
        let flat: Vec<f32> = (0..3).flat_map(|row| source.row(row, 40_000)).collect();
        for (index, value) in flat.iter().enumerate() {
            assert_eq!(*value, source.period()[index % length]);
        }
    }

    #[test]
    fn numbers_fill_their_range() {
        let mut random = Random(1);
        let numbers: Vec<f32> = (0..100_000).map(|_| random.sum_of_uniforms()).collect();
        let mean = numbers.iter().sum::<f32>() / 1e5;
        assert!(mean.abs() < 0.05, "{mean}");
        assert!(numbers.iter().all(|x| x.abs() < 8.0));
        assert!(numbers.iter().any(|x| *x > 6.5) && numbers.iter().any(|x| *x < -6.5));
    }
}
