//! Curves over row lengths: a panel for each type or number of rows, a line for each implementation.

use super::drawing::{Anchor, Drawing, Pen, Rgb, text_width};

const INK: Rgb = 0x24292f;
const FAINT: Rgb = 0x6e7781;
const GRID: Rgb = 0xe4e7eb;
const TEXT: f32 = 13.0;

/// The first curve's colour, and the others' in turn: Okabe and Ito's, which most colour-blind people
/// can tell apart.
const COLORS: [Rgb; 8] = [
    0xd55e00, 0x0072b2, 0x009e73, 0xcc79a7, 0x56b4e9, 0xe69f00, 0x8c6d31, 0x7f7f7f,
];

const PANEL_WIDTH: f32 = 340.0;
const PANEL_HEIGHT: f32 = 240.0;
const LEFT: f32 = 48.0;
const ABOVE_PANEL: f32 = 46.0;
const BELOW_PANEL: f32 = 42.0;
const GAP: f32 = 26.0;
const HEADER: f32 = 66.0;

/// How values are laid out from bottom to top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// From 0, evenly, in all panels alike.
    Linear,
    /// Equal ratios, equal distances, in each panel as its values want it.
    Log,
}

/// Several panels with the same implementations.
#[derive(Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Where and when.
    pub subtitle: String,
    /// What is counted upwards.
    pub y_label: String,
    /// How.
    pub y_scale: Scale,
    /// A dashed line across, if any.
    pub reference: Option<f64>,
    /// Who is compared, ourselves first.
    pub implementations: Vec<String>,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// One panel.
#[derive(Debug)]
pub struct Panel {
    /// What is special to it.
    pub title: String,
    /// Points (row length, value) of each implementation, in the plot's order, by row length.
    pub curves: Vec<Vec<(f64, f64)>>,
}

/// The range of an axis, and where its labels stand.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// Row lengths: powers of two.
    fn columns(values: &[f64]) -> Self {
        let (low, high) = range(values);
        let ticks = (0..=40)
            .step_by(2)
            .map(|n| 2f64.powi(n + 1))
            .filter(|&tick| low <= tick && tick <= high)
            .collect();
        Self {
            scale: Scale::Log,
            low: low / 1.15,
            high: high * 1.15,
            ticks,
        }
    }

    fn values(values: &[f64], scale: Scale) -> Self {
        let (low, high) = range(values);
        match scale {
            Scale::Linear => {
                let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
                    .into_iter()
                    .find(|step| high / step <= 6.5)
                    .unwrap_or(high / 5.0);
                let count = (high / step + 0.02).ceil() as i32;
                Self {
                    scale,
                    low: 0.0,
                    high: high * 1.04,
                    ticks: (0..=count)
                        .map(|n| f64::from(n) * step)
                        .filter(|&tick| tick <= high * 1.04)
                        .collect(),
                }
            }
            Scale::Log => {
                // Wide enough for two ticks.
                let (low, high) = if high < 5.0 * low {
                    (low / 2.0, high * 2.0)
                } else {
                    (low, high)
                };
                let decades =
                    (-3..9).flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(n)));
                Self {
                    scale,
                    low: low / 1.2,
                    high: high * 1.2,
                    ticks: decades
                        .filter(|&tick| low / 1.2 <= tick && tick <= high * 1.2)
                        .collect(),
                }
            }
        }
    }

    /// 0 at the low end, 1 at the high one.
    fn place(&self, value: f64) -> f32 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        part as f32
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    let fold = |pick: fn(f64, f64) -> f64, start| values.iter().copied().fold(start, pick);
    (
        fold(f64::min, f64::INFINITY),
        fold(f64::max, f64::NEG_INFINITY),
    )
}

impl Plot {
    /// Draws it. There is at least one point.
    pub fn draw(&self) -> Drawing {
        let per_line = if self.panels.len() == 4 {
            2
        } else {
            self.panels.len().clamp(1, 3)
        };
        let lines = self.panels.len().div_ceil(per_line);
        let (cell_width, cell_height) = (
            LEFT + PANEL_WIDTH + GAP,
            ABOVE_PANEL + PANEL_HEIGHT + BELOW_PANEL,
        );
        let width = per_line as f32 * cell_width + 8.0;
        let legend = self.legend(width);
        let header = HEADER + 20.0 * legend.len() as f32;
        let mut drawing = Drawing::new(
            width,
            header + lines as f32 * cell_height + 8.0,
            &self.title,
        );

        drawing.text(16.0, 30.0, 20.0, INK, Anchor::Start, &self.title);
        drawing.text(16.0, 50.0, TEXT, FAINT, Anchor::Start, &self.subtitle);
        for (line, names) in legend.iter().enumerate() {
            let y = 76.0 + 20.0 * line as f32;
            for &(x, index) in names {
                drawing.line(&[(x, y - 4.0), (x + 20.0, y - 4.0)], pen(index));
                drawing.text(
                    x + 26.0,
                    y,
                    TEXT,
                    INK,
                    Anchor::Start,
                    &self.implementations[index],
                );
            }
        }

        let columns: Vec<f64> = self.points().map(|point| point.0).collect();
        let values: Vec<f64> = self
            .points()
            .map(|point| point.1)
            .chain(self.reference)
            .collect();
        let x_axis = Axis::columns(&columns);
        let common_axis = Axis::values(&values, self.y_scale);
        for (index, panel) in self.panels.iter().enumerate() {
            let left = (index % per_line) as f32 * cell_width + LEFT;
            let top = header + (index / per_line) as f32 * cell_height + ABOVE_PANEL;
            let values: Vec<f64> = panel.curves.iter().flatten().map(|point| point.1).collect();
            let own_axis = Axis::values(&values, self.y_scale);
            let y_axis = match self.y_scale {
                Scale::Linear => &common_axis,
                Scale::Log => &own_axis,
            };
            self.draw_panel(&mut drawing, panel, (left, top), &x_axis, y_axis);
        }
        drawing
    }

    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.panels
            .iter()
            .flat_map(|panel| panel.curves.iter().flatten())
    }

    /// Whether an implementation has a point in any panel.
    fn is_shown(&self, implementation: usize) -> bool {
        self.panels
            .iter()
            .any(|panel| !panel.curves[implementation].is_empty())
    }

    fn draw_panel(
        &self,
        drawing: &mut Drawing,
        panel: &Panel,
        (left, top): (f32, f32),
        x_axis: &Axis,
        y_axis: &Axis,
    ) {
        let (right, bottom) = (left + PANEL_WIDTH, top + PANEL_HEIGHT);
        let x = |value| left + PANEL_WIDTH * x_axis.place(value);
        let y = |value| bottom - PANEL_HEIGHT * y_axis.place(value);
        let hairline = |color, dashed| Pen {
            color,
            width: 1.0,
            dashed,
        };

        drawing.text(left, top - 26.0, 15.0, INK, Anchor::Start, &panel.title);
        drawing.text(left, top - 8.0, 12.0, FAINT, Anchor::Start, &self.y_label);
        for &tick in &y_axis.ticks {
            drawing.line(&[(left, y(tick)), (right, y(tick))], hairline(GRID, false));
            drawing.text(
                left - 7.0,
                y(tick) + 4.0,
                12.0,
                FAINT,
                Anchor::End,
                &label(tick),
            );
        }
        for &tick in &x_axis.ticks {
            drawing.line(
                &[(x(tick), bottom), (x(tick), bottom + 4.0)],
                hairline(FAINT, false),
            );
            drawing.text(
                x(tick),
                bottom + 18.0,
                12.0,
                FAINT,
                Anchor::Middle,
                &label(tick),
            );
        }
        drawing.text(
            right,
            bottom + 34.0,
            12.0,
            FAINT,
            Anchor::End,
            "elements a row",
        );
        drawing.line(&[(left, bottom), (right, bottom)], hairline(FAINT, false));
        if let Some(reference) = self.reference {
            drawing.line(
                &[(left, y(reference)), (right, y(reference))],
                hairline(INK, true),
            );
        }
        // Ourselves last, so on top.
        for (index, curve) in panel.curves.iter().enumerate().rev() {
            let places: Vec<(f32, f32)> = curve
                .iter()
                .map(|&(column, value)| (x(column), y(value)))
                .collect();
            let pen = pen(index);
            drawing.line(&places, pen);
            for &(x, y) in &places {
                drawing.dot(x, y, pen.width + 0.4, pen.color);
            }
        }
    }

    /// Lines of (x, implementation) that fit the width.
    fn legend(&self, width: f32) -> Vec<Vec<(f32, usize)>> {
        let mut lines = vec![Vec::new()];
        let mut x = 16.0;
        for (index, name) in self.implementations.iter().enumerate() {
            if !self.is_shown(index) {
                continue;
            }
            let needed = 26.0 + text_width(name, TEXT) + 22.0;
            if x + needed > width && x > 16.0 {
                lines.push(Vec::new());
                x = 16.0;
            }
            lines.last_mut().expect("there is a line").push((x, index));
            x += needed;
        }
        lines
    }
}

fn pen(index: usize) -> Pen {
    Pen {
        color: COLORS[index % COLORS.len()],
        width: if index == 0 { 2.6 } else { 1.4 },
        dashed: false,
    }
}

/// A number as short as it gets.
fn label(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [
                vec![0.4, 1.0],
                vec![0.9, 1.007, 1.0],
                vec![2.0, 130.0],
                vec![3.0],
            ] {
                let axis = Axis::values(&values, scale);
                assert!(
                    values
                        .iter()
                        .all(|&value| (0.0..=1.0).contains(&axis.place(value))),
                    "{values:?}"
                );
                assert!(
                    axis.ticks
                        .iter()
                        .all(|&tick| (0.0..=1.0).contains(&axis.place(tick))),
                    "{:?}",
                    axis.ticks
                );
                assert!(
                    !axis.ticks.is_empty() && axis.ticks.len() < 12,
                    "{values:?}: {:?}",
                    axis.ticks
                );
            }
        }
        let columns = Axis::columns(&[32.0, 262_144.0]);
        assert_eq!(
            columns.ticks,
            [32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0, 131_072.0]
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(label(0.1 + 0.2), "0.3");
        assert_eq!(label(131_072.0), "131072");
    }

    #[test]
    fn every_curve_is_drawn_in_its_colour() {
        let plot = Plot {
            title: "t".into(),
            subtitle: "s".into(),
            y_label: "y".into(),
            y_scale: Scale::Linear,
            reference: Some(1.0),
            implementations: vec!["ours".into(), "another".into()],
            panels: vec![Panel {
                title: "f32".into(),
                curves: vec![vec![(32.0, 1.0), (64.0, 0.9)], vec![(32.0, 0.5)]],
            }],
        };
        let svg = plot.draw().to_svg();
        assert!(svg.contains("#d55e00") && svg.contains("#0072b2"));
        // Three points.
        let dots = svg
            .lines()
            .filter(|line| line.contains("fill=\"#d55e00\"") || line.contains("fill=\"#0072b2\""));
        assert_eq!(dots.count(), 3);
    }
}
