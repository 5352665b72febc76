//! What every way is to give, to the bit: the trees that sums are taken by, written down with loops over the indices of
//! elements, and one thread.

use kernels_gpu::exp::{Accuracy, Full, Half, Reference, Short};
use kernels_gpu::online::{Outcome, Pair, Partial};
use kernels_gpu::options::Options;
use kernels_gpu::reduce::WARP;
use kernels_gpu::tile::CHUNK;
use warp_softmax::DType;

use crate::format::Format;

/// Results of a row of numbers of type `input`, none of them NaN, as bits.
pub fn softmax(x: &[f32], (input, output): (DType, DType), options: &Options) -> Vec<u32> {
    let vector = 16 / input.size_bytes();
    let result = match output {
        DType::F32 => row::<Full>(x, vector, options),
        DType::F16 => row::<Half>(x, vector, options),
        DType::BF16 => row::<Short>(x, vector, options),
    };
    result.into_iter().map(|y| output.bits(y)).collect()
}

fn row<A: Accuracy>(x: &[f32], vector: usize, options: &Options) -> Vec<f32> {
    let mut z: Vec<f32> = x.iter().map(|&x| options.transform(x)).collect();
    let max = z.iter().fold(f32::NEG_INFINITY, |max, &z| max.max(z));
    if Outcome::needs_shift(max) {
        z.iter_mut().for_each(|z| *z -= max);
    }
    let chunks: Vec<(f32, Vec<f32>, Partial)> = z
        .chunks(CHUNK as usize)
        .map(|chunk| chunk_of::<A>(chunk, vector))
        .collect();
    let partials: Vec<Partial> = chunks.iter().map(|&(_, _, part)| part).collect();
    let whole = merged(&partials);
    let outcome = Outcome::of(whole, x.len() as u32, options);
    let results = chunks.iter().flat_map(|(max, exponentials, _)| {
        let outcome = outcome.for_part(*max, whole.max);
        exponentials.iter().map(move |&e| match outcome {
            Outcome::Fill(value) => value,
            Outcome::Normalise(normaliser) => normaliser.apply::<A>(normaliser.rescale(e)),
        })
    });
    results.collect()
}

/// What a chunk with these numbers, in vectors of so many, tells the others.
pub fn partial<A: Accuracy>(z: &[f32], vector: usize) -> Partial {
    chunk_of::<A>(z, vector).2
}

/// A chunk's maximum, its exponentials relative to that, and what it tells the others.
fn chunk_of<A: Accuracy>(z: &[f32], vector: usize) -> (f32, Vec<f32>, Partial) {
    let max = z.iter().fold(f32::NEG_INFINITY, |max, &z| max.max(z));
    let reference = Reference::of_max(max);
    let mut e: Vec<f32> = z.iter().map(|&z| A::exp(z, reference)).collect();
    // What follows the row's end counts as exponentials of -inf.
    let nothing = A::exp(f32::NEG_INFINITY, reference);
    let end = e.len();
    e.resize(CHUNK as usize, nothing);
    let part = |e: f32| match A::PAIRS {
        true => Pair::cut(e),
        false => Pair { hi: e, lo: 0.0 },
    };
    // A lane has every 32nd vector, and adds four elements at a time, those of a vector that are two words apart first.
    let lane = |lane: usize| {
        let mut sum: Option<Pair> = None;
        for of_lane in e.chunks(vector).skip(lane).step_by(WARP as usize) {
            let word = vector / 4;
            for i in 0..word {
                let [a, b, c, d] = [0, 1, 2, 3].map(|k| part(of_lane[i + k * word]));
                let four = a.plus_cut(c).plus_cut(b.plus_cut(d));
                sum = Some(sum.map_or(four, |sum| sum.plus_cut(four)));
            }
        }
        sum.expect("a lane has vectors")
    };
    let sums = (0..WARP as usize).map(lane).collect();
    let sum = tree(sums, |a: Pair, b| a.plus::<A>(b));
    e.truncate(end);
    (max, e, Partial::of(max, sum))
}

/// The sum of numbers, a power of two of them: those furthest apart first.
fn tree<T: Copy>(mut all: Vec<T>, plus: impl Fn(T, T) -> T) -> T {
    while all.len() > 1 {
        let (low, high) = all.split_at(all.len() / 2);
        all = low.iter().zip(high).map(|(&a, &b)| plus(a, b)).collect();
    }
    all[0]
}

/// Partials by their numbers: every 32nd one after the other, then those.
fn merged(parts: &[Partial]) -> Partial {
    let lanes = parts.len().min(WARP as usize);
    let every = |lane: usize| {
        let mut of_lane = parts.iter().skip(lane).step_by(WARP as usize).copied();
        let first = of_lane.next().expect("a lane has a partial");
        of_lane.fold(first, Partial::merge)
    };
    let mut all: Vec<Partial> = (0..lanes).map(every).collect();
    all.resize(lanes.next_power_of_two(), Partial::EMPTY);
    tree(all, Partial::merge)
}
