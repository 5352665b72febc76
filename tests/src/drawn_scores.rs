//! Scores of every shape and content, with masks and all else that attention does to them.

use warp_softmax::{Align, DType, FullyMasked, NanPolicy};

use crate::attention::{Asked, Numbers, Scores};
use crate::content::Content;
use crate::format::{Format, PAIRS};
use crate::random::Random;

/// Scores of a shape whose rows hold `content`.
///
/// # Panics
///
/// Where the shape has no dimension.
pub fn contents(shape: &[usize], content: Content, random: &mut Random) -> Numbers<f32> {
    let (&cols, leading) = shape.split_last().expect("a shape of scores");
    let rows: usize = leading.iter().product();
    let values = (0..rows).flat_map(|_| content.row(cols, random)).collect();
    Numbers {
        shape: shape.into(),
        values,
    }
}

/// Shapes that a mask may have for scores of `shape`: each dimension whole or 1, and leading ones absent.
fn broadcast_from(shape: &[usize], random: &mut Random) -> Vec<usize> {
    let skip = random.below(shape.len() + 1);
    shape[skip..]
        .iter()
        .map(|&extent| if random.below(3) == 0 { 1 } else { extent })
        .collect()
}

/// A call of any kind.
pub fn any_scores(seed: u64) -> (Scores, Asked) {
    let mut random = Random::new(seed);
    let random = &mut random;
    let types = PAIRS[random.below(PAIRS.len())];
    let keys = match random.below(6) {
        0..3 => 1 + random.below(70),
        3 => 70 + random.below(1000),
        4 => 1000 + random.below(60),
        _ => 1100 + random.below(3000),
    };
    // Rows of whole vectors are as likely as others.
    let keys = match random.below(2) {
        0 => keys.next_multiple_of(8),
        _ => keys,
    };
    let shape = match random.below(8) {
        0 => vec![keys],
        1 => vec![1 + random.below(4), keys],
        2 => vec![1 + random.below(3), 1 + random.below(3), keys],
        3 if keys < 80 => vec![2, 2, 2, 3, 2, keys],
        // All dimensions differ.
        _ if keys < 1100 => vec![2, 3, 4, keys],
        _ => vec![2, 1, 3, keys],
    };
    let heads = &shape[..shape.len().saturating_sub(2)];
    let content = match random.below(3) {
        0 => Content::any(random),
        _ => Content::Normal { sigma: 4.0 },
    };
    let mut scores = Scores::new(types, contents(&shape, content, random));
    if random.below(3) == 0 {
        scores.gaps = (random.below(9), random.below(9));
    }
    scores.op.scale = [1.0, 0.125, -0.7, 0.0, 2.5][random.below(5)];
    scores.op.fully_masked =
        [FullyMasked::Zero, FullyMasked::Uniform, FullyMasked::Nan][random.below(3)];
    scores.op.nan_policy = [NanPolicy::Propagate, NanPolicy::Ignore][random.below(2)];
    let align = |random: &mut Random| [Align::TopLeft, Align::BottomRight][random.below(2)];
    if random.below(4) == 0 {
        scores.cap = Some([30.0, 2.0, 0.5][random.below(3)]);
    }
    if random.below(2) == 0 {
        let dtype = DType::ALL[random.below(3)];
        let bias = Numbers::new(&broadcast_from(&shape, random), |_| {
            let value = match random.below(12) {
                0 => f32::NEG_INFINITY,
                _ => random.normal() as f32 * 3.0,
            };
            dtype.value(dtype.bits(value))
        });
        scores.bias = Some((dtype, bias));
    }
    if random.below(3) == 0 {
        let shape = broadcast_from(&shape, random);
        scores.keep = Some(Numbers::new(&shape, |_| (random.below(3) * 100) as u8));
    }
    if random.below(3) == 0 {
        let shape = broadcast_from(&shape, random);
        scores.hide = Some(Numbers::new(&shape, |_| random.below(3) == 0));
    }
    if random.below(3) == 0 {
        scores.causal = Some(align(random));
    }
    if random.below(4) == 0 {
        let bound = |random: &mut Random| match random.below(4) {
            0 => usize::MAX,
            1 => 0,
            _ => random.below(keys + 2),
        };
        scores.window = Some((bound(random), bound(random), align(random)));
    }
    if random.below(3) == 0 {
        let dims = random.below(shape.len());
        let shape: Vec<usize> = shape[..dims]
            .iter()
            .map(|&extent| if random.below(4) == 0 { 1 } else { extent })
            .collect();
        let length =
            |_| [0, 1, keys as u32, u32::MAX, random.below(keys + 3) as u32][random.below(5)];
        scores.lengths = Some(Numbers::new(&shape, length));
    }
    if random.below(4) == 0 {
        let slopes = Numbers::new(&broadcast_from(heads, random), |_| random.normal() as f32);
        scores.slopes = Some((slopes, align(random)));
    }
    if random.below(3) == 0 {
        let sinks = Numbers::new(&broadcast_from(heads, random), |_| match random.below(8) {
            0 => f32::NEG_INFINITY,
            1 => 100_000.0,
            _ => random.normal() as f32 * 4.0,
        });
        scores.sinks = Some(sinks);
    }
    (scores, Asked::ALL[random.below(4)])
}
