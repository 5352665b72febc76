//! Properties: values drawn by proptest from a seed that is said, and failures kept.

use core::fmt::Debug;
use std::path::PathBuf;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestCaseError, TestRunner};

use crate::schedule::Schedule;
use crate::settings;

/// Draws values and tests each, with the emulator in an order drawn too, and all its checks; a failure is shrunk and
/// said with its [`Schedule`], and its seed kept under `regressions/` in the file of that name.
///
/// # Panics
///
/// Where a test fails.
#[track_caller]
pub fn property<S>(file: &str, strategy: S, test: impl Fn(S::Value) -> Result<(), String>)
where
    S: Strategy,
    S::Value: Debug,
{
    let path: PathBuf = [
        env!("CARGO_MANIFEST_DIR"),
        "regressions",
        &format!("{file}.txt"),
    ]
    .iter()
    .collect();
    // The file's name has to live as long as the process; there are few.
    let path: &'static str = path.to_string_lossy().into_owned().leak();
    let config = Config {
        cases: settings::cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(path))),
        rng_seed: RngSeed::Fixed(settings::seed()),
        max_shrink_iters: 500,
        ..Config::default()
    };
    let scheduled = (strategy, Schedule::any());
    let outcome = TestRunner::new(config).run(&scheduled, |(value, schedule)| {
        schedule.run(|| test(value)).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("WARP_SOFTMAX_SEED={}: {failure}", settings::seed());
    }
}
