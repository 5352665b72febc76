//! Lines, shapes and text, as SVG and as PNG.
//!
//! Both are drawn from the outlines of a font that is built in (Roboto, Apache License 2.0, cut down to
//! Latin), so that a drawing looks the same everywhere, a machine without fonts included.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, PathSegment, Pixmap, Rect,
    Stroke, StrokeDash, Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

static FONT: LazyLock<Face<'static>> = LazyLock::new(|| {
    Face::parse(include_bytes!("../../font/Roboto-Regular-latin.ttf"), 0)
        .expect("the built-in font is a font")
});

/// Pixels of the PNG for each unit of the drawing.
const PNG_SCALE: f32 = 2.0;

/// A colour, as `0xrrggbb`.
pub type Rgb = u32;

/// Where a text stands in relation to its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A line's look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pen {
    /// Colour.
    pub color: Rgb,
    /// Width.
    pub width: f32,
    /// Whether it is broken into dashes.
    pub dashed: bool,
}

enum Item {
    Fill {
        path: Path,
        color: Rgb,
    },
    Dot {
        x: f32,
        y: f32,
        radius: f32,
        color: Rgb,
    },
    Line {
        path: Path,
        pen: Pen,
    },
    Text {
        x: f32,
        y: f32,
        size: f32,
        color: Rgb,
        glyphs: Vec<Glyph>,
    },
}

/// A glyph and where it stands in its line, in the font's units.
struct Glyph {
    id: GlyphId,
    x: f32,
}

/// What is drawn, in the order in which it was drawn. The origin is at the top left.
pub struct Drawing {
    width: f32,
    height: f32,
    title: String,
    items: Vec<Item>,
}

impl Drawing {
    /// A white sheet.
    pub fn new(width: f32, height: f32, title: &str) -> Self {
        let mut drawing = Self {
            width,
            height,
            title: title.to_owned(),
            items: Vec::new(),
        };
        let sheet = Rect::from_xywh(0.0, 0.0, width, height).expect("a drawing has a size");
        drawing.items.push(Item::Fill {
            path: PathBuilder::from_rect(sheet),
            color: 0xffffff,
        });
        drawing
    }

    /// A line through points. Fewer than two draw nothing.
    pub fn line(&mut self, points: &[(f32, f32)], pen: Pen) {
        let mut builder = PathBuilder::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            if index == 0 {
                builder.move_to(x, y);
            } else {
                builder.line_to(x, y);
            }
        }
        if let Some(path) = builder.finish() {
            self.items.push(Item::Line { path, pen });
        }
    }

    /// A filled circle.
    pub fn dot(&mut self, x: f32, y: f32, radius: f32, color: Rgb) {
        self.items.push(Item::Dot {
            x,
            y,
            radius,
            color,
        });
    }

    /// A line of text on the base line `y`. Characters that the font lacks are left out.
    pub fn text(&mut self, x: f32, y: f32, size: f32, color: Rgb, anchor: Anchor, text: &str) {
        let (glyphs, width) = set(text, size);
        let x = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        self.items.push(Item::Text {
            x,
            y,
            size,
            color,
            glyphs,
        });
    }

    /// The drawing as SVG.
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        let mut write =
            |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("a string takes any text");
        let (width, height) = (self.width, self.height);
        write(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n",
            self.title.replace('&', "&amp;").replace('<', "&lt;")
        ));
        // A glyph is written once, and used by its number.
        write(format_args!("<defs>\n"));
        for id in self.glyph_ids() {
            write(format_args!(
                "<path id=\"g{}\" d=\"{}\"/>\n",
                id.0,
                svg_path(outline(id, Transform::identity()).as_ref())
            ));
        }
        write(format_args!("</defs>\n"));
        for item in &self.items {
            match item {
                Item::Fill { path, color } => {
                    write(format_args!(
                        "<path fill=\"#{color:06x}\" d=\"{}\"/>\n",
                        svg_path(Some(path))
                    ));
                }
                Item::Dot {
                    x,
                    y,
                    radius,
                    color,
                } => {
                    write(format_args!(
                        "<circle fill=\"#{color:06x}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>\n",
                        Short(*x),
                        Short(*y)
                    ));
                }
                Item::Line { path, pen } => {
                    let dashes = if pen.dashed {
                        " stroke-dasharray=\"4 4\""
                    } else {
                        ""
                    };
                    write(format_args!(
                        "<path fill=\"none\" stroke=\"#{:06x}\" stroke-width=\"{}\" stroke-linejoin=\"round\" \
                         stroke-linecap=\"round\"{dashes} d=\"{}\"/>\n",
                        pen.color,
                        pen.width,
                        svg_path(Some(path))
                    ));
                }
                Item::Text {
                    x,
                    y,
                    size,
                    color,
                    glyphs,
                } => {
                    let scale = font_scale(*size);
                    write(format_args!(
                        "<g fill=\"#{color:06x}\" transform=\"translate({} {}) scale({scale} -{scale})\">",
                        Short(*x),
                        Short(*y)
                    ));
                    for glyph in glyphs {
                        write(format_args!(
                            "<use href=\"#g{}\" x=\"{}\"/>",
                            glyph.id.0, glyph.x
                        ));
                    }
                    write(format_args!("</g>\n"));
                }
            }
        }
        write(format_args!("</svg>\n"));
        svg
    }

    /// The drawing as a PNG file's bytes, twice as large.
    pub fn to_png(&self) -> Vec<u8> {
        let (width, height) = (
            (self.width * PNG_SCALE) as u32,
            (self.height * PNG_SCALE) as u32,
        );
        let mut pixmap = Pixmap::new(width, height).expect("a drawing has a size");
        let scale = Transform::from_scale(PNG_SCALE, PNG_SCALE);
        for item in &self.items {
            match item {
                Item::Fill { path, color } => {
                    pixmap.fill_path(path, &paint(*color), FillRule::Winding, scale, None);
                }
                Item::Dot {
                    x,
                    y,
                    radius,
                    color,
                } => {
                    if let Some(path) = PathBuilder::from_circle(*x, *y, *radius) {
                        pixmap.fill_path(&path, &paint(*color), FillRule::Winding, scale, None);
                    }
                }
                Item::Line { path, pen } => {
                    let stroke = Stroke {
                        width: pen.width,
                        line_cap: LineCap::Round,
                        line_join: LineJoin::Round,
                        dash: if pen.dashed {
                            StrokeDash::new(vec![4.0, 4.0], 0.0)
                        } else {
                            None
                        },
                        ..Stroke::default()
                    };
                    pixmap.stroke_path(path, &paint(pen.color), &stroke, scale, None);
                }
                Item::Text {
                    x,
                    y,
                    size,
                    color,
                    glyphs,
                } => {
                    let font_scale = font_scale(*size);
                    for glyph in glyphs {
                        let place = Transform::from_row(
                            font_scale,
                            0.0,
                            0.0,
                            -font_scale,
                            x + glyph.x * font_scale,
                            *y,
                        );
                        if let Some(path) = outline(glyph.id, place) {
                            pixmap.fill_path(&path, &paint(*color), FillRule::Winding, scale, None);
                        }
                    }
                }
            }
        }
        pixmap
            .encode_png()
            .expect("a picture in memory is written to memory")
    }

    fn glyph_ids(&self) -> BTreeSet<GlyphId> {
        let texts = self.items.iter().filter_map(|item| match item {
            Item::Text { glyphs, .. } => Some(glyphs),
            _ => None,
        });
        texts.flatten().map(|glyph| glyph.id).collect()
    }
}

/// Width of a text.
pub fn text_width(text: &str, size: f32) -> f32 {
    set(text, size).1
}

fn font_scale(size: f32) -> f32 {
    size / f32::from(FONT.units_per_em())
}

/// The glyphs of a text that can be seen, and its width.
fn set(text: &str, size: f32) -> (Vec<Glyph>, f32) {
    let mut x = 0.0;
    let mut glyphs = Vec::new();
    for id in text
        .chars()
        .filter_map(|character| FONT.glyph_index(character))
    {
        if FONT.glyph_bounding_box(id).is_some() {
            glyphs.push(Glyph { id, x });
        }
        x += f32::from(FONT.glyph_hor_advance(id).unwrap_or(0));
    }
    (glyphs, x * font_scale(size))
}

/// A glyph's outline, moved by `place`.
fn outline(id: GlyphId, place: Transform) -> Option<Path> {
    struct Outline(PathBuilder);

    impl OutlineBuilder for Outline {
        fn move_to(&mut self, x: f32, y: f32) {
            self.0.move_to(x, y);
        }

        fn line_to(&mut self, x: f32, y: f32) {
            self.0.line_to(x, y);
        }

        fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
            self.0.quad_to(x1, y1, x, y);
        }

        fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
            self.0.cubic_to(x1, y1, x2, y2, x, y);
        }

        fn close(&mut self) {
            self.0.close();
        }
    }

    let mut outline = Outline(PathBuilder::new());
    FONT.outline_glyph(id, &mut outline)?;
    outline.0.finish()?.transform(place)
}

fn paint(color: Rgb) -> Paint<'static> {
    let [_, red, green, blue] = color.to_be_bytes();
    let mut paint = Paint::default();
    paint.set_color(Color::from_rgba8(red, green, blue, 255));
    paint
}

/// A coordinate with at most two decimals.
struct Short(f32);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", (self.0 * 100.0).round() / 100.0)
    }
}

fn svg_path(path: Option<&Path>) -> String {
    let mut d = String::new();
    for segment in path.into_iter().flat_map(Path::segments) {
        let (letter, points) = match segment {
            PathSegment::MoveTo(p) => ('M', vec![p]),
            PathSegment::LineTo(p) => ('L', vec![p]),
            PathSegment::QuadTo(p, q) => ('Q', vec![p, q]),
            PathSegment::CubicTo(p, q, r) => ('C', vec![p, q, r]),
            PathSegment::Close => ('Z', vec![]),
        };
        d.push(letter);
        for (index, point) in points.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            d += &format!("{gap}{} {}", Short(point.x), Short(point.y));
        }
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_show_what_was_drawn() {
        let mut drawing = Drawing::new(100.0, 50.0, "a < b");
        let pen = Pen {
            color: 0x0000ff,
            width: 4.0,
            dashed: false,
        };
        drawing.line(&[(10.0, 25.0), (90.0, 25.0)], pen);
        drawing.dot(50.0, 10.0, 5.0, 0xff0000);
        drawing.text(50.0, 45.0, 12.0, 0, Anchor::Middle, "aba 1");

        let svg = drawing.to_svg();
        assert!(svg.contains("<title>a &lt; b</title>"), "{svg}");
        assert!(
            svg.contains("stroke=\"#0000ff\"") && svg.contains("M10 25L90 25"),
            "{svg}"
        );
        // Three different glyphs that can be seen, four places.
        assert_eq!(svg.matches("<path id=").count(), 3, "{svg}");
        assert_eq!(svg.matches("<use ").count(), 4, "{svg}");

        let picture = Pixmap::decode_png(&drawing.to_png()).unwrap();
        assert_eq!((picture.width(), picture.height()), (200, 100));
        let color = |x, y| {
            let pixel = picture.pixel(x, y).unwrap();
            (pixel.red(), pixel.green(), pixel.blue())
        };
        assert_eq!(color(100, 50), (0, 0, 255));
        assert_eq!(color(100, 20), (255, 0, 0));
        assert_eq!(color(2, 2), (255, 255, 255));
        let is_dark = |(x, y)| color(x, y).0 < 128 && color(x, y).2 < 128;
        assert!(
            (60..140)
                .flat_map(|x| (70..90).map(move |y| (x, y)))
                .any(is_dark),
            "no text"
        );
    }

    #[test]
    fn text_has_a_width() {
        let (one, two) = (text_width("1", 10.0), text_width("11", 10.0));
        assert!(one > 4.0 && one < 7.0, "{one}");
        assert_eq!(two, 2.0 * one);
    }
}
