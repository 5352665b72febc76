//! Every kind of content, at a length of every regime, against the oracle.

use warp_softmax::DType;
use warp_softmax_tests::case::Case;
use warp_softmax_tests::conspiracy;
use warp_softmax_tests::content::{Content, Place};
use warp_softmax_tests::format::pairs;
use warp_softmax_tests::lengths::FEW;
use warp_softmax_tests::property::property;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::Runner;
use warp_softmax_tests::settings;
use warp_softmax_tests::strategy;

#[test]
fn every_kind_of_content_at_a_length_of_every_regime() {
    let runner = Runner::new("contents");
    for types in pairs() {
        for &cols in FEW {
            for &content in Content::ALL {
                runner.check(&Case::new(types, &[1], cols).fill_with(content, 9));
            }
        }
    }
    runner.finish();
}

/// A 0 and the rest `-d`: all the weight of rounding lies on a long sum of equal small terms.
#[test]
fn a_peak_above_sixty_depths() {
    let runner = Runner::new("depths");
    for types in pairs() {
        for step in 0..60 {
            // From 2^-24 to 110, where an f32 result is the smallest subnormal number and then 0.
            let depth = 2f32.powf(-24.0 + step as f32 * (24.0 + 6.78) / 59.0);
            for cols in [2, 100, 1024, 4096, 20_001] {
                runner.check(
                    &Case::new(types, &[1], cols).fill_with(Content::Peak { rest: -depth }, 0),
                );
            }
        }
    }
    runner.finish();
}

#[test]
fn one_live_element_at_every_place_of_a_row() {
    let runner = Runner::new("one live");
    for types in pairs() {
        for &cols in FEW {
            let places = [Place::First, Place::Middle, Place::Last];
            let values = [0.7, -60_000.0, -1e38, 65_504.0, 1e38];
            let lead = [places.len(), values.len()];
            let case = Case::new(types, &lead, cols).fill(|r| {
                let content = Content::OneLive(values[r % values.len()], places[r / values.len()]);
                content.row(cols, &mut Random::new(0))
            });
            let results = runner.check(&case);
            for (r, row) in results.rows().enumerate() {
                let place = places[r / values.len()].index(cols);
                let one = warp_softmax_tests::format::Format::bits(types.1, 1.0);
                for (i, &bits) in row.iter().enumerate() {
                    assert_eq!(
                        bits,
                        if i == place { one } else { 0 },
                        "row {r}, element {i}"
                    );
                }
            }
        }
    }
    runner.finish();
}

/// Chunk maxima so far apart that results of one chunk are subnormal, or 0, beside those of another.
#[test]
fn chunks_at_levels_far_apart() {
    let runner = Runner::new("levels");
    for types in pairs() {
        for gap in [10.0, 20.0, 40.0, 43.0, 50.0, 60.0, 85.0, 100.0, 150.0] {
            for cols in [1025, 2049, 7 * 1024, 20_000, 40_000] {
                runner.check(&Case::new(types, &[1], cols).fill_with(Content::Levels { gap }, 3));
            }
        }
    }
    runner.finish();
}

#[test]
fn a_row_of_one_element_is_one() {
    let runner = Runner::new("one element");
    for types in pairs() {
        let values = [
            0.7,
            0.0,
            -0.0,
            -30.0,
            1e-40,
            -60_000.0,
            1e38,
            -1e38,
            1_048_576.0,
        ];
        let case = Case::new(types, &[values.len()], 1).fill(|r| vec![values[r]]);
        let results = runner.check(&case);
        let one = warp_softmax_tests::format::Format::bits(types.1, 1.0);
        assert!(results.rows().all(|row| row == [one]), "{results:?}");
    }
    runner.finish();
}

/// Errors that all have one sign, but for the last result's: not a row that anyone draws.
#[test]
fn errors_that_conspire() {
    let runner = Runner::new("conspiracies");
    let f32s = (DType::F32, DType::F32);
    let mut known = [-1.7923808f32, -2.4840791, -1.7879523, -2.4852915].repeat(156);
    known[620..].fill(f32::NEG_INFINITY);
    known[620] = -2.5818517;
    runner.check(&Case::new(f32s, &[1], 624).fill(|_| known.clone()));
    let mut random = Random::new(settings::seed());
    for _ in 0..settings::cases() {
        for output in DType::ALL {
            let longest = [1_500, 9_000][usize::from(random.below(4) == 0)];
            let cols = 5 + random.below(longest);
            runner.check(
                &Case::new((DType::F32, output), &[2], cols)
                    .fill(|r| conspiracy::row(output, cols, r == 0, &mut random)),
            );
        }
    }
    runner.finish();
}

#[test]
fn drawn_calls() {
    let runner = Runner::new("drawn calls");
    property("values", strategy::case(), |case| {
        runner.try_check(&case).map(drop)
    });
    runner.finish();
}
