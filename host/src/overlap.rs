//! Whether strided elements share memory.
//!
//! Two elements meet where a sum of index times stride hits a target, a bounded linear Diophantine
//! question. Strides of real tensors nest, so a depth-first search over the dimensions, largest
//! stride first, that gives up a branch as soon as the smaller strides cannot make good the
//! difference, answers in a few steps.

use smallvec::SmallVec;

/// An unknown of the sum: `stride` times something in `min..=max`.
#[derive(Clone, Copy)]
struct Term {
    stride: i128,
    min: i128,
    max: i128,
}

type Terms = SmallVec<[Term; 8]>;

/// Steps after which a search gives up. Only strides that do not nest get near.
const MAX_STEPS: u32 = 100_000;

/// Whether the terms can sum to something in `low..=high`.
///
/// `terms` come largest stride first, none of them 0. True also where `steps` ran out.
fn can_hit(terms: &[Term], low: i128, high: i128, steps: &mut u32) -> bool {
    let reach = |terms: &[Term]| -> (i128, i128) {
        terms.iter().fold((0, 0), |(min, max), term| {
            (min + term.stride * term.min, max + term.stride * term.max)
        })
    };
    // Where strides nest, this is all there is to it.
    let (min, max) = reach(terms);
    if max < low || high < min {
        return false;
    }
    let Some((term, rest)) = terms.split_first() else {
        return true;
    };
    let (rest_min, rest_max) = reach(rest);
    let from = (low - rest_max + term.stride - 1).div_euclid(term.stride);
    let to = (high - rest_min).div_euclid(term.stride);
    (from.max(term.min)..=to.min(term.max)).any(|n| {
        if *steps == 0 {
            return true;
        }
        *steps -= 1;
        can_hit(rest, low - term.stride * n, high - term.stride * n, steps)
    })
}

fn largest_first(terms: &mut Terms) {
    terms.sort_unstable_by_key(|term| std::cmp::Reverse(term.stride));
}

/// Whether two different rows have an element in common.
///
/// Rows have `cols` adjacent elements, at least 1. `dims` are the leading dimensions, extent (at
/// least 1) and stride. True also for the rare strides that interleave in ways too intricate to
/// tell.
pub(crate) fn rows_meet(dims: impl Iterator<Item = (u64, u64)>, cols: u64) -> bool {
    let mut terms: Terms = dims
        .filter(|&(extent, _)| extent > 1)
        .map(|(extent, stride)| Term {
            stride: stride.into(),
            min: 1 - i128::from(extent),
            max: i128::from(extent) - 1,
        })
        .collect();
    largest_first(&mut terms);
    if terms.last().is_some_and(|term| term.stride == 0) {
        return true;
    }
    let reach = i128::from(cols) - 1;
    let mut steps = MAX_STEPS;
    // Two rows differ first in some dimension; take the one that is further on there as the first.
    (0..terms.len()).any(|first| {
        terms[first].min = 1;
        can_hit(&terms[first..], -reach, reach, &mut steps)
    })
}

/// Rows of one of two tensors of a shape.
pub(crate) struct Rows {
    /// Address of the first element.
    pub(crate) address: u64,
    /// Bytes of a row, at least 1.
    pub(crate) row_bytes: u64,
}

/// Whether a byte belongs to an element of both tensors.
///
/// `dims` are the leading dimensions of both: extent (at least 1), and stride in bytes of each.
/// True also for the rare strides that interleave in ways too intricate to tell.
pub(crate) fn tensors_meet(
    dims: impl Iterator<Item = (u64, u64, u64)>,
    a: &Rows,
    b: &Rows,
) -> bool {
    let mut terms = Terms::new();
    for (extent, stride_a, stride_b) in dims {
        let last = i128::from(extent) - 1;
        let mut push = |stride: u64, min, max| {
            if stride != 0 && last != 0 {
                let stride = stride.into();
                terms.push(Term { stride, min, max });
            }
        };
        if stride_a == stride_b {
            push(stride_a, -last, last);
        } else {
            push(stride_a, 0, last);
            push(stride_b, -last, 0);
        }
    }
    largest_first(&mut terms);
    let distance = i128::from(b.address) - i128::from(a.address);
    let low = distance - (i128::from(a.row_bytes) - 1);
    let high = distance + (i128::from(b.row_bytes) - 1);
    let mut steps = MAX_STEPS;
    can_hit(&terms, low, high, &mut steps)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Offset of the first byte of every row.
    fn starts(dims: &[(u64, u64)]) -> Vec<u64> {
        dims.iter().fold(vec![0], |starts, &(extent, stride)| {
            let step = |start| (0..extent).map(move |i| start + i * stride);
            starts.into_iter().flat_map(step).collect()
        })
    }

    fn bytes(dims: &[(u64, u64)], rows: &Rows) -> Vec<u64> {
        let row = |start| (0..rows.row_bytes).map(move |i| rows.address + start + i);
        starts(dims).into_iter().flat_map(row).collect()
    }

    fn rows_meet_by_force(dims: &[(u64, u64)], cols: u64) -> bool {
        let all = bytes(
            dims,
            &Rows {
                address: 0,
                row_bytes: cols,
            },
        );
        let different: HashSet<u64> = all.iter().copied().collect();
        different.len() < all.len()
    }

    fn dim() -> impl Strategy<Value = (u64, u64)> {
        (1..5u64, prop_oneof![0..8u64, 0..60u64])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn rows_meet_where_an_element_is_counted_twice(
            dims in prop::collection::vec(dim(), 0..5),
            cols in 1..7u64,
        ) {
            prop_assert_eq!(rows_meet(dims.iter().copied(), cols), rows_meet_by_force(&dims, cols));
        }

        #[test]
        fn tensors_meet_where_a_byte_is_in_both(
            dims in prop::collection::vec((dim(), dim(), any::<bool>()), 0..4),
            addresses in (0..80u64, 0..80u64),
            row_bytes in (1..9u64, 1..9u64),
        ) {
            let a = Rows { address: addresses.0, row_bytes: row_bytes.0 };
            let b = Rows { address: addresses.1, row_bytes: row_bytes.1 };
            let strides_a: Vec<_> = dims.iter().map(|&(a, _, _)| a).collect();
            let strides_b: Vec<_> = dims
                .iter()
                .map(|&((extent, a), (_, b), same)| (extent, if same { a } else { b }))
                .collect();
            let in_a: HashSet<u64> = bytes(&strides_a, &a).into_iter().collect();
            let expected = bytes(&strides_b, &b).iter().any(|byte| in_a.contains(byte));
            let both = strides_a.iter().zip(&strides_b).map(|(&(n, a), &(_, b))| (n, a, b));
            prop_assert_eq!(tensors_meet(both, &a, &b), expected);
        }
    }

    #[test]
    fn rows_may_touch_but_not_meet() {
        for cols in [1, 2, 1000, 1 << 31] {
            assert!(!rows_meet([(1 << 30, cols)].into_iter(), cols));
            assert!(rows_meet([(2, cols - 1)].into_iter(), cols));
            assert!(
                !rows_meet([(1, 0)].into_iter(), cols),
                "one row meets no other"
            );
        }
    }

    #[test]
    fn columns_side_by_side_do_not_meet() {
        // The two halves of one tensor of 2^20 rows.
        let dims = || [(1 << 20, 4096, 4096)].into_iter();
        let left = Rows {
            address: 1 << 40,
            row_bytes: 2048,
        };
        let right = |address| Rows {
            address,
            row_bytes: 2048,
        };
        assert!(!tensors_meet(dims(), &left, &right((1 << 40) + 2048)));
        assert!(!tensors_meet(dims(), &right((1 << 40) + 2048), &left));
        assert!(tensors_meet(dims(), &left, &right((1 << 40) + 2047)));
    }

    #[test]
    fn what_is_too_intricate_counts_as_meeting() {
        // Rows of odd and of even numbers never meet, but no reach says so.
        let dims = |stride: u64| (0..6).map(move |i| (1 << 20, stride + 2 * i, 0));
        let a = Rows {
            address: 0,
            row_bytes: 1,
        };
        let b = Rows {
            address: (1 << 22) + 1,
            row_bytes: 1,
        };
        assert!(tensors_meet(dims(1 << 10), &a, &b));
    }
}
