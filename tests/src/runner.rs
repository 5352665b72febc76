//! One runner: every case on every backend, by the plan's way and by every other way that can hold
//! its rows; guarded, compared with the oracle, compared between ways and backends, and counted.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use warp_softmax::{DType, Way};

use crate::backend::{self, Backend, Choice, Refused};
use crate::case::Case;
use crate::format::Format;
use crate::oracle;
use crate::schedule;
use crate::settings;

/// Most threads that a forced way may take on the emulator: eight blocks of `stream`. A block of a
/// thousand for each of many short rows takes long there, and shows nothing that a few rows do not.
const MOST_EMULATED_THREADS: u64 = 1 << 13;

/// The results of a case, as bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    cols: usize,
    /// What all ways on all backends give.
    bits: Vec<u32>,
    /// What each backend gives by default: for some 16-bit rows that is the device's own.
    default: Vec<Vec<u32>>,
}

impl Results {
    /// The r-th row, the same on every backend.
    pub fn row(&self, r: usize) -> &[u32] {
        &self.bits[r * self.cols..][..self.cols]
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.bits.len().checked_div(self.cols).unwrap_or(0)).map(|r| self.row(r))
    }

    /// The r-th row, and what each backend gives for it by default.
    pub fn every(&self, r: usize) -> Vec<&[u32]> {
        let all = core::iter::once(&self.bits).chain(&self.default);
        all.map(|bits| &bits[r * self.cols..][..self.cols])
            .collect()
    }
}

/// Runs cases and counts them.
pub struct Runner {
    name: &'static str,
    backends: Vec<Backend>,
    /// Calls by backend and way.
    ran: Mutex<BTreeMap<(&'static str, String), u64>>,
    /// Cases so far: where a case is not forced through every way, it says whose turn it is.
    turn: AtomicUsize,
}

impl Runner {
    /// A runner on every backend of this machine.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            backends: backend::all(),
            ran: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// The backends that cases run on.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Checks a case; gives its results.
    ///
    /// # Panics
    ///
    /// Where anything is not as it must be.
    #[track_caller]
    pub fn check(&self, case: &Case) -> Results {
        match self.try_check(case) {
            Ok(results) => results,
            Err(message) => panic!("{}: {message}", self.name),
        }
    }

    /// As [`Runner::check`], with the failure as text.
    pub fn try_check(&self, case: &Case) -> Result<Results, String> {
        schedule::everywhere(case.cols as u64, || self.compare(case))
    }

    fn compare(&self, case: &Case) -> Result<Results, String> {
        let mut first: Option<(String, Vec<u32>)> = None;
        let mut default = Vec::new();
        let mut ways = Way::ALL;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        ways.rotate_left(turn % Way::ALL.len());
        for backend in &self.backends {
            let mut planned = None;
            let mut left = settings::forced_ways();
            for choice in core::iter::once(Choice::Reproducible).chain(ways.map(Choice::Forced)) {
                let forced = matches!(choice, Choice::Forced(_));
                if (forced && left == 0) || planned.is_some_and(|way| choice == Choice::Forced(way))
                {
                    continue;
                }
                let Some((here, ran)) = self.run(backend, case, choice)? else {
                    continue;
                };
                left -= usize::from(forced);
                planned = planned.or(Some(ran.plan.way()));
                match &first {
                    None => {
                        compare_with_oracle(case, &ran.bits)
                            .map_err(|what| format!("{here}: {what}; {case:?}"))?;
                        first = Some((here, ran.bits));
                    }
                    Some((there, expected)) => {
                        compare_bits(case, (there, expected), (&here, &ran.bits), 0)?
                    }
                }
            }
            if case.input != DType::F32 && case.output != DType::F32 {
                let (there, expected) = first.as_ref().expect("a reproducible run");
                let (here, ran) = self
                    .run(backend, case, Choice::Default)?
                    .expect("the plan's own choice can run");
                let most = u32::from(ran.plan.kernel_name().contains("_fast_"));
                compare_with_oracle(case, &ran.bits)
                    .map_err(|what| format!("{here}: {what}; {case:?}"))?;
                compare_bits(case, (there, expected), (&here, &ran.bits), most)?;
                default.push(ran.bits);
            }
        }
        let (_, bits) = first.expect("there is a backend");
        Ok(Results {
            cols: case.cols,
            bits,
            default,
        })
    }

    /// Runs and counts one call, and says in words what ran; nothing if the forced way is not for these rows.
    fn run(
        &self,
        backend: &Backend,
        case: &Case,
        choice: Choice,
    ) -> Result<Option<(String, backend::Ran)>, String> {
        let Backend { name, device } = backend;
        let asked = match choice {
            Choice::Reproducible => "planned".into(),
            Choice::Default => "default".into(),
            Choice::Forced(way) => format!("forced {way}"),
        };
        let most_threads = match choice {
            Choice::Forced(_) if !device.is_cuda() => MOST_EMULATED_THREADS,
            _ => u64::MAX,
        };
        match backend::run_within(device, case, choice, most_threads) {
            Ok(ran) => {
                let what = match choice {
                    _ if ran.plan.launches() == 0 => "nothing to launch".into(),
                    Choice::Forced(_) => asked,
                    Choice::Reproducible | Choice::Default => format!("{asked} {}", ran.plan.way()),
                };
                let words = format!("{name}, {what} ({})", ran.plan);
                self.count(name, what);
                Ok(Some((words, ran)))
            }
            Err(Refused::Way) if matches!(choice, Choice::Forced(_)) => Ok(None),
            Err(Refused::Slow) => {
                self.count(name, format!("{asked}, left out as too slow,"));
                Ok(None)
            }
            Err(refused) => Err(format!("{name}, {asked}: {refused:?}; {case:?}")),
        }
    }

    fn count(&self, backend: &'static str, what: String) {
        *self
            .ran
            .lock()
            .expect("counting does not panic")
            .entry((backend, what))
            .or_default() += 1;
    }

    /// Prints what ran.
    ///
    /// # Panics
    ///
    /// Where some backend ran nothing.
    pub fn finish(self) {
        let ran = self.ran.into_inner().expect("counting does not panic");
        for Backend { name, .. } in &self.backends {
            let here = ran.iter().filter(|((backend, _), _)| backend == name);
            let counts: Vec<String> = here
                .map(|((_, what), count)| format!("{what} {count}"))
                .collect();
            println!("{}: {name}: {}", self.name, counts.join("; "));
            // Those that are left may be none of this test's.
            let may_be_none = settings::has_types_left_out();
            assert!(
                may_be_none || !counts.is_empty(),
                "{}: nothing ran on {name}",
                self.name
            );
        }
    }
}

/// Compares every row with the oracle.
fn compare_with_oracle(case: &Case, bits: &[u32]) -> Result<(), String> {
    for (r, input) in case.input_rows().enumerate() {
        let x: Vec<f32> = input.iter().map(|&bits| case.input.value(bits)).collect();
        let got = &bits[r * case.cols..][..case.cols];
        oracle::compare(case.output, got, &oracle::softmax(&x, &case.op))
            .map_err(|what| format!("row {r}: {what}"))?;
    }
    Ok(())
}

/// Compares bits, which may differ by so many units in the last place.
fn compare_bits(
    case: &Case,
    (there, expected): (&str, &[u32]),
    (here, bits): (&str, &[u32]),
    most: u32,
) -> Result<(), String> {
    assert_eq!(expected.len(), bits.len());
    match expected
        .iter()
        .zip(bits)
        .position(|(a, b)| a.abs_diff(*b) > most)
    {
        None => Ok(()),
        Some(i) => Err(format!(
            "row {}, element {}: {:#x} from {there}, but {:#x} from {here}; {case:?}",
            i / case.cols,
            i % case.cols,
            expected[i],
            bits[i]
        )),
    }
}
