//! The running pair: laws of its merge, and what becomes of a row.

use kernels_gpu::exp::{
    Accuracy, CUTOFF, DIRECT_LIMIT, Full, REFERENCE_LIMIT, Reference, Short, exponent_of,
};
use kernels_gpu::online::{Outcome, Pair, Partial};
use kernels_gpu::options::{FullyMasked, Options};
use kernels_gpu::tile::Tile;
use proptest::prelude::*;
use warp_softmax_tests::property::property;
use warp_softmax_tests::random::Random;

/// The NaN that a maximum is, if it is NaN.
const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// What `e^0` is relative to a maximum of 0: the scale that sums have.
fn one() -> f32 {
    Full::exp(0.0, Reference::of_max(0.0))
}

fn is_nan(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Fill(value) if value.is_nan())
}

/// A partial as a chunk of up to 1,024 elements with that maximum can have it.
fn partial() -> impl Strategy<Value = Partial> {
    let max = prop_oneof![
        8 => -200f32..200.0,
        2 => -DIRECT_LIMIT..DIRECT_LIMIT,
        1 => prop_oneof![Just(f32::NEG_INFINITY), Just(NAN), Just(f32::INFINITY)],
        1 => prop_oneof![Just(-1e30f32), Just(2e6f32), Just(f32::MIN), Just(f32::MAX)],
    ];
    (max, 0.7f32..1500.0, -1f32..1.0).prop_map(|(max, sum, rest)| {
        let hi = sum * one();
        let lo = rest * hi * f32::EPSILON * 8.0;
        Partial {
            max,
            sum: if Partial::can_refer(max) {
                Pair { hi, lo }
            } else {
                Pair::ZERO
            },
        }
    })
}

fn bits(partial: Partial) -> [u32; 3] {
    [partial.max, partial.sum.hi, partial.sum.lo].map(f32::to_bits)
}

fn expect_equal(left: Partial, right: Partial) -> Result<(), String> {
    if bits(left) == bits(right) {
        Ok(())
    } else {
        Err(format!("{left:?} and {right:?} differ"))
    }
}

#[test]
fn merge_gives_the_same_bits_either_way_round() {
    property("online", (partial(), partial()), |(a, b)| {
        expect_equal(a.merge(b), b.merge(a))
    });
}

#[test]
fn the_empty_part_changes_no_bit() {
    property("online", partial(), |a| {
        expect_equal(a.merge(Partial::EMPTY), a)?;
        expect_equal(Partial::EMPTY.merge(a), a)
    });
}

#[test]
fn empty_parts_merge_to_the_empty_part() {
    assert_eq!(
        bits(Partial::EMPTY.merge(Partial::EMPTY)),
        bits(Partial::EMPTY)
    );
}

/// The sum in f64, less the powers of two.
fn sum_of(partial: Partial, max: f32) -> f64 {
    let distance = f64::from(exponent_of(partial.max)) - f64::from(exponent_of(max));
    if partial.sum == Pair::ZERO {
        return 0.0;
    }
    (f64::from(partial.sum.hi) + f64::from(partial.sum.lo)) * distance.exp2()
}

#[test]
fn merge_keeps_the_sum_to_twice_the_bits_of_f32() {
    property("online", (partial(), partial()), |(a, b)| {
        let whole = a.merge(b);
        if !Partial::can_refer(whole.max) {
            return Ok(());
        }
        let exact = sum_of(a, whole.max) + sum_of(b, whole.max);
        let got = sum_of(whole, whole.max);
        let error = (got - exact).abs() / exact;
        // Low parts here are up to 2^-20 of the high ones, and two sums of them are rounded to 2^-24.
        if error < 2f64.powi(-42) {
            Ok(())
        } else {
            Err(format!("{got:e} for {exact:e}: off by {error:e}"))
        }
    });
}

#[test]
fn merge_is_associative_up_to_the_rounding_of_the_low_part() {
    property("online", (partial(), partial(), partial()), |(a, b, c)| {
        let (left, right) = (a.merge(b).merge(c), a.merge(b.merge(c)));
        if left.max.to_bits() != right.max.to_bits() {
            return Err(format!("maxima {:e} and {:e}", left.max, right.max));
        }
        if !Partial::can_refer(left.max) {
            return Ok(());
        }
        let (left, right) = (sum_of(left, left.max), sum_of(right, right.max));
        let apart = (left - right).abs() / left;
        if apart < 2f64.powi(-41) {
            Ok(())
        } else {
            Err(format!("{left:e} and {right:e}"))
        }
    });
}

#[test]
fn a_nan_part_makes_the_whole_nan() {
    property("online", partial(), |a| {
        let nan = Partial {
            max: NAN,
            sum: Pair::ZERO,
        };
        let whole = a.merge(nan);
        if whole.max.is_nan() && is_nan(Outcome::of(whole, 5, &Options::default())) {
            Ok(())
        } else {
            Err(format!("{whole:?}"))
        }
    });
}

#[test]
fn sums_that_are_no_pairs_have_no_low_part() {
    let pair = |hi| Pair { hi, lo: 0.0 };
    assert_eq!(pair(3.0).plus::<Short>(pair(4.0)), pair(7.0));
    let tile = Tile::<32, 1, 4>::of(0, [[1.0, 2.0, 3.0, 4.0]]);
    assert_eq!(tile.vector_sum::<Short>(0, None), pair(10.0));
}

#[test]
fn pairs_add_without_loss_of_what_f32_would_lose() {
    let mut sum = Pair::ZERO;
    for _ in 0..10_000 {
        sum = sum.plus::<Full>(Pair { hi: 0.1, lo: 0.0 });
    }
    let exact = 10_000.0 * f64::from(0.1f32);
    let got = f64::from(sum.hi) + f64::from(sum.lo);
    assert!((got - exact).abs() / exact < 1e-10, "{got}");
}

#[test]
fn outcomes_follow_the_maximum_and_the_policy() {
    let of = |max, fully_masked| {
        let whole = Partial {
            max,
            sum: Pair::ZERO,
        };
        Outcome::of(
            whole,
            8,
            &Options {
                fully_masked,
                ..Options::default()
            },
        )
    };
    assert_eq!(of(f32::NEG_INFINITY, FullyMasked::Zero), Outcome::Fill(0.0));
    assert_eq!(
        of(f32::NEG_INFINITY, FullyMasked::Uniform),
        Outcome::Fill(0.125)
    );
    assert!(is_nan(of(f32::NEG_INFINITY, FullyMasked::Nan)));
    assert!(is_nan(of(f32::INFINITY, FullyMasked::Zero)));
    assert!(is_nan(of(f32::NAN, FullyMasked::Zero)));
}

#[test]
fn only_finite_maxima_from_the_limit_on_are_subtracted() {
    let below = f32::from_bits(DIRECT_LIMIT.to_bits() - 1);
    for max in [
        DIRECT_LIMIT,
        REFERENCE_LIMIT,
        -DIRECT_LIMIT,
        f32::MAX,
        f32::MIN,
    ] {
        assert!(Outcome::needs_shift(max), "{max:e}");
    }
    for max in [below, -below, 0.0] {
        assert!(!Outcome::needs_shift(max), "{max:e}");
        assert!(Partial::can_refer(max), "{max:e}");
    }
    // A part beyond what is referred to is nothing beside a row that is not shifted.
    for max in [REFERENCE_LIMIT, -REFERENCE_LIMIT, f32::MAX, f32::MIN] {
        assert!(!Partial::can_refer(max), "{max:e}");
    }
    assert!(exponent_of(-below) - exponent_of(-REFERENCE_LIMIT) > CUTOFF);
    for max in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert!(!Outcome::needs_shift(max), "{max:e}");
        assert!(!Partial::can_refer(max), "{max:e}");
    }
}

/// The result of `x`, taken relative to a part's maximum, in a row with this maximum and sum.
fn result<A: Accuracy>(x: f32, part_max: f32, max: f32, sum: Pair) -> f32 {
    match Outcome::of(Partial { max, sum }, 1, &Options::default()).for_part(part_max, max) {
        Outcome::Normalise(part) => {
            part.apply::<A>(part.rescale(A::exp(x, Reference::of_max(part_max))))
        }
        Outcome::Fill(value) => value,
    }
}

/// An exponential taken relative to its own part's maximum gives the bits that one taken relative to
/// the row's maximum gives.
fn parts_do_not_show_in_results<A: Accuracy>() {
    let mut random = Random::new(5);
    let mut subnormal = 0;
    for _ in 0..300_000 {
        let max = random.between(-300.0, 300.0) as f32;
        let part_max = max - random.between(0.0, 120.0) as f32;
        let x = part_max - random.between(0.0, 110.0) as f32;
        // Rows of up to 2^31 elements.
        let most = 2f64.powi(random.below(32) as i32);
        let hi = random.between(1.0, most) as f32 * one();
        let lo = if A::PAIRS {
            hi * random.between(-1.0, 1.0) as f32 * f32::EPSILON
        } else {
            0.0
        };
        let sum = Pair { hi, lo };
        let (whole, part) = (
            result::<A>(x, max, max, sum),
            result::<A>(x, part_max, max, sum),
        );
        assert_eq!(
            whole.to_bits(),
            part.to_bits(),
            "{x:e} in a part of {part_max:e} in a row of {max:e}, sum {hi:e}"
        );
        subnormal += u32::from(whole.is_subnormal());
    }
    assert!(subnormal > 1000, "only {subnormal} subnormal results");
}

#[test]
fn full_results_do_not_show_their_part() {
    parts_do_not_show_in_results::<Full>();
}

#[test]
fn short_results_do_not_show_their_part() {
    parts_do_not_show_in_results::<Short>();
}

/// The reciprocal's low part is there for this: a quotient of f32 alone would not be 1 for one in six.
#[test]
fn a_single_element_gives_exactly_1() {
    let mut random = Random::new(8);
    for _ in 0..10_000 {
        let x = random.between(-500.0, 500.0) as f32;
        let hi = Full::exp(x, Reference::of_max(x));
        assert_eq!(result::<Full>(x, x, x, Pair { hi, lo: 0.0 }), 1.0, "{x:e}");
    }
}

/// A thousand terms that are each too small for the high part of a sum are in its low part, which is no small part then.
#[test]
fn low_parts_of_sums_count() {
    for share in [2f32.powi(-9), 2f32.powi(-12), -2f32.powi(-10)] {
        let (hi, lo) = (one(), one() * share);
        let got = result::<Full>(0.0, 0.0, 0.0, Pair { hi, lo });
        let expected = 1.0 / (1.0 + f64::from(share));
        let error = (f64::from(got) - expected).abs() / expected;
        assert!(error <= f64::powi(2.0, -24), "{got} for {expected}");
    }
}

#[test]
fn elements_of_an_empty_part_are_0() {
    // A part of -inf alone, and one too far below to refer to, beside a live one.
    for part_max in [f32::NEG_INFINITY, f32::MIN, -1e30, -DIRECT_LIMIT] {
        for x in [part_max, part_max * 1.5, f32::NEG_INFINITY] {
            let y = result::<Full>(x, part_max, 0.0, Pair { hi: one(), lo: 0.0 });
            assert_eq!(y.to_bits(), 0, "{x:e} in a part of {part_max:e}");
        }
    }
}
