//! One runner: every case on every backend, by the plan's way and by every other way that can hold
//! its rows; guarded, compared with the oracle, compared between ways and backends, and counted.

use std::collections::BTreeMap;
use std::sync::Mutex;

use warp_softmax::Way;

use crate::backend::{self, Backend, Refused};
use crate::case::Case;
use crate::format::Format;
use crate::oracle;

/// The results of a case, as bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    cols: usize,
    bits: Vec<u32>,
}

impl Results {
    /// The r-th row.
    pub fn row(&self, r: usize) -> &[u32] {
        &self.bits[r * self.cols..][..self.cols]
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.bits.len().checked_div(self.cols).unwrap_or(0)).map(|r| self.row(r))
    }
}

/// Runs cases and counts them.
pub struct Runner {
    name: &'static str,
    backends: Vec<Backend>,
    /// Launched calls by backend and way.
    ran: Mutex<BTreeMap<(&'static str, String), u64>>,
}

impl Runner {
    /// A runner on every backend of this machine.
    pub fn new(name: &'static str) -> Self {
        Self { name, backends: backend::all(), ran: Mutex::default() }
    }

    /// The backends that cases run on.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Checks a case; gives its results, which are the same for all ways and backends.
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
        let mut first: Option<(String, Vec<u32>)> = None;
        for Backend { name, device } in &self.backends {
            let mut planned = None;
            for way in core::iter::once(None).chain(Way::ALL.into_iter().map(Some)) {
                if way.is_some() && way == planned {
                    continue;
                }
                let asked = way.map_or("the plan's way".into(), |way| format!("{way} (forced)"));
                let ran = match backend::run(device, case, way) {
                    Ok(ran) => ran,
                    Err(Refused::Way) if way.is_some() => continue,
                    Err(Refused::Slow) => {
                        self.count(name, format!("{asked}: left out, too slow"));
                        continue;
                    }
                    Err(refused) => return Err(format!("{name}, {asked}: {refused:?}; {case:?}")),
                };
                let label = match way {
                    _ if ran.plan.launches() == 0 => "nothing to launch".into(),
                    Some(_) => asked,
                    None => ran.plan.way().to_string(),
                };
                if way.is_none() {
                    planned = Some(ran.plan.way());
                }
                let here = format!("{name}, {}", ran.plan);
                match &first {
                    None => {
                        compare_with_oracle(case, &ran.bits).map_err(|what| format!("{here}: {what}; {case:?}"))?;
                        first = Some((here, ran.bits));
                    }
                    Some((there, expected)) => compare_bits(case, (there, expected), (&here, &ran.bits))?,
                }
                self.count(name, label);
            }
        }
        let (_, bits) = first.expect("there is always the emulator");
        Ok(Results { cols: case.cols, bits })
    }

    fn count(&self, backend: &'static str, what: String) {
        *self.ran.lock().expect("counting does not panic").entry((backend, what)).or_default() += 1;
    }

    /// Prints what ran.
    ///
    /// # Panics
    ///
    /// Where some backend ran nothing.
    pub fn finish(self) {
        let ran = self.ran.into_inner().expect("counting does not panic");
        for Backend { name, .. } in &self.backends {
            let here: Vec<String> = ran
                .iter()
                .filter(|((backend, _), _)| backend == name)
                .map(|((_, way), count)| format!("{count} {way}"))
                .collect();
            println!("{}: {name}: {}", self.name, here.join(", "));
            assert!(!here.is_empty(), "{}: nothing ran on {name}", self.name);
        }
    }
}

/// Compares every row with the oracle.
fn compare_with_oracle(case: &Case, bits: &[u32]) -> Result<(), String> {
    for (r, input) in case.input_rows().enumerate() {
        let x: Vec<f32> = input.iter().map(|&bits| case.input.value(bits)).collect();
        let got = &bits[r * case.cols..][..case.cols];
        oracle::compare(case.output, got, &oracle::softmax(&x, &case.op)).map_err(|what| format!("row {r}: {what}"))?;
    }
    Ok(())
}

fn compare_bits(
    case: &Case,
    (there, expected): (&str, &[u32]),
    (here, bits): (&str, &[u32]),
) -> Result<(), String> {
    assert_eq!(expected.len(), bits.len());
    match expected.iter().zip(bits).position(|(a, b)| a != b) {
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
