//! Which cells belong together, and who is faster.

use std::collections::BTreeMap;

use crate::record::{Bench, Cell, OURS, Record, Timing};

/// Cells of ours, each with the peers' on the same shape.
pub struct Comparison {
    /// Ourselves first, then the peers in the order in which they were met.
    pub implementations: Vec<String>,
    /// By bench, type, rows, columns.
    pub rows: Vec<Row>,
}

/// One shape.
pub struct Row {
    /// The bench.
    pub bench: Bench,
    /// Type of input and output.
    pub dtype: String,
    /// Number of rows.
    pub rows: u64,
    /// Elements a row.
    pub cols: u64,
    /// Our cell.
    pub ours: Cell,
    /// Our times.
    pub timing: Timing,
    /// The peers' times, in the order of [`Comparison::implementations`] after the first.
    pub peers: Vec<Option<Timing>>,
}

impl Row {
    /// The fastest peer: its place among the peers, and its times.
    pub fn best_peer(&self) -> Option<(usize, Timing)> {
        let timed = self
            .peers
            .iter()
            .enumerate()
            .filter_map(|(index, timing)| Some((index, (*timing)?)));
        timed.min_by(|a, b| a.1.us.median.total_cmp(&b.1.us.median))
    }

    /// How many times as long as ours the fastest peer takes.
    pub fn ratio_to_best_peer(&self) -> Option<f64> {
        Some(self.best_peer()?.1.us.median / self.timing.us.median)
    }
}

/// The order of types in a report.
const DTYPES: [&str; 3] = ["f32", "f16", "bf16"];

fn dtype_order(dtype: &str) -> usize {
    DTYPES
        .iter()
        .position(|name| *name == dtype)
        .unwrap_or(DTYPES.len())
}

impl Comparison {
    /// Of all timed cells. Where one shape was measured twice by one implementation, the later record
    /// counts. Shapes that we have not measured are left out.
    pub fn of(records: &[Record]) -> Self {
        let mut implementations = vec![OURS.to_owned()];
        let mut shapes: BTreeMap<_, BTreeMap<usize, &Cell>> = BTreeMap::new();
        for cell in records.iter().flat_map(|record| &record.cells) {
            if cell.timing.is_none() || cell.bench == Bench::Scaling {
                continue;
            }
            let known = implementations
                .iter()
                .position(|name| *name == cell.implementation);
            let index = known.unwrap_or_else(|| {
                implementations.push(cell.implementation.clone());
                implementations.len() - 1
            });
            let shape = (cell.bench, dtype_order(&cell.dtype), cell.rows, cell.cols);
            shapes.entry(shape).or_default().insert(index, cell);
        }
        let timing = |cell: &&Cell| cell.timing;
        let mut rows: Vec<Row> = shapes
            .values()
            .filter_map(|cells| {
                let ours = *cells.get(&0)?;
                Some(Row {
                    bench: ours.bench,
                    dtype: ours.dtype.clone(),
                    rows: ours.rows,
                    cols: ours.cols,
                    ours: ours.clone(),
                    timing: ours.timing?,
                    peers: (1..implementations.len())
                        .map(|index| cells.get(&index).and_then(timing))
                        .collect(),
                })
            })
            .collect();
        // By columns where the number of rows follows from them.
        rows.sort_by_key(|row| {
            let rows = if row.bench == Bench::Throughput {
                0
            } else {
                row.rows
            };
            (row.bench, dtype_order(&row.dtype), rows, row.cols)
        });
        Self {
            implementations,
            rows,
        }
    }

    /// The types that a bench was made with.
    pub fn dtypes(&self, bench: Bench) -> Vec<&str> {
        let mut dtypes: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.bench == bench)
            .map(|row| row.dtype.as_str())
            .collect();
        dtypes.dedup();
        dtypes
    }

    /// The numbers of rows that latency was measured with, the single element aside.
    pub fn latency_rows(&self, dtype: &str) -> Vec<u64> {
        let latency =
            |row: &&Row| row.bench == Bench::Latency && row.dtype == dtype && row.cols > 1;
        let mut rows: Vec<u64> = self
            .rows
            .iter()
            .filter(latency)
            .map(|row| row.rows)
            .collect();
        rows.dedup();
        rows
    }

    /// For each implementation the points (columns, value) of the rows that are wanted.
    pub fn curves(
        &self,
        wanted: impl Fn(&Row) -> bool,
        value: impl Fn(&Timing) -> f64,
    ) -> Vec<Vec<(f64, f64)>> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| wanted(row)).collect();
        let curve = |index: usize| {
            let point = |row: &&Row| {
                let timing = if index == 0 {
                    Some(row.timing)
                } else {
                    row.peers[index - 1]
                };
                Some((row.cols as f64, value(&timing?)))
            };
            rows.iter().filter_map(point).collect()
        };
        (0..self.implementations.len()).map(curve).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn the_fastest_peer_is_found() {
        let comparison = Comparison::of(&[fixture::ours(), fixture::peers()]);
        assert_eq!(comparison.implementations, [OURS, "slow peer", "fast peer"]);
        assert_eq!(comparison.rows.len(), fixture::ours().cells.len());
        let first = &comparison.rows[0];
        assert_eq!((first.bench, first.cols), (Bench::Throughput, 33));
        assert_eq!(first.best_peer().unwrap().0, 1);
        assert!((first.ratio_to_best_peer().unwrap() - 1.5).abs() < 1e-9);
        // Only the slow one ran the second shape.
        assert_eq!(comparison.rows[1].best_peer().unwrap().0, 0);
        assert_eq!(comparison.rows[1].peers[1], None);
    }

    #[test]
    fn a_later_record_counts() {
        let mut again = fixture::ours();
        again.cells.truncate(1);
        again.cells[0].timing.as_mut().unwrap().us.median = 123.0;
        let comparison = Comparison::of(&[fixture::ours(), again]);
        assert_eq!(comparison.rows[0].timing.us.median, 123.0);
    }
}
