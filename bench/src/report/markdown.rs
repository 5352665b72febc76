//! The tables.

use std::fmt::Write;

use super::NamedPlot;
use super::compare::{Comparison, Row};
use crate::record::{Bench, OURS, Record};

/// A report without a plot of its own for every table.
pub fn render(records: &[Record], comparison: &Comparison, plots: &[NamedPlot]) -> String {
    let mut text = String::from("# Measurements\n\n");
    environment(&mut text, records);
    for plot in plots {
        writes(&mut text, format_args!("![{0}]({0}.svg)\n\n", plot.name));
    }
    for dtype in comparison.dtypes(Bench::Throughput) {
        writes(&mut text, format_args!("## Throughput, {dtype}\n\n"));
        cells(&mut text, comparison, Bench::Throughput, dtype);
    }
    for dtype in comparison.dtypes(Bench::Latency) {
        writes(&mut text, format_args!("## Latency, {dtype}\n\n"));
        cells(&mut text, comparison, Bench::Latency, dtype);
    }
    masked(&mut text, records);
    startup(&mut text, records);
    scaling(&mut text, records);
    failures(&mut text, records);
    text
}

fn writes(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes any text");
}

/// A line of a table; the first is the heading.
fn line(text: &mut String, cells: &[String]) {
    writes(text, format_args!("| {} |\n", cells.join(" | ")));
}

fn heading(text: &mut String, names: &[&str]) {
    line(
        text,
        &names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    );
    writes(text, format_args!("|{}\n", "---|".repeat(names.len())));
}

fn environment(text: &mut String, records: &[Record]) {
    heading(
        text,
        &[
            "device",
            "driver",
            "clocks after the run",
            "date",
            "software",
            "commit",
            "command",
        ],
    );
    for record in records {
        let environment = &record.environment;
        let clocks = environment.clocks.map_or("-".to_owned(), |clocks| {
            format!(
                "SM {:.0} of {:.0} MHz, memory {:.0} MHz, {:.0} W, {:.0} C",
                clocks.sm_mhz,
                clocks.max_sm_mhz,
                clocks.memory_mhz,
                clocks.power_w,
                clocks.temperature_c
            )
        });
        line(
            text,
            &[
                environment.device.clone(),
                environment.driver.clone().unwrap_or("-".to_owned()),
                clocks,
                environment.date.clone(),
                environment.software.clone(),
                environment.commit.clone(),
                format!("`{}`", environment.command.join(" ")),
            ],
        );
    }
    text.push('\n');
    let mut drivers: Vec<_> = records
        .iter()
        .map(|record| &record.environment.driver)
        .collect();
    drivers.dedup();
    if drivers.len() > 1 {
        text.push_str("**These runs were made with different drivers.**\n\n");
    }
}

fn cells(text: &mut String, comparison: &Comparison, bench: Bench, dtype: &str) {
    let rows: Vec<&Row> = comparison
        .rows
        .iter()
        .filter(|row| row.bench == bench && row.dtype == dtype)
        .collect();
    let peers = &comparison.implementations[1..];
    let mut names = vec![
        "rows",
        "columns",
        "us",
        "spread",
        "GB/s",
        "of copy",
        "error, ulp",
        "best peer",
        "its us",
        "times as long",
    ];
    names.extend(peers.iter().map(String::as_str));
    heading(text, &names);
    for row in &rows {
        let timing = row.timing;
        let best = row.best_peer();
        let mut cells = vec![
            row.rows.to_string(),
            row.cols.to_string(),
            microseconds(timing.us.median),
            format!("{:.1} %", timing.us.spread * 100.0),
            format!("{:.0}", timing.gb_per_s),
            format!("**{:.3}**", timing.fraction_of_copy),
            format!("{:.2}", row.ours.accuracy.max_error_ulp),
            best.map_or("-".to_owned(), |(index, _)| peers[index].clone()),
            best.map_or("-".to_owned(), |(_, peer)| microseconds(peer.us.median)),
            row.ratio_to_best_peer()
                .map_or("-".to_owned(), |ratio| format!("**{ratio:.2}**")),
        ];
        cells.extend(
            row.peers
                .iter()
                .map(|peer| peer.map_or("-".to_owned(), |peer| microseconds(peer.us.median))),
        );
        line(text, &cells);
    }
    let ratios: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.ratio_to_best_peer())
        .collect();
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let lost = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        writes(
            text,
            format_args!(
                "\nThe best peer takes {mean:.2} times as long (geometric mean of {} shapes), {least:.2} times at the \
                 least; on {lost} of the shapes it is faster. The last columns are each peer's microseconds.\n",
                ratios.len()
            ),
        );
    }
    text.push('\n');
}

fn startup(text: &mut String, records: &[Record]) {
    let mut startups = records.iter().flat_map(|record| &record.startup).peekable();
    if startups.peek().is_none() {
        return;
    }
    text.push_str("## First call and warm call\n\n");
    heading(
        text,
        &[
            "type",
            "rows",
            "columns",
            "device, ms",
            "first call, ms",
            "warm call, us",
            "raw launch, us",
            "allocations",
            "calls",
        ],
    );
    for startup in startups {
        line(
            text,
            &[
                startup.dtype.clone(),
                startup.rows.to_string(),
                startup.cols.to_string(),
                format!("{:.1}", startup.device_ms.median),
                format!("{:.1}", startup.first_call_ms.median),
                format!("{:.2}", startup.call_us.median),
                format!("{:.2}", startup.raw_launch_us.median),
                startup.allocations.to_string(),
                startup.calls.to_string(),
            ],
        );
    }
    text.push('\n');
}

fn scaling(text: &mut String, records: &[Record]) {
    let mut lines = records.iter().flat_map(|record| &record.scaling).peekable();
    if lines.peek().is_none() {
        return;
    }
    text.push_str("## Scaling\n\n");
    heading(
        text,
        &[
            "type",
            "columns",
            "points",
            "from elements",
            "ns for 1,000 elements",
            "intercept, us",
            "largest residual",
        ],
    );
    for scaling in lines {
        line(
            text,
            &[
                scaling.dtype.clone(),
                scaling.cols.to_string(),
                scaling.points.to_string(),
                scaling.from_elements.to_string(),
                format!("{:.4}", scaling.line.slope * 1e6),
                format!("{:.2}", scaling.line.intercept),
                format!("{:.2} %", scaling.line.largest_residual * 100.0),
            ],
        );
    }
    text.push('\n');
    heading(text, &["type", "rows", "columns", "us", "GB/s", "of copy"]);
    let is_point =
        |cell: &&crate::record::Cell| cell.bench == Bench::Scaling && cell.implementation == OURS;
    for cell in records
        .iter()
        .flat_map(|record| &record.cells)
        .filter(is_point)
    {
        let Some(timing) = cell.timing else { continue };
        line(
            text,
            &[
                cell.dtype.clone(),
                cell.rows.to_string(),
                cell.cols.to_string(),
                microseconds(timing.us.median),
                format!("{:.0}", timing.gb_per_s),
                format!("{:.3}", timing.fraction_of_copy),
            ],
        );
    }
    text.push('\n');
}

fn masked(text: &mut String, records: &[Record]) {
    let cells = records.iter().flat_map(|record| &record.masked);
    let mut cells = cells.filter(|cell| cell.timing.is_some()).peekable();
    if cells.peek().is_none() {
        return;
    }
    text.push_str(
        "## Attention scores\n\nAgainst a copy of the scores: time, and bandwidth, of the scores that are seen, the \
         mask and the results. Errors of logarithms are parts of what is allowed.\n\n",
    );
    heading(
        text,
        &[
            "type",
            "shape",
            "what",
            "us",
            "copy us",
            "time",
            "bandwidth",
            "error",
        ],
    );
    for cell in cells {
        let Some(timing) = cell.timing else { continue };
        let shape: Vec<String> = cell.shape.iter().map(u64::to_string).collect();
        line(
            text,
            &[
                cell.dtype.clone(),
                shape.join(", "),
                cell.what.clone(),
                cell.implementation.clone(),
                microseconds(timing.us.median),
                microseconds(timing.copy_us),
                format!("{:.3}", timing.us.median / timing.copy_us),
                format!("{:.3}", cell.fraction_of_bandwidth().unwrap_or(0.0)),
                match cell.accuracy.rows_compared {
                    0 => "-".to_owned(),
                    _ => format!("{:.2}", cell.accuracy.max_error_ulp),
                },
            ],
        );
    }
    text.push('\n');
}

fn failures(text: &mut String, records: &[Record]) {
    let mut failures = records
        .iter()
        .flat_map(|record| &record.failures)
        .peekable();
    if failures.peek().is_none() {
        return;
    }
    text.push_str("## Not measured\n\n");
    for failure in failures {
        writes(
            text,
            format_args!(
                "- {}, {}: {}\n",
                failure.implementation, failure.cell, failure.reason
            ),
        );
    }
}

/// Three digits or more, and at least a tenth of a microsecond.
pub fn microseconds(us: f64) -> String {
    if us < 100.0 {
        format!("{us:.2}")
    } else {
        format!("{us:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn tables_hold_times_and_ratios() {
        let records = [fixture::ours(), fixture::peers()];
        let text = render(&records, &Comparison::of(&records), &[]);
        assert!(text.contains("## Throughput, f32"), "{text}");
        assert!(text.contains("## Latency, f32"), "{text}");
        let row = text.lines().find(|line| line.contains("| 33 |")).unwrap();
        for part in ["| **0.980** |", "| fast peer |", "| **1.50** |"] {
            assert!(row.contains(part), "{row}");
        }
        assert!(text.contains("faster. The last columns"), "{text}");
        assert!(
            text.contains("- slow peer, throughput f32 1 x 1: out of memory"),
            "{text}"
        );
        // As many cells in each line of a table as in its heading.
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let cells: Vec<usize> = table
                .lines()
                .filter(|line| line.starts_with('|'))
                .map(|line| line.matches('|').count())
                .collect();
            assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
        }
    }
}
