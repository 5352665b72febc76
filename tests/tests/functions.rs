//! The kernels' logarithm, hyperbolic tangent and soft cap alone, against f64; and what all of them have in common.

use cuda_std::ext::U32x4;
use cuda_std::ext::math::max_nan;
use kernels_gpu::element::{Bf16, Element, F16, F32};
use kernels_gpu::exp::{Accuracy, Full, Half, Reference, Short};
use kernels_gpu::ln::{ln, ln_pair};
use kernels_gpu::online::{Outcome, Pair, Partial};
use kernels_gpu::options::Options;
use kernels_gpu::tanh::{soft_cap, tanh};
use warp_softmax::DType;
use warp_softmax_tests::format::Format;
use warp_softmax_tests::random::Random;

/// Largest error in ulp of `f` over `inputs`, against `exact`.
fn worst(
    inputs: impl Iterator<Item = f32>,
    f: impl Fn(f32) -> f32,
    exact: impl Fn(f64) -> f64,
) -> f64 {
    let (mut worst, mut at, mut count) = (0.0f64, 0.0, 0);
    for x in inputs {
        let (got, exact) = (f64::from(f(x)), exact(x.into()));
        let error = (got - exact).abs() / DType::F32.ulp(exact);
        assert!(!error.is_nan(), "{got:e} for {exact:e} of {x:e}");
        if error > worst {
            (worst, at) = (error, x);
        }
        count += 1;
    }
    println!("{count} inputs: largest error {worst:.4} ulp, at {at:e}");
    assert!(count > 100_000, "only {count} inputs");
    worst
}

/// Every `stride`-th number from `from` to `to`, both positive.
fn sweep(from: f32, to: f32, stride: usize) -> impl Iterator<Item = f32> {
    (from.to_bits()..=to.to_bits())
        .step_by(stride)
        .map(f32::from_bits)
}

#[test]
fn ln_is_within_one_ulp() {
    let all = worst(sweep(f32::MIN_POSITIVE, 1e38, 2003), ln, f64::ln);
    let near_one = worst(sweep(0.5, 2.0, 7), ln, f64::ln);
    assert!(all <= 1.0 && near_one <= 1.0);
    assert_eq!(ln(1.0).to_bits(), 0);
}

/// The pair is nearly as exact as the sum that it is taken of.
#[test]
fn ln_of_a_pair_is_a_pair() {
    let mut random = Random::new(5);
    let mut largest = 0.0f64;
    for _ in 0..300_000 {
        let hi = random.between(-20.0, 40.0).exp2() as f32;
        let last_place = f64::from(hi) * f64::powi(2.0, -25);
        let lo = (last_place * random.between(-1.0, 1.0)) as f32;
        let exact = (f64::from(hi) + f64::from(lo)).ln();
        let Pair { hi, lo } = ln_pair(Pair { hi, lo });
        let error = ((f64::from(hi) - exact) + f64::from(lo)).abs() / exact.abs();
        largest = largest.max(error);
    }
    println!("largest relative error 2^{:.1}", largest.log2());
    assert!(largest <= f64::powi(2.0, -27));
    // A little above 1, what is above is the logarithm, however little it is.
    for rest in [1e-9, 1e-20, 1e-37] {
        let Pair { hi, lo } = ln_pair(Pair { hi: 1.0, lo: rest });
        assert!((hi + lo - rest).abs() <= rest * 1e-7, "{hi:e} for {rest:e}");
    }
}

#[test]
fn tanh_is_within_one_ulp() {
    let both = |x: f32| [x, -x];
    let all = worst(sweep(1e-40, 100.0, 997).flat_map(both), tanh, f64::tanh);
    let middle = worst(sweep(0.1, 10.0, 13).flat_map(both), tanh, f64::tanh);
    assert!(all <= 1.0 && middle <= 1.0, "{all}, {middle}");
    assert_eq!([tanh(0.0), tanh(-0.0)].map(f32::to_bits), [0, 1 << 31]);
    assert_eq!([tanh(f32::INFINITY), tanh(f32::MIN)], [1.0, -1.0]);
    assert!(tanh(f32::NAN).is_nan());
}

/// The quotient is correctly rounded where it matters, so that what is left are the tangent's and the product's errors.
#[test]
fn a_soft_cap_is_cap_times_tanh_of_the_quotient() {
    let mut random = Random::new(9);
    for cap in [1.0f32, 15.0, 30.0, 50.0, 0.37, 1e-3, 12_345.6] {
        let inverse = 1.0 / cap;
        for _ in 0..100_000 {
            let z = (f64::from(cap) * random.normal() * random.between(-3.0, 2.0).exp2()) as f32;
            assert_eq!(
                soft_cap(z, cap, inverse).to_bits(),
                (cap * tanh(z / cap)).to_bits(),
                "{z:e} with cap {cap}"
            );
        }
        assert_eq!(soft_cap(f32::INFINITY, cap, inverse), cap);
        assert_eq!(soft_cap(f32::NEG_INFINITY, cap, inverse), -cap);
        assert!(soft_cap(f32::NAN, cap, inverse).is_nan());
    }
}

/// The bits of `f` over `inputs` in one number (FNV-1a).
fn sum_of_bits<const N: usize>(
    inputs: impl Iterator<Item = f32>,
    f: impl Fn(f32) -> [f32; N],
) -> u64 {
    let bytes = inputs.flat_map(f).flat_map(|y| y.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The result of `x` in a row whose maximum is 0, and whose sum is of the size of `x`.
fn result(x: f32) -> f32 {
    let reference = Reference::of_max(0.0);
    let hi = (1.0 - x) * Full::exp(0.0, reference);
    let sum = Pair { hi, lo: 3e-8 * hi };
    match Outcome::of(Partial { max: 0.0, sum }, 1, &Options::default()) {
        Outcome::Normalise(normaliser) => normaliser.apply::<Full>(Full::exp(x, reference)),
        Outcome::Fill(value) => value,
    }
}

/// They are the same on every machine, since nothing but IEEE operations makes them. Where a function is changed, so is
/// what stands here.
#[test]
fn every_function_has_the_bits_that_it_always_had() {
    let both = |x: f32| [x, -x];
    let inputs = || sweep(1e-12, 1e12, 12_289).flat_map(both);
    let positive = || sweep(1e-30, 1e30, 24_593).chain(sweep(0.5, 2.0, 401));
    let middle = || sweep(0.1, 12.0, 1009).flat_map(both);
    let pair = |Pair { hi, lo }| [hi, lo];
    let below = || sweep(1e-6, 100.0, 3001).map(|x| -x);
    let of = Reference::of_max(0.0);
    let sums = [
        ("ln", sum_of_bits(positive(), |x| [ln(x)])),
        (
            "ln_pair",
            sum_of_bits(positive(), |x| {
                let lo = x * 2e-8;
                pair(ln_pair(Pair { hi: x, lo }))
            }),
        ),
        ("tanh", sum_of_bits(inputs().chain(middle()), |x| [tanh(x)])),
        (
            "soft_cap",
            sum_of_bits(inputs(), |x| [soft_cap(x, 30.0, 1.0 / 30.0)]),
        ),
        ("Full::exp", sum_of_bits(below(), |x| [Full::exp(x, of)])),
        ("Full::rest", sum_of_bits(below(), |x| [Full::rest(x, of)])),
        ("Half::exp", sum_of_bits(below(), |x| [Half::exp(x, of)])),
        ("Short::exp", sum_of_bits(below(), |x| [Short::exp(x, of)])),
        ("results", sum_of_bits(below(), |x| [result(x)])),
    ];
    let expected = [
        ("ln", 0x723b_76a8_9967_9641),
        ("ln_pair", 0x73f9_faed_4ebf_31ba),
        ("tanh", 0x5fc1_0f57_ceba_bb09),
        ("soft_cap", 0xe5d8_e4ac_048a_3fe9),
        ("Full::exp", 0x8cad_59e0_f046_e3fe),
        ("Full::rest", 0x8cdd_5740_85a3_7343),
        ("Half::exp", 0x5532_7d16_0495_6bb9),
        ("Short::exp", 0x624c_1aa2_18fb_4011),
        ("results", 0xeb19_1513_6be8_af0b),
    ];
    assert_eq!(sums, expected);
}

/// Vectors hold what was put into them, the first element at the lowest address.
#[test]
fn vectors_hold_what_was_packed() {
    fn packed<E: Element, const V: usize>() -> [u32; 4] {
        let values: [f32; V] = core::array::from_fn(|i| 1.0 + i as f32);
        let vector = E::pack_wide(values);
        assert_eq!(E::unpack_wide::<V>(vector), values);
        let U32x4(words) = vector;
        words
    }
    assert_eq!(packed::<F32, 4>().map(f32::from_bits), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(packed::<F16, 8>()[0], 0x4000_3c00);
    assert_eq!(packed::<Bf16, 8>()[3], 0x4100_40e0);
}

/// What words tell of their values, whatever bits they have, is what the values tell.
#[test]
fn words_tell_of_their_values() {
    fn check<E: Element, const V: usize>() {
        let mut random = Random::new(7);
        let same = |got: f32, expected: f32| {
            let is_same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
            assert!(is_same, "{got} instead of {expected}");
        };
        // Any bits; no NaN, nor any number of 2 or more; zeros of either sign.
        for mask in [u32::MAX, 0xbfff_bfff, 0x8000_8000].repeat(200) {
            let vectors: [U32x4; 3] =
                core::array::from_fn(|_| U32x4([(); 4].map(|()| random.bits() as u32 & mask)));
            let values = vectors.map(E::unpack_wide::<V>);
            if let Some(largest) = E::largest(&vectors) {
                let expected = values.as_flattened().iter().copied().reduce(max_nan);
                same(largest, expected.expect("there are values"));
            }
            for count in 0..=V / 4 {
                let mut vector = vectors[0];
                vector.0[0] = E::first_of(vector.0[0], count as u32);
                let expected = |i| match i {
                    i if (count..V / 4).contains(&i) => f32::NEG_INFINITY,
                    i => values[0][i],
                };
                for (i, got) in E::unpack_wide::<V>(vector).into_iter().enumerate() {
                    same(got, expected(i));
                }
            }
        }
    }
    check::<F32, 4>();
    check::<F16, 8>();
    check::<Bf16, 8>();
}
