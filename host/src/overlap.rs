//! Whether strided elements share memory.
//!
//! Two elements meet where a sum of index times stride hits a target, a bounded linear Diophantine
//! question. Strides of real tensors nest, so a depth-first search over the dimensions, largest
//! stride first, that gives up a branch as soon as the smaller strides cannot make good the
//! difference, answers in a few steps.

use std::ops::Range;

use smallvec::SmallVec;

use crate::layout::Layout;

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
pub(crate) fn rows_meet(
    dims: impl DoubleEndedIterator<Item = (u64, u64)> + Clone,
    cols: u64,
) -> bool {
    // Most often each stride goes beyond all that the dimensions after it reach.
    let nested = dims
        .clone()
        .rev()
        .try_fold(cols, |reach, (extent, stride)| {
            let further = (extent - 1).checked_mul(stride)?;
            (extent == 1 || stride >= reach).then_some(reach.checked_add(further)?)
        });
    if nested.is_some() {
        return false;
    }
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

/// Rows of a tensor.
pub(crate) struct Rows {
    /// Address of the first element.
    pub(crate) address: u64,
    /// Bytes of a row, at least 1.
    pub(crate) row_bytes: u64,
}

impl Rows {
    /// The address after the last byte, where leading dimensions have these extents and strides in bytes, if it is one.
    fn end(&self, mut dims: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
        let start = self.address.checked_add(self.row_bytes);
        dims.try_fold(start?, |end, (extent, stride)| {
            end.checked_add((extent - 1).checked_mul(stride)?)
        })
    }
}

/// Whether a byte belongs to an element of both tensors.
///
/// With each come its leading dimensions: extent (at least 1), and stride in bytes.
/// True also for the rare strides that interleave in ways too intricate to tell.
pub(crate) fn tensors_meet(
    (a, dims_a): (&Rows, impl Iterator<Item = (u64, u64)> + Clone),
    (b, dims_b): (&Rows, impl Iterator<Item = (u64, u64)> + Clone),
) -> bool {
    // Most often the one ends before the other begins.
    let ends_before = |end: Option<u64>, start| end.is_some_and(|end| end <= start);
    if ends_before(a.end(dims_a.clone()), b.address)
        || ends_before(b.end(dims_b.clone()), a.address)
    {
        return false;
    }
    let moves = |&(extent, stride): &(u64, u64)| extent > 1 && stride != 0;
    let mut terms: Terms = dims_a
        .filter(moves)
        .map(|(extent, stride)| Term {
            stride: stride.into(),
            min: 0,
            max: i128::from(extent) - 1,
        })
        .chain(dims_b.filter(moves).map(|(extent, stride)| Term {
            stride: stride.into(),
            min: 1 - i128::from(extent),
            max: 0,
        }))
        .collect();
    largest_first(&mut terms);
    // Two unknowns with one stride are one.
    terms.dedup_by(|next, term| {
        let one = next.stride == term.stride;
        if one {
            term.min += next.min;
            term.max += next.max;
        }
        one
    });
    let distance = i128::from(b.address) - i128::from(a.address);
    let low = distance - (i128::from(a.row_bytes) - 1);
    let high = distance + (i128::from(b.row_bytes) - 1);
    let mut steps = MAX_STEPS;
    can_hit(&terms, low, high, &mut steps)
}

/// A tensor's elements in memory.
pub(crate) struct Elements<'a> {
    /// Of the first; 0: not made yet.
    pub(crate) address: u64,
    pub(crate) layout: &'a Layout,
    pub(crate) elem_bytes: u64,
}

impl Elements<'_> {
    /// The addresses from the first to the last.
    pub(crate) fn bytes(&self) -> Range<u64> {
        let bytes = self.layout.span() as u64 * self.elem_bytes;
        self.address..self.address.saturating_add(bytes)
    }

    /// Whether a byte belongs to an element of both, as far as [`tensors_meet`] can tell.
    pub(crate) fn meet(&self, other: &Self) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        if a.start == 0 || b.start == 0 || a.is_empty() || b.is_empty() {
            return false;
        }
        let (rows, dims) = self.rows();
        let (other_rows, other_dims) = other.rows();
        tensors_meet((&rows, dims), (&other_rows, other_dims))
    }

    /// As [`tensors_meet`] takes them; there are elements.
    fn rows(&self) -> (Rows, impl Iterator<Item = (u64, u64)> + Clone) {
        let (shape, strides) = (self.layout.shape(), self.layout.strides());
        let (elems, leading) = match (shape, strides) {
            ([leading @ .., cols], [.., 1]) => (*cols, leading.len()),
            _ => (1, shape.len()),
        };
        let rows = Rows {
            address: self.address,
            row_bytes: elems as u64 * self.elem_bytes,
        };
        // The stride of a single index may be any number, and is not looked at.
        let bytes = |stride: usize| (stride as u64).wrapping_mul(self.elem_bytes);
        let dims = shape[..leading].iter().zip(strides);
        let dims = dims.map(move |(&extent, &stride)| (extent as u64, bytes(stride)));
        (rows, dims)
    }
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
            let (a, b) = ((&a, strides_a.into_iter()), (&b, strides_b.into_iter()));
            prop_assert_eq!(tensors_meet(a, b), expected);
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

    /// Two rows `u64::MAX` apart in two ways, and tensors that go on past all addresses.
    #[test]
    fn sums_beyond_64_bits_hide_nothing() {
        let dims = [(3, u64::MAX), (1, 27), (1, u64::MAX), (2, u64::MAX)];
        assert!(rows_meet(dims.into_iter(), 1));
        assert!(!rows_meet([(3, u64::MAX)].into_iter(), 9));
        let row = |address| Rows {
            address,
            row_bytes: 16,
        };
        let long = [(1 << 40, 1 << 30)];
        let meet = |a, b| tensors_meet((&row(a), long.into_iter()), (&row(b), [].into_iter()));
        assert!(meet(1 << 30, u64::MAX - ((1 << 30) - 1)));
        assert!(!meet(1 << 30, u64::MAX - (1 << 20)));
    }

    #[test]
    fn columns_side_by_side_do_not_meet() {
        // The two halves of one tensor of 2^20 rows.
        let meet = |address_a, address_b| {
            let [a, b] = [address_a, address_b].map(|address| Rows {
                address,
                row_bytes: 2048,
            });
            let dims = || [(1 << 20, 4096)].into_iter();
            tensors_meet((&a, dims()), (&b, dims()))
        };
        assert!(!meet(1 << 40, (1 << 40) + 2048));
        assert!(!meet((1 << 40) + 2048, 1 << 40));
        assert!(meet(1 << 40, (1 << 40) + 2047));
    }

    #[test]
    fn what_is_too_intricate_counts_as_meeting() {
        // Rows of odd and of even numbers never meet, but no reach says so.
        let dims = (0..6).map(|i| (1 << 20, (1 << 10) + 2 * i));
        let a = Rows {
            address: 0,
            row_bytes: 1,
        };
        let b = Rows {
            address: (1 << 22) + 1,
            row_bytes: 1,
        };
        assert!(tensors_meet((&a, dims), (&b, [].into_iter())));
    }
    #[test]
    fn elements_meet_where_a_byte_is_in_both() {
        let layout = |shape: &[usize], strides: &[usize]| Layout::strided(shape, strides).unwrap();
        let meet = |a: (u64, &Layout), b: (u64, &Layout)| {
            let of = |(address, layout), elem_bytes| Elements {
                address,
                layout,
                elem_bytes,
            };
            let (a, b) = (of(a, 4), of(b, 1));
            assert_eq!(a.meet(&b), b.meet(&a));
            a.meet(&b)
        };
        let rows = layout(&[3, 5], &[8, 1]);
        let (byte, scalar) = (layout(&[1], &[1]), layout(&[], &[]));
        for (at, inside) in [
            (-1, false),
            (0, true),
            (19, true),
            (20, false),
            (31, false),
            (32, true),
            (83, true),
            (84, false),
        ] {
            let address = 4096u64.wrapping_add_signed(at);
            assert_eq!(meet((4096, &rows), (address, &byte)), inside, "{at}");
            assert_eq!(meet((4096, &rows), (address, &scalar)), inside, "{at}");
        }
        // Bytes in every row's gap, and every second byte.
        let (gaps, seconds) = (layout(&[3, 12], &[32, 1]), layout(&[40], &[2]));
        assert!(!meet((4096, &rows), (4096 + 20, &gaps)));
        assert!(meet((4096, &rows), (4096 + 19, &gaps)));
        assert!(meet((4096, &rows), (4096 + 1, &seconds)));
        // Nothing, and what has no place yet.
        assert!(!meet((4096, &rows), (4100, &layout(&[0], &[1]))));
        assert!(!meet((0, &rows), (4, &byte)));
        let single = layout(&[1, 1], &[usize::MAX, usize::MAX]);
        assert!(meet((4096, &rows), (4096, &single)));
    }
}
