//! Rows made for the largest error: rounding errors that all have one sign, and one that has the other.
//!
//! Drawn rows do not find these: their errors average out. A result has the error of its own exponential,
//! less that of the sum. So here a row repeats four numbers whose exponentials, and the sums of which, are
//! rounded one way as far as any that were drawn; its last is one whose exponential is rounded the other way.

use kernels_gpu::exp::{Accuracy, Full, Half, Reference, Short};
use warp_softmax::DType;

use crate::format::Format;
use crate::random::Random;

/// Numbers drawn for exponentials with a large error, and sums of four drawn from those.
const DRAWN: usize = 20_000;
/// Exponentials kept, of those drawn.
const KEPT: usize = 64;

/// The exponential that results of a type are made from, and its relative error.
fn exponential(output: DType, x: f32) -> (f32, f64) {
    let reference = Reference::of_max(0.0);
    let (e, one) = match output {
        DType::F16 => (Half::exp(x, reference), Half::exp(0.0, reference)),
        DType::BF16 => (Short::exp(x, reference), Short::exp(0.0, reference)),
        _ => (Full::exp(x, reference), Full::exp(0.0, reference)),
    };
    let bias = f64::from(one).log2().round().exp2();
    (e, f64::from(e) / (f64::from(x).exp() * bias) - 1.0)
}

/// The item with the largest key.
fn largest<T>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> f64) -> T {
    items
        .max_by(|a, b| key(a).total_cmp(&key(b)))
        .expect("an item")
}

/// A row of `cols` numbers whose sum comes out too large, and its last result too small; or, unless
/// `up`, the other way.
pub fn row(output: DType, cols: usize, up: bool, random: &mut Random) -> Vec<f32> {
    let sign = if up { 1.0 } else { -1.0 };
    let mut drawn: Vec<(f32, f32, f64)> = (0..DRAWN)
        .map(|_| {
            let x = random.between(-3.0, 0.0) as f32;
            let (e, error) = exponential(output, x);
            (x, e, sign * error)
        })
        .collect();
    drawn.sort_by(|a, b| b.2.total_cmp(&a.2));
    // Of the sum of four terms, as if it were one of plain f32 additions.
    let error_of_sum = |four: &[(f32, f32, f64); 4]| {
        let [a, b, c, d] = four.map(|(_, e, _)| e);
        let exact: f64 = four
            .iter()
            .map(|&(_, e, error)| f64::from(e) / (1.0 + sign * error))
            .sum();
        f64::from((a + c) + (b + d)) / exact - 1.0
    };
    let four = largest(
        (0..DRAWN).map(|_| [0; 4].map(|_| drawn[random.below(KEPT)])),
        |four| sign * error_of_sum(four),
    );
    let sum_error = error_of_sum(&four);
    let mut row: Vec<f32> = (0..cols).map(|i| four[i % 4].0).collect();
    let Some((last, others)) = row.split_last_mut() else {
        return row;
    };
    let sum: f64 = others.iter().map(|&x| f64::from(x).exp()).sum();
    // The result that ends furthest from the exact one, rounding included.
    let &(x, _, _) = largest(
        drawn.iter().filter(|drawn| drawn.2 < 0.0),
        |&&(x, _, error)| {
            let exact = f64::from(x).exp() / (sum + f64::from(x).exp());
            let result = exact * (1.0 + sign * error) / (1.0 + sum_error);
            output.error_ulp(output.bits(result as f32), exact)
        },
    );
    *last = x;
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_have_errors_of_opposite_signs() {
        for output in DType::ALL {
            for up in [true, false] {
                let row = row(output, 41, up, &mut Random::new(5));
                let errors: Vec<f64> = row.iter().map(|&x| exponential(output, x).1).collect();
                let (last, others) = errors.split_last().expect("41 of them");
                assert_eq!(*last < 0.0, up);
                assert!(others.iter().all(|&error| (error > 0.0) == up));
            }
        }
    }
}
