//! Time against elements, from what fits the cache to tens of gigabytes, and the line through it.

use crate::Failed;
use crate::args::Settings;
use crate::measure::{Shape, measure};
use crate::number::{Number, for_dtype};
use crate::record::{Bench, OURS, Scaling};
use crate::run::{CELL_COLUMNS, Run};
use crate::source::Source;
use crate::stats::Line;
use crate::terminal::Table;
use crate::workspace::Workspace;

const COLS: [usize; 1] = [1024];

/// Elements of the smallest and of the largest tensor, as powers of two.
const EXPONENTS: std::ops::RangeInclusive<u32> = 20..=32;
const QUICK_EXPONENTS: std::ops::RangeInclusive<u32> = 10..=13;

/// The line goes through tensors of at least so many times the cache's bytes, input and output together:
/// smaller ones are partly read from the cache.
const CACHES: u64 = 4;

/// Runs the bench.
///
/// # Errors
///
/// Where it cannot start, or something failed on the way.
pub fn run(settings: &Settings) -> Result<(), Failed> {
    let cols = settings.cols.as_deref().unwrap_or(&COLS);
    let exponents = if settings.quick {
        QUICK_EXPONENTS
    } else {
        EXPONENTS
    };
    let mut run = Run::new(
        "scaling",
        settings,
        settings.dtypes.len() * cols.len() * exponents.clone().count(),
    )?;
    for &dtype in &settings.dtypes {
        for &cols in cols {
            for_dtype!(dtype, run_type(&mut run, cols, exponents.clone()))?;
        }
    }
    run.finish()
}

fn run_type<T: Number>(
    run: &mut Run<'_>,
    cols: usize,
    exponents: impl Iterator<Item = u32>,
) -> Result<(), Failed> {
    let table = Table::new(CELL_COLUMNS);
    let (device, settings, timed) = (run.device.clone(), run.settings, run.is_timed());
    let source = Source::<T>::new(settings.quick);
    let first_cell = run.recorder.record.cells.len();
    for exponent in exponents {
        let shape = Shape {
            bench: Bench::Scaling,
            rows: ((1usize << exponent) / cols).max(1),
            cols,
        };
        run.cell::<T>(&table, shape, || {
            // Anew each time: the largest takes most of the memory that some GPUs have.
            let mut workspace = Workspace::new(&device, &source, shape.rows * cols)?;
            measure(&mut workspace, shape, settings, timed)
        })?;
    }

    let least_bytes = CACHES * device.properties().l2_bytes;
    let large = run.recorder.record.cells[first_cell..]
        .iter()
        .filter_map(|cell| Some((cell.rows * cell.cols, cell.timing?.us.median)))
        .filter(|(elems, _)| 2 * elems * size_of::<T>() as u64 >= least_bytes);
    let points: Vec<(f64, f64)> = large.map(|(elems, us)| (elems as f64, us)).collect();
    if let Some(line) = Line::fit(&points) {
        println!(
            "{} at {cols} columns from {} elements: {:.3} us + {:.4} ns for 1,000 elements, {:.2} % off at most\n",
            T::DTYPE,
            points[0].0,
            line.intercept,
            line.slope * 1e6,
            line.largest_residual * 100.0
        );
        run.recorder.record.scaling.push(Scaling {
            implementation: OURS.to_owned(),
            dtype: T::DTYPE.name().to_owned(),
            cols: cols as u64,
            from_elements: points[0].0 as u64,
            points: points.len() as u64,
            line,
        });
        run.recorder.save()?;
    }
    Ok(())
}
