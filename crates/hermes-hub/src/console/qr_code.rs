//! A QR code as a drawing: an address that a phone opens with its camera.

use std::fmt::Write;

use qrcode::{Color, EcLevel, QrCode};

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
