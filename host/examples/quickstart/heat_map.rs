//! A matrix of weights as a picture.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Pixels, each way, of one weight.
const SCALE: usize = 12;

/// matplotlib's viridis at nine even steps: its lightness grows evenly, in grey and to colour-blind eyes too.
const COLOURS: [[u8; 3]; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x91, 0x8c],
    [0x28, 0xae, 0x80],
    [0x5e, 0xc9, 0x62],
    [0xad, 0xdc, 0x30],
    [0xfd, 0xe7, 0x25],
];

/// Writes `weights`, rows of `cols` values from 0 up, as a PNG: 0 is dark, the largest weight bright.
///
/// # Errors
///
/// Where the file cannot be written.
pub fn write_png(path: &Path, weights: &[f32], cols: usize) -> Result<(), png::EncodingError> {
    let largest = weights.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let mut pixels = Vec::with_capacity(weights.len() * SCALE * SCALE * 3);
    for row in weights.chunks(cols) {
        // Most weights are far below the largest: by the square root they can be told apart.
        let line = row
            .iter()
            .flat_map(|weight| [colour((weight / largest).sqrt()); SCALE]);
        let line: Vec<u8> = line.flatten().collect();
        for _ in 0..SCALE {
            pixels.extend_from_slice(&line);
        }
    }
    let (width, height) = (cols * SCALE, weights.len() / cols * SCALE);
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()
}

/// The colour at `position`, from 0 to 1.
fn colour(position: f32) -> [u8; 3] {
    let position = position.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f32;
    let below = (position as usize).min(COLOURS.len() - 2);
    let part = position - below as f32;
    std::array::from_fn(|channel| {
        let [low, high] =
            [COLOURS[below], COLOURS[below + 1]].map(|colour| f32::from(colour[channel]));
        (low + part * (high - low)).round() as u8
    })
}
