//! Records of several runs side by side: tables in Markdown, and plots.

mod compare;
mod drawing;
mod markdown;
mod plot;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failed;
use crate::record::{Bench, Record};
use compare::Comparison;
use plot::{Panel, Plot, Scale};

/// Reads `files`, ours and the peers' in any order, and writes `report.md` and the plots into `out`.
///
/// # Errors
///
/// Where a file cannot be read or written, or none holds times of ours.
pub fn write(files: &[PathBuf], out: &Path) -> Result<(), Failed> {
    let records: Vec<Record> = files
        .iter()
        .map(|file| Record::read(file))
        .collect::<Result<_, _>>()?;
    let comparison = Comparison::of(&records);
    let has_startup = records
        .iter()
        .any(|record| !record.startup.is_empty() || !record.scaling.is_empty());
    if comparison.rows.is_empty() && !has_startup {
        return Err(Failed::new(
            "no file holds times of warp-softmax; a run on the emulator has none",
        ));
    }
    let plots = plots(&records, &comparison);
    let save = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        fs::write(&path, bytes)
            .map_err(|error| Failed::new(format!("{}: {error}", path.display())))?;
        println!("{}", path.display());
        Ok::<(), Failed>(())
    };
    fs::create_dir_all(out).map_err(|error| Failed::new(format!("{}: {error}", out.display())))?;
    save(
        "report.md",
        markdown::render(&records, &comparison, &plots).as_bytes(),
    )?;
    for NamedPlot { name, plot } in &plots {
        let drawing = plot.draw();
        save(&format!("{name}.svg"), drawing.to_svg().as_bytes())?;
        save(&format!("{name}.png"), &drawing.to_png())?;
    }
    Ok(())
}

/// A plot and the name of its files.
struct NamedPlot {
    name: String,
    plot: Plot,
}

fn plots(records: &[Record], comparison: &Comparison) -> Vec<NamedPlot> {
    let mut plots = Vec::new();
    let dtypes = comparison.dtypes(Bench::Throughput);
    if !dtypes.is_empty() {
        let panels = dtypes.iter().map(|dtype| Panel {
            title: (*dtype).to_owned(),
            curves: comparison.curves(
                |row| row.bench == Bench::Throughput && row.dtype == **dtype,
                |timing| timing.fraction_of_copy,
            ),
        });
        plots.push(NamedPlot {
            name: "throughput".to_owned(),
            plot: Plot {
                title: "Softmax throughput against row length".to_owned(),
                subtitle: subtitle(
                    records,
                    "large tensors, 4.3 GB moved; 1 is a device-to-device copy of the same bytes",
                ),
                y_label: "fraction of a copy's speed".to_owned(),
                y_scale: Scale::Linear,
                reference: Some(1.0),
                implementations: comparison.implementations.clone(),
                panels: panels.collect(),
            },
        });
    }
    for dtype in comparison.dtypes(Bench::Latency) {
        let panels = comparison
            .latency_rows(dtype)
            .into_iter()
            .map(|rows| Panel {
                title: if rows == 1 {
                    "1 row".to_owned()
                } else {
                    format!("{rows} rows")
                },
                curves: comparison.curves(
                    |row| {
                        row.bench == Bench::Latency
                            && row.dtype == dtype
                            && row.rows == rows
                            && row.cols > 1
                    },
                    |timing| timing.us.median,
                ),
            });
        plots.push(NamedPlot {
            name: format!("latency-{dtype}"),
            plot: Plot {
                title: format!("Softmax latency against row length, {dtype}"),
                subtitle: subtitle(records, "one of 50 launches in a CUDA graph"),
                y_label: "microseconds a launch".to_owned(),
                y_scale: Scale::Log,
                reference: None,
                implementations: comparison.implementations.clone(),
                panels: panels.collect(),
            },
        });
    }
    plots
}

/// The device and the day, and what was done.
fn subtitle(records: &[Record], what: &str) -> String {
    let environment = &records[0].environment;
    let day = environment.date.split('T').next().unwrap_or_default();
    let name = environment.device.split(" (").next().unwrap_or_default();
    format!("{name}, {day}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn two_records_make_a_report_and_plots() {
        let folder =
            std::env::temp_dir().join(format!("warp-softmax-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files: Vec<PathBuf> = ["ours.json", "peers.json"]
            .iter()
            .map(|name| folder.join(name))
            .collect();
        for (file, record) in files.iter().zip([fixture::ours(), fixture::peers()]) {
            fs::write(file, serde_json::to_string(&record).unwrap()).unwrap();
        }

        let out = folder.join("report");
        write(&files, &out).unwrap();
        let mut names: Vec<String> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "latency-f32.png",
                "latency-f32.svg",
                "report.md",
                "throughput.png",
                "throughput.svg"
            ]
        );
        let report = fs::read_to_string(out.join("report.md")).unwrap();
        assert!(report.contains("![throughput](throughput.svg)"), "{report}");

        // The peers alone are no report.
        let error = write(&files[1..], &out).unwrap_err().to_string();
        assert!(
            error.contains("no file holds times of warp-softmax"),
            "{error}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
