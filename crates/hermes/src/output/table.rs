//! Columns of text, aligned by what is seen and not by bytes.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Output, Tone, printable};

/// Rows under a header.
#[derive(Debug, Default)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

/// The widest a cell is shown; longer texts are cut with an ellipsis.
const WIDEST: usize = 72;

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [(String, Tone); N]) {
        self.cells(cells.into());
    }

    /// A row with as many cells as the header has.
    pub(crate) fn cells(&mut self, cells: Vec<(String, Tone)>) {
        let cells = cells.into_iter();
        self.rows
            .push(cells.map(|(text, tone)| (one_line(&text), tone)).collect());
    }

    pub(crate) fn render(&self, output: Output) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|(text, _)| text.width())
                .chain([self.header[column].len()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let header = self
            .header
            .iter()
            .map(|title| ((*title).to_owned(), Tone::Faint))
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, tone)) in row.iter().enumerate() {
                let padding = widths[column].saturating_sub(cell.width());
                line.push_str(&output.tint(*tone, cell));
                if column + 1 < row.len() {
                    line.extend(std::iter::repeat_n(' ', padding + 2));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The first line, without what could steer the terminal.
fn one_line(text: &str) -> String {
    let text = printable(text);
    let line = text.lines().next().unwrap_or_default().replace('\t', " ");
    if line.width() <= WIDEST {
        return line;
    }
    let mut width = 0;
    let mut cut: String = line
        .chars()
        .take_while(|character| {
            width += character.width().unwrap_or_default();
            width < WIDEST
        })
        .collect();
    cut.push('…');
    cut
}
