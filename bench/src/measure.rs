//! One cell: the plan, the check, and only then the times.

use warp_softmax::Error;
use warp_softmax::bench_support::copy;

use crate::Failed;
use crate::args::Settings;
use crate::gpu::{time_each, time_graph};
use crate::number::Number;
use crate::record::{Bench, Cell, OURS, Timing};
use crate::stats::Spread;
use crate::workspace::Workspace;

/// Timed copies before and after each cell.
const COPY_SAMPLES: usize = 11;

/// Launches in the graph that latency is measured with.
const LAUNCHES: usize = 50;

/// What is measured in a cell.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// For which bench.
    pub bench: Bench,
    /// Number of rows.
    pub rows: usize,
    /// Elements a row.
    pub cols: usize,
}

/// Measures a cell of ours. Without `timed`, only checks it.
///
/// # Errors
///
/// Where the result is not right, or the device fails.
pub fn measure<T: Number>(
    workspace: &mut Workspace<'_, T>,
    shape: Shape,
    settings: &Settings,
    timed: bool,
) -> Result<Cell, Failed> {
    let Shape { bench, rows, cols } = shape;
    let softmax = settings.softmax();
    let plan = softmax.plan(workspace.shaped(rows, cols)?.0)?;
    let accuracy = workspace.check(&softmax, rows, cols)?;
    let timing = timed
        .then(|| time(workspace, shape, settings))
        .transpose()?;
    Ok(Cell {
        bench,
        implementation: OURS.to_owned(),
        dtype: T::DTYPE.name().to_owned(),
        rows: rows as u64,
        cols: cols as u64,
        kernel: Some(plan.kernel_name().to_owned()),
        plan: Some(plan.to_string()),
        timing,
        accuracy,
    })
}

/// The kernel's times, with the copy's before and after.
fn time<T: Number>(
    workspace: &mut Workspace<'_, T>,
    shape: Shape,
    settings: &Settings,
) -> Result<Timing, Failed> {
    let Shape { bench, rows, cols } = shape;
    let softmax = settings.softmax();
    let (x, mut y) = workspace.shaped(rows, cols)?;
    let time = |samples, launch: &mut dyn FnMut() -> Result<(), Error>| {
        let times = match bench {
            Bench::Latency => time_graph(x.device(), samples, LAUNCHES, launch),
            Bench::Throughput | Bench::Scaling => time_each(x.device(), samples, launch),
        };
        times.map(|times| Spread::of(&times))
    };
    let before = time(COPY_SAMPLES, &mut || copy(&x, &mut y))?;
    let us = time(settings.samples, &mut || softmax.forward_into(&x, &mut y))?;
    let after = time(COPY_SAMPLES, &mut || copy(&x, &mut y))?;
    let bytes = 2 * rows * cols * size_of::<T>();
    Ok(Timing::new(us, before.median, after.median, bytes as u64))
}
