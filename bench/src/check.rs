//! Whether a result is one: every element written, and rows compared with a computation in f64.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::Failed;
use crate::number::Number;
use crate::record::Accuracy;
use crate::source::{Random, Source};

/// Elements that a thread brings to the host at a time, rounded to whole rows. Small enough that the
/// allocator hands the same memory out again, and large enough that the copy is not all latency.
const BLOCK_ELEMS: usize = 1 << 22;

/// Checks the softmax of `source`'s `rows` rows of `cols` elements.
///
/// `read(first_row, number)` fetches rows of the result; several threads call it at once. Every element
/// is looked at for the poison that the output was filled with before; [`sample`]d rows are compared in
/// full.
///
/// # Errors
///
/// What is not as it should be, or what `read` returns.
pub fn check<T: Number>(
    source: &Source<T>,
    rows: usize,
    cols: usize,
    read: impl Fn(usize, usize) -> Result<Vec<T>, Failed> + Sync,
) -> Result<Accuracy, Failed> {
    let sampled = sample(rows);
    let rows_per_block = (BLOCK_ELEMS / cols).max(1);
    let check_block = |first: usize| -> Result<f64, Failed> {
        let number = rows_per_block.min(rows - first);
        let block = read(first, number)?;
        if block.len() != number * cols {
            return Err(Failed::new(format!(
                "{} elements came back, not {}",
                block.len(),
                number * cols
            )));
        }
        if let Some(at) = unwritten(&block) {
            return Err(Failed::new(format!(
                "row {}, column {} was not written",
                first + at / cols,
                at % cols
            )));
        }
        let errors = sampled.range(first..first + number).map(|&row| {
            compare_row(
                row,
                source.row(row, cols),
                &block[(row - first) * cols..][..cols],
            )
        });
        errors
            .into_iter()
            .try_fold(0f64, |largest, error| Ok(largest.max(error?)))
    };

    let next = AtomicUsize::new(0);
    let check_blocks = || {
        let mut largest = 0f64;
        loop {
            let first = next.fetch_add(1, Ordering::Relaxed) * rows_per_block;
            if first >= rows {
                return Ok(largest);
            }
            largest = largest.max(check_block(first)?);
        }
    };
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(rows.div_ceil(rows_per_block));
    let errors: Vec<Result<f64, Failed>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(check_blocks)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a check does not panic"))
            .collect()
    });
    let mut max_error_ulp = 0f64;
    for error in errors {
        max_error_ulp = max_error_ulp.max(error?);
    }
    Ok(Accuracy {
        max_error_ulp,
        limit_ulp: T::LIMIT_ULP,
        rows_compared: sampled.len() as u64,
        elements_scanned: (rows * cols) as u64,
    })
}

/// About twenty rows: the first, those around a warp's width, the middle, the last, and scattered ones.
fn sample(rows: usize) -> BTreeSet<usize> {
    let mut random = Random(rows as u64);
    let scattered = (0..8).map(|_| (random.bits() % rows as u64) as usize);
    let ends = [1, 2, 3].map(|back| rows.saturating_sub(back));
    let all = [0, 1, 2, 3, 31, 32, 33, rows / 2, rows / 2 + 1]
        .into_iter()
        .chain(ends)
        .chain(scattered);
    all.filter(|&row| row < rows).collect()
}

/// Index of the first element that still is poison.
fn unwritten<T: Number>(block: &[T]) -> Option<usize> {
    // Without an early way out this is a vector loop.
    let any = block
        .iter()
        .fold(false, |any, element| any | element.is_poison());
    any.then(|| block.iter().position(|element| element.is_poison()))
        .flatten()
}

/// The largest error of a row, in units in the last place.
fn compare_row<T: Number>(
    row: usize,
    x: impl Iterator<Item = T> + Clone,
    got: &[T],
) -> Result<f64, Failed> {
    let mut largest = 0f64;
    for (column, (exact, got)) in softmax(x).zip(got).enumerate() {
        let error = got.error_ulp(exact);
        // NaN is no result either.
        if error.is_nan() || error > T::LIMIT_ULP {
            return Err(Failed::new(format!(
                "row {row}, column {column} is {:e} instead of {exact:e}: {error:.2} ulp off, {} are allowed",
                got.value(),
                T::LIMIT_ULP
            )));
        }
        largest = largest.max(error);
    }
    Ok(largest)
}

/// The softmax of a row of finite numbers.
fn softmax<T: Number>(x: impl Iterator<Item = T> + Clone) -> impl Iterator<Item = f64> {
    let max = x.clone().map(T::value).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.clone().map(|x| (x.value() - max).exp()).sum();
    x.map(move |x| (x.value() - max).exp() / sum)
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    /// The right result, rounded.
    fn right<T: Number>(source: &Source<T>, rows: usize, cols: usize) -> Vec<T> {
        (0..rows)
            .flat_map(|row| softmax(source.row(row, cols)).map(|y| T::round(y as f32)))
            .collect()
    }

    fn check_of<T: Number>(result: &[T], rows: usize, cols: usize) -> Result<Accuracy, Failed> {
        check(&Source::new(true), rows, cols, |first, number| {
            Ok(result[first * cols..][..number * cols].to_vec())
        })
    }

    #[test]
    fn a_right_result_passes() {
        let (rows, cols) = (100, 33);
        let result = right(&Source::<f32>::new(true), rows, cols);
        let accuracy = check_of(&result, rows, cols).unwrap();
        assert!(
            accuracy.max_error_ulp > 0.1 && accuracy.max_error_ulp <= 0.5,
            "{accuracy:?}"
        );
        assert_eq!(accuracy.elements_scanned, 3300);
        assert!(accuracy.rows_compared >= 16, "{accuracy:?}");
        let result = right(&Source::<bf16>::new(true), rows, cols);
        // Rounded twice, to f32 and to bf16.
        assert!(check_of(&result, rows, cols).unwrap().max_error_ulp <= 0.501);
    }

    #[test]
    fn an_element_that_was_not_written_is_found_in_any_row() {
        // More than one block.
        let (rows, cols) = (70_000, 65);
        let mut result = vec![0f32; rows * cols];
        for row in sample(rows) {
            result[row * cols..][..cols].copy_from_slice(&right_row(row, cols));
        }
        assert!(check_of(&result, rows, cols).is_ok());
        assert!(!sample(rows).contains(&67_890));
        result[67_890 * cols + 64] = f32::POISON;
        let error = check_of(&result, rows, cols).unwrap_err().to_string();
        assert_eq!(error, "row 67890, column 64 was not written");
    }

    fn right_row(row: usize, cols: usize) -> Vec<f32> {
        softmax(Source::<f32>::new(true).row(row, cols))
            .map(|y| y as f32)
            .collect()
    }

    #[test]
    fn a_wrong_number_is_found_in_a_sampled_row() {
        let (rows, cols) = (10, 1001);
        let mut result = right(&Source::<f32>::new(true), rows, cols);
        for wrong in [f32::from_bits(result[5].to_bits() + 6), f32::NAN, 0.0] {
            result[5] = wrong;
            let error = check_of(&result, rows, cols).unwrap_err().to_string();
            assert!(error.starts_with("row 0, column 5 is"), "{error}");
        }
    }

    #[test]
    fn samples_are_rows() {
        for rows in [1, 2, 3, 31, 34, 100_000_000] {
            let sampled = sample(rows);
            assert!(sampled.contains(&0) && sampled.contains(&(rows - 1)));
            assert!(sampled.iter().all(|&row| row < rows));
        }
        assert!(sample(100_000_000).len() >= 18);
    }
}
