//! Small charts, drawn by the server: the points of an SVG line, without axes. The numbers stand in a table beside it.

/// The size of a chart, in the units of its `viewBox`.
pub(super) const WIDTH: u32 = 240;
pub(super) const HEIGHT: u32 = 48;
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
    let (width, height) = (f64::from(WIDTH), f64::from(HEIGHT));
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
}
