//! The first call of a process, and what a warm call costs the CPU.

use std::env;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use warp_softmax::bench_support::{compiled_kernels, time_raw_launches};
use warp_softmax::{DType, Device};

use crate::Failed;
use crate::allocations;
use crate::args::Settings;
use crate::number::{Number, for_dtype};
use crate::record::{OURS, Startup};
use crate::run::Run;
use crate::source::Source;
use crate::stats::Spread;
use crate::terminal::Table;
use crate::workspace::Workspace;

const ROWS: [usize; 1] = [8];

/// Short enough for a warp, for a block, and for neither.
const COLS: [usize; 3] = [1024, 4096, 128256];

/// Fresh processes a cell.
const PROCESSES: usize = 5;

/// Calls that are timed together: fewer than a stream takes before a launch has to wait.
const CALLS: usize = 100;

const COLUMNS: &[(&str, usize)] = &[
    ("type", 4),
    ("rows", 5),
    ("columns", 7),
    ("device, ms", 10),
    ("first call, ms", 14),
    ("warm call, us", 13),
    ("raw launch, us", 14),
    ("allocations", 11),
    ("code", 5),
    ("kernel", 0),
];

/// What one fresh process found.
#[derive(Serialize, Deserialize)]
struct FirstCall {
    device_ms: f64,
    first_call_ms: f64,
    /// What the kernel was loaded from; none on the emulator.
    code: Option<String>,
}

/// Runs the bench.
///
/// # Errors
///
/// Where it cannot start, something failed on the way, or a warm call allocated.
pub fn run(settings: &Settings) -> Result<(), Failed> {
    let cols = settings.cols.as_deref().unwrap_or(&COLS);
    let rows = settings.rows.as_deref().unwrap_or(&ROWS);
    let shapes: Vec<_> = rows
        .iter()
        .flat_map(|&rows| cols.iter().map(move |&cols| (rows, cols)))
        .collect();
    let mut run = Run::new("startup", settings, settings.dtypes.len() * shapes.len())?;
    let table = Table::new(COLUMNS);
    for &dtype in &settings.dtypes {
        for &shape in &shapes {
            for_dtype!(dtype, run_cell(&mut run, &table, shape))?;
        }
    }
    run.finish()
}

/// Does what one of the fresh processes does, and prints what it found as JSON.
///
/// # Errors
///
/// Where it fails.
pub fn first_call(settings: &Settings) -> Result<(), Failed> {
    let (&[dtype], Some(&[rows]), Some(&[cols])) = (
        settings.dtypes.as_slice(),
        settings.rows.as_deref(),
        settings.cols.as_deref(),
    ) else {
        return Err(Failed::new(
            "first-call: one type, one number of rows and one of columns",
        ));
    };
    let found = for_dtype!(dtype, make_first_call(settings, rows, cols))?;
    println!(
        "{}",
        serde_json::to_string(&found).expect("numbers and a text")
    );
    Ok(())
}

fn make_first_call<T: Number>(
    settings: &Settings,
    rows: usize,
    cols: usize,
) -> Result<FirstCall, Failed> {
    let source = Source::<T>::new(true);
    let milliseconds = |start: Instant| start.elapsed().as_secs_f64() * 1e3;

    let start = Instant::now();
    let device = Device::auto()?;
    let mut workspace = Workspace::new(&device, &source, rows * cols)?;
    device.synchronize()?;
    let device_ms = milliseconds(start);

    let softmax = settings.softmax();
    let (x, y) = workspace.shaped(rows, cols)?;
    let start = Instant::now();
    softmax.forward_into(x, y)?;
    device.synchronize()?;
    let first_call_ms = milliseconds(start);

    let code = match device.is_cuda() {
        true if compiled_kernels(&device)? > 0 => Some("PTX".to_owned()),
        true => Some("cubin".to_owned()),
        false => None,
    };
    workspace.check(&softmax, rows, cols)?;
    Ok(FirstCall {
        device_ms,
        first_call_ms,
        code,
    })
}

/// The same in a fresh process, whose driver keeps no compiled kernels from earlier ones.
fn fresh_process(
    settings: &Settings,
    dtype: DType,
    (rows, cols): (usize, usize),
) -> Result<FirstCall, Failed> {
    let this = env::current_exe()
        .map_err(|error| Failed::new(format!("the path of this program: {error}")))?;
    let mut command = Command::new(this);
    command.env("CUDA_CACHE_DISABLE", "1").arg("first-call");
    command.args([
        "--dtype",
        dtype.name(),
        "--rows",
        &rows.to_string(),
        "--cols",
        &cols.to_string(),
    ]);
    if let Some(way) = settings.way {
        command.args(["--way", &way.to_string()]);
    }
    if settings.reproducible {
        command.arg("--reproducible");
    }
    if settings.programmatic {
        command.arg("--programmatic");
    }
    let output = command
        .output()
        .map_err(|error| Failed::new(format!("a fresh process: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Failed::new(format!("a fresh process: {}", text.trim())));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Failed::new(format!("a fresh process: {error}")))
}

fn run_cell<T: Number>(
    run: &mut Run<'_>,
    table: &Table,
    (rows, cols): (usize, usize),
) -> Result<(), Failed> {
    let (device, settings, timed) = (run.device.clone(), run.settings, run.is_timed());
    let what = format!("startup {} {rows} x {cols}", T::DTYPE);
    let source = Source::<T>::new(true);
    let measured = run.step(&what, || {
        let mut workspace = Workspace::new(&device, &source, rows * cols)?;
        let softmax = settings.softmax();
        let kernel = softmax.plan(workspace.shaped(rows, cols)?.0)?.kernel_name();
        workspace.check(&softmax, rows, cols)?;
        let processes = if timed { PROCESSES } else { 1 };
        let first_calls = (0..processes)
            .map(|_| fresh_process(settings, T::DTYPE, (rows, cols)))
            .collect::<Result<Vec<_>, _>>()?;
        let startup = timed
            .then(|| measure(&mut workspace, settings, (rows, cols), kernel, &first_calls))
            .transpose()?;
        Ok((kernel, startup))
    })?;
    let Some((kernel, startup)) = measured else {
        return Ok(());
    };

    let mut texts = vec![
        T::DTYPE.name().to_owned(),
        rows.to_string(),
        cols.to_string(),
    ];
    match &startup {
        Some(startup) => {
            let times = [
                startup.device_ms,
                startup.first_call_ms,
                startup.call_us,
                startup.raw_launch_us,
            ];
            texts.extend(times.map(|time| format!("{:.2}", time.median)));
            texts.push(startup.allocations.to_string());
            texts.push(startup.code.clone().unwrap_or("-".into()));
        }
        None => texts.extend(std::iter::repeat_n("-".to_owned(), 6)),
    }
    texts.push(kernel.to_owned());
    table.line(texts);
    if let Some(startup) = startup {
        let allocations = startup.allocations;
        run.recorder.record.startup.push(startup);
        run.recorder.save()?;
        if allocations > 0 {
            run.fail(
                &what,
                &Failed::new(format!("{allocations} allocations in warm calls")),
            )?;
        }
    }
    Ok(())
}

fn measure<T: Number>(
    workspace: &mut Workspace<'_, T>,
    settings: &Settings,
    (rows, cols): (usize, usize),
    kernel: &str,
    first_calls: &[FirstCall],
) -> Result<Startup, Failed> {
    let softmax = settings.softmax();
    let (x, mut y) = workspace.shaped(rows, cols)?;
    let device = x.device();
    let (mut calls_us, mut raw_us) = (Vec::new(), Vec::new());
    let mut allocations = 0;
    // Alternately, so that both meet the same moods of the machine.
    for _ in 0..settings.samples {
        let (before, start) = (allocations::count(), Instant::now());
        for _ in 0..CALLS {
            softmax.forward_into(&x, &mut y)?;
        }
        let (taken, after) = (start.elapsed(), allocations::count());
        device.synchronize()?;
        calls_us.push(taken.as_secs_f64() * 1e6 / CALLS as f64);
        allocations += after - before;

        let taken = time_raw_launches(&softmax, &x, &mut y, CALLS)?;
        device.synchronize()?;
        raw_us.push(taken.as_secs_f64() * 1e6 / CALLS as f64);
    }
    let of_first_calls =
        |part: fn(&FirstCall) -> f64| Spread::of(&first_calls.iter().map(part).collect::<Vec<_>>());
    Ok(Startup {
        implementation: OURS.to_owned(),
        dtype: T::DTYPE.name().to_owned(),
        rows: rows as u64,
        cols: cols as u64,
        kernel: Some(kernel.to_owned()),
        code: first_calls.first().and_then(|found| found.code.clone()),
        device_ms: of_first_calls(|found| found.device_ms),
        first_call_ms: of_first_calls(|found| found.first_call_ms),
        call_us: Spread::of(&calls_us),
        raw_launch_us: Spread::of(&raw_us),
        allocations,
        calls: (settings.samples * CALLS) as u64,
    })
}
