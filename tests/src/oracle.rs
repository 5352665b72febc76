//! The oracle: softmax in f64, short and slow, knowing nothing of the kernels.

use warp_softmax::{FullyMasked, NanPolicy};

use crate::format::Format;

/// What a call asks for besides its tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// Multiplies every input, rounded to f32 once.
    pub scale: f32,
    /// What a row with nothing left gives.
    pub fully_masked: FullyMasked,
    /// What a NaN does.
    pub nan_policy: NanPolicy,
}

impl Default for Op {
    fn default() -> Self {
        Self {
            scale: 1.0,
            fully_masked: FullyMasked::Zero,
            nan_policy: NanPolicy::Propagate,
        }
    }
}

/// Softmax of one row. A NaN row is all NaN. An exact 0 says that the result has to be +0.
pub fn softmax(x: &[f32], op: &Op) -> Vec<f64> {
    let z: Vec<f64> = x
        .iter()
        .map(|&x| {
            let z = op.scale * x;
            match op.nan_policy {
                NanPolicy::Ignore if z.is_nan() => f64::NEG_INFINITY,
                _ => f64::from(z),
            }
        })
        .collect();
    if z.iter().any(|&z| z.is_nan() || z == f64::INFINITY) {
        return vec![f64::NAN; z.len()];
    }
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        let value = match op.fully_masked {
            FullyMasked::Zero => 0.0,
            FullyMasked::Uniform => 1.0 / z.len() as f64,
            FullyMasked::Nan => f64::NAN,
        };
        return vec![value; z.len()];
    }
    let e: Vec<f64> = z.iter().map(|&z| (z - max).exp()).collect();
    // At most 2^27 terms of at most 1 lose 2^-26 of the last place of an f32.
    let sum: f64 = e.iter().sum();
    e.iter().map(|&e| e / sum).collect()
}

/// Whether `got` is what the contract allows for `exact`; the largest error in ulp if so, else
/// which element is wrong and how.
pub fn compare<F: Format>(format: F, got: &[u32], exact: &[f64]) -> Result<f64, String> {
    assert_eq!(got.len(), exact.len(), "a row of another length");
    let mut worst = 0.0f64;
    for (index, (&bits, &exact)) in got.iter().zip(exact).enumerate() {
        let complain = |what: &str| {
            let value = format.value(bits);
            Err(format!(
                "element {index} is {value:e} ({bits:#x}), {what}; exactly {exact:e}"
            ))
        };
        if exact.is_nan() {
            if bits != format.canonical_nan() {
                return complain("not the canonical NaN");
            }
        } else if exact == 0.0 {
            if bits != 0 {
                return complain("not +0");
            }
        } else {
            let error = format.error_ulp(bits, exact);
            // Written so that a NaN complains.
            if error.is_nan() || error > format.tolerance_ulp() {
                return complain(&format!("off by {error:.3} ulp"));
            }
            worst = worst.max(error);
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warp_softmax::DType;

    fn plain(x: &[f32]) -> Vec<f64> {
        softmax(x, &Op::default())
    }

    #[test]
    fn two_elements_one_apart() {
        // 1 / (1 + e) to seventeen digits.
        assert_eq!(
            plain(&[0.0, 1.0]),
            [0.268_941_421_369_995_1, 0.731_058_578_630_004_9]
        );
    }

    #[test]
    fn rows_sum_to_one_whatever_the_spread() {
        for row in [
            vec![0.0; 1000],
            vec![-1e38, 1e38, 0.0],
            (0..50_257).map(|i| (i % 97) as f32).collect(),
        ] {
            let sum: f64 = plain(&row).iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        }
    }

    #[test]
    fn nan_and_infinity_follow_the_policies() {
        let nan = [f32::NAN, 0.0, 0.0];
        assert!(plain(&nan).iter().all(|y| y.is_nan()));
        let ignore = Op {
            nan_policy: NanPolicy::Ignore,
            ..Op::default()
        };
        assert_eq!(softmax(&nan, &ignore), [0.0, 0.5, 0.5]);
        assert!(plain(&[f32::INFINITY, 0.0]).iter().all(|y| y.is_nan()));
        assert_eq!(plain(&[f32::NEG_INFINITY, 3.0]), [0.0, 1.0]);

        let dead = [f32::NEG_INFINITY; 4];
        assert_eq!(plain(&dead), [0.0; 4]);
        let with = |fully_masked| {
            softmax(
                &dead,
                &Op {
                    fully_masked,
                    ..Op::default()
                },
            )
        };
        assert_eq!(with(FullyMasked::Uniform), [0.25; 4]);
        assert!(with(FullyMasked::Nan).iter().all(|y| y.is_nan()));
    }

    #[test]
    fn scale_is_rounded_to_f32_once() {
        let (x, scale) = (16_777_215.0f32, 1.0 + f32::EPSILON);
        let op = Op {
            scale,
            ..Op::default()
        };
        // In f64 the scaled difference would be 2; in f32 both products round.
        let y = softmax(&[x, x - 1.0], &op);
        let difference = f64::from(x * scale) - f64::from((x - 1.0) * scale);
        assert_eq!(y[0] / y[1], difference.exp());
    }

    #[test]
    fn compare_accepts_the_contract_and_nothing_else() {
        let exact = [0.25, 0.75];
        let f32_bits = |a: f32, b: f32| [a.to_bits(), b.to_bits()];
        assert_eq!(compare(DType::F32, &f32_bits(0.25, 0.75), &exact), Ok(0.0));
        let four_off = f32::from_bits(0.75f32.to_bits() + 4);
        let five_off = f32::from_bits(0.75f32.to_bits() + 5);
        assert_eq!(
            compare(DType::F32, &f32_bits(0.25, four_off), &exact),
            Ok(4.0)
        );
        assert!(
            compare(DType::F32, &f32_bits(0.25, five_off), &exact)
                .unwrap_err()
                .contains("element 1")
        );
        assert!(compare(DType::F32, &f32_bits(f32::NAN, 0.75), &exact).is_err());
        let half = DType::F16.bits(0.25);
        assert!(compare(DType::F16, &[half + 1, DType::F16.bits(0.75)], &exact).is_err());
        assert!(
            compare(DType::F32, &[0x8000_0000], &[0.0]).is_err(),
            "-0 for 0"
        );
        assert!(
            compare(DType::F32, &[1], &[0.0]).is_err(),
            "a subnormal for 0"
        );
        assert!(
            compare(DType::F32, &[0x7fc0_0001], &[f64::NAN]).is_err(),
            "another NaN"
        );
        assert_eq!(compare(DType::F32, &[0x7fc0_0000], &[f64::NAN]), Ok(0.0));
    }
}
