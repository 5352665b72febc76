//! Large tensors, as a fraction of a device-to-device copy of the same bytes.

use crate::Failed;
use crate::args::Settings;
use crate::measure::{Shape, measure};
use crate::number::{Number, for_dtype};
use crate::record::Bench;
use crate::run::{CELL_COLUMNS, Run};
use crate::source::Source;
use crate::terminal::Table;
use crate::workspace::Workspace;

/// Powers of two; one above them, and one below a multiple of 8; vocabularies of language models.
const COLS: [usize; 19] = [
    32, 33, 64, 128, 256, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384, 32768, 50257, 65536,
    128256, 131072, 262144,
];

/// Bytes of the input: with as many written, 4.29 GB move, many times any cache.
const BYTES: usize = 1 << 31;

/// Elements of a quick run's tensors, unless a single row is longer.
const QUICK_ELEMS: usize = 1 << 13;

/// Runs the bench.
///
/// # Errors
///
/// Where it cannot start, or something failed on the way.
pub fn run(settings: &Settings) -> Result<(), Failed> {
    let cols = settings.cols.as_deref().unwrap_or(&COLS);
    let mut run = Run::new("throughput", settings, settings.dtypes.len() * cols.len())?;
    let table = Table::new(CELL_COLUMNS);
    for &dtype in &settings.dtypes {
        for_dtype!(dtype, run_type(&mut run, &table, cols))?;
    }
    run.finish()
}

fn run_type<T: Number>(run: &mut Run<'_>, table: &Table, cols: &[usize]) -> Result<(), Failed> {
    let (device, settings, timed) = (run.device.clone(), run.settings, run.is_timed());
    let elems = if settings.quick {
        QUICK_ELEMS
    } else {
        BYTES / size_of::<T>()
    };
    let longest = cols.iter().copied().max().unwrap_or(1);
    let source = Source::<T>::new(settings.quick);
    let mut workspace = Workspace::new(&device, &source, elems.max(longest))?;
    for &cols in cols {
        let shape = Shape {
            bench: Bench::Throughput,
            rows: (elems / cols).max(1),
            cols,
        };
        run.cell::<T>(table, shape, || {
            measure(&mut workspace, shape, settings, timed)
        })?;
    }
    Ok(())
}
