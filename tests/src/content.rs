//! What stands in a row: the kinds of input that have told right kernels from wrong ones.

use kernels_gpu::exp::DIRECT_LIMIT;
use kernels_gpu::tile::CHUNK;

use crate::random::Random;

/// Where in a row something stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// The first element.
    First,
    /// The element in the middle.
    Middle,
    /// The last element.
    Last,
}

impl Place {
    /// The index in a row of `cols` elements.
    pub fn index(self, cols: usize) -> usize {
        match self {
            Self::First => 0,
            Self::Middle => cols / 2,
            Self::Last => cols - 1,
        }
    }
}

/// A kind of row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// Normal, with mean 0.
    Normal {
        /// Standard deviation.
        sigma: f64,
    },
    /// What a language model's last layer gives: most of it a broad hump, a few far above.
    RawLogits,
    /// The same value everywhere.
    Equal(f32),
    /// Even between -limit and limit.
    Even {
        /// Largest magnitude.
        limit: f64,
    },
    /// Near `centre` by a few of its neighbours either way.
    Near {
        /// The value in the middle.
        centre: f32,
    },
    /// Both signs, smaller than any normal number.
    Subnormal,
    /// Standard normal, but for one element.
    One(f32, Place),
    /// Standard normal, but about one element in eight, and at least one, is this.
    Speckled(f32),
    /// -inf everywhere, but for one element.
    OneLive(f32, Place),
    /// A 0 in the middle, and this everywhere else.
    Peak {
        /// Everywhere else.
        rest: f32,
    },
    /// Standard normal around a level that differs from chunk to chunk by multiples of `gap`, the
    /// chunks in no order.
    Levels {
        /// From one level to the next.
        gap: f64,
    },
    /// Standard normal, but every other chunk holds nothing but this.
    Blanks(f32),
}

impl Content {
    /// One of each, and several where a number matters.
    pub const ALL: &[Self] = &[
        Self::Normal { sigma: 1.0 },
        Self::Normal { sigma: 20.0 },
        Self::RawLogits,
        Self::Equal(0.0),
        Self::Equal(-0.0),
        Self::Equal(1.0),
        Self::Equal(-30.0),
        Self::Equal(-60_000.0),
        Self::Equal(-1e38),
        Self::Equal(f32::MAX),
        Self::Equal(f32::NEG_INFINITY),
        Self::Equal(f32::INFINITY),
        Self::Equal(f32::NAN),
        Self::Even { limit: 100.0 },
        Self::Even { limit: 2_000.0 },
        Self::Even { limit: 1e30 },
        // Both sides of where the kernels turn to differences from the maximum.
        Self::Even {
            limit: 2.0 * DIRECT_LIMIT as f64,
        },
        Self::Near {
            centre: DIRECT_LIMIT,
        },
        Self::Near {
            centre: -DIRECT_LIMIT,
        },
        Self::Blanks(-DIRECT_LIMIT),
        Self::One(DIRECT_LIMIT, Place::Middle),
        Self::Near {
            centre: 1_048_576.0,
        },
        Self::Near {
            centre: -1_048_576.0,
        },
        Self::Near {
            centre: 16_777_216.0,
        },
        Self::Near { centre: -3e9 },
        Self::Subnormal,
        Self::One(151.29, Place::Last),
        Self::One(65_504.0, Place::Middle),
        Self::One(65_536.0, Place::Middle),
        Self::One(1e38, Place::First),
        Self::One(-1e38, Place::First),
        Self::One(f32::NEG_INFINITY, Place::Middle),
        Self::One(f32::INFINITY, Place::First),
        Self::One(f32::NAN, Place::First),
        Self::One(f32::NAN, Place::Middle),
        Self::One(f32::NAN, Place::Last),
        Self::Speckled(f32::NEG_INFINITY),
        Self::Speckled(f32::NAN),
        Self::Speckled(-1e38),
        Self::Speckled(-2_000_000.0),
        Self::OneLive(-60_000.0, Place::First),
        Self::OneLive(0.7, Place::Middle),
        Self::OneLive(-1e38, Place::Last),
        Self::OneLive(2e6, Place::Last),
        Self::Peak { rest: -1e30 },
        Self::Peak { rest: -87.5 },
        // Each too small for a sum's high part, and together an eighth of a percent.
        Self::Peak { rest: -13.5 },
        Self::Peak { rest: -1e-7 },
        Self::Levels { gap: 1.0 },
        Self::Levels { gap: 40.0 },
        Self::Levels { gap: 100.0 },
        Self::Levels { gap: 150.0 },
        Self::Levels { gap: 1e6 },
        Self::Blanks(f32::NEG_INFINITY),
        Self::Blanks(-1e30),
        Self::Blanks(-65_536.0),
        Self::Blanks(-110.0),
    ];

    /// A row of it.
    pub fn row(self, cols: usize, random: &mut Random) -> Vec<f32> {
        let mut row: Vec<f32> = (0..cols).map(|_| random.normal() as f32).collect();
        if cols == 0 {
            return row;
        }
        let chunks = || 0..cols.div_ceil(CHUNK as usize);
        match self {
            Self::Normal { sigma } => row
                .iter_mut()
                .for_each(|x| *x = (f64::from(*x) * sigma) as f32),
            Self::RawLogits => {
                row.iter_mut().for_each(|x| *x = 2.5 * *x - 1.5);
                for _ in 0..cols.div_ceil(1000) {
                    row[random.below(cols)] = random.between(8.0, 25.0) as f32;
                }
            }
            Self::Equal(value) => row.fill(value),
            Self::Even { limit } => row
                .iter_mut()
                .for_each(|x| *x = random.between(-limit, limit) as f32),
            Self::Near { centre } => row
                .iter_mut()
                .for_each(|x| *x = f32::from_bits(centre.to_bits() + random.below(41) as u32 - 20)),
            Self::Subnormal => row
                .iter_mut()
                .for_each(|x| *x = f32::from_bits(random.bits() as u32 & 0x807f_ffff)),
            Self::One(value, place) => row[place.index(cols)] = value,
            Self::Speckled(value) => {
                row.iter_mut()
                    .filter(|_| random.below(8) == 0)
                    .for_each(|x| *x = value);
                row[random.below(cols)] = value;
            }
            Self::OneLive(value, place) => {
                row.fill(f32::NEG_INFINITY);
                row[place.index(cols)] = value;
            }
            Self::Peak { rest } => {
                row.fill(rest);
                row[Place::Middle.index(cols)] = 0.0;
            }
            Self::Levels { gap } => {
                for chunk in chunks() {
                    // 5 is prime to every number of levels that is not a multiple of it.
                    let level = (chunk * 5 % 7) as f64 * gap;
                    row[elements(chunk, cols)]
                        .iter_mut()
                        .for_each(|x| *x += level as f32);
                }
            }
            Self::Blanks(value) => {
                for chunk in chunks().filter(|chunk| chunk % 2 == 1) {
                    row[elements(chunk, cols)].fill(value);
                }
            }
        }
        row
    }

    /// One of [`Content::ALL`].
    pub fn any(random: &mut Random) -> Self {
        Self::ALL[random.below(Self::ALL.len())]
    }
}

/// The elements of a chunk in a row of `cols`.
fn elements(chunk: usize, cols: usize) -> core::ops::Range<usize> {
    let first = chunk * CHUNK as usize;
    first..cols.min(first + CHUNK as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_fills_rows_of_every_length() {
        for &content in Content::ALL {
            for cols in [0, 1, 2, 1024, 1025, 5000] {
                assert_eq!(
                    content.row(cols, &mut Random::new(3)).len(),
                    cols,
                    "{content:?}"
                );
            }
        }
    }

    #[test]
    fn rows_hold_what_their_kind_says() {
        let row = |content: Content| content.row(4096, &mut Random::new(4));
        assert!(row(Content::Speckled(f32::NAN)).iter().any(|x| x.is_nan()));
        assert_eq!(row(Content::OneLive(2.0, Place::Last))[4095], 2.0);
        assert!(
            row(Content::Subnormal)
                .iter()
                .all(|x| x.is_subnormal() || *x == 0.0)
        );
        let near = row(Content::Near { centre: 65_536.0 });
        assert!(near.iter().any(|&x| x < 65_536.0) && near.iter().any(|&x| x > 65_536.0));
        let levels = row(Content::Levels { gap: 1000.0 });
        assert!((levels[0] - levels[1024]).abs() > 900.0);
        let blanks = row(Content::Blanks(-7.0));
        assert!(blanks[1024..2048].iter().all(|&x| x == -7.0) && blanks[0] != -7.0);
    }
}
