//! One run of one bench: says where it is made, keeps the record, goes on after a failure.

use warp_softmax::Device;

use crate::Failed;
use crate::args::Settings;
use crate::environment::{self, COMMIT};
use crate::measure::Shape;
use crate::number::Number;
use crate::record::{Cell, Failure, OURS, Record, Recorder};
use crate::terminal::{Progress, Table};

/// A run.
pub struct Run<'a> {
    /// Where.
    pub device: Device,
    /// How.
    pub settings: &'a Settings,
    /// What it leaves behind.
    pub recorder: Recorder,
    progress: Progress,
}

/// The columns of [`Run::cell`]'s lines.
pub const CELL_COLUMNS: &[(&str, usize)] = &[
    ("type", 4),
    ("rows", 9),
    ("columns", 7),
    ("us", 9),
    ("min", 9),
    ("max", 9),
    ("spread", 7),
    ("GB/s", 6),
    ("of copy", 7),
    ("ulp", 5),
    ("kernel", 0),
];

impl<'a> Run<'a> {
    /// Starts a run of `steps` steps and says where it is made.
    ///
    /// # Errors
    ///
    /// Where there is no GPU and the run is not a quick one, or the record cannot be written.
    pub fn new(name: &str, settings: &'a Settings, steps: usize) -> Result<Self, Failed> {
        let device = Device::auto()?;
        if !device.is_cuda() && !settings.quick {
            return Err(Failed::new(format!(
                "{name} needs a GPU, and this is the {} ({}); --quick runs it there, tiny and without times",
                device.name(),
                device.reason()
            )));
        }
        let record = Record::new(environment::describe(&device, &settings.given));
        println!(
            "{name} on {}, commit {COMMIT}, {}",
            device.name(),
            record.environment.date
        );
        if settings.quick {
            println!("quick: results are checked, nothing is timed");
        }
        let recorder = Recorder::new(record, settings.json.clone())?;
        Ok(Self {
            device,
            settings,
            recorder,
            progress: Progress::new(steps),
        })
    }

    /// Whether times are taken.
    pub fn is_timed(&self) -> bool {
        self.device.is_cuda() && !self.settings.quick
    }

    /// Does a step. Where it fails, the failure is shown and kept, and the run goes on.
    ///
    /// # Errors
    ///
    /// Where the record cannot be written.
    pub fn step<R>(
        &mut self,
        what: &str,
        work: impl FnOnce() -> Result<R, Failed>,
    ) -> Result<Option<R>, Failed> {
        self.progress.begin(what);
        let result = work();
        self.progress.clear();
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.fail(what, &error)?;
                Ok(None)
            }
        }
    }

    /// Shows and keeps a failure.
    ///
    /// # Errors
    ///
    /// Where the record cannot be written.
    pub fn fail(&mut self, what: &str, error: &Failed) -> Result<(), Failed> {
        println!("FAILED {what}: {error}");
        self.recorder.record.failures.push(Failure {
            cell: what.to_owned(),
            implementation: OURS.to_owned(),
            reason: error.to_string(),
        });
        self.recorder.save()
    }

    /// Does the step that measures a cell, and shows and keeps it.
    ///
    /// # Errors
    ///
    /// Where the record cannot be written.
    pub fn cell<T: Number>(
        &mut self,
        table: &Table,
        shape: Shape,
        work: impl FnOnce() -> Result<Cell, Failed>,
    ) -> Result<(), Failed> {
        let Shape { bench, rows, cols } = shape;
        let what = format!("{bench} {} {rows} x {cols}", T::DTYPE);
        if let Some(cell) = self.step(&what, work)? {
            table.line(texts(&cell));
            self.recorder.record.cells.push(cell);
            self.recorder.save()?;
        }
        Ok(())
    }

    /// Ends the run.
    ///
    /// # Errors
    ///
    /// Where something failed on the way.
    pub fn finish(mut self) -> Result<(), Failed> {
        self.recorder.record.environment.clocks = environment::clocks(&self.device);
        self.recorder.save()?;
        match self.recorder.record.failures.len() {
            0 => Ok(()),
            failures => Err(Failed::new(format!("{failures} failed"))),
        }
    }
}

fn texts(cell: &Cell) -> Vec<String> {
    let mut texts = vec![
        cell.dtype.clone(),
        cell.rows.to_string(),
        cell.cols.to_string(),
    ];
    match cell.timing {
        Some(timing) => texts.extend([
            format!("{:.2}", timing.us.median),
            format!("{:.2}", timing.us.min),
            format!("{:.2}", timing.us.max),
            format!("{:.1} %", timing.us.spread * 100.0),
            format!("{:.0}", timing.gb_per_s),
            format!("{:.3}", timing.fraction_of_copy),
        ]),
        None => texts.extend(std::iter::repeat_n("-".to_owned(), 6)),
    }
    texts.push(format!("{:.2}", cell.accuracy.max_error_ulp));
    texts.push(cell.kernel.clone().unwrap_or_default());
    texts
}
