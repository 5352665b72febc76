//! The README's picture of how the length of a row picks its kernel, `docs/ways.svg`, drawn from the plan.
//!
//! Where it is not what the plan says, `WARP_SOFTMAX_DRAW=1 cargo test -p warp-softmax --test ways`
//! draws it anew.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use warp_softmax::{DType, Device, Problem, Softmax, Way};

/// Enough that a GPU has no row to spare for a second block.
const ROWS: usize = 1 << 16;

const WIDTH: f64 = 960.0;
/// Of the chart, where rows of one element are.
const LEFT: f64 = 196.0;
/// Of a doubling of the length.
const OCTAVE: f64 = 37.0;
/// The longest row of the chart, as a power of two.
const OCTAVES: u32 = 20;
const BAR_HEIGHT: f64 = 30.0;

/// What a way is called, its colours on light and on dark ground, and what it does.
const LEGEND: [(Way, &str, &str, &str); 9] = [
    (
        Way::Warp,
        "#b6e3ff",
        "#0c4a7d",
        "a group of lanes a row, the row in registers",
    ),
    (
        Way::Packed,
        "#a5ebe3",
        "#0b5a55",
        "as warp; many rows at once through shared memory",
    ),
    (
        Way::Block,
        "#ffd8b5",
        "#6e3a07",
        "a block a row, the row in registers",
    ),
    (
        Way::Parked,
        "#ffc2b3",
        "#7a2313",
        "as block; in shared memory",
    ),
    (
        Way::Staged,
        "#fbe6a2",
        "#5c4a05",
        "as block; shifted in shared memory",
    ),
    (
        Way::Split,
        "#e2d2ff",
        "#4c2d8c",
        "as block, by a cluster of blocks (sm_90 on)",
    ),
    (
        Way::SplitParked,
        "#cfd6ff",
        "#2a357f",
        "as split; in shared memory",
    ),
    (
        Way::SplitStaged,
        "#ffd3eb",
        "#70275a",
        "as split; shifted in shared memory",
    ),
    (
        Way::Stream,
        "#d8f0c8",
        "#1c5328",
        "a block a row, which it reads twice",
    ),
];

/// Marks the kernels that use the GPU's own exponential.
const FAST: &str = "*";

/// Rows from the previous range's end to this one's, all covered alike.
struct Range {
    way: Way,
    label: String,
    longest: usize,
}

/// How rows are covered whose length is a multiple of `vector` elements, or those whose length is not.
fn ranges(dtype: DType, vector: usize, multiples: bool) -> Vec<Range> {
    let device = Device::emulator();
    // The i-th such length.
    let length = |i: usize| match multiples {
        true => (i + 1) * vector,
        false => i / (vector - 1) * vector + i % (vector - 1) + 1,
    };
    let count = (1 << OCTAVES) / vector * if multiples { 1 } else { vector - 1 };
    let plan = |i: usize| {
        let problem = Problem::packed(&[ROWS, length(i)], dtype, dtype).unwrap();
        Softmax::new().plan_for(&device, &problem).unwrap()
    };
    let mut ranges: Vec<Range> = Vec::new();
    let mut first = 0;
    while first < count {
        let kernel = plan(first).kernel_name();
        // The last of its kind: by doubling, then by halving.
        let mut step = 1;
        while first + step < count && plan(first + step).kernel_name() == kernel {
            step *= 2;
        }
        let (mut same, mut other) = (first + step / 2, (first + step).min(count));
        while other - same > 1 {
            let middle = same.midpoint(other);
            match plan(middle).kernel_name() == kernel {
                true => same = middle,
                false => other = middle,
            }
        }
        let way = plan(first).way();
        let shape = kernel
            .split('_')
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let mut label = match shape {
            Some(shape) => shape.replace('x', "×"),
            None => way.to_string(),
        };
        if kernel.contains("_fast_") {
            label += FAST;
        }
        ranges.push(Range {
            way,
            label,
            longest: length(same),
        });
        first = same + 1;
    }
    ranges
}

fn class(way: Way) -> String {
    way.to_string().replace('_', "-")
}

/// Where a row of `length` elements is on the chart.
fn x(length: usize) -> f64 {
    LEFT + OCTAVE * (length as f64).log2()
}

fn draw() -> Result<String, std::fmt::Error> {
    let mut svg = String::new();
    let bars = [
        (DType::F32, 4, true, "f32, multiples of 4"),
        (DType::F32, 4, false, "f32, other lengths"),
        (DType::F16, 8, true, "f16, bf16, multiples of 8"),
        (DType::F16, 8, false, "f16, bf16, other lengths"),
    ];
    let legend_top = 76.0 + bars.len() as f64 * (BAR_HEIGHT + 4.0) + 46.0;
    let height = legend_top + LEGEND.len().div_ceil(2) as f64 * 26.0;
    write!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">
  <title id="title">How the length of a row picks its kernel</title>
  <style>
    svg {{ font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
    text {{ fill: #1f2328; }}
    .cell text, .tick {{ text-anchor: middle; }}
    .cell {{ font-size: 11px; }}
    .small {{ font-size: 12px; fill: #59636e; }}
    .name {{ font-weight: 600; }}
    .card {{ fill: #ffffff; stroke: #d1d9e0; }}
    rect {{ stroke: #ffffff; stroke-width: 1.5; }}
"#
    )?;
    for (way, light, _, _) in LEGEND {
        writeln!(svg, "    .{} {{ fill: {light}; }}", class(way))?;
    }
    write!(
        svg,
        r#"    @media (prefers-color-scheme: dark) {{
      text {{ fill: #f0f6fc; }}
      .small {{ fill: #9198a1; }}
      .card {{ fill: #0d1117; stroke: #3d444d; }}
      rect {{ stroke: #0d1117; }}
"#
    )?;
    for (way, _, dark, _) in LEGEND {
        writeln!(svg, "      .{} {{ fill: {dark}; }}", class(way))?;
    }
    writeln!(svg, "    }}\n  </style>")?;
    let (card_width, card_height) = (WIDTH - 1.0, height - 1.0);
    writeln!(
        svg,
        r#"  <rect class="card" x="0.5" y="0.5" width="{card_width}" height="{card_height}" rx="6"/>"#
    )?;

    writeln!(svg, r#"  <text x="16" y="40">elements a row</text>"#)?;
    for power in (0..=OCTAVES).step_by(2) {
        let (at, label) = (x(1 << power), tick(power));
        writeln!(
            svg,
            r#"  <text class="tick small" x="{at}" y="40">{label}</text>"#
        )?;
    }
    let mut top = 50.0;
    for (dtype, vector, multiples, name) in bars {
        let baseline = top + 20.0;
        writeln!(svg, r#"  <text x="16" y="{baseline}">{name}</text>"#)?;
        let mut left = LEFT;
        for Range {
            way,
            label,
            longest,
        } in ranges(dtype, vector, multiples)
        {
            let (class, width) = (class(way), (x(longest) - left).round());
            let middle = left + width / 2.0;
            writeln!(
                svg,
                r#"  <g class="cell"><rect class="{class}" x="{left}" y="{top}" width="{width}" height="{BAR_HEIGHT}"/><text x="{middle}" y="{baseline}">{label}</text></g>"#
            )?;
            left += width;
        }
        top += BAR_HEIGHT + 4.0;
    }
    let mut note =
        "lanes × vectors: so many lanes a row, each with so many vectors of 16 bytes".to_owned();
    if svg.contains(&format!("{FAST}</text>")) {
        note += &format!("; {FAST} with the GPU's own exponential");
    }
    let baseline = top + 18.0;
    writeln!(
        svg,
        r#"  <text class="small" x="{LEFT}" y="{baseline}">{note}</text>"#
    )?;

    for (i, (way, _, _, words)) in LEGEND.into_iter().enumerate() {
        let left = 16.0 + (WIDTH / 2.0) * (i % 2) as f64;
        let top = legend_top + (i / 2) as f64 * 26.0 - 14.0;
        let (class, baseline) = (class(way), top + 13.0);
        let (name_left, words_left) = (left + 26.0, left + 122.0);
        writeln!(
            svg,
            r#"  <rect class="{class}" x="{left}" y="{top}" width="18" height="18" rx="3"/><text class="name" x="{name_left}" y="{baseline}">{way}</text><text class="small" x="{words_left}" y="{baseline}">{words}</text>"#
        )?;
    }
    writeln!(svg, "</svg>")?;
    Ok(svg)
}

/// `2^power` in words: 4, 16, 1k, 1M.
fn tick(power: u32) -> String {
    let (unit, power) = match power {
        0..10 => ("", power),
        10..20 => ("k", power - 10),
        _ => ("M", power - 20),
    };
    format!("{}{unit}", 1 << power)
}

#[test]
fn the_picture_is_what_the_plan_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ways.svg");
    let drawn = draw().unwrap();
    if std::env::var_os("WARP_SOFTMAX_DRAW").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == drawn,
        "docs/ways.svg is not what the plan says; to draw it anew: \
         WARP_SOFTMAX_DRAW=1 cargo test -p warp-softmax --test ways"
    );
}
