//! What the server draws: small charts, the points of an SVG line without axes beside a table with the numbers; and QR
//! codes, addresses that a phone opens with its camera.

use std::fmt::Write;

use qrcode::{Color, EcLevel, QrCode};

/// The size of a chart, in the units of its `viewBox`.
pub(super) const CHART_WIDTH: u32 = 240;
pub(super) const CHART_HEIGHT: u32 = 48;
/// Room for the width of the line.
const MARGIN: f64 = 2.0;

/// A line through values, as SVG has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sparkline {
    /// `points` of the line.
    pub(super) line: String,
    /// `points` of the area below it.
    pub(super) area: String,
}

/// Draws values from left to right. The lowest point of the chart is 0, the highest one the largest value.
pub(super) fn sparkline(values: &[u64]) -> Sparkline {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let (width, height) = (f64::from(CHART_WIDTH), f64::from(CHART_HEIGHT));
    let last = values.len().saturating_sub(1).max(1);
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let x = MARGIN + (width - 2.0 * MARGIN) * ratio(at as u64, last as u64);
            let y = height - MARGIN - (height - 2.0 * MARGIN) * ratio(*value, most);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let line = points.join(" ");
    let bottom = height - MARGIN;
    let area = match line.as_str() {
        "" => String::new(),
        line => format!("{MARGIN:.1},{bottom:.1} {line} {:.1},{bottom:.1}", {
            let end = ratio(values.len().saturating_sub(1) as u64, last as u64);
            MARGIN + (width - 2.0 * MARGIN) * end
        }),
    };
    Sparkline { line, area }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a chart is not exact beyond 2^53"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Light modules around the code, without which readers do not find it.
const BORDER: usize = 4;

/// A QR code as an SVG path.
pub(super) struct QrDrawing {
    /// Width and height in modules, with the border.
    pub(super) side: usize,
    /// The dark modules.
    pub(super) path: String,
}

impl QrDrawing {
    /// `None` if the text is too long.
    pub(super) fn new(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let mut path = String::new();
        for (row, modules) in code.to_colors().chunks(code.width()).enumerate() {
            let (y, mut x) = (row + BORDER, BORDER);
            for run in modules.chunk_by(|one, next| one == next) {
                let length = run.len();
                if run[0] == Color::Dark {
                    let _ = write!(path, "M{x} {y}h{length}v1h-{length}z");
                }
                x += length;
            }
        }
        Some(Self {
            side: code.width() + 2 * BORDER,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_at_the_top_and_zero_at_the_bottom() {
        let chart = sparkline(&[0, 5, 10]);
        assert_eq!(chart.line, "2.0,46.0 120.0,24.0 238.0,2.0");
        assert_eq!(
            chart.area,
            "2.0,46.0 2.0,46.0 120.0,24.0 238.0,2.0 238.0,46.0"
        );
    }

    #[test]
    fn nothing_one_value_and_huge_ones_are_drawn_within_the_chart() {
        assert_eq!(sparkline(&[]).line, "");
        assert_eq!(sparkline(&[]).area, "");
        assert_eq!(sparkline(&[7]).line, "2.0,2.0");
        assert_eq!(sparkline(&[0, 0]).line, "2.0,46.0 238.0,46.0");
        for values in [vec![u64::MAX, 0], vec![u64::MAX; 3]] {
            for point in sparkline(&values).line.split([' ', ',']) {
                let number: f64 = point.parse().unwrap();
                assert!((0.0..=240.0).contains(&number), "{point}");
            }
        }
    }

    /// The dark modules of a drawing.
    fn dark_modules(drawing: &QrDrawing) -> Vec<bool> {
        let mut dark = vec![false; drawing.side * drawing.side];
        for rectangle in drawing.path.split_terminator('z') {
            let (place, size) = rectangle[1..].split_once('h').unwrap();
            let (x, y) = place.split_once(' ').unwrap();
            let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
            let length: usize = size.split_once('v').unwrap().0.parse().unwrap();
            dark[y * drawing.side + x..][..length].fill(true);
        }
        dark
    }

    #[test]
    fn a_reader_finds_the_address_in_the_drawing() {
        let address = "https://t.me/a_bot_with_a_long_name?start=hello";
        let drawing = QrDrawing::new(address).unwrap();
        let dark = dark_modules(&drawing);
        let scale = 5;
        let pixels = drawing.side * scale;
        let mut picture = rqrr::PreparedImage::prepare_from_bitmap(pixels, pixels, |x, y| {
            dark[y / scale * drawing.side + x / scale]
        });
        let found = picture.detect_grids();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].decode().unwrap().1, address);
    }

    #[test]
    fn a_text_that_is_too_long_has_no_code() {
        assert!(QrDrawing::new(&"x".repeat(5000)).is_none());
    }
}
