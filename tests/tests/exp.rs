//! The kernels' exponential alone, against f64.

use kernels_gpu::exp::{
    Accuracy, CUTOFF, DIRECT_LIMIT, Full, Half, Reference, Short, exponent_of, power_of_two,
};
use warp_softmax_tests::random::Random;

/// Distance below the maximum to which terms are certainly not cut off.
fn reach() -> f64 {
    f64::from(CUTOFF - 1.0) * core::f64::consts::LN_2
}

/// log2 of the base: of e, or of what the exponentials of 16-bit results have in its place.
fn log2_of_base<A: Accuracy>() -> f64 {
    if A::PAIRS {
        core::f64::consts::LOG2_E
    } else {
        f64::from(core::f32::consts::LOG2_E)
    }
}

/// `base^x * 2^(BIAS - K)`.
fn exact<A: Accuracy>(x: f32, max: f32, bias: f64) -> f64 {
    if !A::PAIRS {
        // Exact: a product of 24-bit numbers, and an integer below 2^21.
        let exponent = f64::from(x) * log2_of_base::<A>() - (f64::from(exponent_of(max)) - bias);
        return exponent.exp2();
    }
    // ln 2 in two parts, the first of 32 bits, so that nothing is lost for |K| < 2^21.
    let k = f64::from(exponent_of(max)) - bias;
    let (high, low) = (
        f64::from_bits(0x3fe6_2e42_fee0_0000),
        1.908_214_929_270_587_7e-10,
    );
    ((f64::from(x) - k * high) - k * low).exp()
}

/// Largest error of `A` over pairs of an input and the maximum it is taken relative to, as
/// (in ulp, relative).
fn worst<A: Accuracy>(inputs: impl Iterator<Item = (f32, f32)>) -> (f64, f64) {
    // What e^0 is scaled by: a power of two, the same for every input.
    let bias = f64::from(A::exp(0.0, Reference::of_max(0.0)))
        .log2()
        .round();
    let (mut ulp, mut relative, mut count) = (0.0f64, 0.0f64, 0);
    for (x, max) in inputs {
        let got = A::exp(x, Reference::of_max(max));
        let exact = exact::<A>(x, max, bias);
        assert!(got.is_normal(), "e^{x:e} relative to {max:e} is {got:e}");
        let error = (f64::from(got) - exact).abs();
        let last_place = f64::from_bits((exact.to_bits() & (0x7ff << 52)) - (23 << 52));
        ulp = ulp.max(error / last_place);
        relative = relative.max(error / exact);
        count += 1;
    }
    assert!(count > 100_000, "only {count} inputs");
    println!("{count} inputs: largest error {ulp:.4} ulp, {relative:.3e} relative");
    (ulp, relative)
}

/// Every `stride`-th number from `-limit` to `limit`, both zeros included.
fn sweep(limit: f32, stride: usize) -> impl Iterator<Item = f32> {
    (0..limit.to_bits())
        .step_by(stride)
        .flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
}

/// Numbers of every magnitude, each its own maximum.
fn maxima() -> impl Iterator<Item = (f32, f32)> {
    sweep(DIRECT_LIMIT, 1009).map(|x| (x, x))
}

/// Numbers of every magnitude down to the cutoff, relative to 0.
fn below_zero() -> impl Iterator<Item = (f32, f32)> {
    (0..(reach() as f32).to_bits())
        .step_by(997)
        .map(|bits| (-f32::from_bits(bits), 0.0))
}

/// For maxima large and small, the numbers next to each place where the integer part changes.
fn rounding_boundaries() -> impl Iterator<Item = (f32, f32)> {
    let maxima = [
        0.0, 0.3, -0.7, 5.0, -31.9, 88.7, -103.9, 700.1, -4096.0, 54_321.0, -60_000.5, 65_535.9,
        -65_430.0,
    ];
    maxima.into_iter().flat_map(|max: f32| {
        (0..CUTOFF as u32 - 2).flat_map(move |steps| {
            let n = (f64::from(max) / core::f64::consts::LN_2).floor() - f64::from(steps);
            let boundary = ((n + 0.5) * core::f64::consts::LN_2) as f32;
            (-60..=60)
                .map(move |ulps| f32::from_bits(boundary.to_bits().wrapping_add_signed(ulps)))
                .filter(move |&x| x <= max && f64::from(x) > f64::from(max) - reach())
                .map(move |x| (x, max))
        })
    })
}

/// What the largest error of whole results is derived from: 1.33 * 2^-24 relative.
#[test]
fn full_is_within_one_ulp() {
    for (name, (ulp, relative)) in [
        ("maxima", worst::<Full>(maxima())),
        ("below zero", worst::<Full>(below_zero())),
        ("rounding boundaries", worst::<Full>(rounding_boundaries())),
    ] {
        assert!(ulp <= 1.0, "{name}: {ulp} ulp");
        assert!(
            relative <= 1.33 / f64::from(1 << 24),
            "{name}: {relative} relative"
        );
    }
}

/// With what rounding took from it: half as far off, whatever the distance from the maximum.
#[test]
fn full_and_its_rest_are_twice_as_near() {
    let mut worst = 0.0f64;
    let inputs = maxima().chain(below_zero()).chain(rounding_boundaries());
    for (x, max) in inputs.step_by(3) {
        let reference = Reference::of_max(max);
        let bias = f64::from(Full::exp(0.0, Reference::of_max(0.0)))
            .log2()
            .round();
        let both = f64::from(Full::exp(x, reference)) + f64::from(Full::rest(x, reference));
        let exact = exact::<Full>(x, max, bias);
        worst = worst.max((both - exact).abs() / exact);
    }
    println!("largest relative error 2^{:.2}", worst.log2());
    assert!(worst <= 0.67 / f64::from(1 << 24), "{worst:e}");
}

#[test]
fn half_is_within_three_ten_millionths() {
    for (name, (_, relative)) in [
        ("maxima", worst::<Half>(maxima())),
        ("below zero", worst::<Half>(below_zero())),
        ("rounding boundaries", worst::<Half>(rounding_boundaries())),
    ] {
        assert!(relative <= 3e-7, "{name}: {relative} relative");
    }
}

#[test]
fn short_is_within_three_millionths() {
    for (name, (_, relative)) in [
        ("maxima", worst::<Short>(maxima())),
        ("below zero", worst::<Short>(below_zero())),
        ("rounding boundaries", worst::<Short>(rounding_boundaries())),
    ] {
        assert!(relative <= 3e-6, "{name}: {relative} relative");
    }
}

/// Two references give results that differ by exactly the power of two between them.
fn reference_moves_only_the_exponent<A: Accuracy>() {
    let mut random = Random::new(1);
    let mut count = 0;
    for magnitude in [1e-30, 1e-3, 1.0, 50.0, 1e4, 1e6] {
        for _ in 0..50_000 {
            let x = random.between(-magnitude, magnitude) as f32;
            let above =
                |random: &mut Random| (f64::from(x) + random.between(0.0, 0.9 * reach())) as f32;
            let (first, second) = (above(&mut random), above(&mut random));
            if first < x || second < x || first.max(second) >= DIRECT_LIMIT {
                continue;
            }
            let apart = (exponent_of(second) - exponent_of(first)) as i32;
            let bits = A::exp(x, Reference::of_max(second)).to_bits();
            let moved = bits.wrapping_add_signed(apart << 23);
            assert_eq!(
                A::exp(x, Reference::of_max(first)).to_bits(),
                moved,
                "e^{x:e} relative to {first:e} and to {second:e}"
            );
            count += 1;
        }
    }
    assert!(count > 100_000);
}

#[test]
fn full_has_the_same_significand_whatever_the_reference() {
    reference_moves_only_the_exponent::<Full>();
}

#[test]
fn half_has_the_same_significand_whatever_the_reference() {
    reference_moves_only_the_exponent::<Half>();
}

#[test]
fn short_has_the_same_significand_whatever_the_reference() {
    reference_moves_only_the_exponent::<Short>();
}

/// Normal numbers to a power of two above the cutoff; from a power of two below it on, whatever the
/// input, a number too small to count.
fn terms_end_at_the_cutoff<A: Accuracy>() {
    for max in [0.0, 1.0, -1.0, 87.3, -5000.25, 300_000.0, -1_048_575.9f32] {
        let reference = Reference::of_max(max);
        let at = |powers: f64| {
            A::exp(
                (f64::from(max) - powers * core::f64::consts::LN_2) as f32,
                reference,
            )
        };
        let cutoff = f64::from(CUTOFF);
        let (one, last) = (f64::from(A::exp(max, reference)), at(cutoff - 1.0));
        assert!(last.is_normal(), "at the cutoff from {max}");
        // Half a power of two for what `max` is above its own exponent, half for the input's rounding.
        let small = one * (1.0 - cutoff).exp2();
        let far = [
            at(cutoff + 1.0),
            at(250.0),
            at(1e6),
            A::exp(f32::MIN, reference),
            A::exp(f32::NEG_INFINITY, reference),
        ];
        for term in far {
            assert!(
                (0.0..=small).contains(&f64::from(term)),
                "{term:e} relative to {max}, where {one:e} is the largest"
            );
        }
    }
}

#[test]
fn full_ends_at_the_cutoff() {
    terms_end_at_the_cutoff::<Full>();
}

#[test]
fn half_ends_at_the_cutoff() {
    terms_end_at_the_cutoff::<Half>();
}

#[test]
fn short_ends_at_the_cutoff() {
    terms_end_at_the_cutoff::<Short>();
}

#[test]
fn exponents_are_the_nearest_integers_and_keep_order() {
    let mut last = f32::NEG_INFINITY;
    let numbers = sweep(DIRECT_LIMIT, 4001);
    let mut numbers: Vec<f32> = numbers.collect();
    numbers.sort_by(f32::total_cmp);
    for x in numbers {
        let exponent = exponent_of(x);
        let exact = f64::from(x) * core::f64::consts::LOG2_E;
        assert_eq!(exponent, exponent.round());
        // log2 e itself is rounded to f32 there: 2^-26 of up to 2^21.
        assert!(
            (f64::from(exponent) - exact).abs() <= 0.5 + 0.04,
            "{x:e}: {exponent}"
        );
        assert!(exponent >= last, "the exponent falls at {x:e}");
        last = exponent;
    }
    assert_eq!(exponent_of(f32::NEG_INFINITY), f32::NEG_INFINITY);
    assert_eq!(exponent_of(f32::INFINITY), f32::INFINITY);
    assert!(exponent_of(f32::NAN).is_nan());
}

#[test]
fn powers_of_two_are_exact_where_they_are_normal_and_0_below() {
    for d in -126..=0 {
        assert_eq!(power_of_two(d as f32), 2f32.powi(d), "2^{d}");
    }
    for d in [-127.0, -1e9, f32::MIN, f32::NEG_INFINITY, f32::NAN] {
        assert_eq!(power_of_two(d).to_bits(), 0, "2^{d}");
    }
}
