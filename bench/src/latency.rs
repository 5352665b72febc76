//! Small launches: one of fifty in a CUDA graph. What fits the cache stays there.

use crate::Failed;
use crate::args::Settings;
use crate::measure::{Shape, measure};
use crate::number::{Number, for_dtype};
use crate::record::Bench;
use crate::run::{CELL_COLUMNS, Run};
use crate::source::Source;
use crate::terminal::Table;
use crate::workspace::Workspace;

const COLS: [usize; 7] = [32, 128, 1024, 4096, 32768, 128256, 262144];
const ROWS: [usize; 4] = [1, 8, 64, 512];
const QUICK_ROWS: [usize; 2] = [1, 3];

/// Runs the bench. Its first cell is a single element: what a launch takes that has nothing to do.
///
/// # Errors
///
/// Where it cannot start, or something failed on the way.
pub fn run(settings: &Settings) -> Result<(), Failed> {
    let cols = settings.cols.as_deref().unwrap_or(&COLS);
    let rows = match &settings.rows {
        Some(rows) => rows,
        None if settings.quick => QUICK_ROWS.as_slice(),
        None => ROWS.as_slice(),
    };
    let products = rows
        .iter()
        .flat_map(|&rows| cols.iter().map(move |&cols| (rows, cols)));
    let shapes: Vec<(usize, usize)> = std::iter::once((1, 1)).chain(products).collect();
    let mut run = Run::new("latency", settings, settings.dtypes.len() * shapes.len())?;
    let table = Table::new(CELL_COLUMNS);
    for &dtype in &settings.dtypes {
        for_dtype!(dtype, run_type(&mut run, &table, &shapes))?;
    }
    run.finish()
}

fn run_type<T: Number>(
    run: &mut Run<'_>,
    table: &Table,
    shapes: &[(usize, usize)],
) -> Result<(), Failed> {
    let (device, settings, timed) = (run.device.clone(), run.settings, run.is_timed());
    let most = shapes
        .iter()
        .map(|(rows, cols)| rows * cols)
        .max()
        .unwrap_or(1);
    let source = Source::<T>::new(settings.quick);
    let mut workspace = Workspace::new(&device, &source, most)?;
    for &(rows, cols) in shapes {
        let shape = Shape {
            bench: Bench::Latency,
            rows,
            cols,
        };
        run.cell::<T>(table, shape, || {
            measure(&mut workspace, shape, settings, timed)
        })?;
    }
    Ok(())
}
