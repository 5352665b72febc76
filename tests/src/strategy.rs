//! What proptest draws: calls of every shape, layout, type and content.

use proptest::prelude::*;
use warp_softmax::{DType, FullyMasked, NanPolicy};

use crate::case::{Case, GUARD, Placement};
use crate::format::PAIRS;
use crate::oracle::Op;
use crate::random::Random;

/// Most elements of a drawn tensor, so that a case takes the emulator milliseconds.
const MOST_ELEMENTS: usize = 40_000;

/// A pair of types.
pub fn types() -> impl Strategy<Value = (DType, DType)> {
    prop::sample::select(&PAIRS[..])
}

/// A row length: mostly short, at times some chunks.
pub fn cols() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1..70usize,
        3 => 70..1100usize,
        2 => 1100..5000usize,
        1 => 5000..40_000usize,
    ]
}

/// Up to five leading dimensions, few enough rows for the row length.
pub fn lead(cols: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..6usize, 0..=5).prop_map(move |mut lead| {
        while lead.iter().product::<usize>() * cols > MOST_ELEMENTS {
            lead.pop();
        }
        lead
    })
}

/// Rows that do not meet: the dimensions in any order in memory, with gaps or without.
pub fn apart(lead: &[usize], cols: usize, random: &mut Random) -> Placement {
    let mut order: Vec<usize> = (0..lead.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
    let mut strides = vec![0; lead.len()];
    let mut stride = cols + gap(random);
    for dim in order {
        strides[dim] = stride;
        stride = stride * lead[dim] + gap(random);
    }
    Placement {
        offset: GUARD + random.below(9),
        strides,
    }
}

/// Any rows that an input may have: some dimensions may repeat, or overlap.
pub fn anywhere(lead: &[usize], cols: usize, random: &mut Random) -> Placement {
    let mut placement = apart(lead, cols, random);
    for stride in &mut placement.strides {
        match random.below(6) {
            0 => *stride = 0,
            1 => *stride = random.below(4),
            _ => {}
        }
    }
    placement
}

fn gap(random: &mut Random) -> usize {
    match random.below(3) {
        0 => random.below(20),
        _ => 0,
    }
}

/// Options of every kind; the scale is 1 in half of them.
pub fn op() -> impl Strategy<Value = Op> {
    let scale = prop_oneof![
        8 => Just(1.0f32),
        3 => -3f32..3.0,
        1 => prop::sample::select(&[0.0f32, -0.0, -1.0, 0.125, 1e-30, 1e-42, 1e30, f32::MAX][..]),
    ];
    let masked =
        prop::sample::select(&[FullyMasked::Zero, FullyMasked::Uniform, FullyMasked::Nan][..]);
    let nan = prop::sample::select(&[NanPolicy::Propagate, NanPolicy::Ignore][..]);
    (scale, masked, nan).prop_map(|(scale, fully_masked, nan_policy)| Op {
        scale,
        fully_masked,
        nan_policy,
    })
}

/// A call: types, shape, layout of either side, options and contents.
pub fn case() -> impl Strategy<Value = Case> {
    (types(), cols(), op(), any::<u64>(), 0..4u8)
        .prop_flat_map(|(types, cols, op, seed, style)| {
            (Just((types, cols, op, seed, style)), lead(cols))
        })
        .prop_map(|((types, cols, op, seed, style), lead)| {
            let mut random = Random::new(seed);
            let case = Case::new(types, &lead, cols).op(op);
            let case = match style {
                0 => case,
                1 if types.0 == types.1 => {
                    let x = apart(&lead, cols, &mut random);
                    case.x_at(x).in_place()
                }
                2 => {
                    let (x, y) = (
                        anywhere(&lead, cols, &mut random),
                        apart(&lead, cols, &mut random),
                    );
                    case.x_at(x).y_at(y)
                }
                _ => {
                    let (x, y) = (
                        apart(&lead, cols, &mut random),
                        apart(&lead, cols, &mut random),
                    );
                    case.x_at(x).y_at(y)
                }
            };
            case.fill_with_any(seed)
        })
}
